//! Tests of an agent whose coordinator starts, stops, or refuses it.

use super::*;

/// Before a coordinator has read the API it knows no object, and it drops a report on an unknown object.
#[tokio::test]
async fn a_coordinator_gets_no_report_before_it_has_sent_its_objects() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    node.coordinator = node.coordinator.restart(session).await;

    let mut session = node.coordinator.session().await;
    session.send_message(to_node::Message::Welcome(Welcome { epoch: 1 })).await;
    session.health(health::State::Ok).await;
    let early = tokio::time::timeout(Duration::from_millis(200), session.next()).await;
    assert!(early.is_err(), "{early:?}");
    session.send(&object).await;
    session.send_message(to_node::Message::Synced(Synced {})).await;
    session.report_of(&object, ready).await;
}

#[tokio::test]
async fn a_restarted_coordinator_gets_every_report_again_and_existing_mounts_are_not_touched() {
    let mut node = Node::start(Chassis::new(3));
    let objects = [0, 1, 2].map(|index| node.chassis.object(index));
    let mut session = node.coordinator.session().await;
    session.sync(&[&objects[0], &objects[1]]).await;
    for object in &objects[..2] {
        session.report_of(object, ready).await;
    }
    let steps = node.chassis.compute.applied().len();
    node.coordinator = node.coordinator.restart(session).await;

    let mut session = node.coordinator.session().await;
    assert_eq!(node.mounted().len(), 2, "mounts stay while the coordinator is away");
    // While the coordinator was away, the first object was deleted and a third was created.
    session.sync(&[&version(&objects[1], "9"), &objects[2]]).await;
    let mut reported = Vec::new();
    while reported.len() < 2 {
        let (report, status) = session.report().await;
        if report.observed_resource_version == "9" || report.name == "job-2" {
            assert!(ready(&status));
            reported.push(report.name);
        }
    }
    reported.sort();
    assert_eq!(reported, ["job-1", "job-2"]);
    wait_for("the unmount of the deleted object", async {
        while node.mounted() != ["/mnt/nnf/job-1", "/mnt/nnf/job-2"] {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let again = node.chassis.compute.applied();
    assert!(
        again[steps..].iter().all(|step| !step.to_string().contains("job-1")),
        "existing mounts are only observed: {again:#?}"
    );
}

#[tokio::test]
async fn an_object_that_is_missing_in_an_incomplete_list_stays_mounted() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    drop(session);
    // The connection is lost before this list is complete: the agent must not unmount an object that the list lacks.
    let session = node.coordinator.session().await;
    session.send_message(to_node::Message::Welcome(Welcome { epoch: 2 })).await;
    drop(session);
    let mut session = node.coordinator.session().await;
    assert_eq!(node.mounted(), ["/mnt/nnf/job-0"]);
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    assert_eq!(node.mounted(), ["/mnt/nnf/job-0"]);
}

#[tokio::test]
async fn an_agent_that_a_newer_agent_of_its_node_replaces_ends_and_unmounts_nothing() {
    for refusal in [
        Status::aborted("superseded by a newer agent of this node (boot 4711)"),
        Status::failed_precondition("a newer agent of this node (boot 4711) is connected"),
    ] {
        let mut node = Node::start(Chassis::new(1));
        let object = node.chassis.object(0);
        let mut session = node.coordinator.session().await;
        session.sync(&[&object]).await;
        session.report_of(&object, ready).await;
        session.to_node.send(Err(refusal.clone())).await.unwrap();
        let host = Arc::clone(&node.chassis.compute);
        assert_eq!(node.end().await, End::Refused(refusal.message().to_owned()));
        assert!(!host.applied().iter().any(|step| matches!(step, storage::Step::Unmount { .. })));
    }
}

#[tokio::test]
async fn an_agent_whose_hello_is_refused_ends() {
    let mut node = Node::start(Chassis::new(1));
    let session = node.coordinator.session().await;
    session
        .to_node
        .send(Err(Status::failed_precondition("a newer agent is connected")))
        .await
        .unwrap();
    assert_eq!(node.end().await, End::Refused("a newer agent is connected".into()));
}

#[tokio::test]
async fn a_stopped_agent_ends_and_unmounts_nothing() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    node.stop.take().unwrap().send(()).unwrap();
    let host = Arc::clone(&node.chassis.compute);
    assert_eq!(node.end().await, End::Stopped);
    assert!(!host.applied().iter().any(|step| matches!(step, storage::Step::Unmount { .. })));
}
