//! Simulates a node in memory, for the tests of this crate and of the crates that depend on it. The simulated node
//! refuses what a real kernel would refuse.
//!
//! In crate `storage-linux`, `loop.rs` runs the scenarios on a kernel that `fake.rs` runs on this simulation, and checks
//! its rules, except those of ZFS and Lustre. Several nodes may share the drives of one rabbit ([`FakeHost::peer`]);
//! each node has its own mounts, directories and hook records.

mod apply;
mod drives;
pub(crate) mod errno;
mod files;
mod lvm;
mod observer;
mod zpool;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use self::{
    drives::FakeDrives,
    files::Files,
    lvm::{Name, OnDevices, OnNode},
    zpool::Pools,
};
use crate::{
    Desired, Host, Observed, Step,
    desired::{
        AllowedRoots, HookId, HookScope, MountPoint, NamespaceId, NodeName, Owner, RootFile,
    },
    host::{ObserveError, StepError},
    observe::observe,
    observed::{DeviceNumber, MountedThing, Signature, Superblock},
};

/// The moment at which an injected failure occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The step fails without an effect.
    Before,
    /// The step has half of its effect, as in a power cut, and then fails.
    Halfway,
    /// The step has its whole effect and then fails: only its answer is lost.
    After,
}

/// A simulated node in memory.
#[derive(Debug)]
pub struct FakeHost {
    node: NodeName,
    roots: AllowedRoots,
    drives: Arc<Mutex<FakeDrives>>,
    lvm: Arc<Mutex<OnDevices>>,
    pools: Arc<Mutex<Pools>>,
    local: Mutex<Local>,
}

#[derive(Debug, Default)]
struct Local {
    files: Files,
    mounts: Vec<FakeMount>,
    volumes: OnNode,
    imported: BTreeSet<String>,
    /// Whether the programs of ZFS are missing.
    lacks_zfs: bool,
    /// Mount points that are busy, and for each the processes to report.
    busy: BTreeMap<PathBuf, Vec<i32>>,
    /// Devices that are mounted or open in another mount namespace.
    kept: BTreeSet<DeviceNumber>,
    hooks: BTreeMap<HookScope, BTreeSet<HookId>>,
    fault: Option<(usize, Fault)>,
    applied: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FakeMount {
    target: PathBuf,
    thing: MountedThing,
    owner: Owner,
    /// The file in the root of the mount; each mount has its own, as if each were a separate file system.
    file: Option<RootFile>,
    /// Whether the test planted the mount; false when a step made it.
    foreign: bool,
}

const ROOT: Owner = Owner { uid: 0, gid: 0 };

impl FakeHost {
    /// Creates a node without drives, whose allowed roots are `roots`.
    pub fn new(node: NodeName, roots: AllowedRoots) -> Self {
        Self::on(node, roots, Arc::default())
    }

    /// Creates a rabbit with `count` drives of `capacity` bytes.
    #[must_use]
    pub fn with_drives(node: NodeName, roots: AllowedRoots, count: u16, capacity: u64) -> Self {
        let drives = Arc::new(Mutex::new(FakeDrives::new(count, capacity)));
        Self::on(node, roots, drives)
    }

    fn on(node: NodeName, roots: AllowedRoots, drives: Arc<Mutex<FakeDrives>>) -> Self {
        let (lvm, pools) = (Arc::default(), Arc::default());
        Self { node, roots, drives, lvm, pools, local: Mutex::default() }
    }

    /// Creates another node with access to the same drives.
    pub fn peer(&self, node: NodeName) -> Self {
        let (drives, roots) = (Arc::clone(&self.drives), self.roots.clone());
        let (lvm, pools) = (Arc::clone(&self.lvm), Arc::clone(&self.pools));
        Self { node, roots, drives, lvm, pools, local: Mutex::default() }
    }

    /// Makes a step fail once, after `after` other steps.
    pub fn fail(&self, after: usize, fault: Fault) {
        self.local().fault = Some((after, fault));
    }

    /// Returns the steps that had their effect, in order.
    pub fn applied(&self) -> Vec<Step> {
        self.local().applied.clone()
    }

    /// Limits the free space of the file system that carries the simulated drives to this many bytes.
    pub fn set_room(&self, available: u64) {
        self.drives().available = available;
    }

    /// Makes the mount at `target` busy, so that unmounting it fails.
    pub fn hold(&self, target: &MountPoint) {
        self.hold_by(target, Vec::new());
    }

    /// Makes the mount at `target` busy, and reports these processes.
    pub fn hold_by(&self, target: &MountPoint, processes: Vec<i32>) {
        self.local().busy.insert(target.path(), processes);
    }

    /// Ends the effect of [`Self::hold`].
    pub fn let_go(&self, target: &MountPoint) {
        self.local().busy.remove(&target.path());
    }

    /// Makes a process of another mount namespace use the mount at `target`: an unmount succeeds, but the
    /// device stays in use.
    pub fn keep_elsewhere(&self, target: &MountPoint) {
        let mut local = self.local();
        let device = local.mounted(&target.path()).map(|mount| mount.thing.device);
        local.kept.extend(device);
    }

    /// Ends the use by other mount namespaces ([`Self::keep_elsewhere`]) for all devices.
    pub fn leave_elsewhere(&self) {
        self.local().kept.clear();
    }

    /// Plants a foreign mount: a mount that is not Warren's.
    pub fn plant_mount(&self, target: &MountPoint, source: &str, kind: &str) {
        let mut local = self.local();
        local.files.make_directories(&target.path());
        let thing = MountedThing {
            device: DeviceNumber { major: 0, minor: 99 },
            source: source.to_owned(),
            kind: kind.to_owned(),
            root: "/".to_owned(),
            superblock: Superblock::Unknown,
            namespace: None,
        };
        local.mounts.push(FakeMount {
            target: target.path(),
            thing,
            owner: ROOT,
            file: None,
            foreign: true,
        });
    }

    /// Removes the foreign mounts at `target`.
    pub fn lift_mounts(&self, target: &MountPoint) {
        let path = target.path();
        self.local().mounts.retain(|mount| !(mount.foreign && mount.target == path));
    }

    /// Plants a foreign symbolic link.
    pub fn plant_link(&self, at: &MountPoint, text: &str) {
        self.local().files.plant_link(&at.path(), text);
    }

    /// Plants a foreign file with contents.
    pub fn plant_file(&self, at: &MountPoint) {
        self.local().files.plant_file(&at.path());
    }

    /// Sets the signature of a namespace's device.
    pub fn plant_signature(&self, id: &NamespaceId, signature: Signature) {
        self.drives().plant_signature(id, signature);
    }

    /// Plants a foreign namespace of `size` bytes on the first drive.
    pub fn plant_namespace(&self, size: u64) {
        self.drives().plant_namespace(size);
    }

    /// Makes the drive in this slot refuse to create, attach and delete namespaces, or accept these commands again.
    pub fn set_refusing(&self, slot: u32, refuses: bool) {
        self.drives().set_refusing(slot, refuses);
    }

    /// Makes the drive in this slot return old data from blocks that were never written.
    pub fn return_old_data(&self, slot: u32) {
        self.drives().return_old_data(slot);
    }

    /// Takes the virtual functions from the drive in this slot, as a power cycle does.
    pub fn lose_functions(&self, slot: u32) {
        self.drives().lose_functions(slot);
    }

    /// Pulls the drive out of this slot.
    pub fn pull_drive(&self, slot: u32) {
        self.drives().pull(slot);
    }

    /// Puts the drive back into its slot.
    pub fn put_drive_back(&self, slot: u32) {
        self.drives().put_back(slot);
    }

    /// Puts another drive of the same size into this slot.
    pub fn swap_drive(&self, slot: u32) {
        self.drives().swap(slot);
    }

    /// Ends the synchronisation of every RAID.
    pub fn synchronise(&self) {
        self.lvm().synchronise();
    }

    /// Removes all records from the ledgers; the drives keep their contents.
    pub fn lose_records(&self) {
        self.drives().lose_records();
    }

    /// Restarts the node: mounts and devices are gone; data on disk stays, and so do foreign mounts, as
    /// if fstab(5) listed them.
    pub fn reboot(&self) {
        let mut local = self.local();
        self.drives().reboot(&local.mounts);
        local.mounts.retain(|mount| mount.foreign);
        local.busy.clear();
        local.kept.clear();
        local.volumes = OnNode::default();
        local.imported.clear();
    }

    /// Plants a foreign ZFS pool on these namespaces; this node has imported it.
    pub fn plant_pool(&self, name: &str, namespaces: &[NamespaceId]) {
        self.pools().plant(name, namespaces);
        self.local().imported.insert(name.to_owned());
    }

    /// Removes the programs of ZFS from this node, or installs them again.
    pub fn lack_zfs(&self, is_lacking: bool) {
        self.local().lacks_zfs = is_lacking;
    }

    /// Removes the planted pool with this name.
    pub fn lift_pool(&self, name: &str) {
        self.pools().forget(name);
        self.local().imported.remove(name);
    }

    /// Deletes every namespace with its records; the active volumes of this node stay active without a device beneath
    /// them.
    pub fn erase_drives(&self) {
        let mut lvm = self.lvm();
        let mut drives = self.drives();
        drives.erase();
        lvm.keep(|id| drives.exists(id));
    }

    /// Makes this node join the lock space of a group, whether the group exists or not.
    pub fn plant_lock_space(&self, group: &str) {
        self.local().volumes.lock_spaces.insert(group.to_owned());
    }

    /// Formats everything that is not Warren's. The text must be the same before and after every convergence.
    pub fn foreign(&self) -> String {
        let local = self.local();
        let mounts: Vec<_> = local.mounts.iter().filter(|mount| mount.foreign).collect();
        format!("{mounts:#?}\n{:#?}\n{:#?}", local.files.planted(), self.drives().foreign())
    }

    /// Returns whether nothing of Warren's is left: no mount, directory, record or namespace.
    pub fn is_clean(&self) -> bool {
        let local = self.local();
        local.mounts.iter().all(|mount| mount.foreign)
            && local.hooks.is_empty()
            && local.files.only_planted()
            && self.drives().is_clean()
            && self.lvm().is_clean()
            && local.volumes.active.is_empty()
            && self.pools().is_clean()
    }

    fn local(&self) -> MutexGuard<'_, Local> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drives(&self) -> MutexGuard<'_, FakeDrives> {
        self.drives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lvm(&self) -> MutexGuard<'_, OnDevices> {
        self.lvm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pools(&self) -> MutexGuard<'_, Pools> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a logical volume is mounted on this node.
    fn is_volume_mounted(&self, name: &Name) -> bool {
        let number = self.lvm().number(name);
        self.local().mounts.iter().any(|mount| mount.thing.device == number)
    }

    /// Counts one step, and returns the injected failure if it is due.
    fn take_fault(&self) -> Option<Fault> {
        let mut local = self.local();
        match local.fault.take() {
            Some((0, fault)) => Some(fault),
            Some((after, fault)) => {
                local.fault = Some((after - 1, fault));
                None
            }
            None => None,
        }
    }
}

impl Host for FakeHost {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        observe(self, desired)
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        let fault = self.take_fault();
        let injected = || refused("injected", step, errno::EIO);
        match fault {
            Some(Fault::Before) => return Err(injected()),
            Some(Fault::Halfway) => {
                self.take_half(step);
                return Err(injected());
            }
            Some(Fault::After) | None => {}
        }
        self.take(step)?;
        self.local().applied.push(step.clone());
        if fault == Some(Fault::After) { Err(injected()) } else { Ok(()) }
    }
}

fn refused(call: &'static str, target: &impl std::fmt::Display, errno: i32) -> StepError {
    StepError::System {
        call,
        target: target.to_string(),
        source: io::Error::from_raw_os_error(errno),
    }
}
