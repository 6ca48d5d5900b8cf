//! Which commands for a run a rabbit of these scenarios obeys. Warren's own rabbits are sent none: they run what the API's objects
//! say, and who writes those reads its claim from the API before (`workflow::execute`).
//!
//! A rabbit writes down the highest epoch and attempt of each run before it obeys; a command of a lower epoch comes from a
//! coordinator that has lost its claim.

use std::time::Duration;

use api::{ContainerRun, ContainerRunStatus};

use crate::claim::leases::{ACTS_FOR, EXPIRES_AFTER};

/// How long after it was sent a rabbit obeys a command: no longer than others wait before they take over.
const COMMANDS_LAST: Duration = Duration::from_secs(5);

const _: () = assert!(ACTS_FOR.as_secs() + COMMANDS_LAST.as_secs() < EXPIRES_AFTER.as_secs());

/// What a rabbit wrote down of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) holder: String,
    pub(super) epoch: i64,
    pub(super) attempt: i32,
}

/// A rabbit's records of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Journal {
    /// The rabbit's disk is new, so that nobody knows what it obeyed: it obeys nothing before a coordinator told it.
    Lost,
    #[default]
    Empty,
    Kept(Record),
}

/// What a coordinator asks a rabbit to do for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) by: Record,
    /// How long ago, by the rabbit's clock, the rabbit sent the heartbeat that the command answers.
    pub(super) age: Duration,
    /// Whether it only tells what the API says, read from a quorum: what a new journal begins with.
    pub(super) is_sync: bool,
}

/// What another coordinator said of a claim that is new to the rabbit. It asks the API, not its watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confirmation {
    NobodyToAsk,
    NotAsked,
    Confirmed,
    Denied,
}

/// What a rabbit does with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It writes this down, ends what is there of other attempts, and obeys.
    Obey(Record),
    /// It asks another coordinator first.
    Ask,
    /// It refuses: the sender's claim is older, or another's. It answers what it has.
    Stale(Record),
    /// It refuses, because the command was long on its way.
    TooOld,
    /// It refuses until a coordinator told it what the API says.
    NotSynced,
    /// It refuses, and tells people: another coordinator knows nothing of this claim.
    Forged,
}

impl Journal {
    /// Judges a command.
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
                Confirmation::Confirmed | Confirmation::NobodyToAsk => Verdict::Obey(by.clone()),
            },
        }
    }
}

/// Whether a claim is the one that the API has: what a coordinator answers a rabbit that asks.
#[must_use]
pub(super) fn confirms(run: Option<&ContainerRun>, claim: &Record) -> bool {
    run.and_then(|run| run.status.as_ref()).is_some_and(|status| {
        status.claim.holder == claim.holder && status.claim.epoch == claim.epoch
    })
}

/// Whether a report counts: one that answers a command of an earlier claim or attempt says nothing of this one.
#[must_use]
pub(super) fn counts(status: &ContainerRunStatus, epoch: i64, attempt: i32) -> bool {
    epoch == status.claim.epoch && attempt == status.attempt
}

/// Whether a rabbit that comes back must end what it has of a run: the API, read from a quorum, knows no such run, or one that
/// ended, or one whose attempt is another.
#[must_use]
pub(super) fn is_leftover(run: Option<&ContainerRun>, attempt: i32) -> bool {
    let status = run.and_then(|run| run.status.as_ref());
    !status.is_some_and(|status| !status.phase.is_final() && status.attempt == attempt)
}
