//! Kubernetes Events about allocations. Does no I/O.

use controller::events::Note;
use std::collections::BTreeSet;

use agent::error::Failure;
use storage::Step;

use super::report::Outcome;

const ALLOCATE: &str = "Allocate";

/// Returns an Event about new namespaces or about the failure; `None` if there is neither.
pub(super) fn event(outcomes: &[Outcome], failure: Option<&Failure>) -> Option<Note> {
    if let Some(failure) = failure {
        // If every allocation converged, all allocations can be used, and only some drives are missing.
        let works = outcomes.iter().all(Result::is_ok);
        let reason = if works { "AllocationDegraded" } else { "AllocationFailed" };
        return Some(Note::warning(reason, ALLOCATE, failure.debug.clone()));
    }
    let steps = outcomes.iter().flatten().flat_map(|converged| &converged.steps);
    let (mut count, mut bytes, mut drives) = (0_u32, 0_u64, BTreeSet::new());
    for step in steps {
        if let Step::CreateNamespace { drive, size, .. } = step {
            count += 1;
            bytes += size;
            drives.insert(drive);
        }
    }
    let text =
        format!("made {count} namespaces of {bytes} bytes in all on {} drives", drives.len());
    (count > 0).then(|| Note::normal("AllocationMade", ALLOCATE, text))
}

#[cfg(test)]
mod tests {
    use storage::{Converged, Rounds};

    use super::*;

    fn created_on(drive: &str) -> Outcome {
        let id = "a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11".parse().unwrap();
        let allocation = storage::desired::AllocationId { owner: id, index: 0 };
        let drive = drive.parse().unwrap();
        let step = Step::CreateNamespace { allocation, drive, size: 512, members: 2 };
        Ok(Converged { steps: vec![step], ..Converged::default() })
    }

    #[test]
    fn an_event_counts_new_namespaces_only() {
        let event = super::event(&[created_on("nqn.x:d0"), created_on("nqn.x:d1")], None).unwrap();
        assert_eq!(event.reason, "AllocationMade");
        assert_eq!(event.text(), "made 2 namespaces of 1024 bytes in all on 2 drives");
        assert_eq!(super::event(&[Ok(Converged::default())], None), None);
    }

    #[test]
    fn degraded_and_failed_allocations_have_different_reasons() {
        let failure = Failure::waiting("a drive is away".into());
        let event = super::event(&[created_on("nqn.x:d0")], Some(&failure)).unwrap();
        assert_eq!((event.reason, event.text()), ("AllocationDegraded", "a drive is away".into()));
        let broken = Rounds::new("allocation 1", 0).begin(&["a step"]);
        let broken = broken.map_err(Into::into).map(|_| Converged::default());
        let event = super::event(&[created_on("nqn.x:d0"), broken], Some(&failure)).unwrap();
        assert_eq!((event.reason, event.is_warning), ("AllocationFailed", true));
    }
}
