//! Tests the planner: each test compares the steps that it plans for a desired state and an observation with the
//! expected steps.

mod allocation;
mod cut_off;
mod drives;
mod lock_space;
mod lustre;
mod mkfs;
mod mounting;
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
    Drive { slot, capacity, allocated, ..Drive::with_nqn(nqn) }
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
        needs_erasure: true,
        needs_zeroing: false,
    }
}

fn drives(drives: Vec<Drive>) -> Observed {
    Observed { drives, ..Observed::default() }
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

fn xfs_mount(id: FileSystemId) -> MountedThing {
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

fn observation(target: TargetState) -> Observed {
    Observed {
        volume: Some(visible(Signature::Ours(fs_id(0)))),
        target: Some(target),
        ..Observed::default()
    }
}

fn mounted_by(owner: Owner) -> TargetState {
    TargetState {
        path: PathState::Directory { empty: false },
        mounted: Some(xfs_mount(fs_id(0))),
        owner: Some(owner),
        ..TargetState::default()
    }
}

fn scope_name() -> String {
    mount().scope.to_string()
}

fn unknown() -> MountedThing {
    MountedThing { superblock: Superblock::Unknown, namespace: None, ..xfs_mount(fs_id(0)) }
}

fn tmpfs() -> MountedThing {
    MountedThing {
        device: DeviceNumber { major: 0, minor: 99 },
        source: "tmpfs".into(),
        kind: "tmpfs".into(),
        ..unknown()
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
fn an_index_tree_gets_the_requested_links_and_loses_warrens_other_links() {
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
