//! Decides which commands for a run a rabbit of these scenarios obeys. Warren's own rabbits get no commands: they carry
//! out the objects of the API, and a coordinator reads its claim from the
//! API before it writes those (`workflow::execute`).
//!
//! A rabbit records the highest epoch and attempt of each run before it obeys. A command with a lower epoch comes from
//! a coordinator that has lost its claim.

use std::time::Duration;

use api::{ContainerRun, ContainerRunStatus};

use crate::claim::leases::{ACTS_FOR, EXPIRES_AFTER};

/// Maximum age of a command that a rabbit obeys: less than others wait before they take over.
const COMMANDS_LAST: Duration = Duration::from_secs(5);

const _: () = assert!(ACTS_FOR.as_secs() + COMMANDS_LAST.as_secs() < EXPIRES_AFTER.as_secs());

/// A rabbit's record of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) holder: String,
    pub(super) epoch: i64,
    pub(super) attempt: i32,
}

/// The records of a rabbit on one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Journal {
    /// The rabbit has a new disk, so it does not know what it obeyed: it obeys nothing before a coordinator synced it.
    Lost,
    #[default]
    Empty,
    Kept(Record),
}

/// A coordinator's command to a rabbit for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) by: Record,
    /// Time, on the rabbit's clock, since it sent the heartbeat that the command answers.
    pub(super) age: Duration,
    /// Whether the command only reports what the API says, read from a quorum: a new journal begins with it.
    pub(super) is_sync: bool,
}

/// The answer of another coordinator about a claim that is new to the rabbit. It asks the API, not its watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confirmation {
    NoOtherCoordinator,
    NotAsked,
    Confirmed,
    Denied,
}

/// A rabbit's decision on a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Records this claim, ends all other attempts, and obeys.
    Obey(Record),
    /// Asks another coordinator first.
    Ask,
    /// Refuses with the recorded claim: the sender's is older, or another holder's.
    Stale(Record),
    /// Refuses: the command took too long.
    TooOld,
    /// Refuses until a coordinator reports what the API says.
    NotSynced,
    /// Refuses and alerts people: another coordinator does not know this claim.
    Forged,
}

impl Journal {
    /// Judges whether the rabbit obeys a command.
    #[must_use]
    pub(super) fn judge(&self, command: &Command, confirmed: Confirmation) -> Verdict {
        if command.age > COMMANDS_LAST {
            return Verdict::TooOld;
        }
        let by = &command.by;
        match self {
            Self::Lost if command.is_sync => Verdict::Obey(by.clone()),
            Self::Lost => Verdict::NotSynced,
            Self::Kept(kept) if by.epoch < kept.epoch => Verdict::Stale(kept.clone()),
            Self::Kept(kept) if by.epoch == kept.epoch => match by.holder == kept.holder {
                true if by.attempt >= kept.attempt => Verdict::Obey(by.clone()),
                true | false => Verdict::Stale(kept.clone()),
            },
            Self::Kept(kept) if by.holder == kept.holder => Verdict::Obey(by.clone()),
            Self::Kept(_) | Self::Empty => match confirmed {
                Confirmation::NotAsked => Verdict::Ask,
                Confirmation::Denied => Verdict::Forged,
                Confirmation::Confirmed | Confirmation::NoOtherCoordinator => {
                    Verdict::Obey(by.clone())
                }
            },
        }
    }
}

/// Returns whether a claim is the one that the API has: what a coordinator answers to a rabbit.
#[must_use]
pub(super) fn confirms(run: Option<&ContainerRun>, claim: &Record) -> bool {
    run.and_then(|run| run.status.as_ref()).is_some_and(|status| {
        status.claim.holder == claim.holder && status.claim.epoch == claim.epoch
    })
}

/// Returns whether a report counts: an answer to a command of an earlier claim or attempt does not.
#[must_use]
pub(super) fn counts(status: &ContainerRunStatus, epoch: i64, attempt: i32) -> bool {
    epoch == status.claim.epoch && attempt == status.attempt
}

/// Returns whether a rabbit that comes back must end what it has of a run: the API, read from a quorum, knows no such
/// run, or the run has ended, or has another attempt.
#[must_use]
pub(super) fn is_leftover(run: Option<&ContainerRun>, attempt: i32) -> bool {
    let status = run.and_then(|run| run.status.as_ref());
    !status.is_some_and(|status| !status.phase.is_final() && status.attempt == attempt)
}
