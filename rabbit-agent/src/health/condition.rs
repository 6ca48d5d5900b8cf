//! Defines the conditions that a health check can find, and their subjects.

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
    /// Something other than the drives could not be read.
    Unreadable,
    Memory,
    /// Tasks wait for memory.
    Pressure,
    /// Tasks wait for processors, or for something that hangs.
    Load,
    Unclaimed,
    /// Namespaces that objects claim but no drive has.
    Lost,
    /// A drive that cannot be used.
    Unusable,
    /// A link without a device at the other end.
    LinkLost,
    /// A link that is slower or narrower than it can be.
    LinkDegraded,
    /// A link with errors.
    LinkErrors,
    /// A warning in a drive's SMART log.
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
    /// A drive lost power without notice.
    PowerLost,
    /// The driver's controller of a drive is not live.
    Controller,
    ReadOnlyNamespace,
    /// A file system became read-only by itself.
    WentReadOnly,
    ShutDown,
    /// A file system does not answer.
    Silent,
    /// Physical volumes are missing.
    Missing,
    /// Logical volumes are not whole.
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
    /// Text with device, value, threshold and remedy.
    pub(super) text: String,
}

/// A finding while it lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub severity: Severity,
    pub text: String,
    /// Since when checks no longer find it.
    pub clean_since: Option<Instant>,
}

impl Kind {
    /// Returns how long checks must not find the condition before it ends. A rise of a counter is shown for an hour.
    pub(super) fn settles_in(self) -> Duration {
        match self {
            Self::MediaErrors | Self::PowerLost | Self::LinkErrors => Duration::from_secs(3600),
            _ => Duration::from_secs(5),
        }
    }

    /// Returns whether the condition needs no further checks: an event announces its end, or time alone ends it.
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

    /// Returns whether the text has a measured number, whose changes are not logged.
    pub(super) fn is_measured(self) -> bool {
        !matches!(
            self,
            Self::Unclaimed | Self::Lost | Self::Unusable | Self::Unreadable | Self::Controller
        )
    }
}
