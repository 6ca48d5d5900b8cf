//! Classifies rejections by who can resolve them, so that the caller can wait, go to another node or ask an admin.

use super::Rejection;

/// Returns the message `text` without its remedy, which is the text after the last colon.
pub fn without_remedy(text: &str) -> &str {
    text.rsplit_once(": ").map_or(text, |(problem, _)| problem)
}

/// The class of a rejection, which says who can resolve it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectionClass {
    /// Another node has not done its part yet, or a device is busy or not there yet: retry.
    Waiting,
    /// The drives have too little room: the workload manager should place the job elsewhere.
    Capacity,
    /// The request is wrong: its author must change it.
    Input,
    /// A device, volume or mount on the node is not Warren's: an admin must decide about it.
    Foreign,
    /// A file or a mount occupies a mount path: the owner of the obstacle removes it, or the author of the
    /// request uses another path.
    InTheWay,
    /// The request needs another build or another profile.
    Unsupported,
    /// A drive or a pool that should exist is missing, broken or does not answer: it must come back, be restored by an
    /// admin, or be given up by the owner of the allocation. The agent retries, but waits for a person.
    Lost,
}

impl Rejection {
    /// Returns the problem without the remedy, for readers who cannot apply it.
    pub fn problem(&self) -> String {
        without_remedy(&self.to_string()).to_owned()
    }

    /// Returns whether only an admin of the node or of the agents' configuration can resolve the rejection.
    pub fn is_for_operators(&self) -> bool {
        match self.class() {
            RejectionClass::Foreign | RejectionClass::Lost | RejectionClass::Unsupported => true,
            RejectionClass::Waiting
            | RejectionClass::Capacity
            | RejectionClass::Input
            | RejectionClass::InTheWay => false,
        }
    }

    /// Returns the class of the rejection.
    pub fn class(&self) -> RejectionClass {
        match self {
            Self::NoDevice { .. }
            | Self::NoVolume { .. }
            | Self::Syncing { .. }
            | Self::Resilvering { .. }
            | Self::StillMounted { .. }
            | Self::StillInUse { .. }
            | Self::NotMade { .. }
            | Self::SignatureUnread { .. }
            | Self::SourceNotMounted { .. } => RejectionClass::Waiting,
            Self::TooFewDrives { .. }
            | Self::DriveRefused(_)
            | Self::InsufficientCapacity { .. }
            | Self::PoolFull { .. } => RejectionClass::Capacity,
            // `NoDrives`: every rabbit has drives, so either the kernel has not probed them yet, or no drive works.
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
            // In contrast to the rejections of the class `InTheWay`, another mount path does not resolve this
            // rejection.
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
