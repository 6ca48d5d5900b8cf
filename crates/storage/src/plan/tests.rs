//! Tables: what is wanted and seen, and the exact steps.

mod allocation;
mod cut_off;
mod lustre;
mod own_volumes;
mod repair;
mod unmount;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::{
    desired::{
        Access, Allocation, AllocationId, AllowedRoots, Endpoint, FileSystem, FileSystemId,
        FileSystemKind, Hook, HookId, HookPoint, HookScope, IndexLink, IndexTree, Mount,
        MountPoint, MountSource, NamespaceId, NodeName, ObjectUid, Owner, RootFile, Spread, Volume,
        VolumeLayer,
    },
    observed::{
        BlockDevice, DeviceNumber, Drive, DriveWarning, Holders, MountedThing, Namespace,
        NamespaceOwner, PathState, Pool, Signature, Superblock, TargetState, TreeEntry, TreeState,
        Use, VolumeState,
    },
    template::SiteCommand,
};

fn uid() -> ObjectUid {
    "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap()
}

fn point(path: &str) -> MountPoint {
    MountPoint::parse(path, &AllowedRoots::new(["/mnt/nnf".into(), "/mnt/temp".into()]).unwrap())
        .unwrap()
}

fn command(line: &str) -> Option<SiteCommand> {
    SiteCommand::new("test", line, BTreeMap::new()).unwrap()
}

fn id(nsid: u32) -> NamespaceId {
    NamespaceId::parse("nqn.2026-01.io.warren:p:drive-0", &nsid.to_string()).unwrap()
}

fn fs_id(index: u32) -> FileSystemId {
    FileSystemId::derive(uid(), "rabbit-1", "storage", index)
}

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

fn lines(steps: Result<Vec<Step>, Rejection>) -> Vec<String> {
    steps.unwrap().iter().map(ToString::to_string).collect()
}

fn allocation(capacity: u64) -> Allocation {
    let access = [
        Access { endpoint: Endpoint::Rabbit, node: node("rabbit-1") },
        Access { endpoint: Endpoint::Compute(2), node: node("compute-3") },
    ];
    let id = AllocationId { owner: uid(), index: 4 };
    Allocation::new(id, capacity, Spread::ONE, access.into())
}

fn drive(slot: u32, capacity: u64, allocated: u64) -> Drive {
    let nqn = format!("nqn.2026-01.io.warren:p:drive-{slot}").parse().unwrap();
    Drive { slot, capacity, allocated, ..Drive::named(nqn) }
}

fn namespace(nsid: u32, owner: NamespaceOwner, access: &[&str], device: bool) -> Namespace {
    let access = access.iter().map(|name| node(name).into()).collect();
    Namespace {
        id: id(nsid),
        owner,
        size: 4096,
        access,
        device: device.then(|| "/dev/loop0".into()),
        members: 1,
    }
}

fn drives(drives: Vec<Drive>) -> Observed {
    Observed { drives, ..Observed::default() }
}

#[test]
fn the_freest_drive_takes_an_allocation_and_ties_go_to_the_lowest_slot() {
    for (seen, chosen) in [
        (vec![drive(0, 100 << 20, 0), drive(1, 200 << 20, 0)], 1),
        (vec![drive(0, 200 << 20, 150 << 20), drive(1, 100 << 20, 0)], 1),
        (vec![drive(2, 100 << 20, 0), drive(1, 100 << 20, 0)], 1),
    ] {
        let steps = lines(plan(&Desired::Allocated(allocation(5000)), &drives(seen)));
        let expected = format!(
            "create namespace of 8192 bytes on nqn.2026-01.io.warren:p:drive-{chosen} for allocation {}.4",
            uid()
        );
        assert_eq!(steps, [expected]);
    }
}

#[test]
fn units_of_one_group_are_looked_at_by_themselves() {
    let one = Desired::Mounted(mount());
    let other = Desired::Unmounted(Mount { target: point("/mnt/nnf/another"), ..mount() });
    assert_eq!(one.group(), other.group());
    assert_ne!(one.unit(), other.unit());
}

#[test]
fn capacity_that_is_not_there_is_refused_with_numbers() {
    let no = |capacity, observed: &Observed| {
        plan(&Desired::Allocated(allocation(capacity)), observed).unwrap_err()
    };
    let seen = drives(vec![drive(0, 100 << 20, 60 << 20)]);
    assert!(matches!(no(0, &seen), Rejection::ZeroCapacity { .. }));
    assert!(matches!(no(1, &drives(vec![])), Rejection::NoDrives { asked: 1, .. }));
    assert_eq!(
        no(50 << 20, &seen).to_string(),
        "insufficient capacity: 52428800 bytes asked for, 52428800 on each of 1 drives, and \
         nqn.2026-01.io.warren:p:drive-0 has 41943040 of 104857600 bytes left: ask for less or free allocations"
    );
    // Rounding up must not go beyond what is left.
    assert!(matches!(no((40 << 20) + 1, &seen), Rejection::InsufficientCapacity { .. }));
    assert!(matches!(no(u64::MAX, &seen), Rejection::InsufficientCapacity { .. }));
    let full = Observed { pool: Some(Pool { available: 30 << 20, promised: 10 << 20 }), ..seen };
    assert!(
        matches!(no(21 << 20, &full), Rejection::PoolFull { promised, .. } if promised == 10 << 20)
    );
    assert_eq!(no(21 << 20, &full).class(), RejectionClass::Capacity);
    let warns = |warning| Drive { warnings: vec![warning], ..drive(1, 100 << 20, 0) };
    assert_eq!(warns(DriveWarning::Temperature).free(), 100 << 20);
    assert_eq!(warns(DriveWarning::ReadOnly).free(), 0);
    let lost = Drive { fault: Some("gone".into()), ..drive(1, 100 << 20, 0) };
    assert!(matches!(
        no(1, &drives(vec![lost])),
        Rejection::DrivesFaulty { usable: 0, least: 1, drives: 1, .. }
    ));
    assert_eq!(lines(plan(&Desired::Allocated(allocation(20 << 20)), &full)).len(), 1);
}

#[test]
fn access_is_made_exactly_what_is_asked() {
    let ours = NamespaceOwner::Ours(allocation(1).id);
    let seen = |access: &[&str], device| Observed {
        namespaces: vec![
            namespace(1, NamespaceOwner::Foreign("x".into()), &["compute-9"], true),
            namespace(2, ours.clone(), access, device),
        ],
        ..Observed::default()
    };
    let attach_both = [
        format!("attach namespace {} to rabbit-1 (endpoint 0)", id(2)),
        format!("attach namespace {} to compute-3 (endpoint 3)", id(2)),
    ];
    let detach = format!("detach namespace {} from compute-9", id(2));
    let plan = |observed: &Observed| lines(plan(&Desired::Allocated(allocation(1)), observed));
    assert_eq!(plan(&seen(&[], false)), attach_both);
    assert_eq!(plan(&seen(&["compute-3", "rabbit-1"], true)), [""; 0]);
    assert_eq!(plan(&seen(&["compute-3", "compute-9"], true)), [attach_both[0].clone(), detach]);
    // After a reboot: file drives have one device for all hosts, real ones the rabbit's own.
    let rebooted = seen(&["compute-3", "rabbit-1"], false);
    assert_eq!(plan(&rebooted), attach_both[..1]);
    let pool = Some(Pool { available: 1, promised: 0 });
    assert_eq!(plan(&Observed { pool, ..rebooted }), attach_both);
}

#[test]
fn release_takes_ours_and_its_leftovers_only() {
    let wanted = allocation(1).id;
    let other = AllocationId { index: 5, ..wanted };
    let observed = Observed {
        namespaces: vec![
            namespace(1, NamespaceOwner::Ours(other), &["rabbit-1"], true),
            namespace(2, NamespaceOwner::Ours(wanted), &["rabbit-1"], true),
            namespace(3, NamespaceOwner::Partial(wanted), &[], false),
            namespace(4, NamespaceOwner::Partial(other), &[], false),
            namespace(5, NamespaceOwner::Foreign("x".into()), &[], false),
        ],
        ..Observed::default()
    };
    let expected = [
        format!("detach namespace {} from rabbit-1", id(2)),
        format!("delete namespace {} of allocation {wanted}", id(3)),
        format!("delete namespace {} of allocation {wanted}", id(2)),
    ];
    assert_eq!(lines(plan(&Desired::Released(wanted), &observed)), expected);
}

#[test]
fn a_node_that_is_cut_off_loses_its_access_and_nothing_else_happens() {
    let wanted = allocation(1).id;
    let other = AllocationId { index: 5, ..wanted };
    let node: NodeName = "compute-1".parse().unwrap();
    let cut = |namespaces| {
        let desired = Desired::Withdrawn { allocation: wanted, host: node.clone().into() };
        lines(plan(&desired, &Observed { namespaces, ..Observed::default() }))
    };
    let both = &["rabbit-1", "compute-1"];
    let reached = vec![
        namespace(1, NamespaceOwner::Ours(other), both, true),
        namespace(2, NamespaceOwner::Ours(wanted), both, true),
        namespace(3, NamespaceOwner::Partial(wanted), &["compute-1"], false),
        namespace(4, NamespaceOwner::Ours(wanted), &["rabbit-1", "compute-2"], true),
        namespace(5, NamespaceOwner::Foreign("x".into()), both, false),
    ];
    let detach = |nsid| format!("detach namespace {} from compute-1", id(nsid));
    assert_eq!(cut(reached), [detach(2), detach(3)]);
    assert!(cut(Vec::new()).is_empty(), "nothing is made for it");
}

fn volume() -> Volume {
    Volume {
        group: "vg".into(),
        logical: "lv".into(),
        namespaces: vec![id(1)],
        made_for: None,
        layer: VolumeLayer::Plain,
    }
}

fn visible(signature: Signature) -> VolumeState {
    let device = BlockDevice {
        namespace: id(1),
        path: "/dev/loop7".into(),
        number: DeviceNumber { major: 7, minor: 7 },
    };
    VolumeState { devices: vec![device], signature: Some(signature), ..VolumeState::default() }
}

fn mount() -> Mount {
    let scope = HookScope::mount(uid(), &point("/mnt/nnf/wf-0"));
    let hook = |phase| {
        let command = command("run $DEVICE $MOUNT_PATH").unwrap();
        Hook { id: HookId { scope: scope.clone(), phase, index: 0 }, command }
    };
    Mount {
        target: point("/mnt/nnf/wf-0"),
        kind: FileSystemKind::Xfs,
        source: MountSource::Volume { volume: volume(), id: fs_id(0) },
        mount: command("$DEVICE $MOUNT_PATH"),
        unmount: command("$MOUNT_PATH"),
        owner: Some(Owner { uid: 5, gid: 6 }),
        file: None,
        hooks: [
            HookPoint::PreActivate,
            HookPoint::PostActivate,
            HookPoint::PreMount,
            HookPoint::PostMount,
            HookPoint::PreUnmount,
            HookPoint::PostUnmount,
            HookPoint::PreDeactivate,
            HookPoint::PostDeactivate,
        ]
        .map(hook)
        .to_vec(),
        scope,
    }
}

fn there(id: FileSystemId) -> MountedThing {
    MountedThing {
        device: DeviceNumber { major: 7, minor: 7 },
        source: "/dev/loop7".into(),
        kind: "xfs".into(),
        root: "/".into(),
        superblock: Superblock::Ours(id),
        namespace: None,
    }
}

fn ran(mount: &Mount, phases: &[HookPoint]) -> BTreeSet<HookId> {
    phases
        .iter()
        .map(|phase| HookId { scope: mount.scope.clone(), phase: *phase, index: 0 })
        .collect()
}

fn seen(target: TargetState) -> Observed {
    Observed {
        volume: Some(visible(Signature::Ours(fs_id(0)))),
        target: Some(target),
        ..Observed::default()
    }
}

fn mounted_by(owner: Owner) -> TargetState {
    TargetState {
        path: PathState::Directory { empty: false },
        mounted: Some(there(fs_id(0))),
        owner: Some(owner),
        ..TargetState::default()
    }
}

fn scope_name() -> String {
    mount().scope.to_string()
}

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
        "give /mnt/nnf/wf-0 to 5:6".into(),
        hook(HookPoint::PostMount),
    ];
    assert_eq!(lines(plan(&Desired::Mounted(mount()), &seen(TargetState::default()))), expected);
}

#[test]
fn an_unmount_runs_its_hooks_in_order_and_forgets() {
    let hook =
        |phase: HookPoint| format!("run hook {}[0]: run /dev/loop7 /mnt/nnf/wf-0", phase.as_str());
    let observed = Observed { hooks_open: true, ..seen(mounted_by(Owner { uid: 5, gid: 6 })) };
    let expected = [
        hook(HookPoint::PreUnmount),
        "unmount /mnt/nnf/wf-0: /mnt/nnf/wf-0".into(),
        "remove mount point /mnt/nnf/wf-0".into(),
    ];
    assert_eq!(lines(plan(&Desired::Unmounted(mount()), &observed)), expected);
    let unmounted = Observed {
        hooks: ran(&mount(), &[HookPoint::PreUnmount]),
        hooks_open: true,
        ..seen(TargetState::default())
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
    assert!(rejection.to_string().contains("still in use, by process 7: "), "{rejection}");
    // Records lost with the state directory: the mount shows that its tear-down is due.
    let lost = Observed { hooks_open: false, ..observed };
    assert_eq!(lines(plan(&Desired::Unmounted(mount()), &lost))[1..], expected[..]);
}

#[test]
fn a_mount_goes_on_where_it_was_cut_off() {
    let mount = mount();
    let before =
        ran(&mount, &[HookPoint::PreActivate, HookPoint::PostActivate, HookPoint::PreMount]);
    let cut =
        Observed { hooks: before, hooks_open: true, ..seen(mounted_by(Owner { uid: 0, gid: 0 })) };
    let steps = lines(plan(&Desired::Mounted(mount.clone()), &cut));
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert!(
        steps[0].starts_with("give") && steps[1].starts_with("run hook postMount"),
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
    let done =
        Observed { hooks: all, hooks_open: true, ..seen(mounted_by(Owner { uid: 5, gid: 6 })) };
    assert_eq!(plan(&Desired::Mounted(mount), &done), Ok(vec![]));
}

#[test]
fn an_unmount_goes_on_where_it_was_cut_off() {
    let mount = mount();
    let cut = Observed {
        hooks: ran(
            &mount,
            &[HookPoint::PreActivate, HookPoint::PreUnmount, HookPoint::PostUnmount],
        ),
        hooks_open: true,
        ..seen(TargetState::default())
    };
    let steps = lines(plan(&Desired::Unmounted(mount.clone()), &cut));
    assert_eq!(steps.len(), 3, "{steps:?}");
    assert!(steps[0].starts_with("run hook preDeactivate"), "{steps:?}");
    // Never mounted, or all done.
    assert_eq!(plan(&Desired::Unmounted(mount), &seen(TargetState::default())), Ok(vec![]));
}

#[test]
fn empty_lines_skip_the_step_and_its_checks() {
    let skipped = Mount { mount: None, unmount: None, owner: None, hooks: Vec::new(), ..mount() };
    let foreign =
        TargetState { mounted: Some(there(fs_id(9))), ..mounted_by(Owner { uid: 0, gid: 0 }) };
    for desired in [Desired::Mounted(skipped.clone()), Desired::Unmounted(skipped)] {
        assert_eq!(plan(&desired, &seen(foreign.clone())), Ok(vec![]));
    }
}

#[test]
fn only_the_right_mount_counts() {
    let bare = Mount { hooks: Vec::new(), owner: None, ..mount() };
    let at = |there: MountedThing| {
        seen(TargetState { mounted: Some(there), ..mounted_by(Owner { uid: 0, gid: 0 }) })
    };
    let unreadable =
        MountedThing { superblock: Superblock::Unknown, namespace: Some(id(1)), ..there(fs_id(0)) };
    for ours in [there(fs_id(0)), unreadable] {
        assert_eq!(plan(&Desired::Mounted(bare.clone()), &at(ours.clone())), Ok(vec![]));
        assert_eq!(plan(&Desired::Unmounted(bare.clone()), &at(ours)).unwrap().len(), 2);
    }
    let subdirectory = MountedThing { root: "/sub".into(), ..there(fs_id(0)) };
    let ext4 = MountedThing { kind: "ext4".into(), ..there(fs_id(0)) };
    let elsewhere = MountedThing { namespace: Some(id(2)), ..unknown() };
    // By hand, on our namespace.
    let remade =
        MountedThing { superblock: Superblock::Foreign, namespace: Some(id(1)), ..there(fs_id(0)) };
    for other in [there(fs_id(1)), subdirectory, ext4, elsewhere, remade] {
        let rejection = plan(&Desired::Mounted(bare.clone()), &at(other.clone())).unwrap_err();
        assert!(matches!(rejection, Rejection::Occupied { .. }), "{other:?}");
        assert_eq!(rejection.class(), RejectionClass::InTheWay);
        assert_eq!(plan(&Desired::Unmounted(bare.clone()), &at(other)), Ok(vec![]));
    }
    // Its device is gone: whose it is cannot be told, and that is told.
    let rejection = plan(&Desired::Unmounted(bare), &at(unknown())).unwrap_err();
    assert!(matches!(rejection, Rejection::Unproved { .. }), "{rejection}");
}

fn unknown() -> MountedThing {
    MountedThing { superblock: Superblock::Unknown, namespace: None, ..there(fs_id(0)) }
}

fn tmpfs() -> MountedThing {
    MountedThing {
        device: DeviceNumber { major: 0, minor: 99 },
        source: "tmpfs".into(),
        kind: "tmpfs".into(),
        ..unknown()
    }
}

#[test]
fn a_raw_device_is_taken_back_from_its_user() {
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
        ..there(fs_id(0))
    };
    let target = TargetState {
        path: PathState::BlockDevice,
        mounted: Some(bound),
        ..mounted_by(Owner { uid: 5, gid: 6 })
    };
    let expected = [
        "give /mnt/nnf/wf-0 to 0:0",
        "unmount /mnt/nnf/wf-0: /mnt/nnf/wf-0",
        "remove mount point /mnt/nnf/wf-0",
    ];
    assert_eq!(lines(plan(&Desired::Unmounted(raw), &seen(target))), expected);
}

#[test]
fn volumes_that_cannot_be_mounted_are_refused() {
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
fn a_file_is_written_into_what_is_mounted_until_it_is_as_wanted() {
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
    let all = steps(&lustre, seen(TargetState::default()));
    assert_eq!(all[all.len() - 2..], ["give /mnt/nnf/wf-0 to 5:6", written]);

    let there = MountedThing {
        source: "10.0.0.1@tcp:/fs".into(),
        kind: "lustre".into(),
        root: "/".into(),
        ..unknown()
    };
    let on = TargetState { mounted: Some(there), ..mounted_by(ours) };
    let with = |file| Observed { file, ..seen(on.clone()) };
    assert!(steps(&lustre, with(wanted)).is_empty());
    for other in [None, file("{", ours), file("{}\n", roots)] {
        assert_eq!(steps(&lustre, with(other)), [written]);
    }
    let skipped = Mount { mount: None, ..lustre };
    assert!(steps(&skipped, seen(TargetState::default())).is_empty(), "not beneath a mount");
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
    let steps = lines(plan(&Desired::Mounted(lustre), &seen(TargetState::default())));
    assert_eq!(
        steps[1],
        "mount lustre 10.0.0.1@tcp:/fs on /mnt/nnf/wf-0: 10.0.0.1@tcp:/fs /mnt/nnf/wf-0"
    );
}

#[test]
fn a_lustre_client_is_known_by_its_servers_address() {
    for (wanted, source, kind, is_it) in [
        ("10.0.0.1@tcp:/fs", "10.0.0.1@tcp:/fs", "lustre", true),
        ("10.0.0.1@tcp:/fs", "10.0.0.1@tcp:/fs", "tmpfs", true),
        ("10.0.0.1@tcp:/fs", "10.0.0.1@tcp:/other", "lustre", false),
        ("host:/fs", "host:/fs", "lustre", true),
        ("host:/fs", "host:/fs", "nfs", false),
    ] {
        let there = MountedThing { source: source.into(), kind: kind.into(), ..unknown() };
        assert_eq!(mount::is_client(wanted, &there), is_it, "{wanted}: {kind} {source}");
    }
}

fn file_system() -> FileSystem {
    FileSystem {
        id: fs_id(0),
        kind: FileSystemKind::Xfs,
        volume: volume(),
        mkfs: command("-q $DEVICE"),
        hooks: vec![],
        mount: command("$DEVICE $MOUNT_PATH"),
        temporary: point("/mnt/temp/storage-0"),
    }
}

#[test]
fn what_is_on_a_device_decides_whether_a_file_system_is_made() {
    let make = format!("make xfs {} on /dev/loop7: -q /dev/loop7", fs_id(0));
    let wipe = format!("wipe unfinished file system {} from /dev/loop7", fs_id(0));
    let on = |signature| {
        let observed = Observed { volume: Some(visible(signature)), ..Observed::default() };
        plan(&Desired::FileSystemReady(file_system()), &observed)
    };
    assert_eq!(lines(on(Signature::Blank)), [make.as_str()]);
    assert_eq!(lines(on(Signature::HalfMade(fs_id(0)))), [wipe.as_str(), make.as_str()]);
    assert_eq!(on(Signature::Ours(fs_id(0))), Ok(vec![]));
    for other in [Signature::Ours(fs_id(1)), Signature::HalfMade(fs_id(1))] {
        assert!(matches!(on(other), Err(Rejection::WrongFileSystem { .. })));
    }
    let foreign = Signature::Foreign { kind: "ext4".into(), uuid: Some("1-2".into()) };
    let rejection = on(foreign).unwrap_err();
    let told = "/dev/loop7 carries a foreign ext4 signature (UUID 1-2): the agent leaves it alone; wipe it by hand if nobody needs it";
    assert_eq!(rejection.to_string(), told);
}

#[test]
fn a_device_that_nobody_looked_at_is_not_blank() {
    let unseen = VolumeState { signature: None, ..visible(Signature::Blank) };
    let observed = Observed { volume: Some(unseen), ..Observed::default() };
    let device = || "/dev/loop7".into();
    let made = plan(&Desired::FileSystemReady(file_system()), &observed);
    assert_eq!(made, Err(Rejection::NotLookedAt { device: device() }));
    let mounted = plan(&Desired::Mounted(mount()), &observed);
    assert_eq!(mounted, Err(Rejection::NotLookedAt { device: device() }));
    let told = made.unwrap_err().to_string();
    let (what, remedy) =
        ("/dev/loop7 could not be read", "the agent tries again; if this stays, check");
    assert!(told.starts_with(what) && told.contains(remedy), "{told}");
}

#[test]
fn raw_and_an_empty_mkfs_line_make_nothing() {
    let foreign = visible(Signature::Foreign { kind: "ext4".into(), uuid: None });
    let observed = Observed { volume: Some(foreign), ..Observed::default() };
    let raw = FileSystem { kind: FileSystemKind::Raw, ..file_system() };
    let skipped = FileSystem { mkfs: None, ..file_system() };
    for fs in [raw, skipped] {
        assert_eq!(plan(&Desired::FileSystemReady(fs), &observed), Ok(vec![]));
    }
}

#[test]
fn tear_down_of_a_lost_device_runs_what_needs_no_mount() {
    let mut fs = file_system();
    let hook = |phase| Hook {
        id: HookId { scope: fs.scope(), phase, index: 0 },
        command: command("true").unwrap(),
    };
    fs.hooks = [HookPoint::PreTeardown, HookPoint::PostTeardown].map(hook).to_vec();
    let observed =
        Observed { volume: Some(VolumeState::default()), hooks_open: true, ..Observed::default() };
    let expected =
        ["run hook postTeardown[0]: true".into(), format!("forget hook records fs-{}", fs_id(0))];
    assert_eq!(lines(plan(&Desired::FileSystemGone(fs), &observed)), expected);
}

#[test]
fn hooks_of_a_file_system_run_again_once_it_was_torn_down_or_is_made_anew() {
    let mut fs = file_system();
    let hook = |phase| Hook {
        id: HookId { scope: fs.scope(), phase, index: 0 },
        command: command("true").unwrap(),
    };
    fs.hooks = [HookPoint::PostActivate, HookPoint::PreDeactivate].map(hook).to_vec();
    let ran = |phases: &[HookPoint]| -> BTreeSet<HookId> {
        phases.iter().map(|phase| HookId { scope: fs.scope(), phase: *phase, index: 0 }).collect()
    };
    let seen = |signature, phases: &[HookPoint]| Observed {
        volume: Some(visible(signature)),
        hooks: ran(phases),
        hooks_open: true,
        ..Observed::default()
    };
    let steps = |observed: &Observed| lines(plan(&Desired::FileSystemReady(fs.clone()), observed));
    let (forget, open) = (
        format!("forget hook records fs-{}", fs_id(0)),
        format!("open hook records fs-{}", fs_id(0)),
    );
    let again = "run hook postActivate[0]: true";
    let ours = || Signature::Ours(fs_id(0));
    assert_eq!(steps(&seen(ours(), &[HookPoint::PostActivate])), [""; 0]);
    assert_eq!(
        steps(&seen(ours(), &[HookPoint::PostActivate, HookPoint::PreDeactivate])),
        [&forget, &open, again]
    );
    let make = format!("make xfs {} on /dev/loop7: -q /dev/loop7", fs_id(0));
    assert_eq!(
        steps(&seen(Signature::Blank, &[HookPoint::PostActivate])),
        [&forget, &open, &make, again]
    );
}

#[test]
fn a_tree_is_made_exactly_what_is_asked() {
    let link = |name: &str, target: &str| IndexLink::new(name, target).unwrap();
    let links = vec![link("a", "node-0"), link("b", "node-1"), link("c", "node-2")];
    let tree = IndexTree { root: point("/mnt/nnf/wf-0"), links };
    let entries = [
        ("a", TreeEntry::Link("node-0".into())),
        ("b", TreeEntry::Link("/etc".into())),
        ("gone", TreeEntry::Link("node-7".into())),
        ("admins", TreeEntry::Link("/usr/share".into())),
        ("node-0", TreeEntry::Other),
    ];
    let entries: BTreeMap<_, _> =
        entries.into_iter().map(|(name, entry)| (name.to_owned(), entry)).collect();
    let state = TreeState { path: PathState::Directory { empty: false }, entries };
    let observed = Observed { tree: Some(state), ..Observed::default() };
    let root = "/mnt/nnf/wf-0";
    let expected = [
        format!("link {root}/b -> node-1"),
        format!("link {root}/c -> node-2"),
        format!("unlink {root}/gone"),
    ];
    assert_eq!(lines(plan(&Desired::IndexTree(tree.clone()), &observed)), expected);
    let hidden = [format!("unlink {root}/a"), format!("unlink {root}/gone")];
    assert_eq!(lines(plan(&Desired::NoIndexTree(tree.clone()), &observed)), hidden);

    let twice = IndexTree { links: vec![link("a", "node-0"), link("a", "node-1")], ..tree };
    let rejection = plan(&Desired::IndexTree(twice), &observed).unwrap_err();
    assert!(matches!(rejection, Rejection::DuplicateLink { .. }), "{rejection}");
}
