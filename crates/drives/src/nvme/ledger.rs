//! Records the owners of a drive's namespaces: NVMe itself has no field for an owner.
//!
//! ```text
//! <state>/drives/<NQN>.json      one drive's namespaces, and those that are about to be created
//! <state>/drives/<UUID>.ledger   the same for a drive whose NQN is no valid file name; UUID derived from the NQN
//! ```
//! The agent records an intent before it sends the command that creates a namespace. If a crash leaves the namespace
//! without a record, the intent shows which allocation the namespace belongs to. A record contains the NGUID, because
//! drives reuse NSIDs.

mod attribution;
mod name;
mod record;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use parking_lot::{Mutex, MutexGuard};
pub(super) use record::{Creation, Record, SlotAndSerial};
use storage::{
    desired::{AllocationId, NodeName, Nqn},
    observed::NamespaceOwner,
};
use uuid::Uuid;

use self::record::{File, Intent, Owner};
use files::none_if_absent;

/// The identity of a namespace, as its drive reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) nsid: u32,
    pub(super) nguid: [u8; 16],
    /// Size in bytes, from Identify Namespace.
    pub(super) size: u64,
}

/// A namespace that is to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Size in bytes, a multiple of the block size.
    pub(super) size: u64,
    pub(super) members: u16,
}

#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    file: Mutex<File>,
    /// Locked while a namespace is created or deleted. If two namespaces were created at the same time, the agent could
    /// not tell after a crash which of them belongs to which allocation.
    turn: Mutex<()>,
    /// Whether the namespaces that a crash left without a record were attributed to their allocations.
    /// [`Self::settle_once`] does this once after each start of the agent.
    settled: Mutex<bool>,
}

impl Ledger {
    pub(super) fn open(directory: &Path, nqn: &Nqn) -> io::Result<Self> {
        let path = Self::path(directory, nqn);
        let file = match none_if_absent(fs::read(&path))? {
            Some(bytes) => check_nqn(nqn, serde_json::from_slice(&bytes)?)?,
            None => File { nqn: nqn.to_string(), ..File::default() },
        };
        Ok(Self { path, file: Mutex::new(file), turn: Mutex::default(), settled: Mutex::default() })
    }

    /// Waits until no other thread creates or deletes namespaces of the drive. Other threads wait in this function
    /// until the returned guard is dropped.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Records that a namespace is about to be created.
    pub(super) fn intend(
        &self,
        allocation: AllocationId,
        wanted: Wanted,
        before: &[u32],
        at: u64,
    ) -> io::Result<()> {
        let before = before.iter().copied().collect();
        let Wanted { size, members } = wanted;
        let intent = Intent { owner: Owner::new(allocation), size, members, before, at };
        self.change(|file| {
            file.intents.retain(|other| other.owner != intent.owner);
            file.intents.push(intent);
        })
    }

    /// Replaces the intent by the record of the created namespace. `members` is the number of namespaces of the
    /// allocation; `creation` says whether the namespace can be used.
    pub(super) fn record_created(
        &self,
        allocation: AllocationId,
        found: Found,
        members: u16,
        creation: Creation,
    ) -> io::Result<()> {
        let owner = Owner::new(allocation);
        self.change(|file| {
            file.intents.retain(|intent| intent.owner != owner);
            file.namespaces.retain(|record| record.nsid != found.nsid);
            file.namespaces.push(Record {
                nsid: found.nsid,
                nguid: hex(found.nguid),
                owner,
                size: found.size,
                members,
                whole: creation == Creation::Complete,
                to_zero: creation == Creation::ToZero,
                erased: false,
                replaced: false,
                hosts: BTreeMap::new(),
            });
        })
    }

    /// Drops the intent of a creation that failed.
    pub(super) fn drop_intent(&self, allocation: AllocationId) -> io::Result<()> {
        let owner = Owner::new(allocation);
        self.change(|file| file.intents.retain(|intent| intent.owner != owner))
    }

    /// Records that every block of a namespace was zeroed.
    pub(super) fn record_zeroed(&self, nsid: u32) -> io::Result<()> {
        self.change(|file| {
            file.namespaces
                .iter_mut()
                .filter(|record| record.nsid == nsid)
                .for_each(|record| (record.whole, record.to_zero) = (true, false));
        })
    }

    /// Records that a namespace was erased: it holds no data, and only its deletion remains.
    pub(super) fn record_erased(&self, namespace: &Found) -> io::Result<()> {
        self.change(|file| {
            for record in file.namespaces.iter_mut().filter(|record| record.is_of(namespace)) {
                (record.whole, record.to_zero, record.erased) = (false, false, true);
            }
        })
    }

    /// Returns whether the namespace was erased, and has not been attached to a host since.
    pub(super) fn is_erased(&self, namespace: &Found) -> bool {
        self.file.lock().namespaces.iter().any(|record| record.is_of(namespace) && record.erased)
    }

    /// Returns whether the namespace may hold data of earlier owners.
    pub(super) fn is_to_zero(&self, namespace: &Found) -> bool {
        self.file.lock().namespaces.iter().any(|record| record.is_of(namespace) && record.to_zero)
    }

    /// Records that a namespace of `allocation` was replaced by another namespace.
    pub(super) fn record_replaced(&self, nsid: u32, allocation: AllocationId) -> io::Result<()> {
        let owner = Owner::new(allocation);
        self.change(|file| {
            let matches = |record: &&mut Record| record.nsid == nsid && record.owner == owner;
            file.namespaces.iter_mut().filter(matches).for_each(|record| record.replaced = true);
        })
    }

    /// Returns whether an earlier agent recorded that it was about to create namespaces, and these intents were not
    /// settled yet ([`Self::settle_once`]).
    pub(super) fn has_open_intents(&self) -> bool {
        !*self.settled.lock() && !self.file.lock().intents.is_empty()
    }

    /// Returns whether the drive has recorded namespaces and is in another slot than recorded.
    pub(super) fn lacks_slot(&self, found: Option<&SlotAndSerial>) -> bool {
        let file = self.file.lock();
        found.is_some() && !file.namespaces.is_empty() && file.slot.as_ref() != found
    }

    /// Records the drive's slot and serial number, if the drive has recorded namespaces.
    pub(super) fn record_slot(&self, found: &SlotAndSerial) -> io::Result<()> {
        self.change(|file| {
            if !file.namespaces.is_empty() {
                file.slot = Some(found.clone());
            }
        })
    }

    /// Returns the slot and serial number that were last recorded.
    pub(super) fn slot_and_serial(&self) -> Option<SlotAndSerial> {
        self.file.lock().slot.clone()
    }

    /// Removes the record of a namespace of `allocation`.
    pub(super) fn record_deleted(&self, nsid: u32, allocation: AllocationId) -> io::Result<()> {
        let owner = Owner::new(allocation);
        self.change(|file| {
            file.namespaces.retain(|record| record.nsid != nsid || record.owner != owner);
            file.intents.retain(|intent| intent.owner != owner);
        })
    }

    /// Records the name of the host at an endpoint, and removes this name from all other endpoints: a name must
    /// identify one host. The namespace no longer counts as erased, because the host may write to it.
    pub(super) fn record_host(&self, nsid: u32, endpoint: u8, node: &NodeName) -> io::Result<()> {
        self.change(|file| {
            for record in file.namespaces.iter_mut().filter(|record| record.nsid == nsid) {
                record.erased = false;
                record.hosts.retain(|_, known| known != node.as_str());
                record.hosts.insert(endpoint, node.to_string());
            }
        })
    }

    pub(super) fn recorded_owner(&self, namespace: &Found) -> Option<NamespaceOwner> {
        self.record(namespace.nsid)
            .filter(|record| record.is_of(namespace))
            .map(|record| record.owner())
    }

    /// Returns the NSIDs of the namespaces recorded for an allocation.
    pub(super) fn nsids_of(&self, allocation: AllocationId) -> Vec<u32> {
        let owner = Owner::new(allocation);
        let file = self.file.lock();
        file.namespaces
            .iter()
            .filter(|record| record.owner == owner)
            .map(|record| record.nsid)
            .collect()
    }

    pub(super) fn record(&self, nsid: u32) -> Option<Record> {
        self.file.lock().namespaces.iter().find(|record| record.nsid == nsid).cloned()
    }

    /// Returns the records of all namespaces of the drive.
    pub(super) fn records(&self) -> Vec<Record> {
        self.file.lock().namespaces.clone()
    }

    /// Changes the ledger on disk, and only after that in memory, so that memory never has a change that a crash would
    /// lose.
    fn change(&self, change: impl FnOnce(&mut File)) -> io::Result<()> {
        let mut file = self.file.lock();
        let mut after = file.clone();
        change(&mut after);
        if after != *file {
            files::write_durably(&self.path, &serde_json::to_vec_pretty(&after)?)?;
            *file = after;
        }
        Ok(())
    }
}

/// Checks that the ledger belongs to the drive `nqn`.
fn check_nqn(nqn: &Nqn, file: File) -> io::Result<File> {
    if file.nqn == nqn.to_string() {
        return Ok(file);
    }
    Err(io::Error::other(format!("it is the ledger of drive {:?}", file.nqn)))
}

/// Formats an NGUID as lower-case hexadecimal digits, as sysfs shows it, without hyphens.
pub(super) fn hex(nguid: [u8; 16]) -> String {
    Uuid::from_bytes(nguid).simple().to_string()
}

#[cfg(test)]
mod tests;
