//! What can be wrong with a NnfNodeStorage. Each text names the field, the value and the remedy: it is what the user reads.

use api::{NnfStorageProfile, names::label};
use storage::{
    desired::{MountPointError, NameError},
    template::SiteCommandError,
};
use thiserror::Error;

use super::{MOST_FILE_SYSTEMS, name_of};

/// Why a NnfNodeStorage cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NodeStorageError {
    /// A label is missing.
    #[error("metadata.labels[{0}] is missing: the object that asks for storage sets it")]
    Label(&'static str),
    /// The owner's uid is none.
    #[error("metadata.labels[{}]", label::OWNER_UID)]
    Owner(#[source] NameError),
    /// The type is known to the schema and not to this build.
    #[error(
        "spec.fileSystemType {0:?} is not supported by this build: use raw, xfs, gfs2 or lustre"
    )]
    Type(String),
    /// Not a number of file systems.
    #[error("spec.count is {0}: use 0 to {MOST_FILE_SYSTEMS}")]
    Count(i64),
    /// One device cannot hold several file systems without LVM.
    #[error(
        "spec.count is {0} with sharedAllocation: several file systems on one allocation need logical volumes: start the agents with --volumes lvm and a profile that makes them, or use a profile with sharedVg false"
    )]
    SharedCount(i64),
    /// The names that computes derive would differ.
    #[error(
        "spec.sharedAllocation is {spec}, but {field} of the pinned profile is {profile}: computes would look for another volume group; make them equal"
    )]
    Sharing {
        /// As the object says.
        spec: bool,
        /// The profile's field.
        field: String,
        /// As the profile says.
        profile: bool,
    },
    /// More file systems than block storage.
    #[error(
        "spec.count is {count}, but NnfNodeBlockStorage {block} has {allocations} allocations: ask for as many"
    )]
    Allocations {
        /// File systems asked for.
        count: u32,
        /// The block storage.
        block: String,
        /// Its allocations.
        allocations: usize,
    },
    /// The rabbit itself was not given the devices.
    #[error(
        "NnfNodeBlockStorage {block} gives {rabbit} no device for allocation {index}: put {rabbit} first in spec.allocations[{index}].access"
    )]
    NoAccess {
        /// The block storage.
        block: String,
        /// Which allocation.
        index: usize,
        /// The rabbit.
        rabbit: String,
    },
    /// A value for each allocation is wanted, and one is missing.
    #[error(
        "spec.commandVariables[{place}] ({name}) has {values} indexedValues for {count} file systems: give one for each"
    )]
    IndexedValues {
        /// Which variable.
        place: usize,
        /// Its name.
        name: String,
        /// How many there are.
        values: usize,
        /// How many are needed.
        count: u32,
    },
    /// Not a variable.
    #[error("spec.commandVariables[{place}].name is {name:?}: a variable's name begins with '$'")]
    VariableName {
        /// Which variable.
        place: usize,
        /// As written.
        name: String,
    },
    /// A line of the profile.
    #[error("pinned profile {profile}")]
    Profile {
        /// Its namespace and name.
        profile: String,
        /// What is wrong.
        #[source]
        source: SiteCommandError,
    },
    /// What a Lustre target cannot be made of.
    #[error("{field} is {value:?}: use {remedy}")]
    Lustre {
        /// Which field.
        field: String,
        /// Its value.
        value: String,
        /// What it may be.
        remedy: &'static str,
    },
    /// A pool or dataset that the profile renamed.
    #[error("$POOL_NAME or $ZVOL_NAME, as the profile's variableOverride has it")]
    Dataset(#[source] NameError),
    /// `$TARGET_PATH` leads somewhere else.
    #[error("mount path of the Lustre target")]
    TargetPath(#[source] MountPointError),
    /// `$TEMP_DIR` leads somewhere else.
    #[error("temporary mount directory")]
    Temporary(#[source] MountPointError),
    /// Which allocations are its cannot be told.
    #[error("metadata.uid of NnfNodeBlockStorage {block}")]
    BlockUid {
        /// The block storage.
        block: String,
        /// What is wrong.
        #[source]
        source: NameError,
    },
    /// The block storage's status names what cannot be a namespace.
    #[error("status.allocations[{index}].devices of NnfNodeBlockStorage {block}")]
    Device {
        /// Which allocation.
        index: usize,
        /// The block storage.
        block: String,
        /// What is wrong.
        #[source]
        source: NameError,
    },
}

impl NodeStorageError {
    /// A line of this profile is wrong.
    #[must_use]
    pub fn in_profile(profile: &NnfStorageProfile, source: SiteCommandError) -> Self {
        let meta = &profile.metadata;
        let profile = format!("{}/{}", name_of(&meta.namespace), name_of(&meta.name));
        Self::Profile { profile, source }
    }
}
