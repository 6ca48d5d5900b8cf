//! The life of an object: mounted, reported, changed, and released once it is completely unmounted.

use super::*;

#[tokio::test]
async fn the_delay_between_reconnects_grows_while_the_coordinator_ends_each_session_after_the_welcome()
 {
    let mut node = Node::start(Chassis::new(1));
    let begun = std::time::Instant::now();
    for _ in 0..4 {
        let session = node.coordinator.session().await;
        session.sync(&[]).await;
        drop(session);
    }
    // Three delays of 0.2, 0.4 and 0.8 s. Jitter shortens each delay to three quarters at least.
    assert!(begun.elapsed() >= Duration::from_millis(1050), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn an_object_is_mounted_unmounted_and_released() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    assert_eq!((session.hello.node.as_str(), session.hello.role()), ("compute-1", Role::Compute));
    session.sync(&[&object]).await;
    let (report, status) = session.report().await;
    assert!(ready(&status), "{status:?}");
    assert_eq!((report.observed_resource_version.as_str(), report.released), ("1", false));
    assert_eq!(node.mounted(), ["/mnt/nnf/job-0"]);

    session.send(&version(&unmounted(&object), "2")).await;
    let (report, status) = session.report().await;
    assert!(ready(&status) && status.mounts[0].state.as_str() == "unmounted");
    assert_eq!((report.observed_resource_version.as_str(), report.released), ("2", false));
    assert!(node.mounted().is_empty());

    session.send(&version(&deleted(&object), "3")).await;
    let (report, status) = session.report().await;
    assert!(ready(&status) && report.released);
    session.send_message(to_node::Message::Gone(Gone { uid: report.uid, ..Gone::default() })).await;
    node.stop.take().unwrap().send(()).unwrap();
    assert_eq!(node.outbox.reports().len(), 1);
    assert_eq!(node.end().await, End::Stopped);
}

/// A coordinator sends an object again when another client has overwritten the status that the node reported.
#[tokio::test]
async fn an_object_that_is_sent_again_is_observed_and_reported_again() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    let steps = node.chassis.compute.applied().len();
    session.send(&version(&object, "2")).await;
    let report = session.report_of(&object, ready).await;
    assert_eq!(report.observed_resource_version, "2");
    assert_eq!(
        node.chassis.compute.applied().len(),
        steps,
        "the mount exists already, so no step is executed"
    );
}

#[tokio::test]
async fn a_deleted_object_is_unmounted_whatever_its_desired_state_is() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    session.send(&deleted(&object)).await;
    assert!(session.report_of(&object, ready).await.released);
    assert!(node.mounted().is_empty());
}

#[tokio::test]
async fn an_object_whose_finalizer_another_client_removed_is_unmounted_and_forgotten() {
    let mut node = Node::start(Chassis::new(2));
    let (first, second) = (node.chassis.object(0), node.chassis.object(1));
    let mut session = node.coordinator.session().await;
    session.sync(&[&first]).await;
    session.report_of(&first, ready).await;
    session
        .send_message(to_node::Message::Gone(Gone {
            uid: first.metadata.uid.clone().unwrap(),
            ..Gone::default()
        }))
        .await;
    // The second object requests the path of the first, so its report says ready only after the agent has unmounted the
    // first object.
    let mut second = second;
    second.spec.mounts[0].mount_path = first.spec.mounts[0].mount_path.clone();
    session.send(&second).await;
    session.report_of(&second, ready).await;
    assert_eq!(node.mounted(), ["/mnt/nnf/job-0"]);
    assert_eq!(node.outbox.reports().len(), 1);
}

#[tokio::test]
async fn an_object_that_is_created_again_under_its_name_is_another_object() {
    let mut node = Node::start(Chassis::new(2));
    let first = node.chassis.object(0);
    let mut second = node.chassis.object(1);
    second.metadata.name = first.metadata.name.clone();
    let mut session = node.coordinator.session().await;
    session.sync(&[&first]).await;
    session.report_of(&first, ready).await;
    session.send(&second).await;
    session.report_of(&second, ready).await;
    wait_for("the unmount of the first object", async {
        while node.mounted() != ["/mnt/nnf/job-1"] {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_older_of_two_objects_with_one_path_keeps_the_path() {
    let mut node = Node::start(Chassis::new(2));
    let (mut old, mut new) = (node.chassis.object(1), node.chassis.object(0));
    new.spec.mounts[0].mount_path = old.spec.mounts[0].mount_path.clone();
    let at = |object: &mut ClientMount, second: u8| {
        let mut json = serde_json::to_value(&*object).unwrap();
        json["metadata"]["creationTimestamp"] = format!("2026-11-20T12:00:{second:02}Z").into();
        *object = serde_json::from_value(json).unwrap();
    };
    at(&mut old, 1);
    at(&mut new, 2);
    let mut session = node.coordinator.session().await;
    // The agent receives the newer object first: the order of creation decides, not the order of arrival.
    session.sync(&[&new, &old]).await;
    let mut reports = [session.report().await, session.report().await];
    reports.sort_by_key(|(report, _)| report.name.clone());
    let error = reports[0].1.error.clone().unwrap();
    assert_eq!(error.severity, Severity::Fatal);
    let user = error.user_message.unwrap();
    assert!(
        user.contains("mountPath /mnt/nnf/job-1 belongs to ClientMount compute-1/job-1"),
        "{user}"
    );
    assert!(ready(&reports[1].1));
    session.send(&deleted(&old)).await;
    assert!(session.report_of(&old, ready).await.released);
    session.report_of(&new, ready).await;
    assert_eq!(node.mounted(), ["/mnt/nnf/job-1"]);
}

#[tokio::test]
async fn a_failed_unmount_is_retried_after_a_delay_and_its_error_is_removed_from_the_status() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    node.chassis.compute.hold(&point("/mnt/nnf/job-0"));
    session.send(&unmounted(&object)).await;
    let (_, status) = session.report().await;
    let error = status.error.unwrap();
    assert!(
        error.debug_message.contains("unable to unmount file system")
            && error.debug_message.contains("os error 16")
    );
    assert_eq!((error.severity, status.all_ready), (Severity::Minor, false));
    node.chassis.compute.let_go(&point("/mnt/nnf/job-0"));
    session.report_of(&object, ready).await;
}

#[tokio::test]
async fn a_failing_object_does_not_delay_other_objects() {
    let mut node = Node::start(Chassis::new(50));
    let objects: Vec<_> = (0..50).map(|index| node.chassis.object(index)).collect();
    node.chassis.compute.plant_file(&point("/mnt/nnf/job-7"));
    let mut session = node.coordinator.session().await;
    session.sync(&objects.iter().collect::<Vec<_>>()).await;
    let mut failures = Vec::new();
    for _ in 0..50 {
        let (report, status) = session.report().await;
        if is_failed(&status) {
            failures.push(report.name);
        }
    }
    assert_eq!((failures, node.mounted().len()), (vec!["job-7".to_owned()], 49));
}

#[tokio::test]
async fn after_many_quick_changes_the_mount_is_as_the_newest_version_of_its_object_requests() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    for number in 2..40 {
        let object = if number % 2 == 0 { unmounted(&object) } else { object.clone() };
        session.send(&version(&object, &number.to_string())).await;
    }
    loop {
        let (report, status) = session.report().await;
        assert!(ready(&status), "{status:?}");
        if report.observed_resource_version == "39" {
            break;
        }
    }
    assert_eq!(node.mounted(), ["/mnt/nnf/job-0"]);
}
