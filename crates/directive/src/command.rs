//! What a directive means: the commands of NNF, with their arguments as types.

mod read;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::capacity::CapacityError;
use crate::location::{Location, LocationError};

/// The words that a directive may begin with.
pub(crate) const COMMANDS: [&str; 7] = [
    "jobdw",
    "create_persistent",
    "destroy_persistent",
    "persistentdw",
    "copy_in",
    "copy_out",
    "container",
];

/// One directive, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Storage for this job.
    Jobdw(Jobdw),
    /// Storage that outlives its job.
    CreatePersistent(CreatePersistent),
    /// The end of such storage.
    DestroyPersistent(DestroyPersistent),
    /// Use of such storage.
    Persistentdw(Persistentdw),
    /// Data to bring before the job runs.
    CopyIn(Copy),
    /// Data to take away after it ran.
    CopyOut(Copy),
    /// Containers beside the job.
    Container(Container),
}

/// `jobdw`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jobdw {
    pub file_system: FileSystem,
    /// Bytes; of a Lustre in all, else for each compute.
    pub capacity: u64,
    pub name: String,
    /// `None` for the site's default.
    pub profile: Option<String>,
    /// Words, as written.
    pub requires: Vec<String>,
}

/// `create_persistent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatePersistent {
    pub file_system: FileSystem,
    /// Bytes; `None` only for a stand-alone management target.
    pub capacity: Option<u64>,
    pub name: String,
    /// `None` for the site's default.
    pub profile: Option<String>,
}

/// `destroy_persistent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestroyPersistent {
    pub name: String,
}

/// `persistentdw`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persistentdw {
    pub name: String,
    /// Words, as written.
    pub requires: Vec<String>,
}

/// `copy_in` and `copy_out`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    pub source: Location,
    pub destination: Location,
    /// `None` for the site's default.
    pub profile: Option<String>,
}

/// `container`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub name: String,
    pub profile: String,
    /// In the order in which they were written.
    pub storages: Vec<StorageArgument>,
}

/// Storage that a container uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageArgument {
    pub variable: Variable,
    /// The whole key, such as `DW_JOB_local_storage`.
    pub key: String,
    /// Name of a `jobdw` or `persistentdw`, or a path of a global Lustre.
    pub value: String,
}

/// Where a container's storage comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    /// `DW_JOB_…`
    Job,
    /// `DW_PERSISTENT_…`
    Persistent,
    /// `DW_GLOBAL_…`
    Global,
}

/// Kinds of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileSystem {
    Raw,
    Xfs,
    Gfs2,
    Lustre,
}

/// An argument that cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandFault {
    #[error("command {command:?} is unknown; write one of {}", COMMANDS.join(", "), command = .0)]
    Unknown(String),
    #[error("argument {key} is missing; add {key}=VALUE")]
    Missing { key: &'static str },
    #[error("argument type={value}: no such storage; write raw, xfs, gfs2 or lustre")]
    FileSystem { value: String },
    #[error("argument capacity={value}: {source}")]
    Capacity { value: String, source: CapacityError },
    #[error("argument {key}={value}: {source}")]
    Location { key: &'static str, value: String, source: LocationError },
    #[error("argument {argument}: {command} takes no such argument; leave it out")]
    Superfluous { argument: String, command: String },
}

impl Command {
    /// Name and use of this storage, if it is storage that computes mount.
    #[must_use]
    pub fn mounted_name(&self) -> Option<&str> {
        match self {
            Self::Jobdw(Jobdw { name, .. }) | Self::Persistentdw(Persistentdw { name, .. }) => {
                Some(name)
            }
            Self::CreatePersistent(_)
            | Self::DestroyPersistent(_)
            | Self::CopyIn(_)
            | Self::CopyOut(_)
            | Self::Container(_) => None,
        }
    }

    /// What it requires of the site beyond storage.
    #[must_use]
    pub fn requires(&self) -> &[String] {
        match self {
            Self::Jobdw(Jobdw { requires, .. })
            | Self::Persistentdw(Persistentdw { requires, .. }) => requires,
            Self::CreatePersistent(_)
            | Self::DestroyPersistent(_)
            | Self::CopyIn(_)
            | Self::CopyOut(_)
            | Self::Container(_) => &[],
        }
    }

    /// Its word in a directive.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Jobdw(_) => "jobdw",
            Self::CreatePersistent(_) => "create_persistent",
            Self::DestroyPersistent(_) => "destroy_persistent",
            Self::Persistentdw(_) => "persistentdw",
            Self::CopyIn(_) => "copy_in",
            Self::CopyOut(_) => "copy_out",
            Self::Container(_) => "container",
        }
    }
}

/// Not one of the kinds of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no such storage; write raw, xfs, gfs2 or lustre")]
pub struct NoSuchFileSystem;

impl FileSystem {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Raw, Self::Xfs, Self::Gfs2, Self::Lustre];

    /// As it stands in a directive.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Xfs => "xfs",
            Self::Gfs2 => "gfs2",
            Self::Lustre => "lustre",
        }
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for FileSystem {
    type Err = NoSuchFileSystem;

    fn from_str(text: &str) -> Result<Self, NoSuchFileSystem> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(NoSuchFileSystem)
    }
}

#[cfg(test)]
mod tests;
