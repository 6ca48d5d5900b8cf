//! Mounts whose profile is missing, or whose profile the agent has no permission to read.

use super::*;

#[tokio::test]
async fn a_missing_profile_is_reported_and_the_object_is_mounted_once_the_profile_arrives() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.send_message(to_node::Message::Welcome(Welcome { epoch: 1 })).await;
    let mut without_profile = message(&object);
    without_profile.profile = Vec::new();
    without_profile.profile_missing =
        "NnfStorageProfile default/fluxjob-7001-0 does not exist: create it".into();
    session.send_message(to_node::Message::Desired(without_profile)).await;
    session.send_message(to_node::Message::Synced(Synced {})).await;
    let (_, status) = session.report().await;
    assert_eq!(
        status.error.unwrap().user_message.unwrap(),
        "compute-1: NnfStorageProfile default/fluxjob-7001-0 does not exist: create it"
    );
    let health = session.health(health::State::Warning).await;
    assert!(
        health.message.starts_with("ClientMount compute-1/job-0: mount/unmount failed"),
        "{}",
        health.message
    );
    session.send(&object).await;
    session.report_of(&object, ready).await;
    session.health(health::State::Ok).await;
}

/// The mount path contains a variable that the profile sets, and the profile is gone. So the agent does not know the
/// path, and only the clean-up can remove the mount, as an unwanted mount.
#[tokio::test]
async fn a_mount_whose_path_is_not_known_is_unmounted_before_its_object_is_released() {
    let mut node = Node::start(Chassis::new(1));
    let mut object = node.chassis.object(0);
    object.spec.mounts[0].mount_path = "/mnt/nnf/$VG_NAME".into();
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    assert_eq!(node.mounted().len(), 1);
    let without_profile = DesiredMount {
        profile: Vec::new(),
        profile_missing: "NnfStorageProfile default/x does not exist".into(),
        ..message(&version(&deleted(&object), "2"))
    };
    session.send_message(to_node::Message::Desired(without_profile)).await;
    assert!(!session.report_of(&object, is_failed).await.released);
    assert!(session.report_of(&object, ready).await.released);
    assert!(node.mounted().is_empty());
}

/// The profile may have hooks for unmounting: until it can be read nothing is unmounted, and the user sees why.
#[tokio::test]
async fn nothing_is_unmounted_while_the_api_forbids_to_read_the_profile() {
    for path in ["/mnt/nnf/job-0", "/mnt/nnf/$VG_NAME"] {
        let node = Node::start(Chassis::new(2));
        let mut object = node.chassis.object(0);
        object.spec.mounts[0].mount_path = path.into();
        expect_mounted_until_profile_is_read(node, object).await;
    }
}

async fn expect_mounted_until_profile_is_read(mut node: Node, object: ClientMount) {
    let never_mounted = node.chassis.object(1);
    let unread = |object: &ClientMount| DesiredMount {
        profile: Vec::new(),
        profile_missing: "NnfStorageProfile default/x cannot be read: grant this agent get".into(),
        profile_unread: true,
        ..message(object)
    };
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    let deleted_unread = unread(&version(&deleted(&object), "2"));
    session.send_message(to_node::Message::Desired(deleted_unread.clone())).await;
    let (report, status) = session.report().await;
    let error = status.error.unwrap();
    assert!(error.debug_message.contains("grant this agent get"));
    let user = error.user_message.unwrap();
    assert!(user.contains("cannot be read: ask the administrators"), "{user}");
    assert_eq!((error.severity, report.released), (Severity::Major, false));
    assert_eq!(node.mounted().len(), 1);
    session.send_message(to_node::Message::Desired(unread(&deleted(&never_mounted)))).await;
    assert!(session.report_of(&never_mounted, ready).await.released, "there is nothing to unmount");

    node.restart_agent(session).await;
    let mut session = node.coordinator.session().await;
    session.send_message(to_node::Message::Welcome(Welcome { epoch: 2 })).await;
    session.send_message(to_node::Message::Desired(deleted_unread)).await;
    session.send_message(to_node::Message::Desired(unread(&deleted(&never_mounted)))).await;
    session.send_message(to_node::Message::Synced(Synced {})).await;
    assert!(session.report_of(&never_mounted, ready).await.released);
    assert!(!session.report_of(&object, is_failed).await.released);
    assert_eq!(node.mounted().len(), 1);
    session.send(&version(&deleted(&object), "2")).await;
    assert!(session.report_of(&object, ready).await.released);
    assert!(node.mounted().is_empty());
}
