//! Defines the errors of an invalid NnfNodeBlockStorage.

use agent::error::Failure;
use api::Severity;
use daemon::chain;
use fence::{FencesUnknown, chassis::ChassisError};
use storage::desired::NameError;
use thiserror::Error;

use super::MOST_ALLOCATIONS;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BlockStorageError {
    #[error("metadata.uid")]
    Uid(#[source] NameError),
    #[error("spec.allocations[{index}].capacity is {capacity} bytes: ask for at least 1")]
    Capacity { index: usize, capacity: i64 },
    #[error("spec.allocations[{index}].access[{place}]")]
    Access {
        index: usize,
        place: usize,
        #[source]
        source: ChassisError,
    },
    #[error("spec.allocations[].access")]
    Fences(#[from] FencesUnknown),
    /// The status names an impossible device: so the agent does not know which namespaces are allocated.
    #[error("status.allocations[{index}].devices[{place}]")]
    Device {
        index: usize,
        place: usize,
        #[source]
        source: NameError,
    },
    #[error("spec.allocations has {0} entries: at most {MOST_ALLOCATIONS} can be made")]
    TooMany(usize),
}

impl From<&BlockStorageError> for Failure {
    /// A missing SystemConfiguration may be created later, and its creation wakes the object: so the object waits for
    /// it. An error about fence requests lasts until an administrator acts; every other error lasts until the author of
    /// the object changes the object.
    fn from(error: &BlockStorageError) -> Self {
        match error {
            BlockStorageError::Access {
                source: ChassisError::NoSystemConfiguration { .. },
                ..
            } => Self::waiting(chain(error)),
            // An administrator must restore the directories of fence requests; the workflow waits until then.
            BlockStorageError::Fences(_) => Self {
                severity: Severity::Major,
                ..Self::waiting(chain(error))
            }
            .with_owner_text(
                "no compute gets access to a GFS2, because the agent cannot tell which computes are fenced",
            ),
            _ => Self::input(chain(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_a_compute_that_may_be_configured_later_is_not_fatal() {
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
