//! Generates requests as controllers make them, and events on a rabbit.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use storage::{
    Desired, Host,
    desired::{
        Access, Allocation, AllocationId, AllowedRoots, Dataset, Endpoint, FileSystem,
        FileSystemId, FileSystemKind, Hook, HookId, HookPoint, HookScope, IndexLink, IndexTree,
        LustreTarget, LvmLines, Mount, MountPoint, MountSource, NamespaceId, ObjectUid, Owner,
        Reported, Spread, TargetLines, Volume, VolumeLayer,
    },
    fake::{FakeHost, Fault},
    observed::NamespaceOwner,
    template::SiteCommand,
};

/// Number of places. A place is an allocation with its file system and its mount.
pub(crate) const PLACES: u32 = 3;

/// The index of the allocation for a Lustre target's pool.
const TARGET: u32 = PLACES;

const POOL: &str = "pool-0";

/// Index of the place at whose mount point there may be a foreign mount.
pub(crate) const OCCUPIED: u32 = 2;

pub(crate) fn roots() -> AllowedRoots {
    AllowedRoots::new(["/mnt/nnf".into(), "/mnt/temp".into()]).unwrap()
}

pub(crate) fn point(path: &str) -> MountPoint {
    MountPoint::parse(path, &roots()).unwrap()
}

fn command(line: &str) -> Option<SiteCommand> {
    SiteCommand::new("test", line, BTreeMap::new()).unwrap()
}

fn hooks(scope: &HookScope, phases: &[HookPoint]) -> Vec<Hook> {
    let hook = |(phase, index): (&HookPoint, usize)| Hook {
        id: HookId { scope: scope.clone(), phase: *phase, index },
        command: command("true").unwrap(),
    };
    phases.iter().flat_map(|phase| [(phase, 0), (phase, 1)]).map(hook).collect()
}

fn owner() -> ObjectUid {
    "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap()
}

pub(crate) fn allocation(index: u32, computes: u8) -> Allocation {
    let computes = (0..computes).map(|k| Access {
        endpoint: Endpoint::Compute(k),
        node: format!("compute-{k}").parse().unwrap(),
    });
    let rabbit = Access { endpoint: Endpoint::Rabbit, node: "rabbit-1".parse().unwrap() };
    let id = AllocationId { owner: owner(), index };
    let spread = Spread::new(1 + u8::try_from(index % 2).unwrap(), 1).unwrap();
    Allocation::new(id, 100 << 20, spread, computes.chain([rabbit]).collect())
}

/// Returns the layer of a place's volume: every second place has a logical volume.
fn layer(index: u32) -> VolumeLayer {
    if index.is_multiple_of(2) {
        return VolumeLayer::Plain;
    }
    let line = || command("$DEVICE_LIST");
    VolumeLayer::Lvm(Box::new(LvmLines {
        pv_create: line(),
        pv_remove: line(),
        vg_create: line(),
        vg_remove: line(),
        lv_create: line(),
        lv_remove: line(),
        activate: line(),
        deactivate: line(),
        lock_start: line(),
        lock_stop: line(),
        leaves_lock_space: true,
        ..LvmLines::default()
    }))
}

fn namespaces(host: &FakeHost, index: u32) -> Vec<NamespaceId> {
    let observed = host.observe(&Desired::Inventory).unwrap();
    let owner = NamespaceOwner::Ours(allocation(index, 0).id);
    let found = observed.namespaces.into_iter().filter(|namespace| namespace.owner == owner);
    found.map(|namespace| namespace.id).collect()
}

/// The index of the RAID's allocation.
const RAID: u32 = TARGET + 1;

pub(crate) fn raid_allocation() -> Allocation {
    let allocation = allocation(RAID, 0);
    Allocation { spread: Spread::new(4, 4).unwrap(), ..allocation }
}

/// Returns the namespaces of the RAID, as the status of the allocation's object reports them.
pub(crate) fn raid_namespaces(host: &FakeHost) -> Vec<Reported> {
    let observed = host.observe(&Desired::Inventory).unwrap();
    let ours = observed.namespaces.into_iter();
    let ours =
        ours.filter(|namespace| namespace.owner == NamespaceOwner::Ours(raid_allocation().id));
    ours.map(|namespace| Reported { id: namespace.id, size: namespace.size, contested: false })
        .collect()
}

/// Returns the file system on a RAID that survives the loss of one of its four drives.
pub(crate) fn raid(host: &FakeHost) -> FileSystem {
    let fs = file_system(host, RAID);
    let Some(lines) = layer(1).lines().cloned() else { unreachable!("every second layer is LVM") };
    let lines = LvmLines {
        lv_create: command("--type raid5 -n $LV_NAME $VG_NAME"),
        vg_extend: command("$VG_NAME $DEVICE"),
        vg_reduce: command("--removemissing $VG_NAME"),
        lv_repair: command("$VG_NAME/$LV_NAME"),
        ..lines
    };
    let namespaces = namespaces(host, RAID);
    let layer = VolumeLayer::Lvm(Box::new(lines));
    FileSystem { volume: Volume { namespaces, layer, ..fs.volume }, ..fs }
}

/// Returns the file system that a controller would request on the existing namespaces. An object may also name
/// namespaces that were deleted.
pub(crate) fn file_system(host: &FakeHost, index: u32) -> FileSystem {
    let gone = || NamespaceId::parse("nqn.2026-01.io.warren:fake:gone", "1").unwrap();
    let namespace = namespaces(host, index).first().cloned().unwrap_or_else(gone);
    let uid = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a2".parse().unwrap();
    let id = FileSystemId::derive(uid, "rabbit-1", "storage", index);
    let scope = HookScope::file_system(&id);
    FileSystem {
        id,
        kind: FileSystemKind::Xfs,
        volume: Volume {
            group: format!("{}_{index}", owner()),
            logical: "lv".into(),
            namespaces: vec![namespace],
            made_for: Some(allocation(index, 0).id),
            layer: layer(index),
        },
        mkfs: command("$DEVICE"),
        hooks: hooks(
            &scope,
            &[
                HookPoint::PostActivate,
                HookPoint::PostSetup,
                HookPoint::PreTeardown,
                HookPoint::PreDeactivate,
                HookPoint::PostTeardown,
            ],
        ),
        mount: command("$DEVICE $MOUNT_PATH"),
        temporary: point(&format!("/mnt/temp/storage-{index}")),
    }
}

pub(crate) fn raid_mount(host: &FakeHost) -> Mount {
    let fs = raid(host);
    Mount { source: MountSource::Volume { volume: fs.volume, id: fs.id }, ..mount(host, RAID) }
}

pub(crate) fn mount(host: &FakeHost, index: u32) -> Mount {
    let fs = file_system(host, index);
    let target = point(&format!("/mnt/nnf/wf-0/node-{index}"));
    let scope = HookScope::mount("b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a3".parse().unwrap(), &target);
    let phases = [
        HookPoint::PreActivate,
        HookPoint::PostMount,
        HookPoint::PreUnmount,
        HookPoint::PostDeactivate,
    ];
    let hooks = hooks(&scope, &phases);
    Mount {
        scope,
        target,
        kind: FileSystemKind::Xfs,
        source: MountSource::Volume { volume: fs.volume, id: fs.id },
        mount: command("$DEVICE $MOUNT_PATH"),
        unmount: command("$MOUNT_PATH"),
        owner: Some(Owner { uid: 1, gid: 2 }),
        file: None,
        hooks,
    }
}

fn target(host: &FakeHost) -> LustreTarget {
    let id = FileSystemId::derive(owner(), "rabbit-1", "storage", TARGET);
    let scope = HookScope::file_system(&id);
    LustreTarget {
        id,
        dataset: Dataset::new(POOL, "ost").unwrap(),
        namespaces: namespaces(host, TARGET),
        made_for: Some(allocation(TARGET, 0).id),
        target: point("/mnt/nnf/ost-0"),
        lines: TargetLines {
            create: command(&format!("{POOL} $DEVICE_LIST")),
            destroy: command(POOL),
            replace: command(&format!("{POOL} $OLD_DEVICE $NEW_DEVICE")),
            mkfs: command(&format!("--ost {POOL}/ost")),
            mount: command(&format!("{POOL}/ost /mnt/nnf/ost-0")),
            unmount: command("/mnt/nnf/ost-0"),
        },
        hooks: hooks(&scope, &[HookPoint::PostActivate, HookPoint::PreDeactivate]),
        client: None,
    }
}

pub(crate) fn tree(links: u32) -> IndexTree {
    let link = |k| IndexLink::new(&format!("compute-{k}"), &format!("node-{k}")).unwrap();
    IndexTree { root: point("/mnt/nnf/wf-0"), links: (0..links).map(link).collect() }
}

#[derive(Debug, Clone)]
pub(crate) enum Wish {
    Allocated(u32, u8),
    Released(u32),
    Ready(u32),
    Gone(u32),
    Mounted(u32),
    Unmounted(u32),
    Tree(u32),
    NoTree,
    OnlyMounts(Vec<u32>),
    /// Removes leftovers of volume groups. The flag says whether the object that owns all groups of this test still
    /// exists.
    OnlyVolumes(bool),
    TargetAllocated,
    TargetReady,
    TargetGone,
    TargetReleased,
    Reboot,
    /// The rabbit loses its power: the drives lose their virtual functions.
    PowerCycle,
    /// A foreign mount appears on top of one place, or of all places.
    Cover(u32),
    /// The foreign mount is unmounted again.
    Lift(u32),
}

pub(crate) fn wish() -> impl Strategy<Value = Wish> {
    let place = 0..PLACES;
    prop_oneof![
        3 => (place.clone(), 0..3u8).prop_map(|(place, computes)| Wish::Allocated(place, computes)),
        1 => place.clone().prop_map(Wish::Released),
        3 => place.clone().prop_map(Wish::Ready),
        1 => place.clone().prop_map(Wish::Gone),
        3 => place.clone().prop_map(Wish::Mounted),
        2 => place.clone().prop_map(Wish::Unmounted),
        1 => (0..PLACES).prop_map(Wish::Tree),
        1 => Just(Wish::NoTree),
        1 => prop::collection::vec(place, 0..3).prop_map(Wish::OnlyMounts),
        1 => any::<bool>().prop_map(Wish::OnlyVolumes),
        2 => Just(Wish::TargetAllocated),
        3 => Just(Wish::TargetReady),
        1 => Just(Wish::TargetGone),
        1 => Just(Wish::TargetReleased),
        1 => Just(Wish::Reboot),
        1 => Just(Wish::PowerCycle),
        1 => (0..=PLACES).prop_map(Wish::Cover),
        1 => (0..=PLACES).prop_map(Wish::Lift),
    ]
}

pub(crate) fn fault() -> impl Strategy<Value = Option<(usize, Fault)>> {
    let kind = prop_oneof![Just(Fault::Before), Just(Fault::Halfway), Just(Fault::After)];
    prop::option::weighted(0.8, (0..8usize, kind))
}

pub(crate) fn desired(host: &FakeHost, wish: &Wish) -> Option<Desired> {
    Some(match wish {
        Wish::Allocated(index, computes) => Desired::Allocated(allocation(*index, *computes)),
        Wish::Released(index) => Desired::Released(allocation(*index, 0).id),
        Wish::Ready(index) => Desired::FileSystemReady(file_system(host, *index)),
        Wish::Gone(index) => Desired::FileSystemGone(file_system(host, *index)),
        Wish::Mounted(index) => Desired::Mounted(mount(host, *index)),
        Wish::Unmounted(index) => Desired::Unmounted(mount(host, *index)),
        Wish::Tree(links) => Desired::IndexTree(tree(*links)),
        Wish::NoTree => Desired::NoIndexTree(tree(0)),
        Wish::OnlyMounts(keep) => {
            Desired::OnlyMounts(keep.iter().map(|k| mount(host, *k).target).collect())
        }
        Wish::OnlyVolumes(keep) => {
            Desired::OnlyVolumes(keep.then(owner).into_iter().collect::<BTreeSet<_>>())
        }
        Wish::TargetAllocated => Desired::Allocated(allocation(TARGET, 0)),
        Wish::TargetReady => Desired::TargetReady(target(host)),
        Wish::TargetGone => Desired::TargetGone(target(host)),
        Wish::TargetReleased => Desired::Released(allocation(TARGET, 0).id),
        Wish::Reboot => {
            host.reboot();
            return None;
        }
        Wish::PowerCycle => {
            host.reboot();
            (0..2).for_each(|slot| host.lose_functions(slot));
            return None;
        }
        Wish::Cover(index) => {
            host.plant_mount(&covered(host, *index), "tmpfs", "tmpfs");
            return None;
        }
        Wish::Lift(index) => {
            host.lift_mounts(&covered(host, *index));
            return None;
        }
    })
}

pub(crate) fn covered(host: &FakeHost, index: u32) -> MountPoint {
    if index < PLACES { mount(host, index).target } else { tree(0).root }
}
