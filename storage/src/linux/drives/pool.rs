//! Drives without hardware: sparse files on loop devices, with the identities that real drives have.
//!
//! All nodes of a box share the pool's directory and one loop device per namespace; a node sees a namespace when it was
//! given access to it. Blocks of a new namespace are zero because its file is new.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use log::warn;
use nix::{
    fcntl::{Flock, FlockArg},
    sys::statvfs::statvfs,
};
use uuid::Uuid;

use super::{
    Drives, Inventory, loop_device,
    pool_files::{EntryName, OwnerFile, PoolFile, entries, gone_name, new_name},
};
use crate::{
    desired::{AllocationId, Endpoint, NamespaceId, NodeName, Nqn},
    host::{ObserveError, StepError},
    linux::durable,
    observed::{BlockDevice, DeviceNumber, Drive, Namespace, NamespaceOwner, Pool},
};

/// A pool of file drives, seen by one node.
#[derive(Debug)]
pub(in crate::linux) struct FilePool {
    root: PathBuf,
    node: NodeName,
    deadline: Duration,
    devices: loop_device::Seen,
}

impl FilePool {
    /// Opens the pool; makes it when it is not there and `drives` is not 0.
    pub(in crate::linux) fn open(
        root: &Path,
        node: NodeName,
        drives: u16,
        capacity: u64,
        deadline: Duration,
    ) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        // sysfs names backing files by their canonical path.
        let (root, devices) = (root.canonicalize()?, loop_device::Seen::default());
        let pool = Self { root, node, deadline, devices };
        let _lock = pool.lock()?;
        if drives > 0 {
            pool.grow(drives, capacity)?;
        }
        Ok(pool)
    }

    /// Makes the pool, or adds the drives it lacks; drives never shrink and never go.
    fn grow(&self, drives: u16, capacity: u64) -> io::Result<()> {
        let now = self.load()?;
        let wanted = match &now {
            None => PoolFile { uuid: Uuid::new_v4(), drives, drive_capacity: capacity },
            Some(file) => PoolFile { drives: drives.max(file.drives), ..file.clone() },
        };
        if wanted.drive_capacity != capacity || wanted.drives != drives {
            warn!(
                pool:% = self.root.display(), drives = wanted.drives, drive_capacity = wanted.drive_capacity;
                "the pool keeps its drives as they were made; delete it when empty to make others"
            );
        }
        if now.as_ref() == Some(&wanted) {
            return Ok(());
        }
        for slot in 0..wanted.drives {
            DirBuilder::new().recursive(true).mode(0o700).create(self.drive(slot))?;
        }
        durable::write(&self.root.join("pool.json"), &serde_json::to_vec(&wanted)?)
    }

    /// `None` until the rabbit has made it: nodes of one box start in any order.
    fn load(&self) -> io::Result<Option<PoolFile>> {
        match fs::read(self.root.join("pool.json")) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Serialises this box's agents; the kernel lets go when the process ends.
    fn lock(&self) -> io::Result<Flock<File>> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.root.join("lock"))?;
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
    }

    fn drive(&self, slot: u16) -> PathBuf {
        self.root.join(format!("drive-{slot}"))
    }

    /// Where a namespace is kept; `None` when it is not of this pool.
    fn directory(&self, id: &NamespaceId) -> io::Result<Option<PathBuf>> {
        let slot = self.load()?.and_then(|file| file.slot(&id.subsystem));
        Ok(slot.map(|slot| self.drive(slot).join(id.nsid.to_string())))
    }

    fn look(&self) -> io::Result<Inventory> {
        let Some(file) = self.load()? else { return Ok(Inventory::default()) };
        let mut inventory = Inventory::default();
        let mut promised = 0;
        let devices = loop_device::all()?;
        for slot in 0..file.drives {
            let mut allocated = 0;
            for (name, path) in entries(&self.drive(slot))? {
                let (mut namespace, unwritten) = namespace(file.nqn(slot), name, &path)?;
                // Deleted while we looked: what was read of it is not whole.
                if !path.exists() {
                    continue;
                }
                namespace.device =
                    devices.get(&path.join("data")).map(|device| device.path.clone());
                allocated += namespace.size;
                promised += unwritten;
                inventory.namespaces.push(namespace);
            }
            inventory.drives.push(drive(&file, slot, allocated));
        }
        let room = statvfs(&self.root)?;
        inventory.pool =
            Some(Pool { available: room.blocks_available() * room.fragment_size(), promised });
        Ok(inventory)
    }

    fn make(
        &self,
        allocation: AllocationId,
        nqn: &Nqn,
        size: u64,
        of: u16,
    ) -> Result<(), StepError> {
        let failed = |source| system("create namespace", nqn, source);
        let _lock = self.lock().map_err(failed)?;
        let inventory = self.look().map_err(failed)?;
        let exists = inventory
            .namespaces
            .iter()
            .filter(|found| found.id.subsystem == *nqn)
            .any(|found| found.owner == NamespaceOwner::Ours(allocation));
        if exists {
            return Ok(());
        }
        let drive = inventory.drives.iter().find(|drive| drive.nqn == *nqn);
        let Some(drive) = drive else {
            return Err(StepError::Changed(format!("drive {nqn} is gone")));
        };
        if drive.free() < size {
            return Err(StepError::Changed(format!(
                "drive {nqn} has only {} bytes left by now",
                drive.free()
            )));
        }
        if inventory.pool.is_some_and(|pool| pool.room() < size) {
            return Err(StepError::Changed(
                "the disk that holds the pool is full by now".to_owned(),
            ));
        }
        let taken: BTreeSet<_> = inventory
            .namespaces
            .iter()
            .filter(|found| found.id.subsystem == *nqn)
            .map(|found| found.id.nsid)
            .collect();
        let nsid = (1..).find(|nsid| !taken.contains(nsid)).unwrap_or(u32::MAX);
        let parent = self.root.join(format!("drive-{}", drive.slot));
        let owner = OwnerFile::new(allocation, size, of);
        build(&parent, nsid, &owner, allocation, size).map_err(failed)
    }

    fn claim(&self, id: &NamespaceId, owner: &OwnerFile, size: u64) -> io::Result<()> {
        let _lock = self.lock()?;
        let path = self.directory(id)?.ok_or(io::ErrorKind::NotFound)?;
        let found = fs::metadata(path.join("data"))?.len();
        if OwnerFile::read(&path).0 != NamespaceOwner::Unknown || found != size {
            let why = format!("it has an owner by now, or {found} bytes and not {size}");
            return Err(io::Error::other(why));
        }
        owner.write(&path)
    }

    fn remove(&self, id: &NamespaceId, allocation: AllocationId) -> Result<(), StepError> {
        let failed = |source| system("delete namespace", id, source);
        let _lock = self.lock().map_err(failed)?;
        let Some(path) = self.directory(id).map_err(failed)? else { return Ok(()) };
        let leftovers: Vec<_> = [new_name(id.nsid, allocation), gone_name(id.nsid, allocation)]
            .map(|name| path.with_file_name(name))
            .into_iter()
            .filter(|leftover| leftover.exists())
            .collect();
        if leftovers.is_empty() && path.exists() {
            if OwnerFile::read(&path).0 != NamespaceOwner::Ours(allocation) {
                return Err(StepError::Changed(format!(
                    "namespace {id} does not belong to allocation {allocation}"
                )));
            }
            loop_device::detach(&path.join("data"), self.deadline)?;
            let gone = path.with_file_name(gone_name(id.nsid, allocation));
            rename_away(&path, &gone).map_err(failed)?;
        }
        for leftover in leftovers {
            loop_device::detach(&leftover.join("data"), self.deadline)?;
            fs::remove_dir_all(&leftover).map_err(failed)?;
        }
        durable::sync_parent(&path).map_err(failed)
    }

    fn grant(&self, id: &NamespaceId, node: &NodeName) -> io::Result<()> {
        let _lock = self.lock()?;
        let path = self.directory(id)?.ok_or(io::ErrorKind::NotFound)?;
        loop_device::attach(&path.join("data"))?;
        let markers = path.join("access");
        File::create(markers.join(node.as_str()))?;
        durable::sync(&markers)
    }

    fn withdraw(&self, id: &NamespaceId, node: &NodeName) -> Result<(), StepError> {
        let failed = |source| system("detach namespace", id, source);
        let _lock = self.lock().map_err(failed)?;
        let Some(path) = self.directory(id).map_err(failed)? else { return Ok(()) };
        let others = access(&path).map_err(failed)?.into_iter().any(|other| other != *node);
        if !others {
            loop_device::detach(&path.join("data"), self.deadline)?;
        }
        let markers = path.join("access");
        match fs::remove_file(markers.join(node.as_str())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => durable::sync(&markers).map_err(failed),
        }
    }

    fn reach(&self, id: &NamespaceId) -> io::Result<Option<BlockDevice>> {
        let Some(path) = self.directory(id)? else { return Ok(None) };
        if !path.join("access").join(self.node.as_str()).exists() {
            return Ok(None);
        }
        let device = self.devices.find(&path.join("data"))?;
        Ok(device.map(|device| BlockDevice {
            namespace: id.clone(),
            path: device.path,
            number: device.number,
        }))
    }
}

impl Drives for FilePool {
    fn inventory(&self) -> Result<Inventory, ObserveError> {
        self.look().map_err(|source| unreadable(&self.root, source))
    }

    fn device(&self, id: &NamespaceId) -> Result<Option<BlockDevice>, ObserveError> {
        self.reach(id).map_err(|source| unreadable(&self.root, source))
    }

    fn namespace_of(&self, device: DeviceNumber) -> Option<NamespaceId> {
        let data = loop_device::backing(device)?;
        let below = data.strip_prefix(&self.root).ok()?;
        let parts: Vec<_> = below.iter().filter_map(|part| part.to_str()).collect();
        let [drive, nsid, "data"] = parts[..] else { return None };
        let slot = drive.strip_prefix("drive-")?.parse().ok()?;
        Some(NamespaceId { subsystem: self.load().ok()??.nqn(slot), nsid: nsid.parse().ok()? })
    }

    fn create(
        &self,
        allocation: AllocationId,
        drive: &Nqn,
        size: u64,
        of: u16,
    ) -> Result<(), StepError> {
        self.make(allocation, drive, size, of)
    }

    fn adopt(
        &self,
        id: &NamespaceId,
        allocation: AllocationId,
        size: u64,
        of: u16,
    ) -> Result<(), StepError> {
        let owner = OwnerFile::new(allocation, size, of);
        self.claim(id, &owner, size).map_err(|source| system("adopt namespace", id, source))
    }

    /// A directory has no slot that another could take.
    fn replaced(&self, id: &NamespaceId, _: AllocationId) -> Result<(), StepError> {
        Err(StepError::Changed(format!("namespace {id}: a drive made of files is never replaced")))
    }

    fn forget(&self, id: &NamespaceId, allocation: AllocationId) -> Result<(), StepError> {
        self.replaced(id, allocation)
    }

    fn delete(&self, id: &NamespaceId, allocation: AllocationId) -> Result<(), StepError> {
        self.remove(id, allocation)
    }

    fn attach(&self, id: &NamespaceId, _: Endpoint, node: &NodeName) -> Result<(), StepError> {
        self.grant(id, node).map_err(|source| system("attach namespace", id, source))
    }

    fn detach(&self, id: &NamespaceId, node: &NodeName) -> Result<(), StepError> {
        self.withdraw(id, node)
    }
}

/// Renamed first: from then on the namespace is recognisably going, however far the deletion gets.
fn rename_away(path: &Path, gone: &Path) -> io::Result<()> {
    fs::rename(path, gone)?;
    durable::sync_parent(path)?;
    fs::remove_dir_all(gone)
}

/// The namespace without its device, and how many bytes of it are not backed by disk blocks yet.
fn namespace(subsystem: Nqn, name: EntryName, path: &Path) -> io::Result<(Namespace, u64)> {
    let (size, written) =
        fs::metadata(path.join("data")).map_or((0, 0), |data| (data.len(), data.blocks() * 512));
    let (nsid, (owner, of)) = match name {
        EntryName::Partial(nsid, allocation) => (nsid, (NamespaceOwner::Partial(allocation), 0)),
        EntryName::Namespace(nsid) => (nsid, OwnerFile::read(path)),
    };
    let namespace = Namespace {
        id: NamespaceId { subsystem, nsid },
        owner,
        size,
        access: access(path)?,
        device: None,
        of,
    };
    Ok((namespace, size.saturating_sub(written)))
}

/// Made under a name that says it is unfinished, then renamed: a namespace is whole or recognisably not.
fn build(
    drive: &Path,
    nsid: u32,
    owner: &OwnerFile,
    allocation: AllocationId,
    size: u64,
) -> io::Result<()> {
    let path = drive.join(new_name(nsid, allocation));
    DirBuilder::new().mode(0o700).create(&path)?;
    fs::create_dir(path.join("access"))?;
    let data = File::create(path.join("data"))?;
    data.set_len(size)?;
    data.sync_all()?;
    owner.write(&path)?;
    fs::rename(&path, drive.join(nsid.to_string()))?;
    durable::sync(drive)
}

fn drive(file: &PoolFile, slot: u16, allocated: u64) -> Drive {
    let serial = file.uuid.simple().to_string();
    Drive {
        nqn: file.nqn(slot),
        serial: format!("{}{slot:04}", serial.get(..12).unwrap_or(&serial)),
        model: "Warren file drive".to_owned(),
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
        slot: slot.into(),
        label: String::new(),
        capacity: file.drive_capacity,
        allocated,
        most_namespaces: None,
        wear: 0,
        warnings: Vec::new(),
        fault: None,
    }
}

fn access(namespace: &Path) -> io::Result<BTreeSet<NodeName>> {
    let listing = match fs::read_dir(namespace.join("access")) {
        // A namespace that a crash left without it is nobody's to reach.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        other => other?,
    };
    let mut nodes = BTreeSet::new();
    for entry in listing {
        nodes.extend(entry?.file_name().to_str().and_then(|name| name.parse().ok()));
    }
    Ok(nodes)
}

fn unreadable(root: &Path, source: io::Error) -> ObserveError {
    ObserveError::Read { path: root.display().to_string(), source }
}

fn system(call: &'static str, target: &impl std::fmt::Display, source: io::Error) -> StepError {
    StepError::System { call, target: target.to_string(), source }
}
