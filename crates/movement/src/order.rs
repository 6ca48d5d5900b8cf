//! The lines of JSON that an agent writes to the standard input of `datamover`: first an [`Order`], later [`Change`]s
//! to it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
