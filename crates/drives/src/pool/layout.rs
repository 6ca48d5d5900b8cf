//! Reads and writes the files of a pool.
//!
//! ```text
//! <pool>/pool.json                       UUID of the pool, number and size of its drives
//!        lock                            held while namespaces or loop devices change
//!        drive-<i>/<nsid>/data           a namespace's blocks, sparse
//!                        /owner.json     its allocation
//!                        /access/<node>  one file for each node that has access
//!        drive-<i>/.new-<nsid>-<allocation>    a namespace that is being created
//!        drive-<i>/.gone-<nsid>-<allocation>   a namespace that is being deleted
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use storage::{
    desired::{AllocationId, Nqn, ObjectUid},
    observed::NamespaceOwner,
};
use uuid::Uuid;

/// The contents of `pool.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PoolFile {
    /// UUID that is generated when the pool is created; part of the NQN of every drive.
    pub(super) uuid: Uuid,
    pub(super) drives: u16,
    /// Size of each drive in bytes.
    pub(super) drive_capacity: u64,
}

const NQN_PREFIX: &str = "nqn.2026-01.io.warren";

impl PoolFile {
    pub(super) fn nqn(&self, slot: u16) -> Nqn {
        format!("{NQN_PREFIX}:{}:drive-{slot}", self.uuid)
            .parse()
            .expect("a UUID and a number make a valid NQN")
    }

    pub(super) fn slot(&self, nqn: &Nqn) -> Option<u16> {
        (0..self.drives).find(|slot| self.nqn(*slot) == *nqn)
    }
}

/// The contents of `owner.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OwnerFile {
    owner: String,
    index: u32,
    capacity: u64,
    /// Number of namespaces of the allocation. Pools of an older Warren do not record the number, because each
    /// allocation had one namespace.
    #[serde(rename = "of", default = "one_member")]
    members: u16,
}

/// The number of namespaces of an allocation in pools of an older Warren, which do not record it.
fn one_member() -> u16 {
    1
}

impl OwnerFile {
    pub(super) fn new(allocation: AllocationId, capacity: u64, members: u16) -> Self {
        Self { owner: allocation.owner.to_string(), index: allocation.index, capacity, members }
    }

    /// Reads the owner of a namespace, and the number of namespaces of its allocation.
    pub(super) fn read(namespace: &Path) -> (NamespaceOwner, u16) {
        let foreign = |why: String| (NamespaceOwner::Foreign(format!("owner.json: {why}")), 0);
        let bytes = match fs::read(namespace.join("owner.json")) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return (NamespaceOwner::Unknown, 0);
            }
            Err(error) => return foreign(error.to_string()),
        };
        let file: Self = match serde_json::from_slice(&bytes) {
            Ok(file) => file,
            Err(error) => return foreign(error.to_string()),
        };
        match file.owner.parse::<ObjectUid>() {
            Ok(owner) => {
                (NamespaceOwner::Ours(AllocationId { owner, index: file.index }), file.members)
            }
            Err(error) => foreign(error.to_string()),
        }
    }

    pub(super) fn write(&self, namespace: &Path) -> io::Result<()> {
        files::write_durably(&namespace.join("owner.json"), &serde_json::to_vec(self)?)
    }
}

/// The meaning of a name in a drive's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryName {
    Namespace(u32),
    /// A namespace whose creation or deletion was interrupted by a crash.
    Partial(u32, AllocationId),
}

impl EntryName {
    pub(super) fn parse(name: &str) -> Option<Self> {
        let partial = name.strip_prefix(".new-").or_else(|| name.strip_prefix(".gone-"));
        let Some(partial) = partial else {
            return name.parse().ok().filter(|nsid| *nsid > 0).map(Self::Namespace);
        };
        let (nsid, allocation) = partial.split_once('-')?;
        let (owner, index) = allocation.split_once('.')?;
        let allocation = AllocationId { owner: owner.parse().ok()?, index: index.parse().ok()? };
        Some(Self::Partial(nsid.parse().ok()?, allocation))
    }
}

pub(super) fn new_name(nsid: u32, allocation: AllocationId) -> String {
    format!(".new-{nsid}-{allocation}")
}

pub(super) fn gone_name(nsid: u32, allocation: AllocationId) -> String {
    format!(".gone-{nsid}-{allocation}")
}

/// Lists the entries of a drive's directory. Names that Warren does not use are left out.
pub(super) fn entries(drive: &Path) -> io::Result<Vec<(EntryName, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(drive)? {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str().and_then(EntryName::parse) {
            found.push((name, entry.path()));
        }
    }
    found.sort_by(|a, b| a.1.cmp(&b.1));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_reads_the_names_of_namespaces_and_unfinished_ones() {
        let owner = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap();
        let allocation = AllocationId { owner, index: 2 };
        for name in [new_name(7, allocation), gone_name(7, allocation)] {
            assert_eq!(EntryName::parse(&name), Some(EntryName::Partial(7, allocation)));
        }
        assert_eq!(EntryName::parse("12"), Some(EntryName::Namespace(12)));
        for foreign in ["0", "lost+found", ".new-x", "-1", ".gone-1-b1946ac9.0", ""] {
            assert_eq!(EntryName::parse(foreign), None, "{foreign}");
        }
    }
}
