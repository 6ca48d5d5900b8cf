//! Emulates drives by sparse files on loop devices, with identities like those of real drives. The directory with all
//! files is called the pool.
//!
//! All nodes that are simulated on one machine share the pool's directory, and one loop device per namespace; a node
//! sees only the namespaces that are attached to it. The blocks of a new namespace read as zero, because its file is
//! new.

mod inventory;
mod layout;
mod namespace;

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

use block_devices::loop_device;
use files::none_if_absent;
use log::warn;
use nix::fcntl::{Flock, FlockArg};
use storage::{
    Observed, Step,
    desired::{AllocationId, NamespaceId, NodeName},
    host::{ObserveError, StepError},
    observed::{Attached, BlockDevice, DeviceNumber},
};
use uuid::Uuid;

use self::layout::{OwnerFile, PoolFile};
use super::{Drives, unsupported};

#[derive(Debug)]
pub struct FilePool {
    root: PathBuf,
    node: NodeName,
    deadline: Duration,
    devices: loop_device::DeviceCache,
}

impl FilePool {
    /// Opens the pool; creates it when it does not exist and `drives` is not 0.
    pub fn open(
        root: &Path,
        node: NodeName,
        drives: u16,
        capacity: u64,
        deadline: Duration,
    ) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        // sysfs shows the canonical path of a loop device's backing file, so use canonical paths here too.
        let (root, devices) = (root.canonicalize()?, loop_device::DeviceCache::default());
        let pool = Self { root, node, deadline, devices };
        let _lock = pool.lock()?;
        if drives > 0 {
            pool.grow(drives, capacity)?;
        }
        Ok(pool)
    }

    /// Creates the pool, or adds missing drives; it never shrinks or removes a drive.
    fn grow(&self, drives: u16, capacity: u64) -> io::Result<()> {
        let now = self.load()?;
        let wanted = match &now {
            None => PoolFile { uuid: Uuid::new_v4(), drives, drive_capacity: capacity },
            Some(file) => PoolFile { drives: drives.max(file.drives), ..file.clone() },
        };
        if wanted.drive_capacity != capacity || wanted.drives != drives {
            warn!(
                pool:% = self.root.display(), drives = wanted.drives, drive_capacity = wanted.drive_capacity;
                "the pool keeps the number and size of its drives; to change them, delete the pool when it is empty"
            );
        }
        if now.as_ref() == Some(&wanted) {
            return Ok(());
        }
        for slot in 0..wanted.drives {
            DirBuilder::new().recursive(true).mode(0o700).create(self.drive(slot))?;
        }
        files::write_durably(&self.root.join("pool.json"), &serde_json::to_vec(&wanted)?)
    }

    /// Reads `pool.json`; `None` while the file does not exist: the simulated nodes start in any order, so that a
    /// compute may start before the rabbit creates the file.
    fn load(&self) -> io::Result<Option<PoolFile>> {
        let bytes = none_if_absent(fs::read(self.root.join("pool.json")))?;
        Ok(bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose()?)
    }

    /// Waits until no other agent of this machine changes the pool; the kernel releases the lock when the process ends.
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

    /// Returns the directory of a namespace; `None` when its drive is not in this pool.
    fn directory(&self, id: &NamespaceId) -> io::Result<Option<PathBuf>> {
        let slot = self.load()?.and_then(|file| file.slot(&id.subsystem));
        Ok(slot.map(|slot| self.drive(slot).join(id.nsid.to_string())))
    }
}

impl Drives for FilePool {
    fn inventory(&self) -> Result<Observed, ObserveError> {
        self.look().map_err(|source| unreadable(&self.root, source))
    }

    fn device(
        &self,
        id: &NamespaceId,
        made_for: Option<AllocationId>,
    ) -> Result<Option<BlockDevice>, ObserveError> {
        self.reach(id, made_for).map_err(|source| unreadable(&self.root, source))
    }

    fn namespace_of(&self, device: DeviceNumber) -> Option<NamespaceId> {
        let data = loop_device::backing(device)?;
        let below = data.strip_prefix(&self.root).ok()?;
        let parts: Vec<_> = below.iter().filter_map(|part| part.to_str()).collect();
        let [drive, nsid, "data"] = parts[..] else { return None };
        let slot = drive.strip_prefix("drive-")?.parse().ok()?;
        Some(NamespaceId { subsystem: self.load().ok()??.nqn(slot), nsid: nsid.parse().ok()? })
    }

    fn reached_namespaces(&self) -> Result<BTreeSet<NamespaceId>, ObserveError> {
        let is_here = |attached: &Attached| attached.node == self.node;
        let namespaces = self.inventory()?.namespaces.into_iter();
        let here = namespaces.filter(|namespace| namespace.access.iter().any(is_here));
        Ok(here.map(|namespace| namespace.id).collect())
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        match step {
            Step::CreateNamespace { allocation, drive, size, members } => {
                self.make(*allocation, drive, *size, *members)
            }
            Step::AdoptNamespace { id, allocation, size, members } => {
                let owner = OwnerFile::new(*allocation, *size, *members);
                self.claim(id, &owner, *size).map_err(StepError::system("adopt namespace", id))
            }
            // The blocks of a file are gone with the file.
            Step::ZeroNamespace { .. } | Step::EraseNamespace { .. } => Ok(()),
            Step::DeleteNamespace { id, allocation } => self.remove(id, *allocation),
            Step::Attach { id, node, .. } => {
                self.grant(id, node).map_err(StepError::system("attach namespace", id))
            }
            Step::Detach { id, node } => self.withdraw(id, node),
            // The kernel shows a loop device as soon as it exists.
            Step::Rescan { .. } => Ok(()),
            // A file drive has no slot into which another drive could be plugged.
            other => Err(unsupported(other, "a drive made of files is never replaced")),
        }
    }
}

fn unreadable(root: &Path, source: io::Error) -> ObserveError {
    ObserveError::Read { path: root.display().to_string(), source }
}
