//! What can be wrong with an object. Each text names the field, the value and the remedy: it is what the user reads.

use storage::{
    desired::{IndexLinkError, MountPointError, NameError, NodeName},
    template::SiteCommandError,
};
use thiserror::Error;

use super::{ReferenceError, Untold};

/// Why an object as a whole cannot be worked on. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ObjectError {
    /// It lies in the namespace of another node.
    #[error(
        "metadata.namespace: {namespace:?} is not this node's namespace, {node}: create the object in the namespace of the node that mounts"
    )]
    OtherNamespace {
        /// Where it lies.
        namespace: String,
        /// This node.
        node: NodeName,
    },
    /// It names another node than its namespace does.
    #[error(
        "spec.node is {node:?} and differs from the namespace, {namespace:?}: use the same name for both"
    )]
    OtherNode {
        /// What it names.
        node: String,
        /// Where it lies.
        namespace: String,
    },
    /// Its uid is not one.
    #[error("metadata.uid: {0}")]
    Uid(NameError),
    /// It asks for nothing.
    #[error("spec.mounts: is empty: name at least one mount")]
    NoMounts,
    /// A word for the state that is not known.
    #[error("spec.desiredState: {0:?} is not known: use mounted or unmounted")]
    UnknownDesiredState(String),
    /// A label without which the object cannot be understood.
    #[error("metadata.labels: {0} is missing: the controller that creates the object must set it")]
    MissingLabel(&'static str),
    /// The profile is not there.
    #[error("{0}")]
    ProfileMissing(String),
    /// The profile may be there, and cannot be read: what is mounted stays, as it may have hooks to run.
    #[error("{0}")]
    ProfileUnread(String),
    /// The profile may still be edited by anyone.
    #[error(
        "NnfStorageProfile {namespace}/{name} is not pinned: set data.pinned to true, or name the pinned copy in the labels"
    )]
    ProfileNotPinned {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The object does not have the shape of a ClientMount.
    #[error("the object cannot be read as a ClientMount: {0}")]
    Unreadable(String),
}

/// Why one mount of an object cannot be worked on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{problem}", field(*.index, .problem))]
pub struct MountError {
    /// Its place in `spec.mounts`.
    pub index: usize,
    /// Its path, as the object spells it.
    pub path: String,
    /// What is wrong.
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
    /// The same, when it is to be unmounted and the profile that may have given the variable is gone.
    #[error(
        "{:?} names a variable that only the NnfStorageProfile of the labels can give, and it cannot be had: create it again, or unmount by hand",
        .0.path
    )]
    Untold(Box<Untold>),
    /// Another mount of the object is there already, or around it, or within it.
    #[error(
        "overlaps {other_path:?} of spec.mounts[{other}]: give every mount a path of its own, none within another"
    )]
    Overlap {
        /// Place of the other in `spec.mounts`.
        other: usize,
        /// Its path.
        other_path: String,
    },
    /// Not a file system we know.
    #[error("{0:?} is not known: use xfs, gfs2, lustre or none (raw)")]
    UnknownType(String),
    /// Not a way to name a device that fits the file system.
    #[error("{found:?} does not fit a mount of type {kind}: use {remedy}")]
    DeviceType {
        /// What the object says.
        found: String,
        /// The mount's file system.
        kind: String,
        /// What would fit.
        remedy: &'static str,
    },
    /// A part of the device's description is missing.
    #[error("is missing or empty: {remedy}")]
    MissingField {
        /// Which, relative to the mount.
        field: &'static str,
        /// Who should have set it to what.
        remedy: &'static str,
    },
    /// A namespace's identity is not one.
    #[error("{0}")]
    Namespace(NameError),
    /// The allocation's index is negative or too large.
    #[error("{0} is not an allocation's index: use a number from 0 to 4294967295")]
    AllocationIndex(i64),
    /// The namespaces behind the reference are not known.
    #[error("{0}")]
    Reference(ReferenceError),
    /// A label from which the volume's name is formed.
    #[error("metadata.labels: {0} is missing: the controller that creates the object must set it")]
    MissingLabel(&'static str),
    /// Such a label with a value that no controller would give it.
    #[error("metadata.labels: {label} is {value:?}: use {remedy}")]
    BadLabel {
        /// Which.
        label: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        remedy: &'static str,
    },
    /// Part of a Lustre source that mount(8) would misread.
    #[error("{value:?} cannot be {what}")]
    Lustre {
        /// Which, relative to the mount.
        field: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        what: &'static str,
    },
    /// A user or group that chown(2) cannot set.
    #[error("{value} is not a numeric id: use a number from 0 to 4294967294")]
    UserOrGroup {
        /// `userID` or `groupID`.
        field: &'static str,
        /// Its value.
        value: i64,
    },
    /// A command line of the profile.
    #[error("{0}")]
    Command(SiteCommandError),
    /// The compute's name cannot be a link in the index tree.
    #[error("{0}")]
    Compute(IndexLinkError),
    /// The compute has a mount in this tree already.
    #[error("{compute:?} is also the compute of spec.mounts[{other}]: name each compute once")]
    ComputeTwice {
        /// Its name.
        compute: String,
        /// Place of the other in `spec.mounts`.
        other: usize,
    },
}

/// The path of the field at fault, with a colon; empty when the text names what is at fault outside the mount.
fn field(index: usize, problem: &MountProblem) -> String {
    let field = match problem {
        MountProblem::MountPath(_)
        | MountProblem::UnknownVariable(_)
        | MountProblem::Untold(_)
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
