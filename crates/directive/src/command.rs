//! The commands of NNF's directives, with typed arguments.

mod read;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::capacity::CapacityError;
use crate::location::{Location, LocationError};

/// Commands that a directive may have.
pub(crate) const COMMANDS: [&str; 7] = [
    "jobdw",
    "create_persistent",
    "destroy_persistent",
    "persistentdw",
    "copy_in",
    "copy_out",
    "container",
];

/// A directive with typed arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Creates storage for this job.
    Jobdw(Jobdw),
    /// Creates storage that outlives its job.
    CreatePersistent(CreatePersistent),
    /// Destroys persistent storage, with its data.
    DestroyPersistent(DestroyPersistent),
    /// Mounts persistent storage for this job.
    Persistentdw(Persistentdw),
    /// Copies data before the job runs.
    CopyIn(Copy),
    /// Copies data after the job has run.
    CopyOut(Copy),
    /// Runs containers beside the job.
    Container(Container),
}

/// Arguments of `jobdw`, which creates storage for its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jobdw {
    pub file_system: FileSystem,
    /// Capacity in bytes: of the whole file system with Lustre, else for each compute.
    pub capacity: u64,
    pub name: String,
    /// Name of the storage profile; `None` for the site's default.
    pub profile: Option<String>,
    /// Words of `requires`, as written.
    pub requires: Vec<String>,
}

/// Arguments of `create_persistent`, which creates storage that outlives its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatePersistent {
    pub file_system: FileSystem,
    /// Capacity in bytes; `None` only for a stand-alone management target.
    pub capacity: Option<u64>,
    pub name: String,
    /// Name of the storage profile; `None` for the site's default.
    pub profile: Option<String>,
}

/// Arguments of `destroy_persistent`, which destroys persistent storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestroyPersistent {
    pub name: String,
}

/// Arguments of `persistentdw`, which mounts persistent storage for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persistentdw {
    pub name: String,
    /// Words of `requires`, as written.
    pub requires: Vec<String>,
}

/// Arguments of `copy_in` and `copy_out`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    pub source: Location,
    pub destination: Location,
    /// Name of the data movement profile; `None` for the site's default.
    pub profile: Option<String>,
}

/// Arguments of `container`, which runs containers on the job's rabbits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub name: String,
    pub profile: String,
    /// Storages that the containers use, in the order in which they were written.
    pub storages: Vec<StorageArgument>,
}

/// A storage that containers use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageArgument {
    pub variable: Variable,
    /// The whole key, such as `DW_JOB_local_storage`.
    pub key: String,
    /// Name of a `jobdw` or `persistentdw`, or a path on a global Lustre.
    pub value: String,
}

/// Kind of a container's storage, by the prefix of its variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    /// `DW_JOB_…`: storage of this job.
    Job,
    /// `DW_PERSISTENT_…`: persistent storage.
    Persistent,
    /// `DW_GLOBAL_…`: a Lustre of the site.
    Global,
}

/// File systems that storage can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileSystem {
    Raw,
    Xfs,
    Gfs2,
    Lustre,
}

/// Error: an argument is missing, invalid or superfluous.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandFault {
    #[error("command {command:?} is unknown; write one of {}", COMMANDS.join(", "), command = .0)]
    Unknown(String),
    #[error("argument {key} is missing; add {key}=VALUE")]
    Missing { key: &'static str },
    #[error(
        "argument type={value}: there is no such type of storage; write raw, xfs, gfs2 or lustre"
    )]
    FileSystem { value: String },
    #[error("argument capacity={value}: {source}")]
    Capacity { value: String, source: CapacityError },
    #[error("argument {key}={value}: {source}")]
    Location { key: &'static str, value: String, source: LocationError },
    #[error("argument {argument}: {command} has no such argument; remove it")]
    Superfluous { argument: String, command: String },
}

impl Command {
    /// Returns the name of the storage that the directive makes or uses, if computes mount this storage.
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

    /// Returns the words of `requires`.
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

    /// Returns the command's word in a directive.
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

/// Error: the text does not name a type of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("there is no such type of storage; write raw, xfs, gfs2 or lustre")]
pub struct NoSuchFileSystem;

impl FileSystem {
    /// All file systems, in the order of their definition.
    pub const ALL: [Self; 4] = [Self::Raw, Self::Xfs, Self::Gfs2, Self::Lustre];

    /// Returns the file system's word in a directive.
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
