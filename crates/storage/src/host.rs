//! The interface to a node: observing it and changing it.

use std::{
    collections::BTreeSet,
    fmt::{self, Debug},
    io,
    path::PathBuf,
    time::Duration,
};

use causes::{CommandError, chain};
use thiserror::Error;

use crate::{
    Desired, Observed, Panicked, Step,
    desired::{FileSystemKind, NamespaceId, Nqn},
    execute::ExecuteError,
    observed::Holders,
};

/// A node. `LinuxHost` is a real node, `FakeHost` (feature `fake`) a simulated one in memory.
pub trait Host: Debug + Send + Sync {
    /// Observes the part of the node that `desired` concerns.
    ///
    /// # Errors
    /// When any part of the observation fails: the planner must not use an incomplete list.
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError>;

    /// Returns all namespaces that the node reaches, whatever they are for.
    ///
    /// # Errors
    /// When the devices of the node cannot be read, or the host does not know them.
    fn reached_namespaces(&self) -> Result<BTreeSet<NamespaceId>, ObserveError> {
        let (what, why) = ("the list of namespaces", "this host keeps none");
        Err(ObserveError::Malformed { what: what.to_owned(), why: why.to_owned() })
    }

    /// Takes a step. It is safe to take the same step again after a crash.
    ///
    /// # Errors
    /// When the node did not change as the step demands.
    fn apply(&self, step: &Step) -> Result<(), StepError>;
}

/// The node could not be observed.
#[derive(Debug, Error)]
pub enum ObserveError {
    #[error("read {path}")]
    Read {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("{what} is not as expected: {why}")]
    Malformed { what: String, why: String },
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

/// The failure of a step.
#[derive(Debug, Error)]
pub enum StepError {
    #[error("{call} {target}")]
    System {
        /// The call, for example `mount(2)`.
        call: &'static str,
        target: String,
        #[source]
        source: io::Error,
    },
    #[error("{call} {target}, held by {holders}")]
    Held {
        /// The call, for example `umount(2)`.
        call: &'static str,
        target: String,
        holders: Holders,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The kernel did not answer in time. The agent no longer waits for the child process that made the call.
    #[error("{call} {target} did not return within {}: {waits}", seconds(*.deadline))]
    Hung {
        call: &'static str,
        target: String,
        deadline: Duration,
        /// The child process, its kernel stack, and the DLM locks that this node requested and was not granted.
        waits: String,
    },
    #[error("other steps failed too ({})", list(.others))]
    Several {
        #[source]
        first: Box<StepError>,
        others: Vec<ExecuteError>,
    },
    #[error(transparent)]
    NoRoom(RoomRefused),
    #[error(transparent)]
    TooSmall(TooSmall),
    /// The node is no longer as it was observed when the step was planned, for example because another unit changed it.
    /// The step changed nothing; the converger observes and plans again.
    #[error("{0}")]
    Changed(String),
}

impl StepError {
    /// Returns a function that converts the error of a failed system call on `target` to a `StepError`.
    pub fn system<'a>(
        call: &'static str,
        target: &'a (impl fmt::Display + ?Sized),
    ) -> impl Fn(io::Error) -> Self + Copy + 'a {
        move |source| Self::System { call, target: target.to_string(), source }
    }

    /// Returns whether the step failed because its deadline passed.
    pub fn is_hung(&self) -> bool {
        matches!(self, Self::Hung { .. } | Self::Command(CommandError::TimedOut { .. }))
    }

    /// Returns the processes that made the step fail because they keep a mount or a device in use.
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

/// A drive that reports enough free bytes but refuses a namespace for lack of room, for example because it allocates in
/// larger pieces or reserves some bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "drive {drive} refuses a namespace of {size} bytes for lack of room ({why}), although it reports {left} of {capacity} bytes \
     as free and has {namespaces}{} namespaces",
    of_max(.max_namespaces)
)]
pub struct RoomRefused {
    pub drive: Nqn,
    /// Size of the requested namespace in bytes.
    pub size: u64,
    /// Bytes that the drive reports as free.
    pub left: u64,
    /// Size of the drive in bytes.
    pub capacity: u64,
    pub namespaces: usize,
    /// Maximum number of namespaces, when the drive reports it.
    pub max_namespaces: Option<u32>,
    pub why: String,
}

/// A device that is smaller than the file system needs, so that mkfs refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{} has {size} bytes, on which no {kind} can be made ({why}): ask for at least {least} bytes", .device.display()
)]
pub struct TooSmall {
    pub device: PathBuf,
    pub kind: FileSystemKind,
    /// Size of the device in bytes.
    pub size: u64,
    /// Bytes that the file system needs.
    pub least: u64,
    pub why: String,
}

fn of_max(most: &Option<u32>) -> String {
    most.map_or_else(String::new, |most| format!(" of {most}"))
}

fn list(failures: &[ExecuteError]) -> String {
    let texts: Vec<_> = failures.iter().map(|failure| chain(failure)).collect();
    texts.join("; ")
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f32())
}
