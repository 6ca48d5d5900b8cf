//! How far a directive is in a state, and what is to be changed to bring it further.

use api::{ErrorType, ResourceError, Severity};

use crate::change::Change;

/// How far something is.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Outcome {
    /// Nothing is left to do.
    #[default]
    Done,
    /// The changes planned with it bring it further.
    Working,
    /// Somebody else has to act; the text says who, and what is waited for.
    Wait(String),
    /// Other jobs hold what this one needs; the text names it. The engine plans again when something becomes free.
    Queued(String),
    /// Something is wrong. The severity says whether time may mend it.
    Failed(ResourceError),
}

impl From<ResourceError> for Outcome {
    fn from(error: ResourceError) -> Self {
        Self::Failed(error)
    }
}

impl From<Outcome> for Progress {
    /// Nothing to change.
    fn from(outcome: Outcome) -> Self {
        Self { changes: Vec::new(), outcome }
    }
}

/// What is to be changed, and how far that is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// What is to be changed now.
    pub changes: Vec<Change>,
    /// How far it is before these changes.
    pub outcome: Outcome,
}

impl Progress {
    /// Nothing to change, and something is wrong.
    pub fn failed(error: ResourceError) -> Self {
        Self { changes: Vec::new(), outcome: Outcome::Failed(error) }
    }

    /// Nothing to change, and somebody else has to act.
    pub fn wait(why: impl Into<String>) -> Self {
        Self { changes: Vec::new(), outcome: Outcome::Wait(why.into()) }
    }

    /// With these changes; while there are any, it is not done.
    #[must_use]
    pub fn with(mut self, changes: impl IntoIterator<Item = Change>) -> Self {
        self.changes.extend(changes);
        if !self.changes.is_empty() && self.outcome == Outcome::Done {
            self.outcome = Outcome::Working;
        }
        self
    }

    /// Both side by side: done when both are, and failed as the worse one.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.changes.extend(other.changes);
        if rank(&other.outcome) > rank(&self.outcome) {
            self.outcome = other.outcome;
        }
        self
    }

    /// One after the other: `next` is asked for only when this is done.
    #[must_use]
    pub fn then(self, next: impl FnOnce() -> Self) -> Self {
        if self.outcome == Outcome::Done { next().with(self.changes) } else { self }
    }
}

fn rank(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Done => 0,
        Outcome::Working => 1,
        Outcome::Wait(_) | Outcome::Queued(_) => 2,
        Outcome::Failed(error) => match error.severity {
            Severity::Fatal => 5,
            Severity::Major => 4,
            Severity::Minor | Severity::Other(_) => 3,
        },
    }
}

/// An error for the user: nothing but another request helps.
pub fn user_error(message: impl Into<String>) -> ResourceError {
    fatal(ErrorType::User, message)
}

/// An error for the workload manager: nothing but another placement helps.
pub fn wlm_error(message: impl Into<String>) -> ResourceError {
    fatal(ErrorType::Wlm, message)
}

/// An error that a person may have to mend, and that goes with its cause. Flux ends a job after 10 s of one: what only lasts until
/// other jobs end is [`Outcome::Queued`].
pub fn transient_error(message: impl Into<String>) -> ResourceError {
    ResourceError { severity: Severity::Major, ..fatal(ErrorType::Internal, message) }
}

/// An error of the software or the system that does not go by itself.
pub fn internal_error(message: impl Into<String>) -> ResourceError {
    fatal(ErrorType::Internal, message)
}

fn fatal(error_type: ErrorType, message: impl Into<String>) -> ResourceError {
    let message = message.into();
    ResourceError {
        error_type,
        severity: Severity::Fatal,
        user_message: Some(message.clone()),
        ..ResourceError::new(message)
    }
}

/// A few names, or the first of many. It changes seldom while one after the other of many is done, in whatever order: the text
/// ends in a status, and each change of it is a write.
pub fn some_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const FEW: usize = 4;
    let names: Vec<&str> = names.into_iter().collect();
    match names.as_slice() {
        [first, ..] if names.len() > FEW => format!("{first} and others"),
        few => few.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_outcome_is_told_whatever_comes_first() {
        let outcomes = [
            Outcome::Done,
            Outcome::Working,
            Outcome::Wait("a".to_owned()),
            Outcome::Failed(ResourceError::new("b")),
            Outcome::Failed(transient_error("c")),
            Outcome::Failed(user_error("d")),
        ];
        for (place, better) in outcomes.iter().enumerate() {
            for worse in &outcomes[place..] {
                let of = |outcome: &Outcome| Progress {
                    outcome: outcome.clone(),
                    ..Progress::default()
                };
                assert_eq!(of(better).and(of(worse)).outcome, *worse);
                assert_eq!(of(worse).and(of(better)).outcome, *worse);
            }
        }
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(some_of(["a", "b"]), "a, b");
        assert_eq!(some_of(["a", "b", "c", "d", "e"]), "a and others");
    }
}
