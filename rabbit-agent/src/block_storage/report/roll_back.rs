//! What a pass releases when the object cannot have everything, and whether everything of an object can be released.

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

/// The allocations to release when another found no room: those that this very pass made and no status reported.
///
/// Anything older stays, whatever happens to the others: it may hold a job's data, even if its status was lost.
pub fn to_roll_back(
    object: &NnfNodeBlockStorage,
    wanted: &[Allocation],
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
    let all = wanted.iter().zip(outcomes).enumerate();
    let new =
        all.filter(|(index, (_, outcome))| outcome.as_ref().is_ok_and(is_new) && !reported(*index));
    new.map(|(_, (allocation, _))| allocation.id).collect()
}

/// A failure if something of the object is, or may be, on a drive whose records cannot be read: once the object is
/// gone, nobody would release it.
pub fn drives_unreadable(object: &NnfNodeBlockStorage, seen: &Observed) -> Option<Failure> {
    let reported = object.status.as_ref().map_or(&[][..], |status| &status.allocations);
    let is_told = reported.len() >= object.spec.allocations.len()
        && reported.iter().all(|allocation| !allocation.devices.is_empty());
    let devices: BTreeSet<_> = reported
        .iter()
        .flat_map(|allocation| &allocation.devices)
        .map(|device| device.nqn.as_str())
        .collect();
    let drives: Vec<_> = seen.unreadable.iter().map(ToString::to_string).collect();
    let may_have = |drive: &&String| !is_told || devices.contains(drive.as_str());
    let drives: Vec<_> = drives.iter().filter(may_have).cloned().collect();
    let text = format!(
        "what is on {} is not known: put the ledger right, or remove it, as the drive's fault tells",
        drives.join(", ")
    );
    let (severity, retry) = (Severity::Major, Retry::Later);
    (!drives.is_empty())
        .then(|| Failure { severity, retry, ..Failure::waiting(text) }.for_operators())
}

/// Whether this is a lack of room: then the workload manager uses another rabbit.
pub fn is_lack_of_room(error: &ConvergeError) -> bool {
    matches!(error, ConvergeError::Rejected(rejection) if rejection.class() == RejectionClass::Capacity)
}

/// Whether all reported namespaces of an allocation are missing. That is an observation, not a failure to observe.
pub fn is_lost(error: &ConvergeError) -> bool {
    matches!(error, ConvergeError::Rejected(Rejection::Lost { .. }))
}

/// Whether nothing is left of an allocation: its drives are there and have none of its namespaces.
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
        let (asked, usable, least, drives, full) = (8, 1, 2, 2, Vec::new());
        let full = Rejection::TooFewDrives { asked, usable, least, drives, full };
        Err(ConvergeError::Rejected(full))
    }

    #[test]
    fn what_may_be_on_a_drive_whose_records_cannot_be_read_is_not_taken_for_given_back() {
        let mut object = samples::block_storage_ready(1);
        let seen = |drives: &[&str]| {
            let unread = drives.iter().map(|drive| drive.parse().unwrap()).collect();
            Observed { unreadable: unread, ..Observed::default() }
        };
        let (own, other) = (seen(&["nqn.2026-01.io.warren:d0"]), seen(&["nqn.x:d9"]));
        let failure = drives_unreadable(&object, &own).unwrap();
        assert_eq!((failure.severity, failure.retry), (Severity::Major, Retry::Later));
        assert!(failure.user.contains("on nqn.2026-01.io.warren:d0 is"), "{}", failure.user);
        assert_eq!(drives_unreadable(&object, &other), None, "all that it has is elsewhere");
        assert_eq!(drives_unreadable(&object, &Observed::default()), None);
        object.status = None;
        assert!(drives_unreadable(&object, &other).is_some(), "what it has is not known");
    }

    #[test]
    fn out_of_room_gives_back_what_this_pass_made() {
        let object = samples::block_storage(&[(8, &["rabbit-1"]), (8, &["rabbit-1"])]);
        let wanted = samples::wanted(&object);
        let outcomes = [new(&wanted[0]), full()];
        let back = to_roll_back(&object, &wanted, &outcomes);
        assert_eq!(back, [wanted[0].id]);
        let status = status(&object, &wanted, &outcomes, &back, &samples::started(), None);
        assert_eq!(
            serde_json::to_value(status).unwrap(),
            json!({"ready": false, "allocations": [{}, {}]})
        );
    }

    #[test]
    fn out_of_room_never_takes_what_was_there_before() {
        let mut object = samples::block_storage(&[(8, &["rabbit-1"]), (8, &["rabbit-1"])]);
        let wanted = samples::wanted(&object);
        assert!(
            to_roll_back(&object, &wanted, &[old(&wanted[0]), full()]).is_empty(),
            "its status may have been lost"
        );
        let both = [old(&wanted[0]), Ok(Converged::default())];
        object.status = Some(status(&object, &wanted, &both, &[], &samples::started(), None));
        assert!(
            to_roll_back(&object, &wanted, &[new(&wanted[0]), full()]).is_empty(),
            "it was reported"
        );
        assert!(
            to_roll_back(&object, &wanted, &[new(&wanted[0]), new(&wanted[1])]).is_empty(),
            "there is room"
        );
    }
}
