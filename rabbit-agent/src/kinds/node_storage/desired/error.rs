//! Defines the errors of an invalid NnfNodeStorage. Users read these texts, so each text names field, value and remedy.

use agent::error::Failure;
use api::{NnfStorageProfile, names::label};
use daemon::chain;
use storage::{
    desired::{MountPointError, NameError},
    template::SiteCommandError,
};
use thiserror::Error;

use super::{MOST_FILE_SYSTEMS, name_of};

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NodeStorageError {
    #[error("metadata.labels[{0}] is missing: the object that asks for storage sets it")]
    Label(&'static str),
    #[error("metadata.labels[{}]", label::OWNER_UID)]
    Owner(#[source] NameError),
    #[error(
        "spec.fileSystemType {0:?} is not supported by this build: use raw, xfs, gfs2 or lustre"
    )]
    Type(String),
    #[error("spec.count is {0}: use 0 to {MOST_FILE_SYSTEMS}")]
    Count(i64),
    #[error(
        "spec.count is {0} with sharedAllocation: several file systems on one allocation need logical volumes: start the agents with --volumes lvm and a profile that makes them, or use a profile with sharedVg false"
    )]
    SharedCount(i64),
    /// Object and profile disagree about the volume group's name: computes would look for a group that the
    /// rabbit did not make.
    #[error(
        "spec.sharedAllocation is {spec}, but {field} of the pinned profile is {profile}: computes would look for another volume group; make them equal"
    )]
    Sharing { spec: bool, field: String, profile: bool },
    #[error(
        "spec.count is {count}, but NnfNodeBlockStorage {block} has {allocations} allocations: make the two numbers equal"
    )]
    Allocations { count: u32, block: String, allocations: usize },
    #[error(
        "NnfNodeBlockStorage {block} gives {rabbit} no device for allocation {index}: put {rabbit} first in spec.allocations[{index}].access"
    )]
    NoAccess { block: String, index: usize, rabbit: String },
    #[error(
        "spec.commandVariables[{place}] ({name}) has {values} indexedValues for {count} file systems: give one for each"
    )]
    IndexedValues { place: usize, name: String, values: usize, count: u32 },
    #[error("spec.commandVariables[{place}].name is {name:?}: a variable's name begins with '$'")]
    VariableName { place: usize, name: String },
    #[error("pinned profile {profile}")]
    Profile {
        profile: String,
        #[source]
        source: SiteCommandError,
    },
    #[error("{field} is {value:?}: use {remedy}")]
    Lustre { field: String, value: String, remedy: &'static str },
    #[error("$POOL_NAME or $ZVOL_NAME in the profile's variableOverride")]
    Dataset(#[source] NameError),
    #[error("mount path of the Lustre target")]
    TargetPath(#[source] MountPointError),
    #[error("temporary mount directory")]
    Temporary(#[source] MountPointError),
    /// The block storage's uid is invalid, so the agent does not know the block storage's allocations.
    #[error("metadata.uid of NnfNodeBlockStorage {block}")]
    BlockUid {
        block: String,
        #[source]
        source: NameError,
    },
    #[error("status.allocations[{index}].devices of NnfNodeBlockStorage {block}")]
    Device {
        index: usize,
        block: String,
        #[source]
        source: NameError,
    },
}

impl NodeStorageError {
    /// Returns the error of an invalid line in this profile.
    pub fn in_profile(profile: &NnfStorageProfile, source: SiteCommandError) -> Self {
        let meta = &profile.metadata;
        let profile = format!("{}/{}", name_of(&meta.namespace), name_of(&meta.name));
        Self::Profile { profile, source }
    }
}

impl From<&NodeStorageError> for Failure {
    fn from(error: &NodeStorageError) -> Self {
        let failure = Self::input(chain(error));
        match error {
            NodeStorageError::SharedCount(_) => failure.for_operators(),
            _ => failure,
        }
    }
}
