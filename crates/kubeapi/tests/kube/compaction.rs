//! A test of revisions that etcd has dropped in a compaction. The test starts a real server of its own, because the
//! compaction would disturb other tests.

use control_plane::{ControlPlane, Settings};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams, VersionMatch, WatchEvent, WatchParams};

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

/// The same test for the embedded server is in `api/embedded/history.rs`.
#[tokio::test]
async fn a_revision_that_has_left_the_log_is_expired() {
    let directory = tempfile::tempdir().unwrap();
    let mut plane = ControlPlane::start(directory.path(), Settings::default()).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(plane.client().await.unwrap());
    let first = maps.create(&PostParams::default(), &map("first")).await.unwrap();
    let first = first.metadata.resource_version.unwrap();
    maps.create(&PostParams::default(), &map("second")).await.unwrap();
    let page = maps.list(&ListParams::default().limit(1)).await.unwrap();
    let token = page.metadata.continue_.unwrap();
    for name in ["third", "fourth"] {
        maps.create(&PostParams::default(), &map(name)).await.unwrap();
    }

    plane.compact().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(plane.client().await.unwrap());
    let watch = maps.watch(&WatchParams::default(), &first).await;
    let event = match watch {
        Ok(events) => events.boxed().try_next().await.unwrap(),
        Err(error) => panic!("the watch must report it as an event: {error}"),
    };
    let Some(WatchEvent::Error(status)) = event else { panic!("{event:?}") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    assert!(status.message.contains("too old resource version"), "{}", status.message);

    let exactly = ListParams::default().at(&first).matching(VersionMatch::Exact);
    for refused in [exactly, ListParams::default().continue_token(&token)] {
        let error = maps.list(&refused).await.unwrap_err();
        let kube::Error::Api(status) = error else { panic!("{error}") };
        assert_eq!((status.code, status.reason.as_str()), (410, "Expired"), "{}", status.message);
    }
}
