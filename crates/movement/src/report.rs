//! The lines of JSON that `datamover` writes to its standard output for the agent.

use serde::{Deserialize, Serialize};

/// One line: progress, or the end of the movement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    Progress(Progress),
    Ended(Ended),
}

/// Counters since the movement began. They include what earlier runs of the movement copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub directories: u64,
    pub files: u64,
    /// Symbolic links, special files and further hard links of files.
    pub links: u64,
    /// Bytes of data, holes not counted.
    pub bytes: u64,
    /// The part of [`Progress::bytes`] that earlier runs copied.
    pub kept: u64,
    /// Files and directories that could not be copied.
    pub failed: u64,
    /// Files that changed while they were copied.
    pub changed: u64,
    /// Size of the source; `None` until `datamover` has counted it.
    pub total: Option<Total>,
}

/// Size of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    pub files: u64,
    /// Bytes of data, holes not counted.
    pub bytes: u64,
}

/// The last line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub outcome: Outcome,
    pub progress: Progress,
}

/// How a movement ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Everything was copied, except the entries that [`Progress::failed`] counts.
    Done,
    /// The agent cancelled the movement.
    Cancelled,
    /// `datamover` gave up, for this reason.
    Stopped(String),
}
