//! What can be wrong with a ClientMount. Users read these texts; each names the field, the value and the remedy.

use storage::{
    desired::{IndexLinkError, MountPointError, NameError, NodeName},
    template::SiteCommandError,
};
use thiserror::Error;

use super::{ReferenceError, UnknownPath};

/// Why an object as a whole cannot be worked on. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ObjectError {
    /// The object is in the namespace of another node.
    #[error(
        "metadata.namespace: {namespace:?} is not this node's namespace, {node}: create the object in the namespace of the node that mounts"
    )]
    OtherNamespace {
        /// The object's namespace.
        namespace: String,
        /// The name of this node.
        node: NodeName,
    },
    /// `spec.node` and the namespace differ.
    #[error(
        "spec.node is {node:?} and differs from the namespace, {namespace:?}: use the same name for both"
    )]
    OtherNode {
        /// The value of `spec.node`.
        node: String,
        /// The object's namespace.
        namespace: String,
    },
    /// `metadata.uid` is no uid.
    #[error("metadata.uid: {0}")]
    Uid(NameError),
    /// `spec.mounts` is empty.
    #[error("spec.mounts: is empty: name at least one mount")]
    NoMounts,
    /// The value of `spec.desiredState` is not known.
    #[error("spec.desiredState: {0:?} is not known: use mounted or unmounted")]
    UnknownDesiredState(String),
    /// A label is missing that the agent needs.
    #[error("metadata.labels: {0} is missing: the controller that creates the object must set it")]
    MissingLabel(&'static str),
    /// The profile does not exist; the text names it and the remedy.
    #[error("{0}")]
    ProfileMissing(String),
    /// The agent may not read the profile. Mounts stay, because the profile may have hooks for unmounting.
    #[error("{0}")]
    ProfileForbidden(String),
    /// The profile is not pinned, so anyone may still edit it.
    #[error(
        "NnfStorageProfile {namespace}/{name} is not pinned: set data.pinned to true, or name the pinned copy in the labels"
    )]
    ProfileNotPinned {
        /// The profile's namespace.
        namespace: String,
        /// The profile's name.
        name: String,
    },
    /// The object cannot be read as a ClientMount; the text says why.
    #[error("the object cannot be read as a ClientMount: {0}")]
    Unreadable(String),
}

/// Why one mount of an object cannot be worked on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{problem}", field(*.index, .problem))]
pub struct MountError {
    /// Its index in `spec.mounts`.
    pub index: usize,
    /// Its `mountPath`, as the object has it.
    pub path: String,
    /// What is wrong with the mount.
    pub problem: MountProblem,
}

/// What is wrong with one mount.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MountProblem {
    /// The path cannot be a mount point here.
    #[error("{0}")]
    MountPath(MountPointError),
    /// The path still has a `$` after all variables were filled in.
    #[error(
        "{0:?} names a variable that is not known: use $JOBID, $DIRECTIVE_INDEX, $WORKFLOW_UID, $USERID, $GROUPID or one of the profile's variableOverride"
    )]
    UnknownVariable(String),
    /// The same for a mount that is to be unmounted, when the profile is gone that may have given the variable.
    #[error(
        "{:?} names a variable that only the NnfStorageProfile of the labels can give, and it cannot be had: create it again, or unmount by hand",
        .0.path
    )]
    UnknownPath(Box<UnknownPath>),
    /// Another mount of the object has the same path, or one around it or within it.
    #[error(
        "overlaps {other_path:?} of spec.mounts[{other}]: give every mount a path of its own, none within another"
    )]
    Overlap {
        /// Index of the other mount in `spec.mounts`.
        other: usize,
        /// Path of the other mount.
        other_path: String,
    },
    /// The value of `type` is not known.
    #[error("{0:?} is not known: use xfs, gfs2, lustre or none (raw)")]
    UnknownType(String),
    /// `device.type` does not fit the file system.
    #[error("{found:?} does not fit a mount of type {kind}: use {remedy}")]
    DeviceType {
        /// The value of `device.type`.
        found: String,
        /// The mount's file system.
        kind: String,
        /// The values that fit.
        remedy: &'static str,
    },
    /// A field of the device is missing or empty.
    #[error("is missing or empty: {remedy}")]
    MissingField {
        /// The field's path within the mount.
        field: &'static str,
        /// What to set it to.
        remedy: &'static str,
    },
    /// An NVMe namespace is not named by serial number and NSID.
    #[error("{0}")]
    Namespace(NameError),
    /// The allocation's index is negative or too large.
    #[error("{0} is not an allocation's index: use a number from 0 to 4294967295")]
    AllocationIndex(i64),
    /// The NVMe namespaces behind the reference are not known.
    #[error("{0}")]
    Reference(ReferenceError),
    /// A label is missing from which the volume's name is formed.
    #[error("metadata.labels: {0} is missing: the controller that creates the object must set it")]
    MissingLabel(&'static str),
    /// Such a label has a value that cannot be used.
    #[error("metadata.labels: {label} is {value:?}: use {remedy}")]
    BadLabel {
        /// The label's key.
        label: &'static str,
        /// The value that was found.
        value: String,
        /// What it should be.
        remedy: &'static str,
    },
    /// A part of the Lustre source that mount(8) would misread.
    #[error("{value:?} cannot be {what}")]
    Lustre {
        /// The field's path within the mount.
        field: &'static str,
        /// The value that was found.
        value: String,
        /// What it should be.
        what: &'static str,
    },
    /// A user or group that chown(2) cannot set.
    #[error("{value} is not a numeric id: use a number from 0 to 4294967294")]
    UserOrGroup {
        /// `userID` or `groupID`.
        field: &'static str,
        /// The value that was found.
        value: i64,
    },
    /// Bash could not read a command line of the profile.
    #[error("{0}")]
    Command(SiteCommandError),
    /// The compute's name cannot name a link in the index tree.
    #[error("{0}")]
    Compute(IndexLinkError),
    /// The compute has another mount in the same index tree.
    #[error("{compute:?} is also the compute of spec.mounts[{other}]: name each compute once")]
    ComputeTwice {
        /// The profile's name.
        compute: String,
        /// Index of the other mount in `spec.mounts`.
        other: usize,
    },
}

/// The path of the wrong field with a colon; empty when the text itself names the field, outside of the mount.
fn field(index: usize, problem: &MountProblem) -> String {
    let field = match problem {
        MountProblem::MountPath(_)
        | MountProblem::UnknownVariable(_)
        | MountProblem::UnknownPath(_)
        | MountProblem::Overlap { .. } => "mountPath",
        MountProblem::UnknownType(_) => "type",
        MountProblem::DeviceType { .. } => "device.type",
        MountProblem::MissingField { field, .. }
        | MountProblem::Lustre { field, .. }
        | MountProblem::UserOrGroup { field, .. } => field,
        MountProblem::Namespace(_) => "device.lvm.nvmeInfo",
        MountProblem::AllocationIndex(_) => "device.deviceReference.data",
        MountProblem::Reference(_) => "device.deviceReference",
        MountProblem::Compute(_) | MountProblem::ComputeTwice { .. } => "compute",
        MountProblem::MissingLabel(_)
        | MountProblem::BadLabel { .. }
        | MountProblem::Command(_) => return String::new(),
    };
    format!("spec.mounts[{index}].{field}: ")
}
