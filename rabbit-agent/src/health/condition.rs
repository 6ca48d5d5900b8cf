//! What may be wrong, and with what.

use std::time::{Duration, Instant};

use storage::{desired::Nqn, observed::DriveWarning};

/// With what something is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The rabbit itself.
    Rabbit,
    /// A drive.
    Drive(Nqn),
    /// The compute in a slot.
    Compute(u8),
    /// The file system at a mount point.
    FileSystem(String),
    /// A volume group.
    Group(String),
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The drives could not be looked at.
    NotLooked,
    /// No drive can be used.
    NoDrive,
    /// Something else could not be looked at.
    Unread,
    /// Memory runs out.
    Memory,
    /// Tasks wait for memory.
    Pressure,
    /// Tasks wait for processors or for what hangs.
    Load,
    /// Namespaces that no object claims.
    Unclaimed,
    /// Namespaces that objects claim, and that are on no drive.
    Lost,
    /// A drive that cannot be used.
    Unusable,
    /// Nothing is at the other end of a link.
    LinkLost,
    /// A link that is slower or narrower than it can be.
    LinkDegraded,
    /// A link with errors.
    LinkErrors,
    /// What a drive warns of.
    Warned(DriveWarning),
    /// Spare blocks run out, by their number.
    SpareLow,
    /// Warmer than it may be for long.
    Hot,
    /// Warmer than it may be.
    TooHot,
    /// Past its rated life.
    Worn,
    /// Data could not be read as it was written.
    MediaErrors,
    /// Power went without notice.
    PowerLost,
    /// The driver has trouble with the drive.
    Controller,
    /// A namespace takes no writes.
    ReadOnlyNamespace,
    /// A file system takes no writes, and nobody asked for that.
    WentReadOnly,
    /// A file system was shut down.
    ShutDown,
    /// A file system does not answer.
    Silent,
    /// Physical volumes are missing.
    Missing,
    /// Logical volumes are not whole.
    Unwell,
}

/// How bad a thing is for what it is wrong with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works on.
    Warning,
    /// It does not.
    Critical,
}

/// What was found in one look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// Device, value, threshold and remedy.
    pub(super) text: String,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// How bad it is.
    pub severity: Severity,
    /// Device, value, threshold and remedy, in words.
    pub text: String,
    /// Since when looks find it gone.
    pub clean_since: Option<Instant>,
}

impl Kind {
    /// How long it must be gone to go. What only counts up is told for an hour.
    pub(super) fn settles_in(self) -> Duration {
        match self {
            Self::MediaErrors | Self::PowerLost | Self::LinkErrors => Duration::from_secs(3600),
            _ => Duration::from_secs(5),
        }
    }

    /// Whether its end is announced, or there is none to wait for: it needs no look in between.
    pub(super) fn needs_no_look(self) -> bool {
        matches!(
            self,
            Self::LinkLost | Self::LinkDegraded | Self::Unclaimed | Self::Worn | Self::NotLooked
        )
    }

    /// Whether its text has a number in it that moves by itself, and is no news when it does.
    pub(super) fn is_measured(self) -> bool {
        !matches!(
            self,
            Self::Unclaimed | Self::Lost | Self::Unusable | Self::Unread | Self::Controller
        )
    }
}
