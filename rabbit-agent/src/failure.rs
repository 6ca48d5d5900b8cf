//! Errors of this rabbit's own kinds as the one failure of an object.

use agent::error::{ASK_ADMINISTRATORS, Failure, rank};
use api::{ErrorType, Severity};
use controller::Retry;
use daemon::chain;
use storage::{ConvergeError, Rejection, plan::Missing};

use crate::{
    block_storage::desired::BlockStorageError, chassis::ChassisError,
    node_storage::desired::NodeStorageError,
};

/// The words that the sites' tools look for when a rabbit is full.
pub const INSUFFICIENT: &str = "insufficient capacity available";

impl From<&BlockStorageError> for Failure {
    /// A name that is missing may be configured later, which wakes the object; anything else is for its author.
    fn from(error: &BlockStorageError) -> Self {
        match error {
            BlockStorageError::Access {
                source: ChassisError::NoSystemConfiguration { .. },
                ..
            } => Self::waiting(chain(error)),
            // Somebody has to bring the directories back, and the workflow waits.
            BlockStorageError::Fences(_) => Self {
                severity: Severity::Major,
                ..Self::waiting(chain(error))
            }
            .with_owner_text(
                "a GFS2 is given to no compute, because it is not known which of them are fenced",
            ),
            _ => Self::input(chain(error)),
        }
    }
}

impl From<&NodeStorageError> for Failure {
    fn from(error: &NodeStorageError) -> Self {
        let failure = Self::input(chain(error));
        match error {
            NodeStorageError::SharedCount(_) => failure.for_operators(),
            _ => failure,
        }
    }
}

/// An allocation that found no room.
pub fn no_room(index: usize, error: &ConvergeError) -> Failure {
    let mut failure = Failure::of_convergence(error);
    let on_the_node = match error {
        ConvergeError::Rejected(
            rejection @ (Rejection::TooFewDrives { .. } | Rejection::PoolFull { .. }),
        ) => Some(format!("{}: ask for less, or {ASK_ADMINISTRATORS}", rejection.problem())),
        _ => None,
    };
    let why = on_the_node.as_ref().unwrap_or(&failure.debug);
    let why = why.strip_prefix("insufficient capacity: ").unwrap_or(why);
    failure.user = format!("{INSUFFICIENT}: allocation {index}: {why}");
    failure.debug =
        format!("unable to allocate NVMe namespaces for allocation {index}: {}", failure.debug);
    failure
}

/// An allocation that goes on without some of its namespaces, if any are missing; a drive that comes back is seen in the next
/// try.
pub fn degraded(missing: &[Missing]) -> Option<Failure> {
    let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
    let text = format!("degraded: {}", missing.join("; "));
    (!missing.is_empty()).then(|| Failure { retry: Retry::Later, ..Failure::waiting(text) })
}

/// Many failures as one: as severe as the worst, as patient as the first to try again, and naming what each is of.
#[must_use]
pub fn combined(failures: &[(String, Failure)]) -> Option<Failure> {
    let (_, worst) = failures.iter().max_by_key(|(_, failure)| rank(&failure.severity))?;
    let retry = failures.iter().map(|(_, failure)| failure.retry).min()?;
    let internal = failures.iter().any(|(_, failure)| failure.error_type == ErrorType::Internal);
    let joined = |text: fn(&Failure) -> &str| {
        let parts: Vec<_> =
            failures.iter().map(|(of, failure)| format!("{of}: {}", text(failure))).collect();
        parts.join("; ")
    };
    let holders =
        failures.iter().flat_map(|(_, failure)| failure.holders.iter().copied()).collect();
    Some(Failure {
        error_type: if internal { ErrorType::Internal } else { worst.error_type.clone() },
        severity: worst.severity.clone(),
        user: joined(|failure| &failure.user),
        debug: joined(|failure| &failure.debug),
        retry,
        holders,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_rabbit_says_the_words_that_tools_look_for_and_the_numbers() {
        let full = Rejection::InsufficientCapacity {
            asked: 800,
            each: 400,
            drives: 2,
            lacking: "nqn.2026-01.io.warren:d0".parse().unwrap(),
            left: 40,
            capacity: 100,
        };
        let failure = no_room(3, &ConvergeError::Rejected(full));
        assert_eq!(
            (failure.error_type.clone(), failure.severity.clone()),
            (ErrorType::Wlm, Severity::Fatal)
        );
        let error = failure.to_resource_error("rabbit-1", "");
        let user = error.user_message.unwrap();
        assert!(user.starts_with("rabbit-1: insufficient capacity available"), "{user}");
        assert!(
            user.contains("allocation 3") && user.contains("800") && user.contains("40"),
            "{user}"
        );
    }

    #[test]
    fn what_only_an_operator_can_do_is_not_what_the_owner_reads() {
        let full = Rejection::TooFewDrives {
            asked: 8,
            usable: 1,
            least: 14,
            drives: 16,
            full: Vec::new(),
        };
        let failures = [
            (no_room(0, &ConvergeError::Rejected(full)), "check the drives of this node"),
            (
                Failure::from(&NodeStorageError::SharedCount(3)),
                "start the agents with --volumes lvm",
            ),
        ];
        for (failure, remedy) in failures {
            assert!(failure.debug.contains(remedy), "{}", failure.debug);
            assert!(!failure.user.contains(remedy), "{}", failure.user);
            assert!(failure.user.ends_with(ASK_ADMINISTRATORS), "{}", failure.user);
        }
    }

    #[test]
    fn every_failure_is_told_and_the_worst_decides() {
        let first = Failure { retry: Retry::Soon, ..Failure::waiting("busy".into()) };
        let second = Failure::input("wrong".into());
        let both =
            combined(&[("allocation 0".into(), first), ("allocation 2".into(), second)]).unwrap();
        assert_eq!((both.severity, both.retry), (Severity::Fatal, Retry::Soon));
        assert_eq!(both.user, "allocation 0: busy; allocation 2: wrong");
        assert_eq!(combined(&[]), None);
    }

    #[test]
    fn a_compute_that_may_yet_be_configured_is_waited_for() {
        let rabbit = "rabbit-1".parse().unwrap();
        let access = |source| BlockStorageError::Access { index: 0, place: 1, source };
        let waiting = Failure::from(&access(ChassisError::NoSystemConfiguration { rabbit }));
        assert_eq!(waiting.severity, Severity::Minor);
        let rabbit = "rabbit-1".parse().unwrap();
        let wrong = Failure::from(&access(ChassisError::ComputeNotListed {
            compute: "compute-77".into(),
            rabbit,
        }));
        assert_eq!(wrong.severity, Severity::Fatal);
        assert!(
            wrong.user.contains("spec.allocations[0].access[1]")
                && wrong.user.contains("compute-77"),
            "{}",
            wrong.user
        );
    }
}
