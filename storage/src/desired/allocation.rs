//! Allocations: capacity on the drives of a rabbit, and who may reach it.

use std::{collections::BTreeSet, fmt};

use super::{NodeName, ObjectUid};

/// Identity of an allocation: the NnfNodeBlockStorage that asked for it and its place in `spec.allocations`.
///
/// The uid, not the name: an object deleted and made again must not inherit the data of its predecessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocationId {
    /// `metadata.uid` of the NnfNodeBlockStorage.
    pub owner: ObjectUid,
    /// Index in its `spec.allocations`.
    pub index: u32,
}

impl fmt::Display for AllocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.owner, self.index)
    }
}

/// A place in the chassis: a port of the PCIe switch, never a bare number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// The rabbit itself.
    Rabbit,
    /// The compute with this `index` in the SystemConfiguration, 0 to 15.
    Compute(u8),
}

impl Endpoint {
    /// The endpoint's number in the sites' objects: 0 for the rabbit, index + 1 for a compute.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Rabbit => 0,
            Self::Compute(index) => index + 1,
        }
    }
}

/// One host that may reach an allocation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// Where it is plugged in.
    pub endpoint: Endpoint,
    /// What it is called.
    pub node: NodeName,
}

/// Capacity that should exist, and who should reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Whose it is.
    pub id: AllocationId,
    /// Bytes asked for, at least 1; what is allocated may be rounded up.
    pub capacity: u64,
    /// Exactly the hosts that reach it.
    pub access: BTreeSet<Access>,
}
