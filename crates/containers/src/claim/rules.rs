//! Decides which changes of a run's status are refused. These rules repeat the rules of the CRD (CEL) and of the
//! admission policy, for an API that does not evaluate CEL.

use std::fmt;

use api::{ContainerRun, ContainerRunPhase as Phase, ContainerRunStatus as Status};
use serde::Deserialize;
use serde_json::Value;

/// A rule that refuses changes. The rule's text begins with the rule's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    V1,
    V2,
}

impl Rule {
    /// Returns the text that says what the rule requires, in the words of the CRD and of the policy.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::R0 => "R0 status cannot be removed",
            Self::R1 => "R1 epoch never decreases",
            Self::R2 => "R2 a new holder needs a higher epoch",
            Self::R3 => "R3 every claim needs a higher epoch, even by the same holder",
            Self::R4 => "R4 writer stamp must equal the claim",
            Self::R5 => "R5 a change needs a higher writer.seq",
            Self::R6 => "R6 phase transition not allowed",
            Self::R7 => "R7 final result is fixed; only claim, writer and conditions may change",
            Self::R8 => {
                "R8 attempt rises by one on each claim of a queued or suspended run and at no other time"
            }
            Self::R9 => "R9 first status is a claim with epoch 1",
            Self::V1 => "V1 writer.holder must begin with the pod uid of the caller's token",
            Self::V2 => "V2 every status write needs a higher writer.seq",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The part of a run that a client writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The object without its status.
    Main,
    /// The status. The value is the uid of the pod to which the client's token is bound, or `None` if the
    /// token has no pod.
    Status(Option<&'a str>),
}

/// Admits a change of a run, or names the rules that refuse the change. Admits an object that is no valid run:
/// the schema rejects it.
///
/// # Errors
/// The texts of the rules that refuse the change.
pub fn admit(old: Option<&Value>, new: &Value, part: Part<'_>) -> Result<(), String> {
    let read = |object: &Value| ContainerRun::deserialize(object);
    let (old, Ok(new)) = (old.map(read).transpose(), read(new)) else { return Ok(()) };
    // If the stored run cannot be read, a client may correct it.
    let Ok(Some(old)) = old else { return Ok(()) };
    let refused = refusals(old.status.as_ref(), new.status.as_ref(), part);
    if refused.is_empty() {
        return Ok(());
    }
    let texts: Vec<&str> = refused.into_iter().map(Rule::text).collect();
    Err(texts.join("; "))
}

/// Returns the rules that refuse a change of a stored run's status, in the order of the rules.
#[must_use]
pub fn refusals(old: Option<&Status>, new: Option<&Status>, part: Part<'_>) -> Vec<Rule> {
    let Some(new) = new else {
        return if old.is_some() { vec![Rule::R0] } else { Vec::new() };
    };
    let mut refused = match old {
        Some(old) => transition_refusals(old, new),
        None => first_status_refusals(new),
    };
    if new.writer.holder != new.claim.holder || new.writer.epoch != new.claim.epoch {
        refused.push(Rule::R4);
    }
    if let Part::Status(caller) = part {
        let is_own = |caller: &str| {
            let rest = new.writer.holder.strip_prefix(caller);
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        if !caller.is_some_and(is_own) {
            refused.push(Rule::V1);
        }
        if old.is_some_and(|old| new.writer.seq <= old.writer.seq) {
            refused.push(Rule::V2);
        }
    }
    refused.sort();
    refused
}

fn first_status_refusals(new: &Status) -> Vec<Rule> {
    let begins = matches!(new.phase, Phase::Claimed | Phase::Cancelled);
    let is_first = begins && new.claim.epoch == 1 && new.attempt <= 1;
    if is_first { Vec::new() } else { vec![Rule::R9] }
}

fn transition_refusals(old: &Status, new: &Status) -> Vec<Rule> {
    let is_raised = new.claim.epoch > old.claim.epoch;
    let is_claim = new.phase == Phase::Claimed && is_open(&old.phase);
    let is_as_it_was = new.writer == old.writer
        && new.claim == old.claim
        && new.phase == old.phase
        && new.attempt == old.attempt;
    let is_result = new.phase == old.phase && new.attempt == old.attempt;
    let holds = [
        (Rule::R1, new.claim.epoch >= old.claim.epoch),
        (Rule::R2, new.claim.holder == old.claim.holder || is_raised),
        (Rule::R3, !is_claim || is_raised),
        (Rule::R5, new.writer.seq > old.writer.seq || is_as_it_was),
        (Rule::R6, new.phase == old.phase || may_follow(&old.phase, &new.phase)),
        (Rule::R7, !old.phase.is_final() || is_result),
        (Rule::R8, i64::from(new.attempt) == i64::from(old.attempt) + i64::from(is_claim)),
    ];
    holds.into_iter().filter(|(_, holds)| !holds).map(|(rule, _)| rule).collect()
}

/// Returns whether any coordinator may claim a run in this phase.
pub(super) fn is_open(phase: &Phase) -> bool {
    matches!(phase, Phase::Queued | Phase::Suspended)
}

/// Returns whether the phase `new` may follow the phase `old` (rule R6).
fn may_follow(old: &Phase, new: &Phase) -> bool {
    use Phase::{
        Cancelled, Claimed, Failed, Queued, Running, Starting, Stopping, Succeeded, Suspended,
    };
    match old {
        Queued | Suspended => matches!(new, Claimed | Cancelled),
        Claimed => matches!(new, Queued | Starting | Suspended | Failed | Cancelled),
        Starting => matches!(new, Running | Stopping | Suspended | Failed | Cancelled),
        Running => matches!(new, Stopping | Suspended | Succeeded | Failed | Cancelled),
        Stopping => matches!(new, Suspended | Succeeded | Failed | Cancelled),
        Succeeded | Failed | Cancelled | Phase::Other(_) => false,
    }
}

#[cfg(test)]
mod tests;
