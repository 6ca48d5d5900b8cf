//! Everything that cannot be computed: a node, looked at and changed.

use std::{
    collections::BTreeSet, error::Error as _, fmt::Debug, io, iter, path::PathBuf, time::Duration,
};

use thiserror::Error;

use crate::{
    Desired, Observed, Panicked, Step,
    desired::{FileSystemKind, Nqn},
    execute::ExecuteError,
    observed::Holders,
};

/// A node. `LinuxHost` is a real one, `FakeHost` (feature `fake`) one in memory.
pub trait Host: Debug + Send + Sync {
    /// BoundedCalls at what this desire concerns, and at nothing else.
    ///
    /// # Errors
    /// When the look is not whole: a list with gaps is no list.
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError>;

    /// Takes one step. Taking it again after a crash is safe.
    ///
    /// # Errors
    /// When the node did not change as asked.
    fn apply(&self, step: &Step) -> Result<(), StepError>;
}

/// The node could not be looked at.
#[derive(Debug, Error)]
pub enum ObserveError {
    /// Reading a path failed.
    #[error("read {path}")]
    Read {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A tool failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A file or a tool's output is not as documented.
    #[error("{what} is not as expected: {why}")]
    Malformed {
        /// Which file or output.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// Who looked panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

/// A step that failed, with what only this layer knows.
#[derive(Debug, Error)]
pub enum StepError {
    /// A system call failed.
    #[error("{call} {target}")]
    System {
        /// The call, e.g. `mount(2)`.
        call: &'static str,
        /// What it was for.
        target: String,
        /// errno.
        #[source]
        source: io::Error,
    },
    /// Somebody uses it.
    #[error("{call} {target}, held by {holders}")]
    Held {
        /// The call, e.g. `umount(2)`.
        call: &'static str,
        /// What it was for.
        target: String,
        /// Who.
        holders: Holders,
        /// errno.
        #[source]
        source: io::Error,
    },
    /// A command failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The kernel did not answer in time; the child that asked is left to it.
    #[error("{call} {target} did not return within {}: {waits}", humantime(*.deadline))]
    Hung {
        /// The call.
        call: &'static str,
        /// What it was for.
        target: String,
        /// How long it was waited for.
        deadline: Duration,
        /// Its process, where in the kernel it stands, and the locks that this node was not granted.
        waits: String,
    },
    /// More than this one failed, none of them for want of another.
    #[error("{} more failed, {}", .others.len(), list(.others))]
    Several {
        /// The first.
        #[source]
        first: Box<StepError>,
        /// The others.
        others: Vec<ExecuteError>,
    },
    /// A drive has no room where by all that it tells it has some.
    #[error(transparent)]
    NoRoom(RoomRefused),
    /// A device is too small for its file system.
    #[error(transparent)]
    TooSmall(TooSmall),
    /// The node changed between the look and the step.
    #[error("{0}")]
    Changed(String),
}

impl StepError {
    /// The processes that are in the way of any of what failed.
    #[must_use]
    pub fn holders(&self) -> BTreeSet<i32> {
        match self {
            Self::Held { holders, .. } => holders.processes.iter().copied().collect(),
            Self::Several { first, others } => {
                let others = others.iter().flat_map(|other| other.source.holders());
                first.holders().into_iter().chain(others).collect()
            }
            _ => BTreeSet::new(),
        }
    }
}

/// A drive that refuses a namespace for want of room, and tells of room: it gives space only in larger pieces, or keeps some.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{drive} has no room for a namespace of {size} bytes ({why}), while it tells of {left} of {capacity} bytes left and has \
     {namespaces}{} namespaces",
    of(.max_namespaces)
)]
pub struct RoomRefused {
    /// Which.
    pub drive: Nqn,
    /// Bytes asked for.
    pub size: u64,
    /// Bytes that it tells are left.
    pub left: u64,
    /// Its size in bytes.
    pub capacity: u64,
    /// How many namespaces it has.
    pub namespaces: usize,
    /// How many it can have, where it tells.
    pub max_namespaces: Option<u32>,
    /// Its answer.
    pub why: String,
}

/// A device on which mkfs makes nothing, and which is smaller than what it takes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{} has {size} bytes, on which no {kind} can be made ({why}): ask for at least {least} bytes", .device.display()
)]
pub struct TooSmall {
    /// Which.
    pub device: PathBuf,
    /// What was to be made on it.
    pub kind: FileSystemKind,
    /// Its size in bytes.
    pub size: u64,
    /// Bytes that it takes.
    pub least: u64,
    /// What mkfs said.
    pub why: String,
}

/// A command that did not succeed.
#[derive(Debug, Error)]
pub enum CommandError {
    /// It is not installed, or cannot be started.
    #[error("start {program}")]
    Start {
        /// Its `argv[0]`.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It ended with a status other than 0.
    #[error("{command}: {status}{}", stderr_text(.stderr))]
    Failed {
        /// The command line as it ran.
        command: String,
        /// e.g. `exit status: 1` or `signal: 9 (SIGKILL)`.
        status: String,
        /// Its stderr: all of it, or 512 bytes of either end.
        stderr: String,
    },
    /// It printed more than is kept.
    #[error("{command}: it printed more than {most} bytes, and a part of its answer is none")]
    TooMuch {
        /// The command line as it ran.
        command: String,
        /// Bytes that are kept.
        most: usize,
    },
    /// It outlived its deadline; its process group was killed.
    #[error("{command}: killed after {}{}; then waited: {waits}", humantime(*.deadline), stderr_text(.stderr))]
    TimedOut {
        /// The command line as it ran.
        command: String,
        /// How long it was given.
        deadline: Duration,
        /// Its stderr, likewise.
        stderr: String,
        /// Its processes, where in the kernel each stood, and the locks that this node was not granted.
        waits: String,
    },
}

fn of(most: &Option<u32>) -> String {
    most.map_or_else(String::new, |most| format!(" of {most}"))
}

fn list(failures: &[ExecuteError]) -> String {
    let told: Vec<_> = failures.iter().map(chain).collect();
    told.join("; ")
}

fn chain(failure: &ExecuteError) -> String {
    let causes = iter::successors(failure.source(), |cause| (*cause).source());
    causes.fold(failure.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn humantime(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f32())
}

fn stderr_text(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(": {stderr}") }
}
