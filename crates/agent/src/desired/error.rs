//! Mistakes in a ClientMount. Users read the texts; each text names the field, the value and the remedy.

use storage::{
    desired::{IndexLinkError, MountPointError, NameError, NodeName},
    template::SiteCommandError,
};
use thiserror::Error;

use super::{ReferenceError, UnknownPath};

/// The reason why the agent cannot work on an object. The agent has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ObjectError {
    #[error(
        "metadata.namespace: {namespace:?} is not this node's namespace, {node}: create the object in the namespace of the node that mounts"
    )]
    OtherNamespace { namespace: String, node: NodeName },
    #[error(
        "spec.node is {node:?} and differs from the namespace, {namespace:?}: use the same name for both"
    )]
    OtherNode { node: String, namespace: String },
    #[error("metadata.uid: {0}")]
    Uid(NameError),
    #[error("spec.mounts: is empty: name at least one mount")]
    NoMounts,
    #[error("spec.desiredState: {0:?} is not known: use mounted or unmounted")]
    UnknownDesiredState(String),
    #[error("metadata.labels: {0} is missing: the controller that creates the object must set it")]
    MissingLabel(&'static str),
    #[error("{0}")]
    ProfileMissing(String),
    /// The API forbids the agent to read the profile. Mounts stay, because the profile may have hooks for unmounting.
    #[error("{0}")]
    ProfileForbidden(String),
    /// The profile is not pinned, so users may still edit it.
    #[error(
        "NnfStorageProfile {namespace}/{name} is not pinned: set data.pinned to true, or name the pinned copy in the labels"
    )]
    ProfileNotPinned { namespace: String, name: String },
    #[error("the object cannot be read as a ClientMount: {0}")]
    Unreadable(String),
}

/// The reason why the agent cannot work on one mount of an object.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{problem}", field(*.index, .problem))]
pub struct MountError {
    /// The mount's index in `spec.mounts`.
    pub index: usize,
    /// The mount's `mountPath`, with variables that are not replaced.
    pub path: String,
    pub problem: MountProblem,
}

/// A mistake in one mount.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MountProblem {
    #[error("{0}")]
    MountPath(MountPointError),
    #[error(
        "{0:?} names a variable that is not known: use $JOBID, $DIRECTIVE_INDEX, $WORKFLOW_UID, $USERID, $GROUPID or one of the profile's variableOverride"
    )]
    UnknownVariable(String),
    /// The path of a mount that must be unmounted contains an unknown variable. The profile, which may have defined
    /// the variable, is gone.
    #[error(
        "{:?} names a variable that only the NnfStorageProfile of the labels defines, and that profile is not available: create it again, or unmount by hand",
        .0.path
    )]
    UnknownPath(Box<UnknownPath>),
    #[error(
        "overlaps {other_path:?} of spec.mounts[{other}]: give every mount a path of its own, none within another"
    )]
    Overlap { other: usize, other_path: String },
    #[error("{0:?} is not known: use xfs, gfs2, lustre or none (raw)")]
    UnknownType(String),
    #[error("{found:?} does not fit a mount of type {kind}: use {remedy}")]
    DeviceType { found: String, kind: String, remedy: &'static str },
    #[error("is missing or empty: {remedy}")]
    MissingField { field: &'static str, remedy: &'static str },
    #[error("{0}")]
    Namespace(NameError),
    #[error("{0} is not an allocation's index: use a number from 0 to 4294967295")]
    AllocationIndex(i64),
    #[error("{0}")]
    Reference(ReferenceError),
    #[error("metadata.labels: {0} is missing: the controller that creates the object must set it")]
    MissingLabel(&'static str),
    #[error("metadata.labels: {label} is {value:?}: use {remedy}")]
    BadLabel { label: &'static str, value: String, remedy: &'static str },
    /// A part of the Lustre source that mount(8) would misread.
    #[error("{value:?} cannot be {expected}")]
    Lustre { field: &'static str, value: String, expected: &'static str },
    /// A user or group that chown(2) cannot set.
    #[error("{value} is not a numeric id: use a number from 0 to 4294967294")]
    UserOrGroup { field: &'static str, value: i64 },
    #[error("{0}")]
    Command(SiteCommandError),
    #[error("{0}")]
    Compute(IndexLinkError),
    #[error("{compute:?} is also the compute of spec.mounts[{other}]: name each compute once")]
    ComputeTwice { compute: String, other: usize },
}

/// Returns the path of the wrong field and a colon. Returns an empty text if the mistake is not in `spec.mounts`: the
/// problem's own text then names the field.
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
