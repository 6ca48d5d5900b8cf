//! A ClientMount whose `spec.mounts` is changed in place. A mount that the new version no longer requests is called
//! dropped.

use storage::observed::Superblock;

use super::{
    in_use::{agent_with, agent_with_all, work},
    *,
};

const BEFORE: [(&str, usize); 2] = [("a", 0), ("b", 1)];

/// Returns the node's mounts, each as its name beneath `/mnt/nnf` and the index of its allocation.
fn mounted_allocations(node: &Node) -> Vec<(String, usize)> {
    let converger = Converger::new(Arc::<FakeHost>::clone(&node.chassis.compute));
    let observed = converger.observe(&Desired::OnlyMounts(Vec::new())).unwrap();
    let ids: Vec<_> = (0..2).map(|index| node.chassis.file_system(index)).collect();
    let index = |there: Superblock| ids.iter().position(|id| there == Superblock::Ours(*id));
    let name = |point: &MountPoint| point.below().display().to_string();
    let mounts = observed.mounts.iter();
    let mut mounted_allocations: Vec<_> =
        mounts.map(|(at, there)| (name(at), index(there.superblock).unwrap())).collect();
    mounted_allocations.sort();
    mounted_allocations
}

async fn start_mounted(before: &[(&str, usize)]) -> (Node, Session, ClientMount) {
    let mut node = Node::start(Chassis::new(2));
    let object = node.chassis.object_with(before);
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    (node, session, object)
}

#[tokio::test]
async fn dropped_mounts_are_unmounted_and_swapped_mounts_are_mounted_at_their_new_paths() {
    let cases: [&[(&str, usize)]; 5] = [
        &[("c", 0), ("b", 1)],
        &[("b", 1)],
        &[("b", 0), ("a", 1)],
        &[("b", 1), ("a", 0)],
        &[("a", 1)],
    ];
    for after in cases {
        let (node, mut session, _) = start_mounted(&BEFORE).await;
        let object = version(&node.chassis.object_with(after), "2");
        let steps = node.chassis.compute.applied().len();
        session.send(&object).await;
        let report = session.report_of(&object, |status| status.all_ready).await;
        assert_eq!(report.observed_resource_version, "2");
        let mut wanted: Vec<_> =
            after.iter().map(|(name, index)| ((*name).to_owned(), *index)).collect();
        wanted.sort();
        assert_eq!(mounted_allocations(&node), wanted, "{after:?}");
        if after == [("b", 1), ("a", 0)] {
            assert_eq!(
                node.chassis.compute.applied().len(),
                steps,
                "a changed order of the mounts causes no step"
            );
        }
        session.send(&deleted(&version(&object, "3"))).await;
        assert!(session.report_of(&object, ready).await.released);
        assert!(mounted_allocations(&node).is_empty(), "{after:?}");
    }
}

#[tokio::test]
async fn an_object_is_neither_ready_nor_released_while_a_dropped_mount_is_in_use() {
    for after in [&[("b", 1)][..], &[("b", 0), ("a", 1)], &[("a", 1), ("c", 0)]] {
        let (node, mut session, _) = start_mounted(&BEFORE).await;
        node.chassis.compute.hold(&point("/mnt/nnf/a"));
        let object = version(&node.chassis.object_with(after), "2");
        session.send(&object).await;
        let names_path = |status: &ClientMountStatus| {
            let error = status.error.as_ref().map(|error| error.debug_message.as_str());
            !status.all_ready && error.is_some_and(|error| error.contains("/mnt/nnf/a"))
        };
        session.report_of(&object, names_path).await;
        assert!(mounted_allocations(&node).contains(&("a".to_owned(), 0)), "{after:?}");
        session.send(&deleted(&version(&object, "3"))).await;
        let report =
            session.report_of(&object, |status| names_path(status) && !status.all_ready).await;
        assert!(!report.released, "{after:?}");
        node.chassis.compute.let_go(&point("/mnt/nnf/a"));
        assert!(session.report_of(&object, ready).await.released);
        assert!(mounted_allocations(&node).is_empty(), "{after:?}");
    }
}

/// The new agent knows the path only from the record of the previous agent.
#[tokio::test]
async fn a_restarted_agent_unmounts_mounts_that_were_dropped_before_its_start() {
    for in_use in [false, true] {
        let (mut node, session, object) = start_mounted(&BEFORE).await;
        if in_use {
            node.chassis.compute.hold(&point("/mnt/nnf/a"));
        }
        let changed = version(&node.chassis.object_with(&[("b", 1)]), "2");
        node.restart_agent(session).await;
        let mut session = node.coordinator.session().await;
        session.sync(&[&deleted(&changed)]).await;
        if in_use {
            assert!(!session.report_of(&object, is_failed).await.released);
            assert_eq!(mounted_allocations(&node), [("a".to_owned(), 0)]);
            node.chassis.compute.let_go(&point("/mnt/nnf/a"));
        }
        assert!(session.report_of(&object, ready).await.released);
        assert!(mounted_allocations(&node).is_empty());
    }
}

/// The object that drops the path never had a mount there: the mount belongs to the first object.
#[tokio::test]
async fn a_mount_stays_when_an_object_that_waited_for_its_path_drops_that_path() {
    let mut node = Node::start(Chassis::new(2));
    let first = node.chassis.object_with(&[("a", 0)]);
    let second = |mounts: &[(&str, usize)]| ClientMount {
        metadata: node.chassis.object(1).metadata,
        ..node.chassis.object_with(mounts)
    };
    let (waiting, satisfied) = (second(&[("a", 0)]), version(&second(&[("b", 1)]), "2"));
    let mut session = node.coordinator.session().await;
    session.sync(&[&first]).await;
    session.report_of(&first, ready).await;
    session.send(&waiting).await;
    session.report_of(&waiting, is_failed).await;
    session.send(&satisfied).await;
    session.report_of(&satisfied, ready).await;
    assert_eq!(mounted_allocations(&node), [("a".to_owned(), 0), ("b".to_owned(), 1)]);
}

fn desired(object: &ClientMount) -> LinkEvent {
    LinkEvent::Desired(Box::new(received_mount(object)))
}

/// If the agent forgot that it has unmounted the dropped mount, it would run the hooks of that mount's unmount again,
/// although another file system is now mounted at the same path.
#[tokio::test]
async fn a_dropped_mount_is_unmounted_only_once_if_its_object_changes_during_the_unmount() {
    let mut profile = profile();
    let commands = &mut profile.spec.data.xfs_storage.file_system_commands.compute_commands;
    commands.user_commands.pre_unmount = vec!["/site/preUnmount".into()];
    let hooked = |object: &ClientMount| {
        let profile = serde_json::to_vec(&profile).unwrap();
        LinkEvent::Desired(Box::new(ReceivedMount::decode(DesiredMount {
            profile,
            ..message(object)
        })))
    };
    let (chassis, now) = (Chassis::new(3), Instant::now());
    let before = chassis.object_with(&[("a", 0), ("b", 2)]);
    let mut agent = agent_with(&chassis, &before);
    agent.handle_event(hooked(&before));
    work(&mut agent, now).await;
    let swapped = version(&chassis.object_with(&[("a", 1)]), "2");
    agent.handle_event(hooked(&swapped));
    agent.start(now);
    agent.handle_event(hooked(&version(&chassis.object_with(&[("a", 1), ("b", 2)]), "3")));
    agent.handle_event(hooked(&version(&swapped, "4")));
    work(&mut agent, now).await;
    assert!(agent.failing.is_empty(), "{:?}", agent.failing);
    let applied = chassis.compute.applied();
    let at =
        |step: &Step| matches!(step, Step::Mount { target, .. } if *target == point("/mnt/nnf/a"));
    let last = applied.iter().rposition(at).unwrap();
    let tears_down = |step: &Step| match step {
        Step::RunHook { line, .. } => line.contains("preUnmount"),
        step => matches!(step, Step::ForgetHooks { .. }),
    };
    assert!(applied[..last].iter().any(tears_down), "the first unmount ran hooks");
    let teardown_steps: Vec<_> = applied[last..].iter().filter(|step| tears_down(step)).collect();
    assert!(
        teardown_steps.is_empty(),
        "steps of an unmount while the new mount is at the same path: {teardown_steps:?}"
    );
}

#[tokio::test]
async fn an_object_whose_spec_node_changed_is_not_released_until_its_mount_is_unmounted() {
    let (chassis, now) = (Chassis::new(1), Instant::now());
    let object = chassis.object_with(&[("a", 0)]);
    let mut agent = agent_with(&chassis, &object);
    work(&mut agent, now).await;
    let mut moved = version(&object, "2");
    moved.spec.node = "compute-2".into();
    agent.handle_event(desired(&moved));
    work(&mut agent, now).await;
    chassis.compute.hold(&point("/mnt/nnf/a"));
    agent.handle_event(desired(&deleted(&version(&moved, "3"))));
    work(&mut agent, now).await;
    assert!(!agent.outbox.reports()[0].released);
    chassis.compute.let_go(&point("/mnt/nnf/a"));
    agent.handle_event(desired(&deleted(&version(&moved, "4"))));
    work(&mut agent, now).await;
    assert!(agent.outbox.reports()[0].released && mounted_on(&chassis).is_empty());
}

/// Of three versions of the object, the second cannot be read; the first and the third request the same mount.
#[tokio::test]
async fn a_mount_that_its_object_still_requests_after_an_unreadable_version_stays_mounted() {
    let (chassis, now) = (Chassis::new(1), Instant::now());
    let object = chassis.object_with(&[("a", 0)]);
    let mut agent = agent_with(&chassis, &object);
    work(&mut agent, now).await;
    let unreadable =
        DesiredMount { client_mount: b"{".to_vec(), ..message(&version(&object, "2")) };
    agent.handle_event(LinkEvent::Desired(Box::new(ReceivedMount::decode(unreadable))));
    work(&mut agent, now).await;
    let steps = chassis.compute.applied().len();
    agent.handle_event(desired(&version(&object, "3")));
    work(&mut agent, now).await;
    assert_eq!(chassis.compute.applied()[steps..], [], "no step touches the job's mount");
}

/// The file system must never be mounted at both paths: the later unmount could then not deactivate its volume.
#[tokio::test]
async fn a_file_system_is_mounted_at_its_new_path_only_after_it_was_unmounted_from_its_old_path() {
    let (chassis, now) = (Chassis::new(1), Instant::now());
    let mut agent = agent_with(&chassis, &chassis.object_with(&[("a", 0)]));
    work(&mut agent, now).await;
    chassis.compute.hold(&point("/mnt/nnf/a"));
    let moved = version(&chassis.object_with(&[("c", 0)]), "2");
    agent.handle_event(desired(&moved));
    work(&mut agent, now).await;
    assert_eq!(mounted_on(&chassis), ["/mnt/nnf/a"]);
    chassis.compute.let_go(&point("/mnt/nnf/a"));
    agent.handle_event(desired(&version(&moved, "3")));
    work(&mut agent, now).await;
    assert_eq!(mounted_on(&chassis), ["/mnt/nnf/c"]);
    assert!(agent.failing.is_empty(), "{:?}", agent.failing);
}

/// The device is mounted in the mount namespace of a container, which this node's mount table does not show.
#[tokio::test]
async fn a_mount_dropped_before_a_start_is_not_unmounted_while_its_device_is_in_use() {
    for after in [[("b", 1)], [("c", 0)]] {
        let (chassis, now) = (Chassis::new(2), Instant::now());
        let object = chassis.object_with(&[("a", 0), after[0]]);
        work(&mut agent_with(&chassis, &object), now).await;
        chassis.compute.keep_elsewhere(&point("/mnt/nnf/a"));
        let changed = version(&chassis.object_with(&after), "2");
        let mut agent = agent_with(&chassis, &deleted(&changed));
        work(&mut agent, now).await;
        assert!(!agent.outbox.reports()[0].released, "{after:?}");
        chassis.compute.leave_elsewhere();
        agent.handle_event(desired(&deleted(&version(&changed, "3"))));
        work(&mut agent, now).await;
        assert!(agent.outbox.reports()[0].released && mounted_on(&chassis).is_empty(), "{after:?}");
    }
}

/// The new agent has received neither the object's earlier mounts nor the name of its earlier node: only
/// the record has them.
#[tokio::test]
async fn a_restarted_agent_releases_an_object_of_another_node_only_after_its_recorded_mount_is_gone()
 {
    let (chassis, now) = (Chassis::new(2), Instant::now());
    work(&mut agent_with(&chassis, &chassis.object_with(&BEFORE)), now).await;
    let mut changed = version(&chassis.object_with(&[("b", 1)]), "2");
    changed.spec.node = "compute-2".into();
    chassis.compute.hold(&point("/mnt/nnf/a"));
    let mut agent = agent_with(&chassis, &deleted(&changed));
    work(&mut agent, now).await;
    assert!(!agent.outbox.reports()[0].released);
    chassis.compute.let_go(&point("/mnt/nnf/a"));
    agent.handle_event(desired(&deleted(&version(&changed, "3"))));
    work(&mut agent, now).await;
    assert!(agent.outbox.reports()[0].released && mounted_on(&chassis).is_empty());
}

/// A Lustre mount does not show which object it belongs to; the agent's record of mounts does.
#[tokio::test]
async fn a_lustre_mount_that_was_dropped_or_whose_object_was_deleted_before_a_start_is_unmounted() {
    let now = Instant::now();
    let before = version(&agent::testing::compute_lustre(), "1");
    let mut changed = version(&before, "2");
    changed.spec.mounts[0].mount_path = "/mnt/nnf/elsewhere".into();
    let other = version(&Chassis::new(1).object(0), "2");
    for after in [changed, other] {
        let chassis = Chassis::new(1);
        work(&mut agent_with(&chassis, &before), now).await;
        let mounted_before = mounted_on(&chassis);
        assert_eq!(mounted_before.len(), 1);
        let mut agent = agent_with(&chassis, &after);
        work(&mut agent, now).await;
        let mounted = mounted_on(&chassis);
        assert!(mounted.len() == 1 && mounted != mounted_before, "{mounted:?}");
        let mut agent = agent_with(&chassis, &deleted(&version(&after, "3")));
        work(&mut agent, now).await;
        assert!(agent.outbox.reports()[0].released && mounted_on(&chassis).is_empty());
        assert!(chassis.records().earlier_records().is_empty());
    }
}

/// While the agent was down, another object has requested the path. The agent receives that object first.
#[tokio::test]
async fn a_restarted_agent_unmounts_a_recorded_mount_before_another_object_mounts_at_its_path() {
    let now = Instant::now();
    let chassis = Chassis::new(3);
    let second = |mounts: &[(&str, usize)]| ClientMount {
        metadata: chassis.object(1).metadata,
        ..chassis.object_with(mounts)
    };
    work(&mut agent_with(&chassis, &second(&[("a", 1)])), now).await;
    let (first, moved) = (chassis.object_with(&[("a", 0)]), version(&second(&[("b", 2)]), "2"));
    chassis.compute.hold(&point("/mnt/nnf/a"));
    let mut agent = agent_with_all(&chassis, &[&first, &deleted(&moved)]);
    work(&mut agent, now).await;
    let reports = agent.outbox.reports();
    let report_on_moved =
        reports.iter().find(|report| Some(&report.uid) == moved.metadata.uid.as_ref());
    assert!(!report_on_moved.unwrap().released, "its earlier mount is still mounted");
    chassis.compute.let_go(&point("/mnt/nnf/a"));
    agent.handle_event(desired(&deleted(&version(&moved, "3"))));
    work(&mut agent, now).await;
    assert_eq!(mounted_on(&chassis), ["/mnt/nnf/a"]);
    assert!(agent.failing.is_empty(), "{:?}", agent.failing);
}

/// The record of an unmounted object is of no use, so a failure to remove it must not delay the release.
#[tokio::test]
async fn an_object_is_released_though_its_record_cannot_be_removed() {
    let (chassis, now) = (Chassis::new(1), Instant::now());
    let object = chassis.object(0);
    let mut agent = agent_with(&chassis, &object);
    work(&mut agent, now).await;
    chassis.break_records();
    agent.handle_event(desired(&deleted(&version(&object, "2"))));
    work(&mut agent, now).await;
    assert!(agent.outbox.reports()[0].released);
}

/// The record cannot be written, as on a full disk.
#[tokio::test]
async fn a_mount_that_cannot_be_recorded_is_not_mounted() {
    let (chassis, now) = (Chassis::new(1), Instant::now());
    let mut agent = agent_with(&chassis, &chassis.object(0));
    chassis.lose_records();
    work(&mut agent, now).await;
    let report = &agent.outbox.reports()[0];
    let status = &report.status;
    let error = status.error.as_ref().unwrap();
    assert!(error.debug_message.contains("the record of mounts"), "{error:?}");
    assert!(!status.all_ready && mounted_on(&chassis).is_empty());
}

fn mounted_on(chassis: &Chassis) -> Vec<String> {
    let converger = Converger::new(Arc::<FakeHost>::clone(&chassis.compute));
    let observed = converger.observe(&Desired::OnlyMounts(Vec::new())).unwrap();
    observed.mounts.iter().map(|(point, _)| point.to_string()).collect()
}
