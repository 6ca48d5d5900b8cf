//! Who can do something about a rejection: by this a caller waits, goes elsewhere or calls for an admin.

use super::Rejection;

/// A text that ends with a remedy behind a colon, up to there.
#[must_use]
pub fn without_remedy(text: &str) -> &str {
    text.rsplit_once(": ").map_or(text, |(problem, _)| problem)
}

/// Who can do something about a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectionClass {
    /// It passes when another node has done its part, or a drive answers again: try again.
    Waiting,
    /// Too little room: the workload manager should place the job elsewhere.
    Capacity,
    /// What was asked for is wrong: its author must change it.
    Input,
    /// Something on the node is not Warren's: an admin must look.
    Foreign,
    /// Something stands at a mount path: whoever put it there takes it away, or the path's author uses another.
    InTheWay,
    /// Another build or another profile is needed.
    Unsupported,
    /// What should be there is not, or does not work: it comes back, or an admin brings it back, or its owner gives it up.
    Lost,
}

impl Rejection {
    /// What is wrong, without the remedy, which every text ends with behind a colon: for those who cannot do that.
    #[must_use]
    pub fn problem(&self) -> String {
        without_remedy(&self.to_string()).to_owned()
    }

    /// Whether only somebody with rights on the node, or over its agents' flags, can do something about it.
    #[must_use]
    pub fn is_for_operators(&self) -> bool {
        match self.class() {
            RejectionClass::Foreign | RejectionClass::Lost | RejectionClass::Unsupported => true,
            RejectionClass::Waiting
            | RejectionClass::Capacity
            | RejectionClass::Input
            | RejectionClass::InTheWay => false,
        }
    }

    /// Who can do something about it.
    #[must_use]
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
            // No rabbit has none: they were not probed yet, or none of them works.
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
            | Self::Strangers { .. }
            | Self::ForeignSignature { .. }
            | Self::WrongFileSystem { .. }
            // Of what stands at a mount path this alone leaves no other path.
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
