//! The agent reports logs of containers that run when somebody asks, and of those that ended.

use super::*;

/// A question for logs, asked at this moment of that day.
pub(super) async fn ask(bench: &Bench, time: &str) {
    let annotations = json!({annotation::LOGS_ASKED: format!("2026-11-27T{time}Z")});
    bench.change::<NodeContainers>(NAME, json!({"metadata": {"annotations": annotations}})).await;
}

pub(super) async fn until_said(podman: &Podman, container: &str) {
    while podman.run(&["logs", container]).is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(super) fn answered(object: &NodeContainers, time: &str) -> bool {
    let answer = status(object).logs_answered.map(|at| at.to_string());
    answer.is_some_and(|answer| answer == format!("2026-11-27T{time}Z"))
}

#[tokio::test]
async fn who_asks_is_told_what_a_container_that_runs_has_said_so_far() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let mut bench = bench(&podman).await;
    let script = "echo began; until test -e /tmp/on; do sleep 0.1; done; echo went on; \
        until test -e /tmp/end; do sleep 0.1; done; echo ended";
    let made: NodeContainers = bench.make(RABBIT, containers(&podman.image(), script)).await;
    let name = format!("warren-{}-1-app", made.uid().unwrap());
    bench.until(NAME, "ready", is(NodeContainersState::Ready)).await;
    until_said(&podman, &name).await;
    assert_eq!(log(&bench.get(NAME).await), "", "nobody asked");
    ask(&bench, "03:00:00.000000").await;
    let told = bench.until(NAME, "told", |one| answered(one, "03:00:00.000000")).await;
    assert_eq!((log(&told).as_str(), status(&told).state), ("began\n", NodeContainersState::Ready));
    podman.touch(&name, "/tmp/on");
    podman.touch(&name, "/tmp/end");
    let ended = bench.until(NAME, "ended", is(NodeContainersState::Succeeded)).await;
    assert_eq!(log(&ended), "began\nwent on\nended\n");
    // The next agent has nothing to write: the question was answered.
    bench.stop().await;
    bench.start();
    ask(&bench, "02:00:00.000000").await;
    ask(&bench, "03:00:01.000000").await;
    let again = bench.until(NAME, "told", |one| answered(one, "03:00:01.000000")).await;
    assert_eq!(status(&again).logs, status(&ended).logs);
}

/// Also where no pass is due: only the question wakes the agent, and an agent that starts finds those that were asked meanwhile.
#[tokio::test]
async fn a_question_that_was_asked_while_no_agent_ran_is_answered_by_the_next_and_once() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let mut bench = bench(&podman).await;
    let script = "echo began; while true; do sleep 0.1; done";
    let made: NodeContainers = bench.make(RABBIT, containers(&podman.image(), script)).await;
    bench.until(NAME, "ready", is(NodeContainersState::Ready)).await;
    until_said(&podman, &format!("warren-{}-1-app", made.uid().unwrap())).await;
    bench.stop().await;
    ask(&bench, "03:00:00.000000").await;
    bench.start();
    let told = bench.until(NAME, "told", |one| answered(one, "03:00:00.000000")).await;
    assert_eq!(log(&told), "began\n");
    let version = told.resource_version();
    bench.stop().await;
    bench.start();
    // What is made after it is looked at after it.
    let mut other = containers("oci-archive:/nowhere/image.tar", "true");
    other["metadata"]["name"] = json!("default-v-1");
    bench.make::<NodeContainers>(RABBIT, other).await;
    bench.until("default-v-1", "tried", |one| !status(one).message.is_empty()).await;
    assert_eq!(bench.get::<NodeContainers>(NAME).await.resource_version(), version);
}

#[tokio::test]
async fn an_end_that_no_agent_saw_is_told_by_the_next() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let mut bench = bench(&podman).await;
    let script = "while ! test -e /tmp/end; do sleep 0.1; done; exit 4";
    let made: NodeContainers = bench.make(RABBIT, containers(&podman.image(), script)).await;
    bench.until(NAME, "ready", is(NodeContainersState::Ready)).await;
    bench.stop().await;
    let name = format!("warren-{}-1-app", made.uid().unwrap());
    podman.touch(&name, "/tmp/end");
    assert_eq!(podman.run(&["wait", &name]), "4\n");
    bench.start();
    let failed = bench.until(NAME, "failed", is(NodeContainersState::Failed)).await;
    assert_eq!(status(&failed).message, "container app exited with 4");
}
