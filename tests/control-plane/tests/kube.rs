//! Tests of the control plane's harness itself: a fault in the harness would weaken every suite that uses it.

use std::time::Duration;

use control_plane::{ControlPlane, Login, Settings, client};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::{
    Api,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams},
};

fn map(name: &str) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

#[tokio::test]
async fn objects_survive_kills_of_api_server_and_etcd_and_the_audit_log_names_their_creator() {
    let directory = tempfile::tempdir().unwrap();
    let mut plane = ControlPlane::start(directory.path(), Settings::default()).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.client().await.unwrap(), "default");
    maps.create(&PostParams::default(), &map("kept")).await.unwrap();

    plane.kill_apiserver();
    assert!(maps.get("kept").await.is_err());
    plane.kill_etcd();
    plane.start_etcd().unwrap();
    plane.start_apiserver().unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.client().await.unwrap(), "default");
    maps.get("kept").await.unwrap();
    let events = plane.audit().unwrap();
    let created =
        events.iter().find(|event| event.verb == "create" && event.name == "kept").unwrap();
    assert_eq!((created.user.as_str(), created.code), ("admin", 201));
}

#[tokio::test]
async fn each_user_has_only_its_rights_and_an_old_authority_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut plane = ControlPlane::start(directory.path(), Settings::default()).unwrap();
    let admin = plane.client().await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
    let mut account = ServiceAccount::default();
    account.metadata.name = Some("nobody".to_owned());
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let token = plane.token("default", "nobody", Duration::from_secs(600)).await.unwrap();
    let own = directory.path().join("nobody.kubeconfig");
    plane.kubeconfig_for(&own, &Login::Token(token)).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client(&own).await.unwrap(), "default");
    let refused = maps.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");

    let old = directory.path().join("old.kubeconfig");
    std::fs::copy(plane.kubeconfig(), &old).unwrap();
    plane.replace_authority().unwrap();
    plane.kill_apiserver();
    plane.start_apiserver().unwrap();
    assert!(client(&old).await.unwrap().apiserver_version().await.is_err());
    plane.client().await.unwrap().apiserver_version().await.unwrap();
}

#[tokio::test]
async fn a_deleted_namespace_disappears() {
    let directory = tempfile::tempdir().unwrap();
    let plane = ControlPlane::start(directory.path(), Settings::default()).unwrap();
    let namespaces: Api<Namespace> = Api::all(plane.client().await.unwrap());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("short-lived".to_owned());
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    namespaces.delete("short-lived", &DeleteParams::default()).await.unwrap();
    let gone = async {
        while namespaces.get_opt("short-lived").await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.unwrap();
}
