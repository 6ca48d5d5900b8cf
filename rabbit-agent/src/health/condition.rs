//! Defines the conditions that a health check can find, and the subjects of conditions: drives, links, file systems.

use std::time::{Duration, Instant};

use storage::{desired::Nqn, observed::DriveWarning};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    Rabbit,
    Drive(Nqn),
    Compute(u8),
    FileSystem(String),
    Group(String),
}

/// Kind of a health problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    DrivesUnreadable,
    NoDrive,
    /// A source of facts other than the drives could not be read.
    Unreadable,
    Memory,
    /// Tasks wait for memory.
    Pressure,
    /// Tasks wait for processors, or for an operation that hangs.
    Load,
    /// Namespaces or a volume group of Warren's that belong to no NnfNodeBlockStorage.
    Unclaimed,
    /// Namespaces that the status of an object names but no drive has.
    Lost,
    /// A drive cannot be used.
    Unusable,
    /// A link has no device at its other end.
    LinkLost,
    /// A link is slower or narrower than both of its ends support.
    LinkDegraded,
    /// A link has errors.
    LinkErrors,
    /// A drive's SMART log has this warning.
    Warned(DriveWarning),
    /// A drive has few spare blocks left.
    SpareLow,
    /// A drive is above its warning temperature.
    Hot,
    /// A drive is above its critical temperature.
    TooHot,
    /// A drive is past its rated life.
    Worn,
    /// A drive reported new media errors.
    MediaErrors,
    /// A drive lost its power without a shutdown.
    PowerLost,
    /// The kernel gives the controller of a drive another state than `live`.
    Controller,
    ReadOnlyNamespace,
    /// A file system became read-only although it was mounted writable.
    WentReadOnly,
    /// A file system was shut down after an error.
    ShutDown,
    /// A file system does not answer.
    Silent,
    /// Physical volumes are missing.
    Missing,
    /// LVM reports a problem with logical volumes.
    Unwell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The subject still works.
    Warning,
    /// The subject does not work.
    Critical,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// Text that names device, value, threshold and remedy.
    pub(super) text: String,
}

/// A finding, kept as long as the problem lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub severity: Severity,
    pub text: String,
    /// The time since when checks no longer find the problem; `None` while they find it.
    pub clean_since: Option<Instant>,
}

impl Kind {
    /// Returns the time from the first check that no longer finds the condition to the condition's end. A condition
    /// that a rising counter caused is shown for an hour.
    pub(super) fn settles_in(self) -> Duration {
        match self {
            Self::MediaErrors | Self::PowerLost | Self::LinkErrors => Duration::from_secs(3600),
            _ => Duration::from_secs(5),
        }
    }

    /// Returns whether the condition can end without a further check: an event announces its end, or it ends
    /// after a fixed time.
    pub(super) fn needs_no_check(self) -> bool {
        matches!(
            self,
            Self::LinkLost
                | Self::LinkDegraded
                | Self::Unclaimed
                | Self::Worn
                | Self::DrivesUnreadable
        )
    }

    /// Returns whether the text contains a measured number. Changes of measured numbers are not logged.
    pub(super) fn is_measured(self) -> bool {
        !matches!(
            self,
            Self::Unclaimed | Self::Lost | Self::Unusable | Self::Unreadable | Self::Controller
        )
    }
}
