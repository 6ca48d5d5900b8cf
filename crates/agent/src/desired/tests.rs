use std::collections::BTreeMap;

use api::{ClientMount, client_mount::MountState};
use k8s_time::deleted;
use storage::{
    desired::{FileSystemId, FileSystemKind, Hook, HookPoint, Mount, MountSource, Owner},
    template::SiteCommand,
};

use super::*;
use crate::{
    site::Side,
    testing::{
        NO_PROFILE, compute_gfs2, compute_lustre, compute_raw, compute_xfs, profile, rabbit_gfs2,
        rabbit_index, references, site, with_index_root,
    },
    volumes::Volumes,
};

const OWNER: &str = "b07f6a0e-59f1-4f0a-b6a4-6c1f7a9e2d15";
const PATH: &str = "/mnt/nnf/6d1c1b52-0a44-4c7e-8a5c-2f5a1f0be7d3-0";

mod k8s_time {
    use api::ClientMount;

    /// The object after a delete, kept by its finalizer.
    pub(super) fn deleted(object: &ClientMount) -> ClientMount {
        let mut json = serde_json::to_value(object).unwrap();
        json["metadata"]["deletionTimestamp"] = "2026-11-20T12:00:00Z".into();
        serde_json::from_value(json).unwrap()
    }
}

fn on_compute(object: &ClientMount) -> Result<MountUnits, ObjectError> {
    desired(object, Ok(&profile()), &no_references, &site(object, Side::Compute))
}

fn on_rabbit(object: &ClientMount) -> MountUnits {
    desired(object, Ok(&profile()), &references, &site(object, Side::Rabbit)).unwrap()
}

fn only(units: &MountUnits) -> &Mount {
    units.mounts[0].as_ref().unwrap()
}

/// The error of the first mount of an object that differs from the fixture by `change`.
fn error_of(change: impl FnOnce(&mut ClientMount)) -> String {
    let mut object = compute_xfs();
    change(&mut object);
    let units = on_compute(&object).unwrap();
    assert!(units.refused(), "{:?}", units.mounts);
    units.mounts[0].as_ref().unwrap_err().to_string()
}

fn lines(hooks: &[Hook]) -> Vec<String> {
    hooks
        .iter()
        .map(|hook| format!("{}: {}", hook.id, hook.command.expand(&BTreeMap::new())))
        .collect()
}

#[test]
fn xfs_on_a_compute() {
    let units = on_compute(&compute_xfs()).unwrap();
    assert_eq!(
        (units.goal, units.mounts.len(), units.binds.len(), units.trees.len()),
        (Goal::Mounted, 1, 0, 0)
    );
    let mount = only(&units);
    assert_eq!(
        (mount.target.to_string().as_str(), mount.kind, mount.owner),
        (PATH, FileSystemKind::Xfs, None)
    );
    let MountSource::Volume { volume, id } = &mount.source else { panic!("{:?}", mount.source) };
    assert_eq!(volume.namespaces.len(), 2);
    let owner = OWNER.parse().unwrap();
    assert_eq!(*id, FileSystemId::derive(owner, "rabbit-1", "default-fluxjob-7001-0-xfs-0", 0));
    let device = BTreeMap::from([("$DEVICE".to_owned(), "/dev/loop7".to_owned())]);
    assert!(mount.mount.as_ref().unwrap().expand(&device).ends_with(&format!("/dev/loop7 {PATH}")));
    assert_eq!(mount.unmount.as_ref().unwrap().expand(&device), PATH);
}

#[test]
fn volume_names_depend_on_shared_vg() {
    let mut object = compute_xfs();
    object.spec.mounts[0].device.device_reference.as_mut().unwrap().data = Some(2);
    let mut profile = profile();
    let mut name = |shared| {
        profile.spec.data.xfs_storage.block_device_commands.shared_vg = shared;
        let units =
            desired(&object, Ok(&profile), &no_references, &site(&object, Side::Compute)).unwrap();
        let MountSource::Volume { volume, .. } = &only(&units).source else { panic!() };
        (volume.group.clone(), volume.logical.clone())
    };
    assert_eq!(name(true), (format!("{OWNER}_0"), "lv-2".to_owned()));
    assert_eq!(name(false), (format!("{OWNER}_0_2"), "lv".to_owned()));
}

#[test]
fn an_override_names_the_volume_and_wins_in_lines() {
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
    let mount = only(&units);
    let MountSource::Volume { volume, .. } = &mount.source else { panic!() };
    assert_eq!((volume.group.as_str(), volume.logical.as_str()), ("vg-7001", "scratch"));
    let line = mount.mount.as_ref().unwrap().expand(&BTreeMap::new());
    assert_eq!(line, format!("vg-7001/scratch {PATH}"), "lines get the checked mount path");
}

/// Without the profile the names of group and volume are not known: the agent looks them up on the namespaces, and its lines get
/// the names that it finds.
#[test]
fn without_the_profile_the_volume_is_found_by_its_namespaces() {
    let object = crate::testing::compute_gfs2();
    let site = Site { volumes: Volumes::Lvm, ..site(&object, Side::Compute) };
    let units = units(&object, Goal::Unmounted, Err("gone"), &no_references, &site).unwrap();
    let MountSource::Volume { volume, .. } = &only(&units).source else { panic!() };
    assert!(volume.is_guessed() && !volume.namespaces.is_empty(), "{volume:?}");
    let lines = volume.layer.lines().unwrap();
    let found = [("$VG_NAME", "vg"), ("$LV_NAME", "x")].map(|(n, v)| (n.to_owned(), v.to_owned()));
    let deactivate = lines.deactivate.as_ref().unwrap().expand(&found.into());
    assert_eq!(deactivate, "--activate n vg/x");
}

/// The captured GFS2 profile: a compute joins the group's lock space, activates, and leaves with its last volume.
#[test]
fn a_compute_has_the_lines_of_its_goal() {
    let object = crate::testing::compute_gfs2();
    let site = Site { volumes: Volumes::Lvm, ..site(&object, Side::Compute) };
    let lines = |goal| {
        let units = units(&object, goal, Ok(&profile()), &no_references, &site).unwrap();
        let MountSource::Volume { volume, .. } = only(&units).source.clone() else { panic!() };
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
fn raw_is_chowned_to_its_user() {
    let units = on_compute(&compute_raw()).unwrap();
    let mount = only(&units);
    assert_eq!(
        (mount.kind, mount.owner),
        (FileSystemKind::Raw, Some(Owner { uid: 2107, gid: 2100 }))
    );
}

fn of(hooks: &[Hook], phase: HookPoint) -> Vec<Hook> {
    hooks.iter().filter(|hook| hook.id.phase == phase).cloned().collect()
}

#[test]
fn hooks_of_a_side_in_their_phases() {
    let units = on_compute(&compute_gfs2()).unwrap();
    let hooks = &only(&units).hooks;
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
        lines(&of(hooks, HookPoint::PreMount))[0].contains("/usr/libexec/site/preMount 70"),
        "{:?}",
        lines(&of(hooks, HookPoint::PreMount))
    );
}

#[test]
fn lustre_needs_no_volume_labels() {
    let mut object = compute_lustre();
    object.metadata.labels.as_mut().unwrap().retain(|key, _| !key.contains("target_"));
    let units = on_compute(&object).unwrap();
    let mount = only(&units);
    let MountSource::Lustre(source) = &mount.source else { panic!("{:?}", mount.source) };
    assert!(source.contains(":/"), "{source}");
    let line = mount.mount.as_ref().unwrap().expand(&BTreeMap::new());
    assert!(line.starts_with(&format!("-o flock {source} ")), "{line}");
    assert!(lines(&of(&mount.hooks, HookPoint::PreMount))[0].contains("computePreMount"));
}

#[test]
fn mount_path_may_name_variables() {
    let mut object = compute_xfs();
    object.spec.mounts[0].mount_path = "/mnt/nnf/$JOBID/$USERID-$SITE".into();
    let mut profile = profile();
    profile.spec.data.xfs_storage.variable_override =
        [("$SITE".to_owned(), "s-$GROUPID".to_owned())].into();
    let units =
        desired(&object, Ok(&profile), &no_references, &site(&object, Side::Compute)).unwrap();
    assert_eq!(only(&units).target.to_string(), "/mnt/nnf/7001/2107-s-2100");
}

#[test]
fn a_bad_mount_path_is_reported_with_its_field_and_remedy() {
    for (path, message) in [
        ("mnt/nnf/x", "spec.mounts[0].mountPath: \"mnt/nnf/x\" is not absolute: begin it with '/'"),
        ("", "spec.mounts[0].mountPath: \"\" is not absolute"),
        ("/mnt/nnf/../etc", "spec.mounts[0].mountPath: \"/mnt/nnf/../etc\" contains '..'"),
        (
            "/etc/passwd",
            "spec.mounts[0].mountPath: \"/etc/passwd\" is not beneath an allowed root: use a path under /mnt/nnf",
        ),
        ("/mnt/nnf", "is not beneath an allowed root"),
        ("/", "is not beneath an allowed root"),
        (
            "/mnt/nnf/a\nb",
            "spec.mounts[0].mountPath: \"/mnt/nnf/a\\nb\" contains a control character",
        ),
        (
            "/mnt/nnf/$NOWHERE",
            "spec.mounts[0].mountPath: \"/mnt/nnf/$NOWHERE\" names a variable that is not known",
        ),
    ] {
        let error = error_of(|object| object.spec.mounts[0].mount_path = path.into());
        assert!(error.contains(message), "{path}: {error}");
    }
}

#[test]
fn a_hostile_label_cannot_lead_a_path_out_of_its_root() {
    let error = error_of(|object| {
        object.spec.mounts[0].mount_path = "/mnt/nnf/$JOBID".into();
        object.metadata.labels.as_mut().unwrap().insert(label::JOB_ID.into(), "../../etc".into());
    });
    assert!(error.contains("contains '..'"), "{error}");
}

#[test]
fn a_bad_device_is_reported_with_its_field_and_remedy() {
    type Change = fn(&mut api::client_mount::ClientMountInfo);
    let cases: [(Change, &str); 9] = [
        (
            |m| m.kind = "ext4".into(),
            "spec.mounts[0].type: \"ext4\" is not known: use xfs, gfs2, lustre or none (raw)",
        ),
        (
            |m| m.device.kind = "zvol".into(),
            "spec.mounts[0].device.type: \"zvol\" does not fit a mount of type xfs: use lvm on a compute",
        ),
        (
            |m| m.device.kind = "reference".into(),
            "spec.mounts[0].device.deviceReference: only a rabbit can follow a reference",
        ),
        (
            |m| m.device.lvm = None,
            "spec.mounts[0].device.lvm: is missing or empty: list the namespaces",
        ),
        (
            |m| m.device.lvm.as_mut().unwrap().nvme_info.clear(),
            "spec.mounts[0].device.lvm.nvmeInfo: is missing or empty",
        ),
        (
            |m| m.device.lvm.as_mut().unwrap().nvme_info[1].namespace_id = "0".into(),
            "spec.mounts[0].device.lvm.nvmeInfo: \"0\" is not an NVMe namespace identifier",
        ),
        (
            |m| m.device.device_reference = None,
            "spec.mounts[0].device.deviceReference: is missing or empty: name the NnfNodeStorage",
        ),
        (
            |m| m.device.device_reference.as_mut().unwrap().data = Some(-1),
            "spec.mounts[0].device.deviceReference.data: -1 is not an allocation's index",
        ),
        (
            |m| m.device.device_reference.as_mut().unwrap().object_reference.name = None,
            "spec.mounts[0].device.deviceReference.objectReference.name: is missing",
        ),
    ];
    for (change, message) in cases {
        let error = error_of(|object| change(&mut object.spec.mounts[0]));
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn lustre_sources_that_mount_would_misread_are_refused() {
    for (name, mgs, field) in [
        ("toolongname", "10.1.0.4@tcp", "fileSystemName"),
        ("a b", "10.1.0.4@tcp", "fileSystemName"),
        ("aaaaaaab", "", "mgsAddresses"),
        ("aaaaaaab", "-o exec", "mgsAddresses"),
        ("aaaaaaab", "10.1.0.4@tcp;reboot", "mgsAddresses"),
    ] {
        let mut object = compute_lustre();
        let lustre = object.spec.mounts[0].device.lustre.as_mut().unwrap();
        (lustre.file_system_name, lustre.mgs_addresses) = (name.into(), mgs.into());
        let error = on_compute(&object).unwrap().mounts[0].as_ref().unwrap_err().to_string();
        assert!(error.starts_with(&format!("spec.mounts[0].device.lustre.{field}: ")), "{error}");
    }
    let mut object = compute_lustre();
    object.spec.mounts[0].device.lustre = None;
    let error = on_compute(&object).unwrap().mounts[0].as_ref().unwrap_err().to_string();
    assert!(error.contains("device.lustre: is missing"), "{error}");
}

#[test]
fn missing_and_bad_labels_are_named() {
    let without =
        |key: &str| error_of(|object| drop(object.metadata.labels.as_mut().unwrap().remove(key)));
    assert!(
        without(label::TARGET_OWNER_UID)
            .starts_with("metadata.labels: nnf.cray.hpe.com/target_owner_uid is missing")
    );
    assert!(without(label::TARGET_DIRECTIVE_INDEX).contains("target_directive_index is missing"));
    let with = |key: &str, value: &str| {
        error_of(|object| {
            drop(object.metadata.labels.as_mut().unwrap().insert(key.into(), value.into()));
        })
    };
    assert!(
        with(label::TARGET_OWNER_UID, "x/y")
            .contains("target_owner_uid is \"x/y\": use the uid of the NnfStorage")
    );
    assert!(
        with(label::TARGET_DIRECTIVE_INDEX, "-1").contains("is \"-1\": use the directive's number")
    );
}

#[test]
fn objects_of_other_nodes_are_refused() {
    let object = compute_xfs();
    let mut elsewhere = object.clone();
    elsewhere.metadata.namespace = Some("compute-9".into());
    let site = site(&object, Side::Compute);
    let refused = |object: &ClientMount| {
        desired(object, Ok(&profile()), &no_references, &site).unwrap_err().to_string()
    };
    assert!(
        refused(&elsewhere)
            .contains("metadata.namespace: \"compute-9\" is not this node's namespace, compute-1")
    );
    let mut differs = object.clone();
    differs.spec.node = "compute-9".into();
    assert!(
        refused(&differs)
            .contains("spec.node is \"compute-9\" and differs from the namespace, \"compute-1\"")
    );
    assert!(
        refused(&deleted(&elsewhere)).contains("metadata.namespace"),
        "also when it is deleted"
    );
}

#[test]
fn objects_without_mounts_uid_or_known_state_are_refused() {
    let refused = |change: fn(&mut ClientMount)| {
        let mut object = compute_xfs();
        change(&mut object);
        on_compute(&object).unwrap_err().to_string()
    };
    assert!(refused(|o| o.spec.mounts.clear()).contains("spec.mounts: is empty"));
    assert!(
        refused(|o| o.spec.desired_state = "attached".into())
            .contains("spec.desiredState: \"attached\" is not known: use mounted or unmounted")
    );
    assert!(refused(|o| o.metadata.uid = None).contains("metadata.uid"));
}

#[test]
fn a_profile_must_be_named_exist_and_be_pinned() {
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
fn an_unreadable_line_is_named_and_prevents_only_what_needs_it() {
    let object = compute_xfs();
    let mut profile = profile();
    profile.spec.data.xfs_storage.file_system_commands.compute_commands.mount =
        "-o 'noatime $DEVICE $MOUNT_PATH".into();
    let site = site(&object, Side::Compute);
    let units = desired(&object, Ok(&profile), &no_references, &site).unwrap();
    assert!(units.refused());
    let error = units.mounts[0].as_ref().unwrap_err().to_string();
    assert!(error.starts_with(
        "NnfStorageProfile default/fluxjob-7001-0 data.xfsStorage.fileSystemCommands.computeCommands.mount: unbalanced quotes"
    ), "{error}");
    let units = desired(&deleted(&object), Ok(&profile), &no_references, &site).unwrap();
    assert!(only(&units).unmount.is_some(), "unmounting does not need the line");
    assert!(units.unreadable.is_empty(), "so it is not reported");
}

#[test]
fn an_unreadable_line_that_deactivates_the_volume_is_replaced_by_a_plain_one() {
    let object = compute_xfs();
    let mut profile = profile();
    let commands = &mut profile.spec.data.xfs_storage.block_device_commands.compute_commands;
    commands.lv_change.activate = "--activate y $VG_NAME/$LV_NAME".into();
    commands.lv_change.deactivate = "'--activate n $VG_NAME".into();
    commands.vg_change.lock_stop = "'--lock-stop $VG_NAME".into();
    let site = Site { volumes: Volumes::Lvm, ..site(&object, Side::Compute) };
    let units = desired(&deleted(&object), Ok(&profile), &no_references, &site).unwrap();
    let MountSource::Volume { volume, .. } = &only(&units).source else { panic!() };
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
    let mount = only(&units);
    assert_eq!((units.goal, mount.mount.is_none()), (Goal::Unmounted, true));
    assert_eq!(mount.unmount.as_ref().unwrap().expand(&BTreeMap::new()), PATH);
}

#[test]
fn a_deleted_object_is_unmounted_whatever_it_asks_for() {
    assert_eq!(on_compute(&deleted(&compute_xfs())).unwrap().goal, Goal::Unmounted);
    let mut unmounted = compute_xfs();
    unmounted.spec.desired_state = MountState::Unmounted;
    assert_eq!(on_compute(&unmounted).unwrap().goal, Goal::Unmounted);
}

#[test]
fn mounts_of_one_object_do_not_overlap() {
    for (second, expected) in [
        (
            PATH.to_owned(),
            format!("spec.mounts[1].mountPath: overlaps \"{PATH}\" of spec.mounts[0]"),
        ),
        (format!("{PATH}/./inner/"), "overlaps".to_owned()),
        ("/mnt/nnf/other/../x".to_owned(), "contains '..'".to_owned()),
    ] {
        let mut object = compute_xfs();
        let mut more = object.spec.mounts[0].clone();
        more.mount_path = second;
        object.spec.mounts.push(more);
        let units = on_compute(&object).unwrap();
        assert!(units.refused() && units.mounts[0].is_ok());
        let message = units.mounts[1].as_ref().unwrap_err().to_string();
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn ids_that_chown_cannot_set_are_refused() {
    for value in [-1, i64::from(u32::MAX), 1 << 40] {
        let error = error_of(|object| {
            object.spec.mounts[0].set_permissions = true;
            object.spec.mounts[0].user_id = Some(value);
        });
        assert!(
            error.starts_with(&format!("spec.mounts[0].userID: {value} is not a numeric id")),
            "{error}"
        );
    }
}

#[test]
fn an_index_tree_has_a_link_per_compute() {
    let units = on_rabbit(&rabbit_index());
    assert!(units.binds.is_empty());
    let [tree] = &*units.trees else { panic!("{:?}", units.trees) };
    assert_eq!(tree.root.to_string(), PATH);
    let links: Vec<_> = tree.links.iter().map(ToString::to_string).collect();
    assert_eq!(links, ["compute-1 -> node-0", "compute-2 -> node-1", "compute-3 -> node-2"]);
}

#[test]
fn without_a_lost_compute_the_others_keep_their_indices() {
    let mut object = rabbit_index();
    object.spec.mounts.remove(1);
    let links: Vec<_> = on_rabbit(&object).trees[0].links.iter().map(ToString::to_string).collect();
    assert_eq!(links, ["compute-1 -> node-0", "compute-3 -> node-2"]);
}

#[test]
fn a_mount_without_compute_gets_no_link() {
    let mut object = rabbit_index();
    object.spec.mounts[0].compute = None;
    object.spec.mounts[1].compute = Some(String::new());
    assert_eq!(on_rabbit(&object).trees[0].links.len(), 1);
}

#[test]
fn hostile_computes_are_refused() {
    for (name, message) in [
        ("../../etc", "spec.mounts[1].compute: compute \"../../etc\" is not a host name"),
        ("node-0", "spec.mounts[1].compute: compute \"node-0\" looks like an index directory"),
        ("a b", "is not a host name"),
        (
            "compute-1",
            "spec.mounts[1].compute: \"compute-1\" is also the compute of spec.mounts[0]: name each compute once",
        ),
    ] {
        let mut object = rabbit_index();
        object.spec.mounts[1].compute = Some(name.into());
        let units = on_rabbit(&object);
        assert!(units.refused());
        let error = units.mounts[1].as_ref().unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert!(units.mounts[0].is_ok() && units.mounts[2].is_ok());
    }
}

#[test]
fn sites_own_names_are_shown_as_a_tree_beneath_the_index_root() {
    let mut object = rabbit_gfs2();
    for (place, mount) in object.spec.mounts.iter_mut().enumerate() {
        mount.mount_path = format!("/mnt/nnf/wf-0/rabbit-1-{place}");
        mount.compute = Some(format!("compute-{}", place + 1));
    }
    let site = site(&object, Side::Rabbit);
    let plain = desired(&object, Ok(&profile()), &references, &site).unwrap();
    assert!(
        plain.trees.is_empty() && plain.binds.is_empty(),
        "the site's directory is left as its data movers expect it"
    );

    let units = desired(&object, Ok(&profile()), &references, &with_index_root(site)).unwrap();
    let targets: Vec<_> =
        units.binds.iter().map(|(shown, bind)| (*shown, bind.target.to_string())).collect();
    assert_eq!(targets[1], (1, "/mnt/index/wf-0/node-1".to_owned()));
    assert_eq!(targets.len(), object.spec.mounts.len());
    assert_eq!(units.trees[0].root.to_string(), "/mnt/index/wf-0");
    assert_eq!(units.trees[0].links[1].to_string(), "compute-2 -> node-1");
    let scopes: std::collections::BTreeSet<_> = units
        .mounts
        .iter()
        .flatten()
        .chain(units.binds.iter().map(|(_, bind)| bind))
        .map(|mount| mount.scope.clone())
        .collect();
    assert_eq!(scopes.len(), 2 * object.spec.mounts.len(), "hook records of a bind are its own");
}

#[test]
fn objects_may_not_mount_beneath_the_index_root() {
    let mut object = rabbit_index();
    object.spec.mounts[0].mount_path = "/mnt/index/x/node-0".into();
    let units = desired(
        &object,
        Ok(&profile()),
        &references,
        &with_index_root(site(&object, Side::Rabbit)),
    )
    .unwrap();
    assert!(
        units.mounts[0]
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("is not beneath an allowed root")
    );
}

#[test]
fn a_mount_waits_for_block_storage_that_is_not_ready() {
    let object = rabbit_index();
    let absent = |_: &ClientMountDeviceReference| {
        Err(ReferenceError::NotReady("NnfNodeBlockStorage rabbit-1/x is not ready".into()))
    };
    let site = site(&object, Side::Rabbit);
    let units = desired(&object, Ok(&profile()), &absent, &site).unwrap();
    let failure = crate::error::Failure::from(units.mounts[0].as_ref().unwrap_err());
    assert_eq!((failure.severity, failure.retry), (api::Severity::Minor, controller::Retry::Soon));
    assert!(failure.user.contains(
        "could not find storage allocation: NnfNodeBlockStorage rabbit-1/x is not ready"
    ));
    let units = desired(&deleted(&object), Ok(&profile()), &absent, &site).unwrap();
    assert!(units.mounts.iter().all(Result::is_ok), "unmounting does not wait for it");
}

#[test]
fn no_text_makes_the_reader_panic() {
    for text in ["", "$", "$$", "$JOBID$", "\u{0}", "é/../", "//", "$MOUNT_PATH"] {
        let mut object = compute_xfs();
        let labels = object.metadata.labels.as_mut().unwrap();
        labels.values_mut().for_each(|value| *value = text.into());
        for mount in &mut object.spec.mounts {
            mount.mount_path = text.into();
            mount.compute = Some(text.into());
            mount.kind = text.into();
        }
        for side in [Side::Compute, Side::Rabbit] {
            drop(desired(&object, Ok(&profile()), &references, &site(&object, side)));
        }
    }
}
