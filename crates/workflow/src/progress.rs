//! How far a directive is in a state, and the changes that bring it further.

use api::{ErrorType, ResourceError, Severity};

use crate::change::Change;

/// How far a directive is in a state.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Outcome {
    /// Nothing is left to do.
    #[default]
    Done,
    /// The changes planned with it bring it further.
    Working,
    /// A node, a person or another program has to act; the text names the wait.
    Wait(String),
    /// Other jobs hold what this directive needs; the text names it. The engine plans again when they release something.
    Queued(String),
    /// An error. Its severity says whether it may pass by itself.
    Failed(ResourceError),
}

impl From<ResourceError> for Outcome {
    fn from(error: ResourceError) -> Self {
        Self::Failed(error)
    }
}

impl From<Outcome> for Progress {
    fn from(outcome: Outcome) -> Self {
        Self { changes: Vec::new(), outcome }
    }
}

/// Planned changes, and how far the directive is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Changes to make now.
    pub changes: Vec<Change>,
    /// How far the directive is before these changes.
    pub outcome: Outcome,
}

impl Progress {
    /// Returns an error without changes.
    pub fn failed(error: ResourceError) -> Self {
        Self { changes: Vec::new(), outcome: Outcome::Failed(error) }
    }

    /// Returns a wait without changes.
    pub fn wait(why: impl Into<String>) -> Self {
        Self { changes: Vec::new(), outcome: Outcome::Wait(why.into()) }
    }

    /// Adds changes. An outcome with changes is not done, but Working.
    #[must_use]
    pub fn with(mut self, changes: impl IntoIterator<Item = Change>) -> Self {
        self.changes.extend(changes);
        if !self.changes.is_empty() && self.outcome == Outcome::Done {
            self.outcome = Outcome::Working;
        }
        self
    }

    /// Joins two that proceed side by side: the changes of both, and the worse outcome.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.changes.extend(other.changes);
        if rank(&other.outcome) > rank(&self.outcome) {
            self.outcome = other.outcome;
        }
        self
    }

    /// Continues with `next` if this is done.
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

/// Returns an error for the user: only another request helps.
pub fn user_error(message: impl Into<String>) -> ResourceError {
    fatal(ErrorType::User, message)
}

/// Returns an error for the workload manager: only another placement helps.
pub fn wlm_error(message: impl Into<String>) -> ResourceError {
    fatal(ErrorType::Wlm, message)
}

/// Returns an error that ends when its cause does; a person may have to act. Flux ends a job after 10 s of such an
/// error, so a shortage that lasts only until other jobs end is [`Outcome::Queued`].
pub fn transient_error(message: impl Into<String>) -> ResourceError {
    ResourceError { severity: Severity::Major, ..fatal(ErrorType::Internal, message) }
}

/// Returns an error of the software or the system that does not pass by itself.
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

/// Lists up to four names, or the first of more. The text is part of a status, and each change of it is a write: it
/// seldom changes while many nodes finish in any order.
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
    fn and_returns_the_worse_outcome_in_either_order() {
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
                let progress = |outcome: &Outcome| Progress {
                    outcome: outcome.clone(),
                    ..Progress::default()
                };
                assert_eq!(progress(better).and(progress(worse)).outcome, *worse);
                assert_eq!(progress(worse).and(progress(better)).outcome, *worse);
            }
        }
    }

    #[test]
    fn some_of_names_only_the_first_of_more_than_four() {
        assert_eq!(some_of(["a", "b"]), "a, b");
        assert_eq!(some_of(["a", "b", "c", "d", "e"]), "a and others");
    }
}
