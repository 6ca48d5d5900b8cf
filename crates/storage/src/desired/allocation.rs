//! Allocations: capacity on the drives of a rabbit, and the hosts that may reach it.

use std::{collections::BTreeSet, fmt};

use thiserror::Error;

use super::{NamespaceId, NodeName, ObjectUid};

/// Identity of an allocation: the NnfNodeBlockStorage that requests it and its index in `spec.allocations`.
///
/// The uid identifies the object, not its name: when an object is deleted and another is created under the same name,
/// the new object must not get the data of the deleted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocationId {
    /// `metadata.uid` of the NnfNodeBlockStorage.
    pub owner: ObjectUid,
    /// Index in `spec.allocations` of the NnfNodeBlockStorage.
    pub index: u32,
}

impl fmt::Display for AllocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.owner, self.index)
    }
}

/// The place of a host (the rabbit or a compute) in the chassis: a port of the PCIe switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// The rabbit itself.
    Rabbit,
    /// The compute with this `index` in the SystemConfiguration, 0 to 15.
    Compute(u8),
}

impl Endpoint {
    /// Returns the endpoint's number in API objects: 0 for the rabbit, index + 1 for a compute.
    pub fn number(self) -> u8 {
        match self {
            Self::Rabbit => 0,
            Self::Compute(index) => index + 1,
        }
    }

    /// Returns a name for the host at this endpoint, used while no other name is known.
    pub fn name(self) -> NodeName {
        let name = format!("endpoint-{}", self.number());
        name.parse().expect("letters, a hyphen and a number are a host name")
    }
}

/// One host that may reach an allocation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    pub endpoint: Endpoint,
    pub node: NodeName,
}

/// Number of drives over which an allocation is spread, one namespace on each: at least 1 drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    most: u8,
    least: u8,
}

/// `most` or `least` is 0, or `least` is more than `most`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("at most {most} and at least {least} drives for an allocation: use 1 <= least <= most")]
pub struct SpreadError {
    most: u8,
    least: u8,
}

impl Spread {
    /// The spread on a rabbit's 18 drives: at most 16 drives for each allocation, because two are spares, and at least
    /// 14.
    pub const RABBIT: Self = Self { most: 16, least: 14 };
    /// Exactly one drive: the only device of a volume without LVM.
    pub const ONE: Self = Self { most: 1, least: 1 };

    /// Returns a spread over as many drives as are available, up to `most`; an allocation is refused when fewer
    /// than `least` are available.
    pub fn new(most: u8, least: u8) -> Result<Self, SpreadError> {
        if least >= 1 && least <= most {
            Ok(Self { most, least })
        } else {
            Err(SpreadError { most, least })
        }
    }

    /// Returns the maximum number of drives for an allocation.
    pub fn most(self) -> usize {
        self.most.into()
    }

    /// Returns the number of drives below which an allocation is refused.
    pub fn least(self) -> usize {
        self.least.into()
    }
}

/// A namespace that the allocation's object reports in its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    pub id: NamespaceId,
    /// Size in bytes, from the status.
    pub size: u64,
    /// Whether the status of another allocation names the namespace too: the namespace then
    /// belongs to neither allocation.
    pub contested: bool,
}

/// Capacity that should exist, and the hosts that should reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    pub id: AllocationId,
    /// Requested bytes, at least 1. The allocated size may be rounded up.
    pub capacity: u64,
    pub spread: Spread,
    /// The namespaces that the object's status names. When the ledger of their drive is lost, only the status proves
    /// which allocation owns the namespaces.
    pub reported: Vec<Reported>,
    /// Whether a namespace whose drive is gone for good is replaced by a namespace on another drive.
    pub replace: bool,
    /// The hosts that should reach the namespaces; no other host may reach them.
    pub access: BTreeSet<Access>,
}

impl Allocation {
    /// Returns an allocation whose object reports no namespaces yet.
    pub fn new(id: AllocationId, capacity: u64, spread: Spread, access: BTreeSet<Access>) -> Self {
        Self { id, capacity, spread, reported: Vec::new(), replace: true, access }
    }
}
