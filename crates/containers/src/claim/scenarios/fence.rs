//! Decides which commands for a run a rabbit of these scenarios obeys. Warren's own rabbits get no
//! commands: they carry out objects of the API, and a coordinator reads its claim from the API before it
//! writes these objects (`workflow::execute`).
//!
//! A rabbit records the highest epoch and attempt of each run, and only then obeys. A command with a lower epoch comes
//! from a coordinator whose claim another coordinator has replaced.

use std::time::Duration;

use api::{ContainerRun, ContainerRunStatus};

use crate::claim::leases::{ACTS_FOR, EXPIRES_AFTER};

/// Maximum age of a command that a rabbit obeys. When another coordinator takes over a run, every command that the
/// previous coordinator sent is older than this.
const COMMANDS_LAST: Duration = Duration::from_secs(5);

const _: () = assert!(ACTS_FOR.as_secs() + COMMANDS_LAST.as_secs() < EXPIRES_AFTER.as_secs());

/// A rabbit's record of the last claim that it obeyed for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) holder: String,
    pub(super) epoch: i64,
    pub(super) attempt: i32,
}

/// A rabbit's memory of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Journal {
    /// The rabbit has a new disk, so it does not know which claims it has obeyed: it obeys no command until a
    /// coordinator has sent a sync ([`Command::is_sync`]).
    Lost,
    #[default]
    Empty,
    Kept(Record),
}

/// A coordinator's command to a rabbit for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) by: Record,
    /// Time, by the rabbit's clock, since the rabbit sent the heartbeat that this command answers.
    pub(super) age: Duration,
    /// Whether this is a sync: a command that orders nothing, and only tells the rabbit the claim that the API has, read
    /// from a quorum. A rabbit that lost its journal begins a new journal with this claim.
    pub(super) is_sync: bool,
}

/// The answer of another coordinator about a claim that is new to the rabbit. The other coordinator asks the API
/// itself, because a watch may be behind.
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
    /// Records this claim, ends all other attempts, and obeys the command.
    Obey(Record),
    /// Asks another coordinator about the claim first.
    Ask,
    /// Refuses, and returns the recorded claim: the sender's claim is older than the recorded one,
    /// or has another holder.
    Stale(Record),
    /// Refuses, because the command took too long to arrive.
    TooOld,
    /// Refuses until a coordinator has sent a sync.
    NotSynced,
    /// Refuses and alerts administrators, because another coordinator does not find this claim in the API.
    Forged,
}

impl Journal {
    /// Decides whether the rabbit obeys a command.
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

/// Returns whether the API has this claim. A coordinator that a rabbit asks gives this answer.
#[must_use]
pub(super) fn confirms(run: Option<&ContainerRun>, claim: &Record) -> bool {
    run.and_then(|run| run.status.as_ref()).is_some_and(|status| {
        status.claim.holder == claim.holder && status.claim.epoch == claim.epoch
    })
}

/// Returns whether a coordinator may use a report. It must not use a report that answers a command of an
/// earlier claim or attempt.
#[must_use]
pub(super) fn counts(status: &ContainerRunStatus, epoch: i64, attempt: i32) -> bool {
    epoch == status.claim.epoch && attempt == status.attempt
}

/// Returns whether a rabbit that comes back must end its containers of a run. The rabbit must if the API, read from a
/// quorum, has no such run, or if the run has ended or has another attempt.
#[must_use]
pub(super) fn is_leftover(run: Option<&ContainerRun>, attempt: i32) -> bool {
    let status = run.and_then(|run| run.status.as_ref());
    !status.is_some_and(|status| !status.phase.is_final() && status.attempt == attempt)
}
