//! Allocations: capacity on the drives of a rabbit, and who may reach it.

use std::{collections::BTreeSet, fmt};

use thiserror::Error;

use super::{NamespaceId, NodeName, ObjectUid};

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

    /// What a host there is called as long as nobody knows better.
    #[must_use]
    pub fn name(self) -> NodeName {
        let name = format!("endpoint-{}", self.number());
        name.parse().expect("letters, a hyphen and a number are a host name")
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

/// Over how many drives an allocation is spread, one namespace on each: at least 1 drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    most: u8,
    least: u8,
}

/// A spread that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("at most {most} and at least {least} drives for an allocation: use 1 <= least <= most")]
pub struct SpreadError {
    most: u8,
    least: u8,
}

impl Spread {
    /// What a rabbit does with its 18 drives: 16 for each allocation, so that two are spare, and never fewer than 14.
    pub const RABBIT: Self = Self { most: 16, least: 14 };
    /// One drive: a volume without LVM is exactly one device.
    pub const ONE: Self = Self { most: 1, least: 1 };

    /// As many drives as there are, at most `most`; refused when there are fewer than `least`.
    ///
    /// # Errors
    /// When either is 0, or `least` is more than `most`.
    pub fn new(most: u8, least: u8) -> Result<Self, SpreadError> {
        if least >= 1 && least <= most {
            Ok(Self { most, least })
        } else {
            Err(SpreadError { most, least })
        }
    }

    /// As many drives are taken when there are so many.
    #[must_use]
    pub fn most(self) -> usize {
        self.most.into()
    }

    /// With fewer drives an allocation is refused.
    #[must_use]
    pub fn least(self) -> usize {
        self.least.into()
    }
}

/// A namespace that others were told of as the allocation's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Which.
    pub id: NamespaceId,
    /// Bytes.
    pub size: u64,
    /// Another allocation is told to have it too: then it is nobody's until that is settled.
    pub contested: bool,
}

/// Capacity that should exist, and who should reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Whose it is.
    pub id: AllocationId,
    /// Bytes asked for, at least 1; what is allocated may be rounded up.
    pub capacity: u64,
    /// Over how many drives, when it is made.
    pub spread: Spread,
    /// The namespaces that its object's status names; nothing else proves whose they are when a ledger is lost.
    pub told: Vec<Told>,
    /// Whether a namespace on a drive that is gone for good gets a successor on another drive.
    pub replace: bool,
    /// Exactly the hosts that reach it.
    pub access: BTreeSet<Access>,
}

impl Allocation {
    /// One of which nobody was told yet.
    #[must_use]
    pub fn new(id: AllocationId, capacity: u64, spread: Spread, access: BTreeSet<Access>) -> Self {
        Self { id, capacity, spread, told: Vec::new(), replace: true, access }
    }
}
