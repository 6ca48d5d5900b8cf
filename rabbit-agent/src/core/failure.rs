//! Failures that several kinds report.

use agent::error::{ASK_ADMINISTRATORS, Failure, rank};
use api::ErrorType;
use controller::Retry;
use storage::{ConvergeError, Rejection, plan::Missing};

/// Words for which the sites' tools search an error when a rabbit is full.
pub const INSUFFICIENT: &str = "insufficient capacity available";

/// Returns the failure of an allocation that found no room.
pub fn no_room(index: usize, error: &ConvergeError) -> Failure {
    let mut failure = Failure::of_convergence(error);
    let without_node_details = match error {
        ConvergeError::Rejected(
            rejection @ (Rejection::TooFewDrives { .. } | Rejection::PoolFull { .. }),
        ) => Some(format!("{}: ask for less, or {ASK_ADMINISTRATORS}", rejection.problem())),
        _ => None,
    };
    let why = without_node_details.as_ref().unwrap_or(&failure.debug);
    let why = why.strip_prefix("insufficient capacity: ").unwrap_or(why);
    failure.user = format!("{INSUFFICIENT}: allocation {index}: {why}");
    failure.debug =
        format!("unable to allocate NVMe namespaces for allocation {index}: {}", failure.debug);
    failure
}

/// Returns the failure of an allocation that is usable but lacks namespaces; `None` if no namespace is missing. The
/// retry finds out whether a drive has come back.
pub fn degraded(missing: &[Missing]) -> Option<Failure> {
    let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
    let text = format!("degraded: {}", missing.join("; "));
    (!missing.is_empty()).then(|| Failure { retry: Retry::Later, ..Failure::waiting(text) })
}

/// Combines failures into one: with the highest severity, the earliest retry, and a text that names for each failure
/// the part of the object.
#[must_use]
pub fn combined(failures: &[(String, Failure)]) -> Option<Failure> {
    let (_, worst) = failures.iter().max_by_key(|(_, failure)| rank(&failure.severity))?;
    let retry = failures.iter().map(|(_, failure)| failure.retry).min()?;
    let internal = failures.iter().any(|(_, failure)| failure.error_type == ErrorType::Internal);
    let joined = |text: fn(&Failure) -> &str| {
        let parts: Vec<_> =
            failures.iter().map(|(part, failure)| format!("{part}: {}", text(failure))).collect();
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
    use api::Severity;

    use super::*;

    #[test]
    fn a_full_rabbit_is_reported_with_the_words_that_tools_search_for() {
        let full = Rejection::InsufficientCapacity {
            requested: 800,
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
    fn the_text_for_the_owner_omits_remedies_that_only_administrators_can_apply() {
        let full = Rejection::TooFewDrives {
            requested: 8,
            usable: 1,
            least: 14,
            drives: 16,
            full: Vec::new(),
        };
        let failure = no_room(0, &ConvergeError::Rejected(full));
        let remedy = "check the drives of this node";
        assert!(failure.debug.contains(remedy), "{}", failure.debug);
        assert!(!failure.user.contains(remedy), "{}", failure.user);
        assert!(failure.user.ends_with(ASK_ADMINISTRATORS), "{}", failure.user);
    }

    #[test]
    fn combined_failures_name_all_and_take_the_worst_severity() {
        let first = Failure { retry: Retry::Soon, ..Failure::waiting("busy".into()) };
        let second = Failure::input("wrong".into());
        let both =
            combined(&[("allocation 0".into(), first), ("allocation 2".into(), second)]).unwrap();
        assert_eq!((both.severity, both.retry), (Severity::Fatal, Retry::Soon));
        assert_eq!(both.user, "allocation 0: busy; allocation 2: wrong");
        assert_eq!(combined(&[]), None);
    }
}
