//! Everything that cannot be computed: observing a node and changing it.

use std::{
    collections::BTreeSet,
    fmt::{self, Debug},
    io,
    path::PathBuf,
    time::Duration,
};

use causes::chain;
use thiserror::Error;

use crate::{
    Desired, Observed, Panicked, Step,
    desired::{FileSystemKind, Nqn},
    execute::ExecuteError,
    observed::Holders,
};

/// A node. `LinuxHost` is a real one, `FakeHost` (feature `fake`) one in memory.
pub trait Host: Debug + Send + Sync {
    /// Observes what this desire concerns, and nothing else.
    ///
    /// # Errors
    /// When the observation is incomplete: a list with gaps counts as no list.
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError>;

    /// Takes one step. Taking it again after a crash is safe.
    ///
    /// # Errors
    /// When the node did not change as asked.
    fn apply(&self, step: &Step) -> Result<(), StepError>;
}

/// The node could not be observed.
#[derive(Debug, Error)]
pub enum ObserveError {
    /// Reading a path failed.
    #[error("read {path}")]
    Read {
        /// The path.
        path: String,
        /// The system's error.
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
    /// The observing thread panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

/// Why a step failed.
#[derive(Debug, Error)]
pub enum StepError {
    /// A system call failed.
    #[error("{call} {target}")]
    System {
        /// The call, e.g. `mount(2)`.
        call: &'static str,
        /// The path, device or name that it concerned.
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
        /// The path, device or name that it concerned.
        target: String,
        /// Who uses it.
        holders: Holders,
        /// errno.
        #[source]
        source: io::Error,
    },
    /// A command failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The kernel did not answer in time. The child that made the call is abandoned.
    #[error("{call} {target} did not return within {}: {waits}", humantime(*.deadline))]
    Hung {
        /// The call.
        call: &'static str,
        /// The path, device or name that it concerned.
        target: String,
        /// How long the agent waited.
        deadline: Duration,
        /// The child, where in the kernel it stands, and the DLM locks that this node was not granted.
        waits: String,
    },
    /// Several steps failed independently.
    #[error("{} more failed, {}", .others.len(), list(.others))]
    Several {
        /// The first failure.
        #[source]
        first: Box<StepError>,
        /// The other failures.
        others: Vec<ExecuteError>,
    },
    /// A drive refused a namespace although it reports room.
    #[error(transparent)]
    NoRoom(RoomRefused),
    /// A device is too small for its file system.
    #[error(transparent)]
    TooSmall(TooSmall),
    /// The node changed between the observation and the step.
    #[error("{0}")]
    Changed(String),
}

impl StepError {
    /// Makes the error of a failed system call on `target` from its errno.
    pub(crate) fn system<'a>(
        call: &'static str,
        target: &'a (impl fmt::Display + ?Sized),
    ) -> impl Fn(io::Error) -> Self + Copy + 'a {
        move |source| Self::System { call, target: target.to_string(), source }
    }
}

impl StepError {
    /// The processes that hold up any of the failed steps.
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

/// A drive that reports room and refuses a namespace for want of it: it allocates in larger pieces, or reserves some.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{drive} has no room for a namespace of {size} bytes ({why}), while it tells of {left} of {capacity} bytes left and has \
     {namespaces}{} namespaces",
    of(.max_namespaces)
)]
pub struct RoomRefused {
    /// The drive.
    pub drive: Nqn,
    /// Bytes asked for.
    pub size: u64,
    /// Bytes that it reports as free.
    pub left: u64,
    /// Its size in bytes.
    pub capacity: u64,
    /// How many namespaces it has.
    pub namespaces: usize,
    /// How many it can have, when it reports that.
    pub max_namespaces: Option<u32>,
    /// Its answer.
    pub why: String,
}

/// A device that is smaller than the file system needs, so that mkfs refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{} has {size} bytes, on which no {kind} can be made ({why}): ask for at least {least} bytes", .device.display()
)]
pub struct TooSmall {
    /// The device.
    pub device: PathBuf,
    /// The file system that was to be made.
    pub kind: FileSystemKind,
    /// Its size in bytes.
    pub size: u64,
    /// Bytes that the file system needs.
    pub least: u64,
    /// The message of mkfs.
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
        /// The system's error.
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
        /// Its deadline.
        deadline: Duration,
        /// Its stderr: all of it, or 512 bytes of either end.
        stderr: String,
        /// Its processes, where in the kernel each stood, and the locks that this node was not granted.
        waits: String,
    },
}

fn of(most: &Option<u32>) -> String {
    most.map_or_else(String::new, |most| format!(" of {most}"))
}

fn list(failures: &[ExecuteError]) -> String {
    let texts: Vec<_> = failures.iter().map(|failure| chain(failure)).collect();
    texts.join("; ")
}

fn humantime(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f32())
}

fn stderr_text(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(": {stderr}") }
}
