//! Tests mounts with their hooks, also after an interruption.

use super::*;

#[test]
fn a_mount_runs_its_hooks_in_order() {
    let hook =
        |phase: HookPoint| format!("run hook {}[0]: run /dev/loop7 /mnt/nnf/wf-0", phase.as_str());
    let expected = [
        format!("open hook records {}", scope_name()),
        hook(HookPoint::PreActivate),
        hook(HookPoint::PostActivate),
        hook(HookPoint::PreMount),
        "create mount point /mnt/nnf/wf-0".into(),
        "mount xfs /dev/loop7 on /mnt/nnf/wf-0: /dev/loop7 /mnt/nnf/wf-0".into(),
        "change the owner of /mnt/nnf/wf-0 to 5:6".into(),
        hook(HookPoint::PostMount),
    ];
    assert_eq!(
        lines(plan(&Desired::Mounted(mount()), &observation(TargetState::default()))),
        expected
    );
}

#[test]
fn an_unmount_runs_its_hooks_in_order_and_drops_their_records() {
    let hook =
        |phase: HookPoint| format!("run hook {}[0]: run /dev/loop7 /mnt/nnf/wf-0", phase.as_str());
    let observed =
        Observed { hooks_open: true, ..observation(mounted_by(Owner { uid: 5, gid: 6 })) };
    let expected = [
        hook(HookPoint::PreUnmount),
        "unmount /mnt/nnf/wf-0: /mnt/nnf/wf-0".into(),
        "remove mount point /mnt/nnf/wf-0".into(),
    ];
    assert_eq!(lines(plan(&Desired::Unmounted(mount()), &observed)), expected);
    let unmounted = Observed {
        hooks: ran(&mount(), &[HookPoint::PreUnmount]),
        hooks_open: true,
        ..observation(TargetState::default())
    };
    let rest = [
        hook(HookPoint::PostUnmount),
        hook(HookPoint::PreDeactivate),
        hook(HookPoint::PostDeactivate),
        format!("forget hook records {}", scope_name()),
    ];
    assert_eq!(lines(plan(&Desired::Unmounted(mount()), &unmounted)), rest);
    let names = vec!["process 7".to_owned()];
    let in_use = Use::HeldBy(Holders { names, processes: vec![7] });
    let rejection = plan(&Desired::Unmounted(mount()), &Observed { in_use, ..unmounted });
    let rejection = rejection.unwrap_err();
    assert_eq!(rejection.class(), RejectionClass::Waiting);
    assert!(rejection.to_string().contains("still in use by process 7: "), "{rejection}");
    // The hook records are lost with the state directory; the mount itself shows that the tear-down is still due.
    let lost = Observed { hooks_open: false, ..observed };
    assert_eq!(lines(plan(&Desired::Unmounted(mount()), &lost))[1..], expected[..]);
}

#[test]
fn an_interrupted_mount_continues_with_the_next_step() {
    let mount = mount();
    let before =
        ran(&mount, &[HookPoint::PreActivate, HookPoint::PostActivate, HookPoint::PreMount]);
    let cut = Observed {
        hooks: before,
        hooks_open: true,
        ..observation(mounted_by(Owner { uid: 0, gid: 0 }))
    };
    let steps = lines(plan(&Desired::Mounted(mount.clone()), &cut));
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert!(
        steps[0].starts_with("change the owner") && steps[1].starts_with("run hook postMount"),
        "{steps:?}"
    );
    let all = ran(
        &mount,
        &[
            HookPoint::PreActivate,
            HookPoint::PostActivate,
            HookPoint::PreMount,
            HookPoint::PostMount,
        ],
    );
    let after_tear_down = Observed {
        hooks: all,
        hooks_open: true,
        ..observation(mounted_by(Owner { uid: 5, gid: 6 }))
    };
    assert_eq!(plan(&Desired::Mounted(mount), &after_tear_down), Ok(vec![]));
}

#[test]
fn an_interrupted_unmount_continues_with_the_next_step() {
    let mount = mount();
    let cut = Observed {
        hooks: ran(
            &mount,
            &[HookPoint::PreActivate, HookPoint::PreUnmount, HookPoint::PostUnmount],
        ),
        hooks_open: true,
        ..observation(TargetState::default())
    };
    let steps = lines(plan(&Desired::Unmounted(mount.clone()), &cut));
    assert_eq!(steps.len(), 3, "{steps:?}");
    assert!(steps[0].starts_with("run hook preDeactivate"), "{steps:?}");
    // The scope is closed and nothing is mounted: either the mount was never made, or its tear-down is complete.
    assert_eq!(plan(&Desired::Unmounted(mount), &observation(TargetState::default())), Ok(vec![]));
}

#[test]
fn mounts_without_mount_and_unmount_lines_need_no_steps() {
    let skipped = Mount { mount: None, unmount: None, owner: None, hooks: Vec::new(), ..mount() };
    let foreign =
        TargetState { mounted: Some(xfs_mount(fs_id(9))), ..mounted_by(Owner { uid: 0, gid: 0 }) };
    for desired in [Desired::Mounted(skipped.clone()), Desired::Unmounted(skipped)] {
        assert_eq!(plan(&desired, &observation(foreign.clone())), Ok(vec![]));
    }
}

#[test]
fn a_mount_that_is_not_the_desired_mount_is_rejected_and_not_unmounted() {
    let bare = Mount { hooks: Vec::new(), owner: None, ..mount() };
    let at = |existing: MountedThing| {
        observation(TargetState { mounted: Some(existing), ..mounted_by(Owner { uid: 0, gid: 0 }) })
    };
    let unreadable = MountedThing {
        superblock: Superblock::Unknown,
        namespace: Some(id(1)),
        ..xfs_mount(fs_id(0))
    };
    for ours in [xfs_mount(fs_id(0)), unreadable] {
        assert_eq!(plan(&Desired::Mounted(bare.clone()), &at(ours.clone())), Ok(vec![]));
        assert_eq!(plan(&Desired::Unmounted(bare.clone()), &at(ours)).unwrap().len(), 2);
    }
    let subdirectory = MountedThing { root: "/sub".into(), ..xfs_mount(fs_id(0)) };
    let ext4 = MountedThing { kind: "ext4".into(), ..xfs_mount(fs_id(0)) };
    let elsewhere = MountedThing { namespace: Some(id(2)), ..unknown() };
    // An admin created another file system on our namespace.
    let remade = MountedThing {
        superblock: Superblock::Foreign,
        namespace: Some(id(1)),
        ..xfs_mount(fs_id(0))
    };
    for other in [xfs_mount(fs_id(1)), subdirectory, ext4, elsewhere, remade] {
        let rejection = plan(&Desired::Mounted(bare.clone()), &at(other.clone())).unwrap_err();
        assert!(matches!(rejection, Rejection::Occupied { .. }), "{other:?}");
        assert_eq!(rejection.class(), RejectionClass::InTheWay);
        assert_eq!(plan(&Desired::Unmounted(bare.clone()), &at(other)), Ok(vec![]));
    }
    // The device of the mount is gone: the mount's owner is unknown, and the rejection says so.
    let rejection = plan(&Desired::Unmounted(bare), &at(unknown())).unwrap_err();
    assert!(matches!(rejection, Rejection::Unproved { .. }), "{rejection}");
}

#[test]
fn a_raw_device_is_owned_by_root_again_after_its_unmount() {
    let raw = Mount {
        kind: FileSystemKind::Raw,
        hooks: Vec::new(),
        mount: command("-o bind $DEVICE $MOUNT_PATH"),
        ..mount()
    };
    let bound = MountedThing {
        kind: "none".into(),
        superblock: Superblock::Unknown,
        namespace: Some(id(1)),
        ..xfs_mount(fs_id(0))
    };
    let target = TargetState {
        path: PathState::BlockDevice,
        mounted: Some(bound),
        ..mounted_by(Owner { uid: 5, gid: 6 })
    };
    let expected = [
        "change the owner of /mnt/nnf/wf-0 to 0:0",
        "unmount /mnt/nnf/wf-0: /mnt/nnf/wf-0",
        "remove mount point /mnt/nnf/wf-0",
    ];
    assert_eq!(lines(plan(&Desired::Unmounted(raw), &observation(target))), expected);
}

#[test]
fn a_mount_of_two_devices_or_of_a_missing_or_unfinished_volume_is_rejected() {
    let no = |mount: Mount, volume: VolumeState| {
        let observed = Observed {
            volume: Some(volume),
            target: Some(TargetState::default()),
            ..Observed::default()
        };
        plan(&Desired::Mounted(mount), &observed).unwrap_err()
    };
    let ours = visible(Signature::Ours(fs_id(0)));
    let mut two = mount();
    two.source = MountSource::Volume {
        volume: Volume { namespaces: vec![id(1), id(2)], ..volume() },
        id: fs_id(0),
    };
    assert!(matches!(no(two, ours), Rejection::TooManyDevices { count: 2, .. }));
    let missing = no(mount(), VolumeState { missing: vec![id(1)], ..VolumeState::default() });
    assert!(missing.to_string().contains(&id(1).to_string()), "{missing}");
    assert_eq!(missing.class(), RejectionClass::Waiting);
    for unfinished in [Signature::Blank, Signature::HalfMade(fs_id(0))] {
        assert!(matches!(no(mount(), visible(unfinished)), Rejection::NotMade { .. }));
    }
}

#[test]
fn the_root_file_is_written_until_the_mount_has_it_with_the_desired_contents() {
    let (ours, roots) = (Owner { uid: 5, gid: 6 }, Owner { uid: 0, gid: 0 });
    let file = |text: &str, owner| {
        Some(RootFile { name: ".nnf-servers.json".into(), text: text.into(), owner })
    };
    let source = MountSource::Lustre("10.0.0.1@tcp:/fs".into());
    let hooks = Vec::new();
    let wanted = file("{}\n", ours);
    let lustre =
        Mount { kind: FileSystemKind::Lustre, source, hooks, file: wanted.clone(), ..mount() };
    let steps = |mount: &Mount, observed| lines(plan(&Desired::Mounted(mount.clone()), &observed));
    let written = "write /mnt/nnf/wf-0/.nnf-servers.json for 5:6";
    let all = steps(&lustre, observation(TargetState::default()));
    assert_eq!(all[all.len() - 2..], ["change the owner of /mnt/nnf/wf-0 to 5:6", written]);

    let existing = MountedThing {
        source: "10.0.0.1@tcp:/fs".into(),
        kind: "lustre".into(),
        root: "/".into(),
        ..unknown()
    };
    let on = TargetState { mounted: Some(existing), ..mounted_by(ours) };
    let with = |file| Observed { file, ..observation(on.clone()) };
    assert!(steps(&lustre, with(wanted)).is_empty());
    for other in [None, file("{", ours), file("{}\n", roots)] {
        assert_eq!(steps(&lustre, with(other)), [written]);
    }
    let skipped = Mount { mount: None, ..lustre };
    assert!(
        steps(&skipped, observation(TargetState::default())).is_empty(),
        "the file is not written without a mount"
    );
}

#[test]
fn a_lustre_client_mounts_its_source() {
    let lustre = Mount {
        kind: FileSystemKind::Lustre,
        source: MountSource::Lustre("10.0.0.1@tcp:/fs".into()),
        mount: command("$DEVICE $MOUNT_PATH"),
        hooks: Vec::new(),
        owner: None,
        ..mount()
    };
    let steps = lines(plan(&Desired::Mounted(lustre), &observation(TargetState::default())));
    assert_eq!(
        steps[1],
        "mount lustre 10.0.0.1@tcp:/fs on /mnt/nnf/wf-0: 10.0.0.1@tcp:/fs /mnt/nnf/wf-0"
    );
}

#[test]
fn is_client_recognises_a_lustre_mount_by_its_source() {
    for (wanted, source, kind, is_it) in [
        ("10.0.0.1@tcp:/fs", "10.0.0.1@tcp:/fs", "lustre", true),
        ("10.0.0.1@tcp:/fs", "10.0.0.1@tcp:/fs", "tmpfs", true),
        ("10.0.0.1@tcp:/fs", "10.0.0.1@tcp:/other", "lustre", false),
        ("host:/fs", "host:/fs", "lustre", true),
        ("host:/fs", "host:/fs", "nfs", false),
    ] {
        let existing = MountedThing { source: source.into(), kind: kind.into(), ..unknown() };
        assert_eq!(mount::is_client(wanted, &existing), is_it, "{wanted}: {kind} {source}");
    }
}
