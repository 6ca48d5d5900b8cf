use std::sync::Arc;

use api::{ClientMount, ErrorType, Severity};
use controller::Retry;
use storage::{
    Converger,
    fake::{FakeHost, Fault},
    observed::Signature,
};

use super::*;
use crate::{
    desired::{Profile, ReferenceError, desired, units},
    site::{Side, Site},
    testing::{Chassis, point, profile, rabbit_index, site, with_index_root},
};

fn converger(host: &Arc<FakeHost>) -> Converger {
    Converger::new(Arc::<FakeHost>::clone(host))
}

fn mounted_units(object: &ClientMount) -> MountUnits {
    units_for(object, Goal::Mounted)
}

fn units_for(object: &ClientMount, goal: Goal) -> MountUnits {
    units_by_profile(object, Ok(&profile()), goal)
}

fn units_by_profile(object: &ClientMount, profile: Profile<'_>, goal: Goal) -> MountUnits {
    units(object, goal, profile, &crate::desired::no_references, &site(object, Side::Compute))
        .unwrap()
}

fn texts(steps: &[PlannedStep]) -> Vec<String> {
    steps.iter().map(ToString::to_string).collect()
}

fn mounts(converger: &Converger) -> Vec<String> {
    let observed_mounts = converger.observe(&Desired::OnlyMounts(Vec::new())).unwrap().mounts;
    observed_mounts.iter().map(|(target, _)| target.to_string()).collect()
}

fn only_failure(outcome: &Outcome) -> &Failed {
    let [failed] = &*outcome.failures else { panic!("{outcome:?}") };
    failed
}

#[test]
fn one_pass_mounts_an_object_and_another_unmounts_it() {
    let chassis = Chassis::new(1);
    let object = chassis.object(0);
    let converger = converger(&chassis.compute);
    assert!(converge(&converger, &mounted_units(&object)).is_done());
    let steps = chassis.compute.applied().len();
    assert!(steps > 0);
    assert!(converge(&converger, &mounted_units(&object)).is_done());
    assert_eq!(chassis.compute.applied().len(), steps, "a second pass changes nothing");
    assert!(converge(&converger, &units_for(&object, Goal::Unmounted)).is_done());
    assert!(converge(&converger, &units_for(&object, Goal::Unmounted)).is_done());
    assert!(
        chassis.compute.applied().iter().any(|step| matches!(step, storage::Step::Unmount { .. }))
    );
}

#[test]
fn a_foreign_mount_link_or_file_at_the_path_is_reported_and_not_changed() {
    type Plant = fn(&FakeHost);
    let cases: [(Plant, &str); 3] = [
        (
            |host| host.plant_mount(&point("/mnt/nnf/job-0"), "/dev/sda1", "ext4"),
            "/mnt/nnf/job-0 is occupied by ext4 /dev/sda1: unmount it",
        ),
        (
            |host| host.plant_link(&point("/mnt/nnf/job-0"), "/etc"),
            "/mnt/nnf/job-0 leads through the symbolic link /mnt/nnf/job-0",
        ),
        (|host| host.plant_file(&point("/mnt/nnf/job-0")), "/mnt/nnf/job-0 is a file"),
    ];
    for (plant, message) in cases {
        let chassis = Chassis::new(1);
        plant(&chassis.compute);
        let before = chassis.compute.foreign();
        let outcome = converge(&converger(&chassis.compute), &mounted_units(&chassis.object(0)));
        let failure = &only_failure(&outcome).failure;
        assert!(failure.user.starts_with(message), "{}", failure.user);
        assert!(failure.debug.starts_with("unable to mount file system: "), "{}", failure.debug);
        assert_eq!(
            (&failure.error_type, &failure.severity, failure.retry),
            (&ErrorType::User, &Severity::Major, Retry::Later)
        );
        assert_eq!((chassis.compute.foreign(), chassis.compute.applied().len()), (before, 0));
    }
}

#[test]
fn foreign_data_is_not_changed_and_the_failure_is_fatal() {
    let chassis = Chassis::new(1);
    let signature = Signature::Foreign { kind: "ext4".into(), uuid: None };
    chassis.rabbit.plant_signature(&chassis.namespaces[0], signature);
    let outcome = converge(&converger(&chassis.compute), &mounted_units(&chassis.object(0)));
    let failure = &only_failure(&outcome).failure;
    assert!(failure.user.contains("foreign ext4 signature"), "{}", failure.user);
    assert_eq!((&failure.severity, outcome.retry()), (&Severity::Fatal, None));
    assert!(chassis.compute.applied().is_empty());
}

#[test]
fn a_mount_waits_for_a_namespace_that_is_not_visible_yet() {
    let chassis = Chassis::new(1);
    let elsewhere = Arc::new(chassis.rabbit.peer("compute-2".parse().unwrap()));
    let outcome = converge(&converger(&elsewhere), &mounted_units(&chassis.object(0)));
    let failure = &only_failure(&outcome).failure;
    assert!(
        failure.debug.starts_with("unable to activate block device: no device for volume"),
        "{}",
        failure.debug
    );
    assert_eq!((&failure.severity, outcome.retry()), (&Severity::Minor, Some(Retry::Soon)));
}

#[test]
fn the_failure_to_unmount_a_mount_in_use_names_errno_and_a_later_pass_unmounts_it() {
    let chassis = Chassis::new(1);
    let (object, converger) = (chassis.object(0), converger(&chassis.compute));
    assert!(converge(&converger, &mounted_units(&object)).is_done());
    chassis.compute.hold(&point("/mnt/nnf/job-0"));
    let outcome = converge(&converger, &units_for(&object, Goal::Unmounted));
    assert!(
        only_failure(&outcome).failure.debug.contains("(os error 16)"),
        "{:?}",
        outcome.failures
    );
    assert_eq!(
        (outcome.mounts.as_slice(), outcome.retry()),
        (&[MountOutcome::Failed][..], Some(Retry::Soon))
    );
    chassis.compute.let_go(&point("/mnt/nnf/job-0"));
    assert!(converge(&converger, &units_for(&object, Goal::Unmounted)).is_done());
}

#[test]
fn the_next_pass_continues_after_a_failure_of_any_step() {
    for fault in [Fault::Before, Fault::Halfway, Fault::After] {
        for step in 0..4 {
            let chassis = Chassis::new(1);
            let (object, converger) = (chassis.object(0), converger(&chassis.compute));
            chassis.compute.fail(step, fault);
            let first = converge(&converger, &mounted_units(&object));
            assert!(first.is_done() || first.retry() == Some(Retry::Later), "{first:?}");
            assert!(converge(&converger, &mounted_units(&object)).is_done());
        }
    }
}

#[test]
fn after_a_mount_failed_the_remaining_mounts_are_made_and_every_failure_is_reported() {
    let chassis = Chassis::new(3);
    let mut object = chassis.object(0);
    for index in [1, 2] {
        object.spec.mounts.push(chassis.object(index).spec.mounts.remove(0));
    }
    chassis.compute.plant_file(&point("/mnt/nnf/job-0"));
    chassis.compute.plant_link(&point("/mnt/nnf/job-2"), "/etc");
    let outcome = converge(&converger(&chassis.compute), &mounted_units(&object));
    assert_eq!(outcome.mounts, [MountOutcome::Failed, MountOutcome::Ready, MountOutcome::Failed]);
    let paths: Vec<_> = outcome.failures.iter().map(|failed| failed.path.as_deref()).collect();
    assert_eq!(paths, [Some("/mnt/nnf/job-0"), Some("/mnt/nnf/job-2")]);
}

#[test]
fn if_one_mount_is_invalid_no_mount_of_the_object_is_made() {
    let chassis = Chassis::new(2);
    let mut object = chassis.object(0);
    object.spec.mounts.push(chassis.object(1).spec.mounts.remove(0));
    object.spec.mounts[1].mount_path = "relative".into();
    let outcome = converge(&converger(&chassis.compute), &mounted_units(&object));
    assert_eq!(outcome.mounts, [MountOutcome::Withheld, MountOutcome::Failed]);
    assert_eq!(
        (only_failure(&outcome).failure.severity.clone(), outcome.retry()),
        (Severity::Fatal, None)
    );
    assert!(chassis.compute.applied().is_empty());
}

#[test]
fn unmounting_skips_invalid_mounts() {
    let chassis = Chassis::new(1);
    let (mut object, converger) = (chassis.object(0), converger(&chassis.compute));
    assert!(converge(&converger, &mounted_units(&object)).is_done());
    let mut broken = object.spec.mounts[0].clone();
    broken.mount_path = "relative".into();
    object.spec.mounts.push(broken);
    let outcome = converge(&converger, &units_for(&object, Goal::Unmounted));
    assert!(outcome.is_done(), "an invalid mount was never mounted");
}

/// An unreadable line cannot run. It must not prevent the unmount, and the outcome must name it as left out.
#[test]
fn unmounting_leaves_out_unreadable_lines_and_reports_them() {
    type Break = fn(&mut api::nnf_storage_profile::StorageProfile);
    let breaks: [(Break, &str); 6] = [
        (
            |xfs| {
                xfs.file_system_commands.compute_commands.unmount = "'x $MOUNT_PATH".into();
            },
            "fileSystemCommands.computeCommands.unmount: unbalanced quotes",
        ),
        (
            |xfs| {
                let hooks = &mut xfs.file_system_commands.compute_commands.user_commands;
                hooks.pre_unmount = vec!["true".into(), "a\nb".into()];
            },
            "fileSystemCommands.computeCommands.userCommands.preUnmount[1]: control character",
        ),
        (
            |xfs| {
                let hooks = &mut xfs.file_system_commands.compute_commands.user_commands;
                hooks.post_unmount = vec!["'".into()];
            },
            "userCommands.postUnmount[0]",
        ),
        (
            |xfs| {
                let hooks = &mut xfs.block_device_commands.compute_commands.user_commands;
                hooks.post_deactivate = vec!["'".into()];
            },
            "userCommands.postDeactivate[0]",
        ),
        (
            |xfs| {
                xfs.block_device_commands.compute_commands.lv_change.deactivate = "'".into();
            },
            "blockDeviceCommands.computeCommands.lvChange.deactivate",
        ),
        (
            |xfs| xfs.block_device_commands.compute_commands.vg_change.lock_stop = "'".into(),
            "blockDeviceCommands.computeCommands.vgChange.lockStop",
        ),
    ];
    for (broken, field) in breaks {
        let chassis = Chassis::new(1);
        let (object, converger) = (chassis.object(0), converger(&chassis.compute));
        assert!(converge(&converger, &mounted_units(&object)).is_done());
        let mut profile = profile();
        broken(&mut profile.spec.data.xfs_storage);
        let outcome =
            converge(&converger, &units_by_profile(&object, Ok(&profile), Goal::Unmounted));
        assert_eq!(
            (outcome.is_done(), mounts(&converger)),
            (true, Vec::new()),
            "{field}: {outcome:?}"
        );
        let text = crate::report::unreadable(&outcome).unwrap();
        assert!(text.contains(field), "{text}");
        assert!(
            crate::report::error(&object.spec.node.parse().unwrap(), &outcome.failures).is_none()
        );

        let steps = chassis.compute.applied().len();
        let refused = converge(&converger, &units_by_profile(&object, Ok(&profile), Goal::Mounted));
        assert!(only_failure(&refused).failure.user.contains(field), "{refused:?}");
        assert_eq!(chassis.compute.applied().len(), steps, "a refused mount executes no step");
    }
}

#[test]
fn unmounting_from_an_unknown_path_fails_while_one_of_the_nodes_mounts_may_be_the_objects_mount() {
    let mut profile = profile();
    let overrides = &mut profile.spec.data.xfs_storage.variable_override;
    overrides.insert("$WHERE".into(), "job-0".into());
    for path in ["/mnt/nnf/$WHERE", "/mnt/nnf/$VG_NAME"] {
        let chassis = Chassis::new(2);
        let (mut object, converger) = (chassis.object(0), converger(&chassis.compute));
        object.spec.mounts[0].mount_path = path.into();
        assert!(converge(&converger, &mounted_units(&chassis.object(1))).is_done());
        let lost = units_by_profile(&object, crate::testing::NO_PROFILE, Goal::Unmounted);
        assert!(converge(&converger, &lost).is_done(), "another object's mount does not count");

        assert!(
            converge(&converger, &units_by_profile(&object, Ok(&profile), Goal::Mounted)).is_done()
        );
        let there = mounts(&converger).remove(1);
        let outcome = converge(&converger, &lost);
        let failure = &only_failure(&outcome).failure;
        assert_eq!((&*outcome.mounts, failure.retry), (&[MountOutcome::Failed][..], Retry::Later));
        assert!(failure.user.contains(path) && failure.user.ends_with(&there), "{}", failure.user);
        assert!(plan(&converger, &lost).is_err());

        chassis.compute.keep_elsewhere(&point(&there));
        drop(converger.converge(&Desired::OnlyMounts(vec![point("/mnt/nnf/job-1")])).unwrap());
        let outcome = converge(&converger, &lost);
        let failure = &only_failure(&outcome).failure;
        assert!(failure.user.contains("in another mount namespace"), "{}", failure.user);
        chassis.compute.leave_elsewhere();
        let outcome = converge(&converger, &lost);
        assert!(outcome.is_done());
        let text = crate::report::unreadable(&outcome).unwrap();
        assert!(text.contains("default/fluxjob-7001-0 does not exist"), "{text}");
    }
}

/// After a panic, the agent does not know which dropped mounts it has unmounted, so the next pass tries to unmount a
/// dropped mount that is already gone.
#[test]
fn unmounting_a_dropped_mount_again_does_not_change_the_new_mount_at_its_path() {
    let chassis = Chassis::new(2);
    let (before, converger) = (chassis.object(0), converger(&chassis.compute));
    let after = chassis.object_with(&[("job-0", 1)]);
    let mut profile = profile();
    let commands = &mut profile.spec.data.xfs_storage.file_system_commands.compute_commands;
    commands.user_commands.pre_unmount = vec!["/site/preUnmount".into()];
    assert!(
        converge(&converger, &units_by_profile(&before, Ok(&profile), Goal::Mounted)).is_done()
    );
    for _ in 0..2 {
        let dropped =
            vec![(before.clone(), Ok(units_by_profile(&before, Ok(&profile), Goal::Unmounted)))];
        let units = Ok(Arc::new(units_by_profile(&after, Ok(&profile), Goal::Mounted)));
        let work = Work {
            uid: chassis.object(0).metadata.uid.unwrap(),
            object: Some(after.clone()),
            dropped,
            units,
        };
        let result = work.carry_out(&converger, &chassis.records());
        assert!(result.outcome.is_done() && result.unmounted.len() == 1, "{result:?}");
        let observed_mounts = converger.observe(&Desired::OnlyMounts(Vec::new())).unwrap().mounts;
        let [(_, there)] = &observed_mounts[..] else { panic!("{observed_mounts:?}") };
        let id = storage::observed::Superblock::Ours(chassis.file_system(1));
        assert_eq!(there.superblock, id);
    }
}

#[test]
fn a_plan_prints_the_steps_and_changes_nothing() {
    let chassis = Chassis::new(1);
    let converger = converger(&chassis.compute);
    let steps = texts(&plan(&converger, &mounted_units(&chassis.object(0))).unwrap());
    assert_eq!(steps[0], "create mount point /mnt/nnf/job-0");
    assert!(steps[1].starts_with("mount xfs /dev/"), "{steps:?}");
    assert!(chassis.compute.applied().is_empty());
    chassis.compute.plant_file(&point("/mnt/nnf/job-0"));
    let refused = plan(&converger, &mounted_units(&chassis.object(0))).unwrap_err();
    assert!(refused[0].failure.user.contains("is a file"));
}

fn on_rabbit(object: &ClientMount, chassis: &Chassis, site: &Site, goal: Goal) -> MountUnits {
    let references = |reference: &api::client_mount::ClientMountDeviceReference| {
        let index = usize::try_from(reference.allocation_index()).unwrap();
        chassis
            .namespaces
            .get(index)
            .cloned()
            .map(|id| vec![id])
            .ok_or(ReferenceError::NotReady("none".into()))
    };
    units(object, goal, Ok(&profile()), &references, site).unwrap()
}

#[test]
fn a_rabbit_makes_an_index_tree_of_its_allocations_and_removes_the_whole_tree() {
    let chassis = Chassis::new(3);
    let object = rabbit_index();
    let site = site(&object, Side::Rabbit);
    let converger = converger(&chassis.rabbit);
    let outcome = converge(&converger, &on_rabbit(&object, &chassis, &site, Goal::Mounted));
    assert!(outcome.is_done(), "{outcome:?}");
    let links = chassis
        .rabbit
        .applied()
        .iter()
        .filter(|step| matches!(step, storage::Step::Link { .. }))
        .count();
    assert_eq!(links, 3);
    let outcome = converge(&converger, &on_rabbit(&object, &chassis, &site, Goal::Unmounted));
    assert!(outcome.is_done(), "{outcome:?}");
    let steps = plan(&converger, &on_rabbit(&object, &chassis, &site, Goal::Unmounted)).unwrap();
    assert_eq!(steps, []);
    let root = on_rabbit(&object, &chassis, &site, Goal::Mounted).trees.remove(0).root;
    let tree = converger
        .observe(&tree_unit(Goal::Unmounted, &storage::desired::IndexTree { root, links: vec![] }))
        .unwrap()
        .tree;
    assert_eq!(tree.unwrap().path, storage::observed::PathState::Absent);
}

#[test]
fn binds_are_mounted_after_their_sources_and_unmounted_before_them() {
    let chassis = Chassis::new(3);
    let mut object = rabbit_index();
    for (place, mount) in object.spec.mounts.iter_mut().enumerate() {
        mount.mount_path = format!("/mnt/nnf/wf-0/rabbit-1-{place}");
    }
    let site = with_index_root(site(&object, Side::Rabbit));
    let converger = converger(&chassis.rabbit);
    let planned = plan(&converger, &on_rabbit(&object, &chassis, &site, Goal::Mounted)).unwrap();
    assert!(
        texts(&planned).contains(&"bind mount at /mnt/index/wf-0/node-2".to_owned()),
        "{planned:#?}"
    );
    let outcome = converge(&converger, &on_rabbit(&object, &chassis, &site, Goal::Mounted));
    assert!(outcome.is_done(), "{outcome:?}");
    let outcome = converge(&converger, &on_rabbit(&object, &chassis, &site, Goal::Unmounted));
    assert!(outcome.is_done(), "{outcome:?}");
    let unmounted: Vec<_> = chassis
        .rabbit
        .applied()
        .into_iter()
        .filter_map(|step| match step {
            storage::Step::Unmount { target, .. } => {
                Some(target.to_string().starts_with("/mnt/index"))
            }
            _ => None,
        })
        .collect();
    assert_eq!(unmounted, [true, true, true, false, false, false]);
}

#[test]
fn a_bind_mount_is_left_out_and_not_reported_if_its_source_failed_to_mount() {
    let chassis = Chassis::new(1);
    let mut object = rabbit_index();
    object.spec.mounts.truncate(1);
    object.spec.mounts[0].mount_path = "/mnt/nnf/wf-0/rabbit-1-0".into();
    chassis.rabbit.plant_file(&point("/mnt/nnf/wf-0/rabbit-1-0"));
    let site = with_index_root(site(&object, Side::Rabbit));
    let outcome =
        converge(&converger(&chassis.rabbit), &on_rabbit(&object, &chassis, &site, Goal::Mounted));
    assert_eq!(only_failure(&outcome).path.as_deref(), Some("/mnt/nnf/wf-0/rabbit-1-0"));
}

#[test]
fn several_namespaces_without_lvm_are_refused_with_a_remedy_for_administrators() {
    let object = crate::testing::compute_gfs2();
    let host = Arc::new(FakeHost::new(
        object.spec.node.parse().unwrap(),
        site(&object, Side::Compute).roots,
    ));
    let units = desired(
        &object,
        Ok(&profile()),
        &crate::desired::no_references,
        &site(&object, Side::Compute),
    )
    .unwrap();
    let outcome = converge(&converger(&host), &MountUnits { goal: Goal::Mounted, ..units });
    let failure = &only_failure(&outcome).failure;
    assert!(failure.debug.contains("start the agents with --volumes lvm"), "{}", failure.debug);
    // Only the administrators' text names the flag: the owner of the job does not start agents.
    assert!(
        failure.user.contains("has 2 namespaces")
            && failure.user.ends_with(crate::error::ASK_ADMINISTRATORS),
        "{}",
        failure.user
    );
    assert_eq!((&failure.severity, failure.retry), (&Severity::Fatal, Retry::OnChange));
}
