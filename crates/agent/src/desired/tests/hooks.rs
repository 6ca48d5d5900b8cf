//! The commands of a profile that the agent runs around a mount.

use super::*;

#[test]
fn an_override_applies_to_the_volume_name_and_to_the_lines() {
    let object = compute_xfs();
    let mut profile = profile();
    let xfs = &mut profile.spec.data.xfs_storage;
    xfs.variable_override =
        [("$VG_NAME", "vg-$JOBID"), ("$LV_NAME", "scratch"), ("$MOUNT_PATH", "/elsewhere")]
            .map(|(n, v)| (n.into(), v.into()))
            .into();
    xfs.file_system_commands.compute_commands.mount = "$VG_NAME/$LV_NAME $MOUNT_PATH".into();
    let units =
        desired(&object, Ok(&profile), &no_references, &site(&object, Side::Compute)).unwrap();
    let mount = only_mount(&units);
    let MountSource::Volume { volume, .. } = &mount.source else { panic!() };
    assert_eq!((volume.group.as_str(), volume.logical.as_str()), ("vg-7001", "scratch"));
    let line = mount.mount.as_ref().unwrap().expand(&BTreeMap::new());
    assert_eq!(line, format!("vg-7001/scratch {PATH}"), "lines get the checked mount path");
}

/// With the captured GFS2 profile a compute joins the lock space of the volume group, activates the volume, and leaves
/// the lock space when it deactivates its last volume of the group.
#[test]
fn a_compute_gets_only_the_volume_lines_that_its_goal_needs() {
    let object = crate::testing::compute_gfs2();
    let site = Site { volumes: Volumes::Lvm, ..site(&object, Side::Compute) };
    let lines = |goal| {
        let units = units(&object, goal, Ok(&profile()), &no_references, &site).unwrap();
        let MountSource::Volume { volume, .. } = only_mount(&units).source.clone() else {
            panic!()
        };
        let name = volume.to_string();
        (name, volume.layer.lines().unwrap().clone())
    };
    let text = |command: &Option<SiteCommand>| {
        command.as_ref().map(|command| command.expand(&BTreeMap::new()))
    };
    let (name, mounted) = lines(Goal::Mounted);
    assert_eq!(text(&mounted.activate), Some(format!("--activate sy {name}")));
    let group = name.split('/').next().unwrap();
    assert_eq!(text(&mounted.lock_start), Some(format!("--lockstart {group}")));
    assert!(mounted.leaves_lock_space && mounted.vg_create.is_none());
    let (_, unmounted) = lines(Goal::Unmounted);
    assert_eq!(text(&unmounted.deactivate), Some(format!("--activate n {name}")));
    assert_eq!(unmounted.activate, None);
}

#[test]
fn a_compute_gets_the_compute_hooks_in_the_order_of_their_phases() {
    let units = on_compute(&compute_gfs2()).unwrap();
    let hooks = &only_mount(&units).hooks;
    let mut in_order = hooks.clone();
    in_order.sort_by_key(|hook| hook.id.phase);
    let phases: Vec<_> = lines(&in_order)
        .into_iter()
        .map(|line| line.split(':').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        phases,
        [
            "preActivate[0]",
            "postActivate[0]",
            "preMount[0]",
            "postMount[0]",
            "preUnmount[0]",
            "postUnmount[0]",
            "preDeactivate[0]",
            "postDeactivate[0]",
        ]
    );
    assert!(
        lines(&in_phase(hooks, HookPoint::PreMount))[0].contains("/usr/libexec/site/preMount 70"),
        "{:?}",
        lines(&in_phase(hooks, HookPoint::PreMount))
    );
}

#[test]
fn an_object_is_refused_if_its_profile_is_not_named_does_not_exist_or_is_not_pinned() {
    let object = compute_xfs();
    let site = site(&object, Side::Compute);
    let missing = desired(&object, NO_PROFILE, &no_references, &site).unwrap_err();
    assert_eq!(missing, ObjectError::ProfileMissing(NO_PROFILE.unwrap_err().into()));
    let mut loose = profile();
    loose.spec.data.pinned = false;
    let refused = desired(&object, Ok(&loose), &no_references, &site).unwrap_err().to_string();
    assert_eq!(
        refused,
        "NnfStorageProfile default/fluxjob-7001-0 is not pinned: set data.pinned to true, or name the pinned copy in the labels"
    );
    let mut unlabelled = object;
    unlabelled.metadata.labels.as_mut().unwrap().remove(label::PINNED_PROFILE_NAME);
    assert!(
        on_compute(&unlabelled)
            .unwrap_err()
            .to_string()
            .contains("pinned_storage_profile_name is missing")
    );
}

#[test]
fn an_unreadable_mount_line_prevents_mounting_but_not_unmounting() {
    let object = compute_xfs();
    let mut profile = profile();
    profile.spec.data.xfs_storage.file_system_commands.compute_commands.mount =
        "-o 'noatime $DEVICE $MOUNT_PATH".into();
    let site = site(&object, Side::Compute);
    let units = desired(&object, Ok(&profile), &no_references, &site).unwrap();
    assert!(units.are_refused());
    let error = units.mounts[0].as_ref().unwrap_err().to_string();
    assert!(error.starts_with(
        "NnfStorageProfile default/fluxjob-7001-0 data.xfsStorage.fileSystemCommands.computeCommands.mount: unbalanced quotes"
    ), "{error}");
    let units = desired(&deleted(&object), Ok(&profile), &no_references, &site).unwrap();
    assert!(only_mount(&units).unmount.is_some(), "unmounting does not need the line");
    assert!(units.unreadable.is_empty(), "a line that unmounting does not need is not reported");
}

#[test]
fn an_unreadable_line_that_deactivates_the_volume_is_replaced_by_the_agents_own_line() {
    let object = compute_xfs();
    let mut profile = profile();
    let commands = &mut profile.spec.data.xfs_storage.block_device_commands.compute_commands;
    commands.lv_change.activate = "--activate y $VG_NAME/$LV_NAME".into();
    commands.lv_change.deactivate = "'--activate n $VG_NAME".into();
    commands.vg_change.lock_stop = "'--lock-stop $VG_NAME".into();
    let site = Site { volumes: Volumes::Lvm, ..site(&object, Side::Compute) };
    let units = desired(&deleted(&object), Ok(&profile), &no_references, &site).unwrap();
    let MountSource::Volume { volume, .. } = &only_mount(&units).source else { panic!() };
    let lines = volume.layer.lines().unwrap();
    let line = |line: &Option<SiteCommand>| line.as_ref().unwrap().expand(&BTreeMap::new());
    let (group, logical) = (&volume.group, &volume.logical);
    assert_eq!(line(&lines.deactivate), format!("--activate n {group}/{logical}"));
    assert_eq!(line(&lines.lock_stop), format!("--lock-stop {group}"));
    assert_eq!(units.unreadable.len(), 2);
}

#[test]
fn unmounting_needs_no_profile_and_no_namespaces() {
    let mut object = deleted(&compute_xfs());
    object.spec.mounts[0].device.lvm = None;
    let units =
        desired(&object, NO_PROFILE, &no_references, &site(&object, Side::Compute)).unwrap();
    let mount = only_mount(&units);
    assert_eq!((units.goal, mount.mount.is_none()), (Goal::Unmounted, true));
    assert_eq!(mount.unmount.as_ref().unwrap().expand(&BTreeMap::new()), PATH);
}
