//! The lines of JSON that an agent writes to the standard input of `datamover`: first an [`Order`], later [`Change`]s
//! to it.

use std::{fmt, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The first line: one movement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    pub task: Task,
    pub user: User,
    pub source: Place,
    pub destination: Place,
    /// Name of a directory that `datamover` creates beneath the destination's directory, such as `rabbit-1-0`: keeps
    /// copies of several allocations apart.
    pub index_directory: Option<String>,
    /// The part of the source that is copied; `None` for all of it.
    #[serde(default)]
    pub share: Option<Share>,
    /// Whether `datamover` creates missing directories of the destination.
    pub creates_directories: bool,
    /// Whether extended attributes and ACLs are copied.
    pub copies_xattrs: bool,
    /// Whether success means that the destination is on stable storage.
    pub syncs: bool,
    /// Number of threads that copy, 1 or more.
    pub threads: u16,
    /// Size of a block in bytes. Several threads at once copy a file that is larger.
    pub block: u64,
    /// Maximum number of bytes copied per second; `None` for no limit.
    pub rate: Option<u64>,
    /// Milliseconds between two reports of progress.
    pub interval: u64,
    /// Prefix of temporary names, unique to this movement.
    pub prefix: String,
    /// Directory of the journal and of the list of failures. Only root may write to it.
    pub state: PathBuf,
}

/// One of the equal parts into which several rabbits divide the entries of the source directory. Each entry, with all
/// that is beneath it, belongs to one share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// From 0.
    pub index: u16,
    /// Number of shares, 2 or more.
    pub count: u16,
}

impl Share {
    /// Returns whether an entry of the source directory belongs to this share. Rabbits must agree even if their versions
    /// of `datamover` differ, so the hash is fixed: FNV-1a with 64 bits.
    #[must_use]
    pub fn has(self, name: &[u8]) -> bool {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
        name.iter().fold(OFFSET, add) % u64::from(self.count.max(1)) == u64::from(self.index)
    }
}

impl fmt::Display for Share {
    /// Formats the share as in a label, such as `0-of-4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-of-{}", self.index, self.count)
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let numbers = text.split_once("-of-");
        let share = numbers.and_then(|(index, count)| {
            Some(Self { index: index.parse().ok()?, count: count.parse().ok()? })
        });
        share.filter(|share| share.index < share.count).ok_or(ShareError)
    }
}

/// A text that is not a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("and must be a share of the source, such as 0-of-4")]
pub struct ShareError;

/// The work that an order starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Copies, and continues where an earlier run of the same movement ended.
    Copy,
    /// Removes temporary files of earlier runs.
    Clean,
}

/// The user as whom `datamover` copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// A path and the directory that it must not leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Mount point of the storage, or of the global file system.
    pub root: PathBuf,
    /// Path beneath the root. Empty means the root itself; a trailing `/` means the contents of a directory.
    pub path: String,
}

/// A later line: changes a running movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Ends the movement and removes its temporary files.
    Cancel,
    /// Sets the maximum number of bytes copied per second; `None` removes the limit.
    Rate(Option<u64>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_belongs_to_exactly_one_share() {
        let shares = |count| (0..count).map(move |index| Share { index, count });
        for count in [2, 3, 16] {
            let mut sizes = vec![0; usize::from(count)];
            for name in (0..1000).map(|number| format!("run-{number}.dat")) {
                let owners: Vec<_> =
                    shares(count).filter(|share| share.has(name.as_bytes())).collect();
                assert_eq!(owners.len(), 1, "{name}");
                sizes[usize::from(owners[0].index)] += 1;
            }
            let even = 1000 / usize::from(count);
            assert!(sizes.iter().all(|size| size * 2 > even && *size < even * 2), "{sizes:?}");
        }
        // Rabbits with other versions of datamover rely on this assignment.
        assert!(Share { index: 3, count: 4 }.has(b"run-1.dat"));
    }

    #[test]
    fn a_share_is_parsed_as_it_is_formatted() {
        let share = Share { index: 1, count: 3 };
        assert_eq!(share.to_string().parse(), Ok(share));
        for text in ["", "1", "3-of-3", "-1-of-3", "1-of-x", "0-of-0"] {
            assert_eq!(text.parse::<Share>(), Err(ShareError), "{text}");
        }
    }
}
