use std::{fs, path::Path};

use kube::{Client, client::Body};
use prometheus_client::metrics::counter::Counter;
use storage::{Converger, fake::FakeHost};
use tower::service_fn;

use super::*;
use crate::Fences;

fn fencer(at: &Path) -> Fencer {
    let node: NodeName = "rabbit-1".parse().unwrap();
    let roots = storage::desired::AllowedRoots::new(["/mnt/nnf".into()]).unwrap();
    let no_api = |_: http::Request<Body>| async {
        Err::<http::Response<Body>, _>(io::Error::from(io::ErrorKind::ConnectionRefused))
    };
    let tools = Tools {
        node: node.clone(),
        client: Client::new(service_fn(no_api), "default"),
        converger: Arc::new(Converger::new(Arc::new(FakeHost::new(node, roots)))),
        fences: Fences::default(),
        changed: Arc::default(),
        requests: Counter::default(),
    };
    let config = FenceConfig {
        requests: at.join("requests"),
        responses: at.join("responses"),
        dlm_tool: "dlm_tool".into(),
        corosync: at.join("corosync.conf"),
    };
    Fencer::open(config, tools)
}

#[tokio::test]
async fn without_a_cluster_the_agent_tries_to_open_the_fence_directories_once_a_minute() {
    let directory = tempfile::tempdir().unwrap();
    let in_the_way = directory.path().join("requests");
    fs::write(&in_the_way, "").unwrap();
    let mut closed = fencer(directory.path());
    assert_eq!(closed.retry_after(), RETRY_AFTER_UNUSED);
    closed.lost = true;
    assert_eq!(closed.retry_after(), RETRY_AFTER, "the directories were in use");
    closed.lost = false;
    fs::write(directory.path().join("corosync.conf"), "").unwrap();
    assert_eq!(closed.retry_after(), RETRY_AFTER, "a disk may be mounted late");

    fs::remove_file(directory.path().join("corosync.conf")).unwrap();
    fs::remove_file(in_the_way).unwrap();
    assert_eq!(fencer(directory.path()).retry_after(), RETRY_AFTER, "the directories are open");
}

/// The directory is replaced while the agent is busy; the agent reads the directory before the
/// kernel's event reaches it.
#[tokio::test]
async fn a_node_stays_fenced_when_the_directory_of_answers_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let mut fencer = fencer(directory.path());
    let responses = directory.path().join("responses");
    let answer = format!("compute-01-{}.json", crate::request::tests::ID);
    fs::write(responses.join(answer), r#"{"success": true}"#).unwrap();
    fencer.check().await;
    assert_eq!(fencer.tools.fences.fenced().len(), 1);

    fs::rename(&responses, directory.path().join("elsewhere")).unwrap();
    fs::create_dir(&responses).unwrap();
    fencer.check().await;
    assert_eq!(fencer.tools.fences.fenced().len(), 1, "the node stays fenced without its answer");
    assert!(fencer.spool.is_none() && fencer.unreadable.is_some());
}
