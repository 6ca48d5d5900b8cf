//! The progress of a directive in a workflow's state, and the changes to make next.

use std::collections::BTreeSet;

use api::{ErrorType, ResourceError, Severity};

use crate::change::Change;

/// The progress of a directive in a workflow's state.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Outcome {
    /// Nothing is left to do.
    #[default]
    Done,
    /// The changes planned with this outcome bring the directive further.
    Working,
    /// A node, a person or another program has to act; the text names the thing that the directive waits for.
    Wait(String),
    /// Other jobs hold a resource that this directive needs; the text names the resource. The engine plans again when
    /// other jobs release capacity, ports or names.
    Queued(String),
    /// An error. Its severity says whether the error may end without a new request.
    Failed(ResourceError),
}

impl From<ResourceError> for Outcome {
    fn from(error: ResourceError) -> Self {
        Self::Failed(error)
    }
}

impl From<Outcome> for Progress {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, ..Self::default() }
    }
}

/// Planned changes, and the progress of the directive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Changes to make now.
    pub changes: Vec<Change>,
    /// Progress of the directive before these changes.
    pub outcome: Outcome,
    /// Nodes whose agents have to act, for a wait.
    pub awaited: BTreeSet<String>,
}

impl Progress {
    /// Returns an error without changes.
    pub fn failed(error: ResourceError) -> Self {
        Outcome::Failed(error).into()
    }

    /// Returns a wait without changes.
    pub fn wait(why: impl Into<String>) -> Self {
        Outcome::Wait(why.into()).into()
    }

    /// Returns a wait for the agents of these nodes: the text is `what` and the names of the nodes.
    pub fn wait_on<'a>(what: &str, nodes: impl IntoIterator<Item = &'a str>) -> Self {
        let nodes: Vec<&str> = nodes.into_iter().collect();
        let outcome = Outcome::Wait(format!("{what} {}", some_of(nodes.iter().copied())));
        let awaited = nodes.into_iter().map(str::to_owned).collect();
        Self { changes: Vec::new(), outcome, awaited }
    }

    /// Adds nodes whose agents have to act.
    #[must_use]
    pub fn awaiting<'a>(mut self, nodes: impl IntoIterator<Item = &'a str>) -> Self {
        self.awaited.extend(nodes.into_iter().map(str::to_owned));
        self
    }

    /// Adds changes. With changes, the outcome Done becomes Working.
    #[must_use]
    pub fn with(mut self, changes: impl IntoIterator<Item = Change>) -> Self {
        self.changes.extend(changes);
        if !self.changes.is_empty() && self.outcome == Outcome::Done {
            self.outcome = Outcome::Working;
        }
        self
    }

    /// Joins the progress of two parts that proceed side by side: the changes of both, and the worse outcome.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.changes.extend(other.changes);
        self.awaited.extend(other.awaited);
        if rank(&other.outcome) > rank(&self.outcome) {
            self.outcome = other.outcome;
        }
        self
    }

    /// Continues with `next` once this part is done.
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

/// Returns an error for the user, who has to change the request.
pub fn user_error(message: impl Into<String>) -> ResourceError {
    fatal(ErrorType::User, message)
}

/// Returns an error for the workload manager, which has to change the placement.
pub fn wlm_error(message: impl Into<String>) -> ResourceError {
    fatal(ErrorType::Wlm, message)
}

/// Returns an error that lasts as long as its cause; a person may have to act. Flux ends a job after 10 s of such an
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

/// Lists up to four names, each once. Of more than four, lists only the first: the text is part of a status, each change of the
/// text costs a write, and the text must not change each time that one of many nodes finishes.
pub fn some_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const FEW: usize = 4;
    let mut seen = BTreeSet::new();
    let names: Vec<&str> = names.into_iter().filter(|name| seen.insert(*name)).collect();
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
