//! What `datamover` tells its agent: lines of JSON on its standard output.

use serde::{Deserialize, Serialize};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    Progress(Progress),
    Ended(Ended),
}

/// Counters since the movement began, with what earlier runs of it copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub directories: u64,
    pub files: u64,
    /// Symbolic links and further names of files.
    pub links: u64,
    /// Bytes of data, holes not counted.
    pub bytes: u64,
    /// Of [`Progress::bytes`], those that earlier runs copied.
    pub kept: u64,
    /// Files and directories that could not be copied.
    pub failed: u64,
    /// Files that changed while they were copied.
    pub changed: u64,
    /// What there is to copy, once it was counted.
    pub total: Option<Total>,
}

/// What a source holds.
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
    /// Everything was copied, but for what [`Progress::failed`] counts.
    Done,
    /// The agent cancelled it.
    Cancelled,
    /// It could not go on, for this reason.
    Stopped(String),
}
