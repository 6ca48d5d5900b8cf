//! The conditions that a health check can find, and their subjects.

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

/// What kind of problem it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The drives could not be read.
    DrivesUnreadable,
    /// No drive can be used.
    NoDrive,
    /// Something other than the drives could not be read.
    Unreadable,
    Memory,
    /// Tasks wait for memory.
    Pressure,
    /// Tasks wait for processors, or for something that hangs.
    Load,
    /// Namespaces that no object claims.
    Unclaimed,
    /// Namespaces that objects claim but no drive has.
    Lost,
    /// A drive that cannot be used.
    Unusable,
    /// Nothing is at the other end of a link.
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
    /// Since when checks do not find it any more.
    pub clean_since: Option<Instant>,
}

impl Kind {
    /// How long checks must not find it before it ends. Counters that only rise are shown for an hour.
    pub(super) fn settles_in(self) -> Duration {
        match self {
            Self::MediaErrors | Self::PowerLost | Self::LinkErrors => Duration::from_secs(3600),
            _ => Duration::from_secs(5),
        }
    }

    /// Whether an event announces its end, or it ends by time alone: it needs no checks in between.
    pub(super) fn needs_no_look(self) -> bool {
        matches!(
            self,
            Self::LinkLost
                | Self::LinkDegraded
                | Self::Unclaimed
                | Self::Worn
                | Self::DrivesUnreadable
        )
    }

    /// Whether its text has a measured number, whose changes are not logged.
    pub(super) fn is_measured(self) -> bool {
        !matches!(
            self,
            Self::Unclaimed | Self::Lost | Self::Unusable | Self::Unreadable | Self::Controller
        )
    }
}
