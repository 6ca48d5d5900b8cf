//! Which allocations a directive needs: the allocation sets of a DirectiveBreakdown, and how computes reach them.

mod sets;

use thiserror::Error;

use crate::capacity::CapacityError;
pub use sets::{is_label_value, of_jobdw, of_persistent};

/// Allocations of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationSet {
    /// What they are for.
    pub label: Label,
    /// How they are spread.
    pub strategy: Strategy,
    /// Bytes: of each allocation with [`Strategy::PerCompute`], else of all together.
    pub minimum_capacity: u64,
    /// Where they may be.
    pub constraints: Constraints,
    /// Whether Lustre targets of this set go only to rabbits of the job's own computes.
    pub colocate_computes: bool,
}

/// What allocations are for.
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

/// How allocations are spread over rabbits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// One for each compute, on the compute's rabbit.
    PerCompute,
    /// Over rabbits, of equal sizes.
    AcrossServers,
    /// One, on one rabbit.
    SingleServer,
}

/// Where allocations may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraints {
    /// Labels of the rabbit's Storage, as `key=value`.
    pub labels: Vec<String>,
    /// How many there are.
    pub count: Option<u32>,
    /// How many there are, from 1 (few) to 10 (many).
    pub scale: Option<u32>,
    /// Keys of which a rabbit holds one each; an empty key stands for everything.
    pub exclusive: Vec<String>,
}

/// How a compute reaches storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// By which way.
    pub way: Way,
    /// Whether it does without.
    pub is_mandatory: bool,
}

/// Ways from computes to storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over PCIe: only computes of the rabbit's chassis.
    Physical,
    /// Over the network.
    Network,
}

/// What a profile and a directive cannot mean together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BreakdownFault {
    #[error(
        "profile field {field}: {value:?}: {source}; the administrator corrects the profile, or name another one"
    )]
    Profile { field: String, value: String, source: CapacityError },
    #[error("with the profile's {field} {value:?} the capacity is {source}")]
    Size { field: String, value: String, source: CapacityError },
    #[error(
        "profile fields {one} and {other} exclude each other; the administrator leaves one out, or name another profile"
    )]
    Both { one: &'static str, other: &'static str },
    #[error(
        "profile field {field}: count and scale exclude each other; the administrator leaves one out, or name another profile"
    )]
    CountAndScale { field: &'static str },
    #[error(
        "profile field lustreStorage.mgtOptions.standaloneMgtPoolName: {value:?} is no name of a pool: at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends; the administrator corrects it, or name another profile"
    )]
    PoolName { value: String },
    #[error(
        "argument capacity: the profile's lustreStorage.mgtOptions.standaloneMgtPoolName makes a management target of the profile's size; leave the argument out"
    )]
    CapacityOfStandalone,
    #[error("argument capacity is missing; add capacity=SIZE, such as capacity=1TiB")]
    NoCapacity,
    #[error(
        "argument profile: its lustreStorage.mgtOptions.standaloneMgtPoolName makes a management target only, which no job can mount; use create_persistent, or name another profile"
    )]
    StandaloneForJob,
}

/// How computes reach allocations of a set. `colocate_computes` matters to Lustre only.
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
    /// As it stands in a breakdown and in Servers.
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

    /// Of this text.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let all = [Self::Raw, Self::Xfs, Self::Gfs2, Self::Mgt, Self::Mdt, Self::MgtMdt, Self::Ost];
        all.into_iter().find(|label| label.as_str() == text)
    }

    /// The profile's options for it.
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
    /// As it stands in a breakdown.
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
