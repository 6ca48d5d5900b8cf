//! Scenarios for both implementations of `Host`: each function runs on a real node and on a node in memory.
#![expect(unreachable_pub, reason = "a module of several test binaries")]

pub mod allocations;
pub mod file_systems;
pub mod mounts;
pub mod rejections;
pub mod trees;
pub mod volumes;

use std::{collections::BTreeMap, sync::Arc};

use storage::{
    ConvergeError, Converged, Converger, Desired, Host, Observed, Rejection,
    desired::{
        Access, Allocation, AllocationId, Endpoint, FileSystem, FileSystemId, FileSystemKind, Hook,
        HookId, HookPoint, HookScope, Mount, MountPoint, MountSource, NamespaceId, NodeName,
        ObjectUid, Owner, Reported, Spread, Volume, VolumeLayer,
    },
    observed::{Namespace, NamespaceOwner, Signature},
    template::SiteCommand,
};

/// Size of a volume, more than the 300 MiB that mkfs.xfs needs.
pub const SIZE: u64 = 320 << 20;

/// A chassis: a rabbit and its computes. Has methods by which a test changes the nodes without Warren; `plant` means to
/// create something foreign.
pub trait World {
    fn rabbit(&self) -> Arc<dyn Host>;
    fn compute(&self, name: &str) -> Arc<dyn Host>;
    /// Returns a path beneath the first root.
    fn point(&self, below: &str) -> MountPoint;
    /// Returns a path beneath the root of temporary mounts.
    fn temporary(&self, below: &str) -> MountPoint;
    fn plant_mount(&self, at: &MountPoint);
    fn plant_link(&self, at: &MountPoint, text: &str);
    fn plant_file(&self, at: &MountPoint);
    /// Replaces the volume's file system by a foreign ext4 file system.
    fn plant_ext4(&self, namespace: &Namespace);
    /// Starts a process in another mount namespace that uses the rabbit's mount until the returned guard is dropped.
    fn keep_elsewhere<'a>(&'a self, at: &MountPoint) -> Box<dyn std::fmt::Debug + 'a>;
    /// Brings the file system into the state in which a killed mkfs leaves it.
    fn plant_half_made(&self, namespace: &Namespace, id: FileSystemId);
    fn reboot(&self);
    /// Deletes the records that say who owns the namespaces.
    fn lose_records(&self);
    /// Returns the label from which file system UUIDs are derived. It differs between worlds: one kernel serves several
    /// chassis, and a kernel mounts an XFS UUID only once.
    fn label(&self) -> String;
    /// Describes everything that does not belong to Warren.
    fn foreign(&self) -> String;
}

pub fn uid(number: u8) -> ObjectUid {
    format!("b1946ac9-2249-4c39-a0d6-2f1f0d6dc2{number:02x}").parse().unwrap()
}

pub fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

pub fn command(line: &str) -> Option<SiteCommand> {
    SiteCommand::new("test", line, BTreeMap::new()).unwrap()
}

pub fn hook(scope: HookScope, phase: HookPoint, line: &str) -> Hook {
    Hook { id: HookId { scope, phase, index: 0 }, command: command(line).unwrap() }
}

pub fn allocation(index: u32, capacity: u64, computes: &[&str]) -> Allocation {
    let computes = (0..)
        .zip(computes)
        .map(|(place, name)| Access { endpoint: Endpoint::Compute(place), node: node(name) });
    let rabbit = Access { endpoint: Endpoint::Rabbit, node: node("rabbit-1") };
    let id = AllocationId { owner: uid(1), index };
    Allocation::new(id, capacity, Spread::ONE, computes.chain([rabbit]).collect())
}

pub fn converge(host: &Arc<dyn Host>, desired: &Desired) -> Result<Converged, ConvergeError> {
    Converger::new(Arc::clone(host)).converge(desired)
}

/// Converges, checks that the plan is empty after that, and returns the steps taken.
pub fn settle(host: &Arc<dyn Host>, desired: &Desired) -> Vec<String> {
    let converged =
        converge(host, desired).unwrap_or_else(|error| panic!("{desired:?}: {}", chain(&error)));
    assert_eq!(Converger::new(Arc::clone(host)).plan(desired).unwrap(), [], "{desired:?}");
    converged.steps.iter().map(ToString::to_string).collect()
}

/// Returns the rejection of `desired`, and checks that the call changed nothing.
pub fn rejected(world: &dyn World, host: &Arc<dyn Host>, desired: &Desired) -> Rejection {
    // Leave the free bytes out of the comparison: other programs also use the disk on which the file drives are.
    let look = || Observed { pool: None, ..host.observe(desired).unwrap() };
    let (before, looked) = (world.foreign(), look());
    let Err(ConvergeError::Rejected(rejection)) = converge(host, desired) else {
        panic!("{desired:?} is accepted")
    };
    assert_eq!(world.foreign(), before, "{rejection}");
    assert_eq!(look(), looked, "{rejection}");
    rejection
}

pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

/// Allocates one namespace and returns it.
pub fn allocate(world: &dyn World, wanted: &Allocation) -> Namespace {
    settle(&world.rabbit(), &Desired::Allocated(wanted.clone()));
    namespace(world, wanted.id).expect("it was just allocated")
}

pub fn namespace(world: &dyn World, id: AllocationId) -> Option<Namespace> {
    let observed = world.rabbit().observe(&Desired::Inventory).unwrap();
    observed.namespaces.into_iter().find(|namespace| namespace.owner == NamespaceOwner::Ours(id))
}

pub fn volume(index: u32, namespace: &NamespaceId) -> Volume {
    Volume {
        group: format!("{}_0_{index}", uid(2)),
        logical: "lv".into(),
        namespaces: vec![namespace.clone()],
        made_for: None,
        layer: VolumeLayer::Plain,
    }
}

pub fn file_system(world: &dyn World, index: u32, namespace: &NamespaceId) -> FileSystem {
    FileSystem {
        id: FileSystemId::derive(uid(2), &world.label(), "storage", index),
        kind: FileSystemKind::Xfs,
        volume: volume(index, namespace),
        mkfs: command("$DEVICE"),
        hooks: Vec::new(),
        mount: command("$DEVICE $MOUNT_PATH"),
        temporary: world.temporary(&format!("storage-{index}")),
    }
}

pub fn mount_of(fs: &FileSystem, target: MountPoint) -> Mount {
    let raw = fs.kind == FileSystemKind::Raw;
    Mount {
        scope: HookScope::mount(uid(3), &target),
        target,
        kind: fs.kind,
        source: MountSource::Volume { volume: fs.volume.clone(), id: fs.id },
        mount: command(if raw { "-o bind $DEVICE $MOUNT_PATH" } else { "$DEVICE $MOUNT_PATH" }),
        unmount: command("$MOUNT_PATH"),
        owner: Some(Owner { uid: 1234, gid: 2345 }),
        file: None,
        hooks: Vec::new(),
    }
}

/// Creates an allocation with a file system that the rabbit and `compute-1` reach.
pub fn create_file_system(world: &dyn World, index: u32) -> (Namespace, FileSystem) {
    let namespace = allocate(world, &allocation(index, SIZE, &["compute-1"]));
    let fs = file_system(world, index, &namespace.id);
    settle(&world.rabbit(), &Desired::FileSystemReady(fs.clone()));
    (namespace, fs)
}

pub fn signature(host: &Arc<dyn Host>, fs: &FileSystem) -> Option<Signature> {
    host.observe(&Desired::FileSystemReady(fs.clone())).unwrap().volume.unwrap().signature
}
