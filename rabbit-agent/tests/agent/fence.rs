//! Tests how the agent fences computes, from the request file to the answer.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use api::{
    NnfNode, NnfNodeBlockStorage, Severity,
    names::NNF_NODE,
    nnf_node::{NnfResourceHealth, NnfResourceStatus},
};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use storage::{Desired, Host, Step, desired::NodeName};
use tests::program::plant;

use crate::bench::{
    Bench, NAME, RABBIT, Refused, block_failed, block_ready, block_storage, node_reported,
};

const MIB: i64 = 1 << 20;
const ID: &str = "0b9b8c1e-6d0f-4f0e-9a53-1d2c3b4a5f6";
const NODE: &str = "compute-03";

const CLUSTER: &str = "nodelist {\n  node {\n    name: compute-03\n    nodeid: 5\n  }\n}\n";

/// Installs a dlm_tool that records its arguments, and the number of files in the two directories when it is called.
fn plant_cluster(bench: &Bench) {
    let at = bench.directory.path();
    fs::write(at.join("corosync.conf"), CLUSTER).unwrap();
    let here = at.display();
    let script = format!(
        "#!/bin/sh\necho \"$*\" $(ls {here}/requests | wc -l) $(ls {here}/responses | wc -l) >> {here}/acknowledged\n"
    );
    plant(&at.join("dlm_tool"), &script).unwrap();
}

fn acknowledgements(bench: &Bench) -> String {
    fs::read_to_string(bench.directory.path().join("acknowledged")).unwrap_or_default()
}

fn name(number: u8, node: &str) -> String {
    format!("{node}-{ID}{number}.json")
}

fn request(bench: &Bench, number: u8, node: &str) -> PathBuf {
    bench.directory.path().join("requests").join(name(number, node))
}

fn response(bench: &Bench, number: u8, node: &str) -> PathBuf {
    bench.directory.path().join("responses").join(name(number, node))
}

/// Writes a request as the sites' fence agent does, without a rename.
fn write_request(bench: &Bench, number: u8, node: &str) {
    write_request_for(bench, number, node, "off");
}

fn write_request_for(bench: &Bench, number: u8, node: &str, action: &str) {
    let body = json!({
        "request_id": format!("{ID}{number}"), "timestamp": "2026-06-01T07:12:09+00:00",
        "action": action, "target_node": node, "recorder_node": RABBIT
    });
    fs::write(request(bench, number, node), body.to_string()).unwrap();
}

/// Waits until a file appears or disappears. Only a failing test waits long.
async fn until(path: &Path, there: bool) {
    for _ in 0..3000 {
        if path.exists() == there {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} is there: {}", path.display(), !there);
}

async fn answer(bench: &Bench, number: u8, node: &str) -> Value {
    let path = response(bench, number, node);
    until(&path, true).await;
    until(&request(bench, number, node), false).await;
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

async fn fence(bench: &Bench, number: u8, node: &str) -> Value {
    write_request(bench, number, node);
    answer(bench, number, node).await
}

fn shared(name: &str, access: &[&str]) -> Value {
    let mut object = block_storage(name, &[(MIB, access), (MIB, access)]);
    object["metadata"]["labels"]["nnf.cray.hpe.com/allocationset"] = json!("gfs2");
    object
}

/// Returns the number of namespaces to which the drives give a node access.
fn reach(bench: &Bench, node: &str) -> usize {
    let node: NodeName = node.parse().unwrap();
    let seen = bench.host.observe(&Desired::Inventory).unwrap();
    seen.namespaces
        .iter()
        .filter(|namespace| namespace.access.iter().any(|host| host.node == node))
        .count()
}

fn has_access(object: &NnfNodeBlockStorage, node: &str) -> bool {
    object.status.as_ref().is_some_and(|status| {
        status.ready
            && status.allocations.iter().all(|allocation| allocation.accesses.contains_key(node))
    })
}

fn has_no_access(object: &NnfNodeBlockStorage, node: &str) -> bool {
    object.status.as_ref().is_some_and(|status| {
        status.ready
            && !status.allocations.iter().any(|allocation| allocation.accesses.contains_key(node))
    })
}

fn reported_state(node: &NnfNode) -> Option<(NnfResourceStatus, NnfResourceHealth)> {
    let servers = &node.status.as_ref()?.servers;
    let server = servers.iter().find(|server| server.hostname == NODE)?;
    Some((server.status.clone()?, server.health.clone()?))
}

const FENCED: Option<(NnfResourceStatus, NnfResourceHealth)> =
    Some((NnfResourceStatus::Fenced, NnfResourceHealth::Critical));

/// Creates a GFS2 of two allocations, which compute-01 and compute-03 share with the rabbit, and an XFS for compute-03.
async fn sharing() -> Bench {
    let bench = Bench::new().await;
    plant_cluster(&bench);
    let all = [RABBIT, "compute-01", NODE];
    bench.make::<NnfNodeBlockStorage>(RABBIT, shared(NAME, &all)).await;
    bench.until(NAME, "with access", |block: &NnfNodeBlockStorage| has_access(block, NODE)).await;
    let xfs = block_storage("xfs", &[(MIB, &[RABBIT, NODE])]);
    bench.make::<NnfNodeBlockStorage>(RABBIT, xfs).await;
    bench.until("xfs", "with access", |block: &NnfNodeBlockStorage| has_access(block, NODE)).await;
    assert_eq!((reach(&bench, NODE), reach(&bench, "compute-01")), (3, 2));
    bench
}

#[tokio::test]
async fn a_fenced_compute_has_no_gfs2_until_its_answer_is_deleted() {
    let mut bench = sharing().await;
    let answer = fence(&bench, 0, NODE).await;
    assert_eq!(
        (&answer["success"], &answer["action_performed"], &answer["recorder_node"]),
        (&json!(true), &json!("off"), &json!(RABBIT)),
        "{answer}"
    );
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.contains("2 were detached") && message.contains("DLM was informed"),
        "{message}"
    );
    assert_eq!(
        acknowledgements(&bench),
        "fence_ack 5 1 1\n",
        "acknowledged while both the answer and the request exist"
    );
    assert_eq!(
        (reach(&bench, NODE), reach(&bench, "compute-01")),
        (1, 2),
        "the node keeps its XFS"
    );
    bench.until(NNF_NODE, "fenced", |node: &NnfNode| reported_state(node) == FENCED).await;
    bench
        .until(NAME, "without access", |block: &NnfNodeBlockStorage| has_no_access(block, NODE))
        .await;

    // The compute stays fenced after a change of the spec, and after a restart.
    let spec = json!({"spec": {"allocations": [
        {"capacity": MIB, "access": [RABBIT, NODE]}, {"capacity": MIB, "access": [RABBIT, NODE]}]}});
    bench.change::<NnfNodeBlockStorage>(NAME, spec).await;
    bench
        .until(NAME, "changed", |block: &NnfNodeBlockStorage| has_no_access(block, "compute-01"))
        .await;
    assert_eq!(reach(&bench, NODE), 1);
    bench.stop().await;
    bench.host.reboot();
    bench.start();
    bench.make::<NnfNodeBlockStorage>(RABBIT, shared("another", &[RABBIT, NODE])).await;
    bench.until("another", "ready", block_ready).await;
    assert_eq!(reach(&bench, NODE), 1);
    assert_eq!(reported_state(&bench.get(NNF_NODE).await), FENCED);

    fs::remove_file(response(&bench, 0, NODE)).unwrap();
    bench
        .until(NAME, "with access again", |block: &NnfNodeBlockStorage| has_access(block, NODE))
        .await;
    bench
        .until("another", "with access", |block: &NnfNodeBlockStorage| has_access(block, NODE))
        .await;
    bench
        .until(NNF_NODE, "no longer fenced", |node: &NnfNode| {
            reported_state(node).is_some() && reported_state(node) != FENCED
        })
        .await;
    assert_eq!(reach(&bench, NODE), 5);
    assert!(bench.status.metrics().contains("gfs2_fence_requests_total 1"));
}

#[tokio::test]
async fn a_fence_without_gfs2_succeeds_with_the_go_agent_s_answer() {
    let bench = Bench::new().await;
    bench.until(NNF_NODE, "reported", node_reported).await;
    plant_cluster(&bench);
    let answer = fence(&bench, 0, NODE).await;
    assert_eq!(
        (&answer["success"], &answer["status"]),
        (&json!(true), &json!("success")),
        "{answer}"
    );
    assert!(answer["message"].as_str().unwrap().starts_with("No block storage resources found"));
    assert_ne!(answer["timestamp"], "2026-06-01T07:12:09+00:00");
    bench.until(NNF_NODE, "fenced", |node: &NnfNode| reported_state(node) == FENCED).await;
}

#[tokio::test]
async fn an_unproved_fence_fails_and_is_not_acknowledged_to_dlm() {
    let bench = sharing().await;
    let refused = async |number: u8, node: &str| {
        let answer = fence(&bench, number, node).await;
        assert_eq!(answer["success"], json!(false), "{answer}");
        answer["message"].as_str().unwrap().to_owned()
    };

    bench.trouble.lock().unwrap().fault = true;
    assert!(refused(0, NODE).await.contains("it does not answer"));
    bench.trouble.lock().unwrap().fault = false;

    bench.refuse(|request| {
        let lists = request.uri().path().ends_with("/nnfnodeblockstorages");
        lists.then_some(Refused::Status(500, "etcd is on fire"))
    });
    assert!(refused(1, NODE).await.contains("etcd is on fire"));
    bench.refuse(|_| Some(Refused::Away));
    assert!(refused(2, NODE).await.contains("does not list"));
    bench.admit();

    assert!(refused(3, RABBIT).await.contains("itself"));
    assert!(refused(4, "compute-77").await.contains("no compute of this rabbit"));
    write_request_for(&bench, 5, NODE, "on");
    let answer = answer(&bench, 5, NODE).await;
    assert!(
        answer["success"] == false && answer["message"].as_str().unwrap().contains("\"on\""),
        "{answer}"
    );

    assert_eq!(acknowledgements(&bench), "");
    bench.until(NAME, "with access", |block: &NnfNodeBlockStorage| has_access(block, NODE)).await;
    bench
        .until(NNF_NODE, "no longer fenced", |node: &NnfNode| {
            reported_state(node).is_some() && reported_state(node) != FENCED
        })
        .await;
    let answer = fence(&bench, 6, NODE).await;
    assert_eq!(answer["success"], json!(true), "the next request starts another fence: {answer}");
    assert_eq!(reach(&bench, NODE), 1);
}

/// A pass that began before the request must not attach the namespaces again that the fence detaches.
#[tokio::test]
async fn a_fence_waits_for_an_attachment_to_its_node() {
    let bench = Bench::new().await;
    bench.until(NNF_NODE, "reported", node_reported).await;
    plant_cluster(&bench);
    let gives = |step: &Step| matches!(step, Step::Attach { node, .. } if node.as_str() == NODE);
    let (hold, attached) = bench.hold(gives);
    bench.make::<NnfNodeBlockStorage>(RABBIT, shared(NAME, &[RABBIT, NODE])).await;
    attached.await.unwrap();
    write_request(&bench, 0, NODE);
    // A request for another compute is answered while the pass still waits.
    let other = fence(&bench, 1, "compute-01").await;
    assert_eq!(other["success"], json!(true), "{other}");
    assert!(!response(&bench, 0, NODE).exists());
    drop(hold);
    let answer = answer(&bench, 0, NODE).await;
    assert_eq!(answer["success"], json!(true), "{answer}");
    bench
        .until(NAME, "without access", |block: &NnfNodeBlockStorage| has_no_access(block, NODE))
        .await;
    assert_eq!(reach(&bench, NODE), 0);
    let last = bench.host.applied().into_iter().rfind(|step| match step {
        Step::Attach { node, .. } | Step::Detach { node, .. } => node.as_str() == NODE,
        _ => false,
    });
    assert!(matches!(last, Some(Step::Detach { .. })), "{last:?}");
}

/// A new namespace may be zeroed for hours before the agent attaches it. Meanwhile the compute that shall get the
/// namespace may fail.
#[tokio::test]
async fn a_fence_does_not_wait_for_a_pass_that_attaches_later() {
    let bench = sharing().await;
    let (hold, creating) = bench.hold(|step| matches!(step, Step::CreateNamespace { .. }));
    bench.make::<NnfNodeBlockStorage>(RABBIT, shared("another", &[RABBIT, NODE])).await;
    creating.await.unwrap();
    let answer = fence(&bench, 0, NODE).await;
    assert_eq!(answer["success"], json!(true), "{answer}");
    assert_eq!(reach(&bench, NODE), 1, "the node keeps its XFS");
    drop(hold);
    bench.until("another", "made", |block: &NnfNodeBlockStorage| has_no_access(block, NODE)).await;
    assert_eq!(reach(&bench, NODE), 1);
}

/// The crash comes when nothing is done; when everything is detached but there is no answer; or when there is an answer
/// but the request is still there.
#[tokio::test]
async fn a_fence_is_completed_after_a_crash() {
    for point in ["requested", "detached", "answered"] {
        let mut bench = sharing().await;
        bench.stop().await;
        write_request(&bench, 0, NODE);
        let body: Value =
            serde_json::from_slice(&fs::read(request(&bench, 0, NODE)).unwrap()).unwrap();
        if point != "requested" {
            let seen = bench.host.observe(&Desired::Inventory).unwrap();
            let object: NnfNodeBlockStorage = bench.get(NAME).await;
            let uid = object.metadata.uid.unwrap().parse().unwrap();
            let ours = seen.namespaces.iter().filter(|namespace| match &namespace.owner {
                storage::observed::NamespaceOwner::Ours(id) => id.owner == uid,
                _ => false,
            });
            for namespace in ours {
                let node = NODE.parse().unwrap();
                bench.host.apply(&Step::Detach { id: namespace.id.clone(), node }).unwrap();
            }
        }
        if point == "answered" {
            let mut answered = body.clone();
            answered["success"] = json!(true);
            fs::write(response(&bench, 0, NODE), answered.to_string()).unwrap();
        }
        let before = bench.host.applied().len();
        bench.start();
        let answer = answer(&bench, 0, NODE).await;
        assert_eq!(answer["success"], json!(true), "{point}: {answer}");
        bench.until(NNF_NODE, "fenced", |node: &NnfNode| reported_state(node) == FENCED).await;
        bench
            .until(NAME, "without access", |block: &NnfNodeBlockStorage| has_no_access(block, NODE))
            .await;
        let attached = bench.host.applied()[before..]
            .iter()
            .any(|step| matches!(step, Step::Attach { node, .. } if node.as_str() == NODE));
        assert!(!attached, "{point}: the node got an attachment meanwhile");
        assert_eq!(acknowledgements(&bench), "fence_ack 5 1 1\n", "{point}");
    }
}

/// After the requester has given up, only the answer keeps the node fenced.
#[tokio::test]
async fn a_fence_without_a_written_answer_is_not_acknowledged_to_dlm() {
    let bench = sharing().await;
    let in_the_way = response(&bench, 0, NODE);
    fs::create_dir(&in_the_way).unwrap();
    write_request(&bench, 0, NODE);
    // The answer was written to a temporary file, but the rename of this file failed.
    until(&in_the_way.with_file_name(format!(".{}", name(0, NODE))), true).await;
    assert!(request(&bench, 0, NODE).exists());
    fs::remove_dir(&in_the_way).unwrap();
    let answer = answer(&bench, 0, NODE).await;
    assert_eq!(answer["success"], json!(true), "{answer}");
    assert_eq!(acknowledgements(&bench), "fence_ack 5 1 1\n", "DLM was told once");
}

/// A crash left a refusal, which is an answer without success, beside its request.
#[tokio::test]
async fn a_refusal_left_by_a_crash_is_not_acknowledged_to_dlm() {
    let mut bench = sharing().await;
    bench.stop().await;
    write_request(&bench, 0, NODE);
    fs::write(response(&bench, 0, NODE), r#"{"success": false}"#).unwrap();
    bench.start();
    let answer = answer(&bench, 0, NODE).await;
    assert_eq!(
        (answer["success"].clone(), acknowledgements(&bench)),
        (json!(false), String::new())
    );
    assert_eq!(reach(&bench, NODE), 3);
}

#[tokio::test]
async fn a_fence_detaches_namespaces_without_object_too() {
    let bench = sharing().await;
    // The object is deleted by force: its finalizers are removed, and the agent learns of the deletion only when the
    // fence reads the API.
    let api = bench.api::<NnfNodeBlockStorage>(RABBIT);
    bench.refuse(|request| {
        request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"))
            .then_some(Refused::Away)
    });
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.delete(NAME, &DeleteParams::default()).await.unwrap();
    let _ = api.patch(NAME, &PatchParams::default(), &free).await;
    let answer = fence(&bench, 0, NODE).await;
    assert_eq!(answer["success"], json!(true), "{answer}");
    assert_eq!(reach(&bench, NODE), 1);
}

#[tokio::test]
async fn without_the_fence_directories_no_compute_gets_access_to_a_gfs2() {
    let mut bench = Bench::bare().await;
    bench.site().await;
    plant_cluster(&bench);
    // A file at the path of the directory makes the directory unusable, as an unmounted disk would.
    fs::write(bench.directory.path().join("requests"), "").unwrap();
    bench.start();
    bench.make::<NnfNodeBlockStorage>(RABBIT, shared("server", &[RABBIT])).await;
    bench.until("server", "ready", block_ready).await;
    bench.make::<NnfNodeBlockStorage>(RABBIT, shared(NAME, &[RABBIT, NODE])).await;
    let object: NnfNodeBlockStorage = bench.until(NAME, "refused", block_failed).await;
    let error = object.status.unwrap().error.unwrap();
    assert_eq!(error.severity, Severity::Major, "a workflow waits for the directories");
    let text = error.debug_message;
    assert!(text.contains("cannot tell which computes are fenced"), "{text}");
    let xfs = block_storage("xfs", &[(MIB, &[RABBIT, NODE])]);
    bench.make::<NnfNodeBlockStorage>(RABBIT, xfs).await;
    bench.until("xfs", "with access", |block: &NnfNodeBlockStorage| has_access(block, NODE)).await;
    assert_eq!(reach(&bench, NODE), 1);

    // The disk is mounted later.
    fs::remove_file(bench.directory.path().join("requests")).unwrap();
    bench.until(NAME, "with access", |block: &NnfNodeBlockStorage| has_access(block, NODE)).await;
    let answer = fence(&bench, 0, NODE).await;
    assert_eq!(answer["success"], json!(true), "{answer}");
    assert_eq!(reach(&bench, NODE), 1);
}

#[tokio::test]
async fn while_the_fence_directories_are_missing_access_stays_and_no_more_access_is_granted() {
    let bench = sharing().await;
    let answer = fence(&bench, 0, "compute-01").await;
    assert_eq!(answer["success"], json!(true), "{answer}");
    let (there, away) =
        ["responses", "elsewhere"].map(|name| bench.directory.path().join(name)).into();
    fs::rename(&there, &away).unwrap();
    let all = [RABBIT, "compute-01", NODE];
    bench.make::<NnfNodeBlockStorage>(RABBIT, shared("another", &all)).await;
    bench.until("another", "refused", block_failed).await;
    assert_eq!(reach(&bench, NODE), 3);
    assert!(!there.exists(), "the agent must not create the directory again");

    // The new directory lacks the answer for compute-01, as if another disk were mounted.
    fs::create_dir(&there).unwrap();
    let reported = |block: &NnfNodeBlockStorage| {
        let error = block.status.as_ref().and_then(|status| status.error.clone());
        error.is_some_and(|error| {
            error.debug_message.contains("without the answer that says that compute-01")
        })
    };
    bench.until("another", "refused for the missing answer", reported).await;
    assert_eq!((reach(&bench, NODE), reach(&bench, "compute-01")), (3, 0));

    fs::remove_dir(&there).unwrap();
    fs::rename(&away, &there).unwrap();
    bench
        .until("another", "with access", |block: &NnfNodeBlockStorage| has_access(block, NODE))
        .await;
    assert_eq!((reach(&bench, NODE), reach(&bench, "compute-01")), (5, 0));
}

#[tokio::test]
async fn unreadable_fence_directories_are_read_again() {
    let mut bench = Bench::bare().await;
    bench.site().await;
    plant_cluster(&bench);
    let (real, link) = ["real", "requests"].map(|name| bench.directory.path().join(name)).into();
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    bench.start();
    bench.make::<NnfNodeBlockStorage>(RABBIT, shared(NAME, &[RABBIT, NODE])).await;
    bench.until(NAME, "with access", |block: &NnfNodeBlockStorage| has_access(block, NODE)).await;

    fs::remove_file(&link).unwrap();
    fs::write(real.join("anything"), "").unwrap();
    bench.until(NAME, "refused", block_failed).await;
    bench.make::<NnfNodeBlockStorage>(RABBIT, shared("another", &[RABBIT, NODE])).await;
    bench.until("another", "refused", block_failed).await;

    std::os::unix::fs::symlink(&real, &link).unwrap();
    bench
        .until("another", "with access", |block: &NnfNodeBlockStorage| has_access(block, NODE))
        .await;
    let answer = fence(&bench, 0, NODE).await;
    assert_eq!(answer["success"], json!(true), "{answer}");
}

#[tokio::test]
async fn an_incomplete_request_is_ignored_until_it_is_complete() {
    let bench = sharing().await;
    let path = request(&bench, 0, NODE);
    fs::write(&path, "{\"request_id\": ").unwrap();
    let other = fence(&bench, 1, "compute-01").await;
    assert_eq!(other["success"], json!(true), "{other}");
    assert!(path.exists() && !response(&bench, 0, NODE).exists());
    assert_eq!(reach(&bench, NODE), 3);
    let answer = fence(&bench, 0, NODE).await;
    assert_eq!(answer["success"], json!(true), "{answer}");
}

#[tokio::test]
async fn a_failed_acknowledgement_to_dlm_is_in_the_message() {
    let bench = sharing().await;
    fs::write(bench.directory.path().join("corosync.conf"), "").unwrap();
    let answer = fence(&bench, 0, NODE).await;
    assert_eq!(answer["success"], json!(true));
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.contains("DLM could not be informed") && message.contains("no nodeid"),
        "{message}"
    );
}
