//! Tests that the agent reports logs of running containers on request, and logs of ended containers always.

use super::*;

/// Requests logs, at this time of a fixed day.
pub(super) async fn request_logs(bench: &Bench, time: &str) {
    let annotations = json!({annotation::LOGS_ASKED: format!("2026-11-27T{time}Z")});
    bench.change::<NodeContainers>(NAME, json!({"metadata": {"annotations": annotations}})).await;
}

pub(super) async fn until_output(podman: &Podman, container: &str) {
    while podman.run(&["logs", container]).is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(super) fn answered(object: &NodeContainers, time: &str) -> bool {
    let answer = status(object).logs_answered.map(|at| at.to_string());
    answer.is_some_and(|answer| answer == format!("2026-11-27T{time}Z"))
}

#[tokio::test]
async fn a_request_reports_the_log_of_a_running_container() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let mut bench = bench(&podman).await;
    let script = "echo began; until test -e /tmp/on; do sleep 0.1; done; echo went on; \
        until test -e /tmp/end; do sleep 0.1; done; echo ended";
    let made: NodeContainers = bench.make(RABBIT, containers(&podman.image(), script)).await;
    let name = format!("warren-{}-1-app", made.uid().unwrap());
    bench.until(NAME, "ready", has_state(NodeContainersState::Ready)).await;
    until_output(&podman, &name).await;
    assert_eq!(log(&bench.get(NAME).await), "", "there was no request");
    request_logs(&bench, "03:00:00.000000").await;
    let answer = bench.until(NAME, "answer", |object| answered(object, "03:00:00.000000")).await;
    assert_eq!(
        (log(&answer).as_str(), status(&answer).state),
        ("began\n", NodeContainersState::Ready)
    );
    podman.touch(&name, "/tmp/on");
    podman.touch(&name, "/tmp/end");
    let ended = bench.until(NAME, "ended", has_state(NodeContainersState::Succeeded)).await;
    assert_eq!(log(&ended), "began\nwent on\nended\n");
    // The container has ended, so a later request changes no log.
    bench.stop().await;
    bench.start();
    request_logs(&bench, "02:00:00.000000").await;
    request_logs(&bench, "03:00:01.000000").await;
    let again = bench.until(NAME, "answered", |object| answered(object, "03:00:01.000000")).await;
    assert_eq!(status(&again).logs, status(&ended).logs);
}

/// Each agent finds the request at its start. Only the first agent answers it.
#[tokio::test]
async fn a_log_request_without_a_running_agent_is_answered_once_after_the_next_start() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let mut bench = bench(&podman).await;
    let script = "echo began; while true; do sleep 0.1; done";
    let made: NodeContainers = bench.make(RABBIT, containers(&podman.image(), script)).await;
    bench.until(NAME, "ready", has_state(NodeContainersState::Ready)).await;
    until_output(&podman, &format!("warren-{}-1-app", made.uid().unwrap())).await;
    bench.stop().await;
    request_logs(&bench, "03:00:00.000000").await;
    bench.start();
    let answer = bench.until(NAME, "answer", |object| answered(object, "03:00:00.000000")).await;
    assert_eq!(log(&answer), "began\n");
    let version = answer.resource_version();
    bench.stop().await;
    bench.start();
    // The agent handles the new object after the first one.
    let mut other = containers("oci-archive:/nowhere/image.tar", "true");
    other["metadata"]["name"] = json!("default-v-1");
    bench.make::<NodeContainers>(RABBIT, other).await;
    bench.until("default-v-1", "tried", |object| !status(object).message.is_empty()).await;
    assert_eq!(bench.get::<NodeContainers>(NAME).await.resource_version(), version);
}

#[tokio::test]
async fn the_end_of_a_container_without_a_running_agent_is_reported_after_the_next_start() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let mut bench = bench(&podman).await;
    let script = "while ! test -e /tmp/end; do sleep 0.1; done; exit 4";
    let made: NodeContainers = bench.make(RABBIT, containers(&podman.image(), script)).await;
    bench.until(NAME, "ready", has_state(NodeContainersState::Ready)).await;
    bench.stop().await;
    let name = format!("warren-{}-1-app", made.uid().unwrap());
    podman.touch(&name, "/tmp/end");
    assert_eq!(podman.run(&["wait", &name]), "4\n");
    bench.start();
    let failed = bench.until(NAME, "failed", has_state(NodeContainersState::Failed)).await;
    assert_eq!(status(&failed).message, "container app exited with 4");
}
