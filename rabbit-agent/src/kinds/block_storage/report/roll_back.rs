//! Decides which allocations a pass releases when the object cannot have all of them, and whether all namespaces of an
//! object can be released.

use controller::Retry;
use std::collections::BTreeSet;

use agent::error::Failure;
use api::{NnfNodeBlockStorage, Severity};
use storage::{
    ConvergeError, Converged, Observed, Rejection, Step,
    desired::{Allocation, AllocationId},
    plan::{Absence, RejectionClass},
};

use super::Outcome;

/// Returns the allocations to release after another allocation found no room: those that this pass made and that
/// no status has reported.
///
/// Older allocations stay, whatever happens to the new ones: they may hold a job's data, even if their status was lost.
pub fn to_roll_back(
    object: &NnfNodeBlockStorage,
    allocations: &[Allocation],
    outcomes: &[Outcome],
) -> Vec<AllocationId> {
    if !outcomes.iter().any(|outcome| outcome.as_ref().is_err_and(is_lack_of_room)) {
        return Vec::new();
    }
    let reported = |index: usize| {
        let status = object.status.as_ref().and_then(|status| status.allocations.get(index));
        status.is_some_and(|allocation| !allocation.devices.is_empty())
    };
    let is_new = |converged: &Converged| {
        converged.steps.iter().any(|step| matches!(step, Step::CreateNamespace { .. }))
    };
    let all = allocations.iter().zip(outcomes).enumerate();
    let new =
        all.filter(|(index, (_, outcome))| outcome.as_ref().is_ok_and(is_new) && !reported(*index));
    new.map(|(_, (allocation, _))| allocation.id).collect()
}

/// Returns a failure if a namespace of the object is, or may be, on a drive whose ledger cannot be read: once the
/// object is gone, no object would name the namespace's owner.
pub fn drives_unreadable(object: &NnfNodeBlockStorage, seen: &Observed) -> Option<Failure> {
    let reported = object.status.as_ref().map_or(&[][..], |status| &status.allocations);
    let is_complete = reported.len() >= object.spec.allocations.len()
        && reported.iter().all(|allocation| !allocation.devices.is_empty());
    let devices: BTreeSet<_> = reported
        .iter()
        .flat_map(|allocation| &allocation.devices)
        .map(|device| device.nqn.as_str())
        .collect();
    let drives: Vec<_> = seen.unreadable.iter().map(ToString::to_string).collect();
    let may_have = |drive: &&String| !is_complete || devices.contains(drive.as_str());
    let drives: Vec<_> = drives.iter().filter(may_have).cloned().collect();
    let text = format!(
        "the ledger of {} cannot be read: repair or remove it, as the drive's fault in the NnfNode says",
        drives.join(", ")
    );
    let (severity, retry) = (Severity::Major, Retry::Later);
    (!drives.is_empty())
        .then(|| Failure { severity, retry, ..Failure::waiting(text) }.for_operators())
}

/// Returns whether the error is a lack of room on the rabbit: the workload manager then chooses another rabbit.
pub fn is_lack_of_room(error: &ConvergeError) -> bool {
    matches!(error, ConvergeError::Rejected(rejection) if rejection.class() == RejectionClass::Capacity)
}

/// Returns whether all reported namespaces of an allocation are missing. Then the drives were read, so the missing
/// namespaces are a result of the observation, not a failure to observe.
pub fn is_lost(error: &ConvergeError) -> bool {
    matches!(error, ConvergeError::Rejected(Rejection::Lost { .. }))
}

/// Returns whether an allocation has no namespace left: its drives are present and have none of its namespaces.
pub fn is_deleted(error: &ConvergeError) -> bool {
    let ConvergeError::Rejected(Rejection::Lost { missing, .. }) = error else { return false };
    missing.iter().all(|missing| matches!(missing.why, Absence::Deleted | Absence::Partial))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::{
            status,
            tests::{old, seen},
        },
        *,
    };
    use crate::samples;

    fn new(allocation: &Allocation) -> Outcome {
        let drive = "nqn.2026-01.io.warren:d0".parse().unwrap();
        let step =
            Step::CreateNamespace { allocation: allocation.id, drive, size: 4096, members: 1 };
        Ok(Converged { steps: vec![step], observed: seen(allocation) })
    }

    fn full() -> Outcome {
        let (requested, usable, least, drives, full) = (8, 1, 2, 2, Vec::new());
        let full = Rejection::TooFewDrives { requested, usable, least, drives, full };
        Err(ConvergeError::Rejected(full))
    }

    #[test]
    fn a_release_fails_while_a_ledger_that_may_name_the_object_is_unreadable() {
        let mut object = samples::block_storage_ready(1);
        let seen = |drives: &[&str]| {
            let unread = drives.iter().map(|drive| drive.parse().unwrap()).collect();
            Observed { unreadable: unread, ..Observed::default() }
        };
        let (own, other) = (seen(&["nqn.2026-01.io.warren:d0"]), seen(&["nqn.x:d9"]));
        let failure = drives_unreadable(&object, &own).unwrap();
        assert_eq!((failure.severity, failure.retry), (Severity::Major, Retry::Later));
        assert!(
            failure.user.contains("ledger of nqn.2026-01.io.warren:d0 cannot"),
            "{}",
            failure.user
        );
        assert_eq!(
            drives_unreadable(&object, &other),
            None,
            "all namespaces of the object are on other drives"
        );
        assert_eq!(drives_unreadable(&object, &Observed::default()), None);
        object.status = None;
        assert!(
            drives_unreadable(&object, &other).is_some(),
            "the namespaces of the object are unknown"
        );
    }

    #[test]
    fn lack_of_capacity_releases_the_namespaces_that_this_pass_created() {
        let object = samples::block_storage(&[(8, &["rabbit-1"]), (8, &["rabbit-1"])]);
        let allocations = samples::allocations(&object);
        let outcomes = [new(&allocations[0]), full()];
        let back = to_roll_back(&object, &allocations, &outcomes);
        assert_eq!(back, [allocations[0].id]);
        let status = status(&object, &allocations, &outcomes, &back, &samples::started(), None);
        assert_eq!(
            serde_json::to_value(status).unwrap(),
            json!({"ready": false, "allocations": [{}, {}]})
        );
    }

    #[test]
    fn lack_of_capacity_releases_no_namespace_of_an_earlier_pass() {
        let mut object = samples::block_storage(&[(8, &["rabbit-1"]), (8, &["rabbit-1"])]);
        let allocations = samples::allocations(&object);
        assert!(
            to_roll_back(&object, &allocations, &[old(&allocations[0]), full()]).is_empty(),
            "an earlier pass made the allocation, and its status may have been lost"
        );
        let both = [old(&allocations[0]), Ok(Converged::default())];
        object.status = Some(status(&object, &allocations, &both, &[], &samples::started(), None));
        assert!(
            to_roll_back(&object, &allocations, &[new(&allocations[0]), full()]).is_empty(),
            "the status has reported the allocation"
        );
        assert!(
            to_roll_back(&object, &allocations, &[new(&allocations[0]), new(&allocations[1])])
                .is_empty(),
            "no allocation lacks room"
        );
    }
}
