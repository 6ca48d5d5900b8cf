//! The outcome of a pass over one ClientMount.

use controller::Retry;

use crate::{
    desired::{Goal, MountError},
    error::Failure,
};

/// The outcome of one mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountOutcome {
    /// The mount has reached the goal.
    Ready,
    /// The agent did nothing for this mount, because it refused the object, or another mount of the object.
    Withheld,
    /// The mount has not reached the goal; [`Outcome::failures`] contains the reason.
    Failed,
}

/// A failure, and the mount that it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The path of the mount, or the unchecked path in the object if it is invalid; `None` for a failure
    /// of the whole object.
    pub path: Option<String>,
    pub failure: Failure,
}

/// The outcome of a pass over one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The state that the pass tried to reach.
    pub goal: Goal,
    /// One outcome for each entry of `spec.mounts`.
    pub mounts: Vec<MountOutcome>,
    pub failures: Vec<Failed>,
    /// Reasons why the agent unmounted without the profile, or without some of its lines. They are not failures,
    /// and are only logged.
    pub unreadable: Vec<Failed>,
}

impl Failed {
    /// Creates a failure of the whole object.
    pub(super) fn of_object<'a, E>(error: &'a E) -> Self
    where
        Failure: From<&'a E>,
    {
        Self { path: None, failure: Failure::from(error) }
    }

    /// Creates a failure of an invalid mount.
    pub(super) fn of_mount(error: &MountError) -> Self {
        Self { path: Some(error.path.clone()), failure: Failure::from(error) }
    }
}

impl Outcome {
    /// Returns the outcome of an object with `count` mounts on which the agent did not work because of `failure`.
    pub fn refused(goal: Goal, count: usize, failure: Failure) -> Self {
        let failures = vec![Failed { path: None, failure }];
        let mounts = vec![MountOutcome::Withheld; count];
        Self { goal, mounts, failures, unreadable: Vec::new() }
    }

    /// Returns the outcome of an object that has no mounts on the node, and whose goal is to have none.
    pub fn absent(count: usize) -> Self {
        let mounts = vec![MountOutcome::Ready; count];
        Self { goal: Goal::Unmounted, mounts, failures: Vec::new(), unreadable: Vec::new() }
    }

    /// Returns whether every mount has reached the goal and nothing failed.
    pub fn is_done(&self) -> bool {
        self.failures.is_empty() && self.mounts.iter().all(|mount| *mount == MountOutcome::Ready)
    }

    /// Returns the ids of the processes that keep a mount in use.
    pub fn holders(&self) -> Vec<i32> {
        let failures = self.failures.iter();
        failures.flat_map(|failed| failed.failure.holders.iter().copied()).collect()
    }

    /// Returns the earliest retry of all failures; `None` if no failure will pass by itself.
    pub fn retry(&self) -> Option<Retry> {
        self.failures
            .iter()
            .map(|failed| failed.failure.retry)
            .filter(|retry| *retry != Retry::OnChange)
            .min()
    }
}
