//! Who can resolve a rejection. The caller waits, goes elsewhere or asks for an admin accordingly.

use super::Rejection;

/// The text up to the remedy, which follows the last colon.
pub fn without_remedy(text: &str) -> &str {
    text.rsplit_once(": ").map_or(text, |(problem, _)| problem)
}

/// Who can resolve a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectionClass {
    /// It passes when another node has done its part, or a drive answers again: retry.
    Waiting,
    /// Too little room: the workload manager should place the job elsewhere.
    Capacity,
    /// The request is wrong: its author must change it.
    Input,
    /// Something on the node is not Warren's: an admin must look.
    Foreign,
    /// Something is at a mount path: whoever put it there removes it, or the path's author uses another path.
    InTheWay,
    /// Another build or another profile is needed.
    Unsupported,
    /// Something that should exist is missing or does not work: it comes back, or an admin restores it, or its owner
    /// gives it up.
    Lost,
}

impl Rejection {
    /// The problem without the remedy, for readers who cannot apply it.
    pub fn problem(&self) -> String {
        without_remedy(&self.to_string()).to_owned()
    }

    /// Whether only somebody with rights on the node, or over its agents' flags, can resolve it.
    pub fn is_for_operators(&self) -> bool {
        match self.class() {
            RejectionClass::Foreign | RejectionClass::Lost | RejectionClass::Unsupported => true,
            RejectionClass::Waiting
            | RejectionClass::Capacity
            | RejectionClass::Input
            | RejectionClass::InTheWay => false,
        }
    }

    /// Who can resolve it.
    pub fn class(&self) -> RejectionClass {
        match self {
            Self::NoDevice { .. }
            | Self::NoVolume { .. }
            | Self::Syncing { .. }
            | Self::Resilvering { .. }
            | Self::StillMounted { .. }
            | Self::StillInUse { .. }
            | Self::NotMade { .. }
            | Self::NotLookedAt { .. }
            | Self::SourceNotMounted { .. } => RejectionClass::Waiting,
            Self::TooFewDrives { .. }
            | Self::DriveRefused(_)
            | Self::InsufficientCapacity { .. }
            | Self::PoolFull { .. } => RejectionClass::Capacity,
            // Every rabbit has drives: they were not probed yet, or none of them works.
            Self::NoDrives { .. }
            | Self::Lost { .. }
            | Self::PoolBroken { .. }
            | Self::DrivesFaulty { .. } => RejectionClass::Lost,
            Self::ZeroCapacity { .. }
            | Self::TooSmall(_)
            | Self::MkfsSetsUuid { .. }
            | Self::NoActivation { .. }
            | Self::DuplicateLink { .. } => RejectionClass::Input,
            Self::ForeignGroup { .. }
            | Self::ForeignPool { .. }
            | Self::OtherPool { .. }
            | Self::ManyPools { .. }
            | Self::ForeignMapping { .. }
            | Self::ForeignSignature { .. }
            | Self::WrongFileSystem { .. }
            // Alone among what can be at a mount path this leaves no other path to use.
            | Self::Unproved { .. } => RejectionClass::Foreign,
            Self::Occupied { .. }
            | Self::Covered { .. }
            | Self::ThroughSymlink { .. }
            | Self::ThroughMount { .. }
            | Self::ThroughFile { .. }
            | Self::WrongType { .. }
            | Self::NotEmpty { .. }
            | Self::NotALink { .. } => RejectionClass::InTheWay,
            Self::TooManyDevices { .. } | Self::Unsupported { .. } => RejectionClass::Unsupported,
        }
    }
}
