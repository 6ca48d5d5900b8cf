//! Records whose the namespaces of a drive are: NVMe itself has no field for an owner.
//!
//! ```text
//! <state>/drives/<NQN>.json      one drive's namespaces, and those that are about to be created
//!               /<UUID>.ledger   the same of a drive whose NQN makes no file name; its UUID is derived from that
//! ```
//! The agent writes an intent before it asks the drive for a namespace, so that a namespace which a crash left without a
//! record can be attributed. A record holds the NGUID, because drives reuse NSIDs.

mod record;

pub(super) use record::{Record, SlotAndSerial};

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use parking_lot::{Mutex, MutexGuard};
use uuid::Uuid;

use self::record::{File, Intent, Owner};
use crate::{
    desired::{AllocationId, NodeName, Nqn},
    linux::durable,
    observed::NamespaceOwner,
};

/// The identity of a namespace, as its drive reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) nsid: u32,
    pub(super) nguid: [u8; 16],
    /// Size in bytes.
    pub(super) size: u64,
}

/// A namespace to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Size in bytes.
    pub(super) size: u64,
    pub(super) members: u16,
}

#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    file: Mutex<File>,
    /// Held while namespaces are created or deleted: two new ones at once could not be attributed.
    turn: Mutex<()>,
    settled: Mutex<bool>,
}

impl Ledger {
    pub(super) fn open(directory: &Path, nqn: &Nqn) -> io::Result<Self> {
        let path = Self::path(directory, nqn);
        let file = match fs::read(&path) {
            Ok(bytes) => whose(nqn, serde_json::from_slice(&bytes)?)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                File { nqn: nqn.to_string(), ..File::default() }
            }
            Err(error) => return Err(error),
        };
        Ok(Self { path, file: Mutex::new(file), turn: Mutex::default(), settled: Mutex::default() })
    }

    pub(super) fn path(directory: &Path, nqn: &Nqn) -> PathBuf {
        let nqn = nqn.to_string();
        let plain = format!("{nqn}{PLAIN}");
        if plain.len() <= LONGEST && !nqn.contains(['/', ' ']) {
            return directory.join(plain);
        }
        let hash = Uuid::new_v5(&Uuid::NAMESPACE_OID, nqn.as_bytes());
        directory.join(format!("{}{HASHED}", hash.simple()))
    }

    /// The drive whose ledger is at `path`; `None` when there is none.
    pub(super) fn drive_of(path: &Path) -> Option<io::Result<Nqn>> {
        let name = path.file_name()?.to_str()?;
        if let Some(nqn) = name.strip_suffix(PLAIN) {
            return nqn.parse().ok().map(Ok);
        }
        name.strip_suffix(HASHED)?;
        let read = || {
            let file: File = serde_json::from_slice(&fs::read(path)?)?;
            file.nqn.parse().map_err(io::Error::other)
        };
        Some(read())
    }

    /// Lets one thread at a time create or delete namespaces of the drive.
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
        let intent = Intent { owner: Owner::of(allocation), size, members, before, at };
        self.change(|file| {
            file.intents.retain(|other| other.owner != intent.owner);
            file.intents.push(intent);
        })
    }

    /// Replaces the intent by the record of the created namespace; its allocation has this many members.
    pub(super) fn record_created(
        &self,
        allocation: AllocationId,
        found: Found,
        members: u16,
        whole: bool,
    ) -> io::Result<()> {
        let owner = Owner::of(allocation);
        self.change(|file| {
            file.intents.retain(|intent| intent.owner != owner);
            file.namespaces.retain(|record| record.nsid != found.nsid);
            file.namespaces.push(Record {
                nsid: found.nsid,
                nguid: hex(found.nguid),
                owner,
                size: found.size,
                members,
                whole,
                erased: false,
                replaced: false,
                hosts: BTreeMap::new(),
            });
        })
    }

    /// Drops the intent of a creation that failed.
    pub(super) fn drop_intent(&self, allocation: AllocationId) -> io::Result<()> {
        let owner = Owner::of(allocation);
        self.change(|file| file.intents.retain(|intent| intent.owner != owner))
    }

    /// Records that every block of a namespace reads as zero.
    pub(super) fn record_zeroed(&self, nsid: u32) -> io::Result<()> {
        self.change(|file| {
            file.namespaces
                .iter_mut()
                .filter(|record| record.nsid == nsid)
                .for_each(|record| record.whole = true);
        })
    }

    /// Records that a namespace was erased: it holds no data any more, and only remains to be deleted.
    pub(super) fn record_erased(&self, namespace: &Found) -> io::Result<()> {
        self.change(|file| {
            for record in file.namespaces.iter_mut().filter(|record| record.is_of(namespace)) {
                (record.whole, record.erased) = (false, true);
            }
        })
    }

    /// Whether it was erased and attached to no host since.
    pub(super) fn is_erased(&self, namespace: &Found) -> bool {
        self.file.lock().namespaces.iter().any(|record| record.is_of(namespace) && record.erased)
    }

    /// Records that another namespace replaced one of `allocation`.
    pub(super) fn record_replaced(&self, nsid: u32, allocation: AllocationId) -> io::Result<()> {
        let owner = Owner::of(allocation);
        self.change(|file| {
            let of_it = |record: &&mut Record| record.nsid == nsid && record.owner == owner;
            file.namespaces.iter_mut().filter(of_it).for_each(|record| record.replaced = true);
        })
    }

    /// Records the drive's slot, if it holds anything of ours.
    pub(super) fn record_slot(&self, found: &SlotAndSerial) -> io::Result<()> {
        self.change(|file| {
            if !file.namespaces.is_empty() {
                file.slot = Some(found.clone());
            }
        })
    }

    /// The drive's last recorded slot.
    pub(super) fn slot_and_serial(&self) -> Option<SlotAndSerial> {
        self.file.lock().slot.clone()
    }

    /// Removes the record of a namespace of `allocation`.
    pub(super) fn record_deleted(&self, nsid: u32, allocation: AllocationId) -> io::Result<()> {
        let owner = Owner::of(allocation);
        self.change(|file| {
            file.namespaces.retain(|record| record.nsid != nsid || record.owner != owner);
            file.intents.retain(|intent| intent.owner != owner);
        })
    }

    /// Records the name of the host at an endpoint, and removes it from any other endpoint: a name must identify one
    /// host. The namespace no longer counts as erased, because the host may write to it.
    pub(super) fn record_host(&self, nsid: u32, endpoint: u8, node: &NodeName) -> io::Result<()> {
        self.change(|file| {
            for record in file.namespaces.iter_mut().filter(|record| record.nsid == nsid) {
                record.erased = false;
                record.hosts.retain(|_, known| known != node.as_str());
                record.hosts.insert(endpoint, node.to_string());
            }
        })
    }

    /// Resolves what a crash left, from the drive's namespaces as `list` returns them; only the first call after a
    /// start does anything.
    pub(super) fn settle_once<E>(
        &self,
        list: impl Fn() -> Result<Vec<Found>, E>,
        failed: impl Fn(io::Error) -> E,
    ) -> Result<(), E> {
        let mut settled = self.settled.lock();
        if !*settled {
            self.settle(&list()?).map_err(failed)?;
            *settled = true;
        }
        Ok(())
    }

    /// Attributes each namespace without a record to the intent that it matches, and drops the other intents: only what
    /// exists at the first call can come from a previous agent.
    fn settle(&self, found: &[Found]) -> io::Result<()> {
        let intents = self.file.lock().intents.clone();
        for intent in intents {
            let Some(id) = intent.owner.id() else { continue };
            let of_it =
                |namespace: &&Found| self.owner(namespace, found) == NamespaceOwner::Partial(id);
            match found.iter().find(of_it) {
                Some(orphan) => self.record_created(id, *orphan, intent.members, false)?,
                None => self.drop_intent(id)?,
            }
        }
        Ok(())
    }

    /// Whose `namespace` is; `all` are the drive's namespaces.
    pub(super) fn owner(&self, namespace: &Found, all: &[Found]) -> NamespaceOwner {
        let file = self.file.lock();
        let recorded =
            |namespace: &Found| file.namespaces.iter().find(|record| record.is_of(namespace));
        if let Some(record) = recorded(namespace) {
            return record.owner();
        }
        let fits = |intent: &&Intent, namespace: &Found| {
            recorded(namespace).is_none()
                && !intent.before.contains(&namespace.nsid)
                && intent.size == namespace.size
        };
        let mut intents = file.intents.iter().filter(|intent| fits(intent, namespace));
        match (intents.next(), intents.next()) {
            (Some(intent), None)
                if all.iter().filter(|namespace| fits(&intent, namespace)).count() == 1 =>
            {
                let id = intent.owner.id();
                id.map_or_else(|| foreign("its intent names no object"), NamespaceOwner::Partial)
            }
            (Some(_), _) => foreign("several may have been made for one allocation"),
            (None, _) if file.namespaces.iter().any(|record| record.nsid == namespace.nsid) => {
                foreign("its NSID is recorded with another NGUID or size")
            }
            (None, _) => NamespaceOwner::Unknown,
        }
    }

    pub(super) fn recorded(&self, namespace: &Found) -> Option<NamespaceOwner> {
        self.record(namespace.nsid)
            .filter(|record| record.is_of(namespace))
            .map(|record| record.owner())
    }

    /// NSIDs of the namespaces recorded for an allocation.
    pub(super) fn nsids_of(&self, allocation: AllocationId) -> Vec<u32> {
        let owner = Owner::of(allocation);
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

    /// All records: what an absent drive holds of ours.
    pub(super) fn records(&self) -> Vec<Record> {
        self.file.lock().namespaces.clone()
    }

    /// Changes the file first: a change that is not on disk did not happen.
    fn change(&self, change: impl FnOnce(&mut File)) -> io::Result<()> {
        let mut file = self.file.lock();
        let mut after = file.clone();
        change(&mut after);
        if after != *file {
            durable::write(&self.path, &serde_json::to_vec_pretty(&after)?)?;
            *file = after;
        }
        Ok(())
    }
}

/// Suffix of a ledger named after its drive.
const PLAIN: &str = ".json";
/// Suffix of any other ledger.
const HASHED: &str = ".ledger";
/// Bytes of a file's name (limits.h, NAME_MAX).
const LONGEST: usize = 255;

/// Checks that the ledger belongs to that drive.
fn whose(nqn: &Nqn, file: File) -> io::Result<File> {
    if file.nqn == nqn.to_string() {
        return Ok(file);
    }
    Err(io::Error::other(format!("it is the ledger of drive {:?}", file.nqn)))
}

/// Lower-case digits, as sysfs has them between its hyphens.
pub(super) fn hex(nguid: [u8; 16]) -> String {
    Uuid::from_bytes(nguid).simple().to_string()
}

fn foreign(why: &str) -> NamespaceOwner {
    NamespaceOwner::Foreign(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation(index: u32) -> AllocationId {
        AllocationId { owner: "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap(), index }
    }

    fn found(nsid: u32, size: u64) -> Found {
        Found { nsid, nguid: [u8::try_from(nsid).unwrap(); 16], size }
    }

    fn wanted(size: u64) -> Wanted {
        Wanted { size, members: 16 }
    }

    fn nqn() -> Nqn {
        "nqn.2019-08.org.qemu:drive0".parse().unwrap()
    }

    #[test]
    fn what_was_made_is_ours_by_its_nguid_also_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(directory.path(), &nqn()).unwrap();
        ledger.intend(allocation(0), wanted(4096), &[], 1).unwrap();
        ledger.record_created(allocation(0), found(1, 4096), 16, true).unwrap();
        ledger.record_host(1, 3, &"compute-03".parse().unwrap()).unwrap();

        let again = Ledger::open(directory.path(), &nqn()).unwrap();
        let ours = found(1, 4096);
        let reused = Found { nguid: [9; 16], ..ours };
        assert_eq!(again.owner(&ours, &[ours]), NamespaceOwner::Ours(allocation(0)));
        assert!(matches!(again.owner(&reused, &[reused]), NamespaceOwner::Foreign(_)));
        assert_eq!(again.record(1).unwrap().hosts[&3], "compute-03");
    }

    #[test]
    fn a_crash_after_create_leaves_what_can_be_attributed() {
        let directory = tempfile::tempdir().unwrap();
        Ledger::open(directory.path(), &nqn())
            .unwrap()
            .intend(allocation(0), wanted(8192), &[1], 1)
            .unwrap();
        let (old, other, new) = (found(1, 8192), found(2, 4096), found(3, 8192));

        let ledger = Ledger::open(directory.path(), &nqn()).unwrap();
        let all = [old, other, new];
        let owners = all.map(|namespace| ledger.owner(&namespace, &all));
        assert_eq!(owners[..2], [NamespaceOwner::Unknown, NamespaceOwner::Unknown]);
        assert_eq!(owners[2], NamespaceOwner::Partial(allocation(0)));
        ledger.settle(&all).unwrap();
        assert_eq!(ledger.owner(&new, &all), NamespaceOwner::Partial(allocation(0)));
    }

    #[test]
    fn two_that_may_be_meant_are_nobodys() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(directory.path(), &nqn()).unwrap();
        ledger.intend(allocation(0), wanted(8192), &[], 1).unwrap();
        let all = [found(1, 8192), found(2, 8192)];
        for namespace in &all {
            assert!(matches!(ledger.owner(namespace, &all), NamespaceOwner::Foreign(_)));
        }
    }

    #[test]
    fn an_intent_of_which_nothing_came_claims_nothing_later() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(directory.path(), &nqn()).unwrap();
        ledger.intend(allocation(0), wanted(8192), &[], 1).unwrap();
        ledger.settle(&[]).unwrap();
        let later = found(1, 8192);
        assert_eq!(ledger.owner(&later, &[later]), NamespaceOwner::Unknown);
    }

    #[test]
    fn a_ledger_has_a_name_whatever_its_drive_is_called() {
        let directory = tempfile::tempdir().unwrap();
        let named = |name: &str| -> Nqn { name.parse().unwrap() };
        let plain = [nqn(), named(&"n".repeat(250))];
        let hashed = ["n".repeat(251), "m".repeat(256), "made up  x".into(), "up/../x".into()];
        let hashed = hashed.map(|file| named(&file));
        for nqn in plain.iter().chain(&hashed) {
            let ledger = Ledger::open(directory.path(), nqn).unwrap();
            ledger.record_created(allocation(0), found(1, 4096), 1, true).unwrap();
            assert_eq!(Ledger::open(directory.path(), nqn).unwrap().records().len(), 1);
        }
        let paths = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut known: Vec<_> =
            paths.map(|path| Ledger::drive_of(&path).unwrap().unwrap()).collect();
        known.sort();
        let mut all = [&plain[..], &hashed].concat();
        all.sort();
        assert_eq!(known, all, "each has one of its own");
        for nqn in &plain {
            assert!(directory.path().join(format!("{nqn}.json")).exists(), "as it always was");
        }
        let another = Ledger::path(directory.path(), &hashed[1]);
        fs::copy(Ledger::path(directory.path(), &hashed[0]), &another).unwrap();
        Ledger::open(directory.path(), &hashed[1]).unwrap_err();
        fs::write(&another, "{").unwrap();
        assert!(Ledger::drive_of(&another).unwrap().is_err());
        assert!(Ledger::drive_of(&directory.path().join("agent")).is_none());
    }

    #[test]
    fn a_ledger_that_cannot_be_read_is_an_error_and_not_empty() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(format!("{}.json", nqn())), "{").unwrap();
        assert!(Ledger::open(directory.path(), &nqn()).is_err());
    }
}
