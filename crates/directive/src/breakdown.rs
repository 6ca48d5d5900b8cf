//! Computes the allocations that a directive needs (the allocation sets of a DirectiveBreakdown), and the kinds of
//! paths by which computes reach these allocations.

mod sets;

use thiserror::Error;

use crate::capacity::CapacityError;
pub use sets::{is_label_value, of_jobdw, of_persistent};

/// Allocations that have the same size and label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationSet {
    /// Purpose of the allocations.
    pub label: Label,
    /// Spread of the allocations over rabbits.
    pub strategy: Strategy,
    /// Bytes of each allocation with [`Strategy::PerCompute`]; with any other strategy, bytes
    /// of all allocations together.
    pub minimum_capacity: u64,
    /// Rabbits on which the allocations may be.
    pub constraints: Constraints,
    /// True if the Lustre targets of this set must be on rabbits that serve computes of the job.
    pub colocate_computes: bool,
}

/// Purpose of a set's allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    Raw,
    Xfs,
    Gfs2,
    Mgt,
    Mdt,
    MgtMdt,
    Ost,
}

/// Spread of allocations over rabbits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// One allocation for each compute, on the compute's rabbit.
    PerCompute,
    /// Allocations of equal size on several rabbits.
    AcrossServers,
    /// A single allocation on one rabbit.
    SingleServer,
}

/// Rabbits on which allocations may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraints {
    /// Labels that the rabbit's Storage must have, as `key=value`.
    pub labels: Vec<String>,
    /// Exact number of allocations; `None` if no exact number is prescribed.
    pub count: Option<u32>,
    /// Number of allocations on a scale from 1 (few) to 10 (many).
    pub scale: Option<u32>,
    /// Colocation keys: a rabbit holds at most one allocation with the same key. An allocation with an empty key
    /// shares its rabbit with no other.
    pub exclusive: Vec<String>,
}

/// A path from a compute to storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Kind of the path.
    pub way: Way,
    /// True if the compute must have this path.
    pub is_mandatory: bool,
}

/// Kinds of paths from computes to storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over PCIe, within the rabbit's chassis.
    Physical,
    /// Over the network, from any compute.
    Network,
}

/// Error: the profile and the directive contradict each other, or one of them is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BreakdownFault {
    #[error(
        "profile field {field}: {value:?}: {source}; ask the administrator to correct the profile, or name another profile"
    )]
    Profile { field: String, value: String, source: CapacityError },
    #[error("with the profile's {field} {value:?} the capacity is {source}")]
    Size { field: String, value: String, source: CapacityError },
    #[error(
        "profile fields {one} and {other} exclude each other; ask the administrator to remove one, or name another profile"
    )]
    Both { one: &'static str, other: &'static str },
    #[error(
        "profile field {field}: count and scale exclude each other; ask the administrator to remove one, or name another profile"
    )]
    CountAndScale { field: &'static str },
    #[error(
        "profile field lustreStorage.mgtOptions.standaloneMgtPoolName: {value:?} is not the name of a pool, which has at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends; ask the administrator to correct the profile, or name another profile"
    )]
    PoolName { value: String },
    #[error(
        "argument capacity: the profile's lustreStorage.mgtOptions.standaloneMgtPoolName creates a management target of the profile's size; remove the argument"
    )]
    CapacityOfStandalone,
    #[error("argument capacity is missing; add capacity=SIZE, such as capacity=1TiB")]
    NoCapacity,
    #[error(
        "argument profile: its lustreStorage.mgtOptions.standaloneMgtPoolName creates only a management target, which no job can mount; use create_persistent, or name another profile"
    )]
    StandaloneForJob,
}

/// Returns the paths by which computes reach the allocations of a set. `colocate_computes` matters
/// only for Lustre sets.
#[must_use]
pub fn access(label: Label, colocate_computes: bool) -> Vec<Access> {
    let mandatory = |way| Access { way, is_mandatory: true };
    match label {
        Label::Raw | Label::Xfs => vec![mandatory(Way::Physical)],
        Label::Gfs2 => vec![mandatory(Way::Network), mandatory(Way::Physical)],
        Label::Mgt | Label::Mdt | Label::MgtMdt | Label::Ost if colocate_computes => {
            vec![mandatory(Way::Network), Access { way: Way::Physical, is_mandatory: false }]
        }
        Label::Mgt | Label::Mdt | Label::MgtMdt | Label::Ost => vec![mandatory(Way::Network)],
    }
}

impl Label {
    /// Returns the text that stands for the label in a DirectiveBreakdown and in a Servers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Xfs => "xfs",
            Self::Gfs2 => "gfs2",
            Self::Mgt => "mgt",
            Self::Mdt => "mdt",
            Self::MgtMdt => "mgtmdt",
            Self::Ost => "ost",
        }
    }

    /// Returns the label with this text.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let all = [Self::Raw, Self::Xfs, Self::Gfs2, Self::Mgt, Self::Mdt, Self::MgtMdt, Self::Ost];
        all.into_iter().find(|label| label.as_str() == text)
    }

    /// Returns the name of the profile field that has the options for this label.
    fn options(self) -> &'static str {
        match self {
            Self::Raw => "rawStorage",
            Self::Xfs => "xfsStorage",
            Self::Gfs2 => "gfs2Storage",
            Self::Mgt => "lustreStorage.mgtOptions",
            Self::Mdt => "lustreStorage.mdtOptions",
            Self::MgtMdt => "lustreStorage.mgtMdtOptions",
            Self::Ost => "lustreStorage.ostOptions",
        }
    }
}

impl Strategy {
    /// Returns the strategy's text in a breakdown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PerCompute => "AllocatePerCompute",
            Self::AcrossServers => "AllocateAcrossServers",
            Self::SingleServer => "AllocateSingleServer",
        }
    }
}

#[cfg(test)]
mod tests;
