//! What an agent tells `datamover`: one line of JSON on its standard input, and later lines that change it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One movement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    pub task: Task,
    pub user: User,
    pub source: Place,
    pub destination: Place,
    /// Directory made beneath the destination's directory, such as `rabbit-1-0`: copies of several allocations stay apart in it.
    pub index_directory: Option<String>,
    /// Whether missing directories of the destination are made.
    pub creates_directories: bool,
    /// Whether extended attributes and ACLs are copied.
    pub copies_xattrs: bool,
    /// Whether success means that the destination is on stable storage.
    pub syncs: bool,
    /// Number of threads that copy, 1 or more.
    pub threads: u16,
    /// Bytes of a block. Files larger than this are copied by several threads at once.
    pub block: u64,
    /// Most bytes copied in a second.
    pub rate: Option<u64>,
    /// Milliseconds between two reports of progress.
    pub interval: u64,
    /// First characters of temporary names; no other movement has the same.
    pub prefix: String,
    /// Directory of the journal and of the list of failures. Only root may change it.
    pub state: PathBuf,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Copies, and goes on where an earlier run of the same movement ended.
    Copy,
    /// Removes temporary files of earlier runs.
    Clean,
}

/// Who the copier is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// A path beneath a directory that it never leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Mount point of the storage, or of the global file system.
    pub root: PathBuf,
    /// Path beneath the root. Empty means the root itself; a trailing `/` means the contents of a directory.
    pub path: String,
}

/// A later line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Ends the movement and removes its temporary files.
    Cancel,
    /// Most bytes copied in a second from now on.
    Rate(Option<u64>),
}
