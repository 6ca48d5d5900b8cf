//! What can be wrong with a NnfNodeStorage. Users read these texts, so each names field, value and remedy.

use api::{NnfStorageProfile, names::label};
use storage::{
    desired::{MountPointError, NameError},
    template::SiteCommandError,
};
use thiserror::Error;

use super::{MOST_FILE_SYSTEMS, name_of};

/// Why a NnfNodeStorage is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NodeStorageError {
    /// A label is missing.
    #[error("metadata.labels[{0}] is missing: the object that asks for storage sets it")]
    Label(&'static str),
    /// The owner's uid is invalid.
    #[error("metadata.labels[{}]", label::OWNER_UID)]
    Owner(#[source] NameError),
    /// This build does not support the type, though the schema has it.
    #[error(
        "spec.fileSystemType {0:?} is not supported by this build: use raw, xfs, gfs2 or lustre"
    )]
    Type(String),
    /// The number of file systems is out of range.
    #[error("spec.count is {0}: use 0 to {MOST_FILE_SYSTEMS}")]
    Count(i64),
    /// One device cannot hold several file systems without LVM.
    #[error(
        "spec.count is {0} with sharedAllocation: several file systems on one allocation need logical volumes: start the agents with --volumes lvm and a profile that makes them, or use a profile with sharedVg false"
    )]
    SharedCount(i64),
    /// Object and profile disagree, and computes would derive other names.
    #[error(
        "spec.sharedAllocation is {spec}, but {field} of the pinned profile is {profile}: computes would look for another volume group; make them equal"
    )]
    Sharing {
        /// `spec.sharedAllocation`.
        spec: bool,
        /// The field of the profile.
        field: String,
        /// Its value.
        profile: bool,
    },
    /// The block storage has too few allocations.
    #[error(
        "spec.count is {count}, but NnfNodeBlockStorage {block} has {allocations} allocations: ask for as many"
    )]
    Allocations {
        /// Number of file systems asked for.
        count: u32,
        /// Name of the block storage.
        block: String,
        /// Number of its allocations.
        allocations: usize,
    },
    /// The rabbit has no access to the devices.
    #[error(
        "NnfNodeBlockStorage {block} gives {rabbit} no device for allocation {index}: put {rabbit} first in spec.allocations[{index}].access"
    )]
    NoAccess {
        /// Name of the block storage.
        block: String,
        /// Index of the allocation.
        index: usize,
        /// Name of the rabbit.
        rabbit: String,
    },
    /// A variable has too few values for the allocations.
    #[error(
        "spec.commandVariables[{place}] ({name}) has {values} indexedValues for {count} file systems: give one for each"
    )]
    IndexedValues {
        /// Index of the variable.
        place: usize,
        /// Name of the variable.
        name: String,
        /// Number of its values.
        values: usize,
        /// Number of values needed.
        count: u32,
    },
    /// A variable's name is invalid.
    #[error("spec.commandVariables[{place}].name is {name:?}: a variable's name begins with '$'")]
    VariableName {
        /// Index of the variable.
        place: usize,
        /// The name in the object.
        name: String,
    },
    /// A line of the profile is invalid.
    #[error("pinned profile {profile}")]
    Profile {
        /// Namespace and name of the profile.
        profile: String,
        /// What is wrong with the line.
        #[source]
        source: SiteCommandError,
    },
    /// A value is no valid part of a Lustre target.
    #[error("{field} is {value:?}: use {remedy}")]
    Lustre {
        /// The field.
        field: String,
        /// Its value.
        value: String,
        /// Values that are valid.
        remedy: &'static str,
    },
    /// The profile overrides a pool or dataset with an invalid name.
    #[error("$POOL_NAME or $ZVOL_NAME, as the profile's variableOverride has it")]
    Dataset(#[source] NameError),
    /// `$TARGET_PATH` is not beneath a mount root.
    #[error("mount path of the Lustre target")]
    TargetPath(#[source] MountPointError),
    /// `$TEMP_DIR` is not beneath the temporary root.
    #[error("temporary mount directory")]
    Temporary(#[source] MountPointError),
    /// The block storage's uid is invalid, so its allocations are unknown.
    #[error("metadata.uid of NnfNodeBlockStorage {block}")]
    BlockUid {
        /// Name of the block storage.
        block: String,
        /// What is wrong with the uid.
        #[source]
        source: NameError,
    },
    /// The block storage's status names an impossible device.
    #[error("status.allocations[{index}].devices of NnfNodeBlockStorage {block}")]
    Device {
        /// Index of the allocation.
        index: usize,
        /// Name of the block storage.
        block: String,
        /// What is wrong with the device.
        #[source]
        source: NameError,
    },
}

impl NodeStorageError {
    /// A line of this profile is invalid.
    #[must_use]
    pub fn in_profile(profile: &NnfStorageProfile, source: SiteCommandError) -> Self {
        let meta = &profile.metadata;
        let profile = format!("{}/{}", name_of(&meta.namespace), name_of(&meta.name));
        Self::Profile { profile, source }
    }
}
