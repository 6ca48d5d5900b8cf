//! What became of a NnfNodeBlockStorage: its status, from what was seen on the drives. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{
    NnfNodeBlockStorage, NnfNodeBlockStorageStatus, ResourceError, Severity,
    nnf_node_block_storage::{
        NnfNodeBlockStorageAccessStatus, NnfNodeBlockStorageAllocationStatus,
        NnfNodeBlockStorageDeviceStatus,
    },
};
use clientmount_agent::error::{Failure, Retry};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use storage::{
    ConvergeError, Converged, Observed, Rejection, Step,
    desired::{Allocation, AllocationId, Endpoint, NamespaceId},
    observed::{Namespace, NamespaceOwner},
    plan::{Absence, RejectionClass, missing},
};

/// One allocation after it was worked on.
pub type Outcome = Result<Converged, ConvergeError>;

/// The status after every allocation converged or failed.
///
/// An allocation that failed keeps what was last known of it, and then the paths are not vouched for: `podStartTime`
/// moves to `started` only when all of them were seen. `rolled_back` allocations are shown as never made.
#[must_use]
pub fn status(
    object: &NnfNodeBlockStorage,
    wanted: &[Allocation],
    outcomes: &[Outcome],
    rolled_back: &[AllocationId],
    started: &Time,
    error: Option<ResourceError>,
) -> NnfNodeBlockStorageStatus {
    let before = object.status.clone().unwrap_or_default();
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let allocations: Vec<_> = wanted
        .iter()
        .zip(outcomes)
        .enumerate()
        .map(|(index, (allocation, outcome))| match outcome {
            _ if rolled_back.contains(&allocation.id) => {
                NnfNodeBlockStorageAllocationStatus::default()
            }
            Ok(converged) => made(&format!("{name}-{index}"), allocation, &converged.observed),
            Err(_) => before.allocations.get(index).cloned().unwrap_or_default(),
        })
        .collect();
    let all_seen = outcomes.iter().all(Result::is_ok);
    NnfNodeBlockStorageStatus {
        ready: allocations.iter().all(|it| !it.devices.is_empty()) && (all_seen || before.ready),
        pod_start_time: if all_seen { Some(started.clone()) } else { before.pod_start_time },
        allocations,
        error,
    }
}

/// The status when the object could not be acted on at all: as it was, with the error.
#[must_use]
pub fn refused(object: &NnfNodeBlockStorage, error: ResourceError) -> NnfNodeBlockStorageStatus {
    NnfNodeBlockStorageStatus { error: Some(error), ..object.status.clone().unwrap_or_default() }
}

/// What to give back when the object cannot have all it asks for: what this very pass made and nobody was told of.
///
/// Anything older stays whatever happens to the others: it may hold a job's data, even if its status was lost.
#[must_use]
pub fn to_roll_back(
    object: &NnfNodeBlockStorage,
    wanted: &[Allocation],
    outcomes: &[Outcome],
) -> Vec<AllocationId> {
    if !outcomes.iter().any(|it| it.as_ref().is_err_and(is_lack_of_room)) {
        return Vec::new();
    }
    let reported = |index: usize| {
        let status = object.status.as_ref().and_then(|status| status.allocations.get(index));
        status.is_some_and(|it| !it.devices.is_empty())
    };
    let is_new = |converged: &Converged| {
        converged.steps.iter().any(|step| matches!(step, Step::CreateNamespace { .. }))
    };
    let made = wanted.iter().zip(outcomes).enumerate();
    let new = made
        .filter(|(index, (_, outcome))| outcome.as_ref().is_ok_and(is_new) && !reported(*index));
    new.map(|(_, (allocation, _))| allocation.id).collect()
}

/// Why it cannot be told what the object has: some of it is, or may be, on a drive whose records cannot be read. Once the object
/// is gone nobody would give that back.
#[must_use]
pub fn hidden(object: &NnfNodeBlockStorage, seen: &Observed) -> Option<Failure> {
    let told = object.status.as_ref().map_or(&[][..], |status| &status.allocations);
    let is_told =
        told.len() >= object.spec.allocations.len() && told.iter().all(|it| !it.devices.is_empty());
    let devices: BTreeSet<_> =
        told.iter().flat_map(|it| &it.devices).map(|it| it.nqn.as_str()).collect();
    let drives: Vec<_> = seen.unread.iter().map(ToString::to_string).collect();
    let may_have = |drive: &&String| !is_told || devices.contains(drive.as_str());
    let drives: Vec<_> = drives.iter().filter(may_have).cloned().collect();
    let text = format!(
        "what is on {} is not known: put the ledger right, or remove it, as the drive's fault tells",
        drives.join(", ")
    );
    let (severity, retry) = (Severity::Major, Retry::Later);
    (!drives.is_empty()).then(|| Failure { severity, retry, ..Failure::waiting(text) })
}

/// Whether this is a lack of room, which the workload manager answers by going elsewhere.
#[must_use]
pub fn is_lack_of_room(error: &ConvergeError) -> bool {
    matches!(error, ConvergeError::Rejected(rejection) if rejection.class() == RejectionClass::Capacity)
}

/// Whether nothing is left of an allocation: its drives are there, and have none of its namespaces.
#[must_use]
pub fn is_deleted(error: &ConvergeError) -> bool {
    let ConvergeError::Rejected(Rejection::Lost { missing, .. }) = error else { return false };
    missing.iter().all(|it| matches!(it.why, Absence::Deleted | Absence::Partial))
}

fn made(
    pool: &str,
    allocation: &Allocation,
    observed: &Observed,
) -> NnfNodeBlockStorageAllocationStatus {
    let missing: BTreeSet<_> = missing(allocation, observed).into_iter().map(|it| it.id).collect();
    let ours = NamespaceOwner::Ours(allocation.id);
    let ours: Vec<&Namespace> = observed.namespaces.iter().filter(|it| it.owner == ours).collect();
    if ours.is_empty() {
        return NnfNodeBlockStorageAllocationStatus::default();
    }
    let mut devices: BTreeMap<_, _> =
        ours.iter().map(|it| (it.id.clone(), device(&it.id, it.size))).collect();
    // What it was told to have and has not stays in the list: nothing takes its place.
    for told in allocation.told.iter().filter(|it| missing.contains(&it.id)) {
        devices.entry(told.id.clone()).or_insert_with(|| device(&told.id, told.size));
    }
    let mut reached = ours;
    reached.retain(|it| !missing.contains(&it.id));
    reached.sort_by(|a, b| a.id.cmp(&b.id));
    let devices: Vec<_> = devices.into_values().collect();
    NnfNodeBlockStorageAllocationStatus {
        accesses: accesses(pool, allocation, &reached),
        capacity_allocated: devices.iter().map(|device| device.capacity_allocated).sum(),
        storage_pool_id: pool.to_owned(),
        devices,
    }
}

/// Who reaches all of what can be reached.
fn accesses(
    pool: &str,
    allocation: &Allocation,
    reached: &[&Namespace],
) -> BTreeMap<String, NnfNodeBlockStorageAccessStatus> {
    if reached.is_empty() {
        return BTreeMap::new();
    }
    let granted = allocation
        .access
        .iter()
        .filter(|it| reached.iter().all(|namespace| namespace.access.contains(&it.node)));
    let told = granted.map(|it| {
        let device_paths = match it.endpoint {
            Endpoint::Rabbit => reached
                .iter()
                .filter_map(|it| Some(it.device.as_ref()?.display().to_string()))
                .collect(),
            Endpoint::Compute(_) => Vec::new(),
        };
        let storage_group_id = format!("{pool}-{}", it.endpoint.number());
        (it.node.to_string(), NnfNodeBlockStorageAccessStatus { device_paths, storage_group_id })
    });
    told.collect()
}

fn device(id: &NamespaceId, size: u64) -> NnfNodeBlockStorageDeviceStatus {
    NnfNodeBlockStorageDeviceStatus {
        nqn: id.subsystem.to_string(),
        namespace_id: id.nsid.to_string(),
        capacity_allocated: i64::try_from(size).unwrap_or(i64::MAX),
    }
}

/// Whether the paths in this status hold for the agent that started at `started`: Kubernetes keeps whole seconds.
#[must_use]
pub fn is_current(status: &NnfNodeBlockStorageStatus, started: &Time) -> bool {
    status.ready && is_of(status, started)
}

/// Whether everything in this status was seen by the agent that started at `started`, ready or not.
#[must_use]
pub fn is_of(status: &NnfNodeBlockStorageStatus, started: &Time) -> bool {
    let at = status.pod_start_time.as_ref();
    at.is_some_and(|at| at.0.as_second() == started.0.as_second())
}

/// What an agent that starts `now` is to tell as its start: later than any that was told before, also after a reboot with
/// a clock that does not know the time, so that device paths of another boot are never taken for its own.
pub fn started_after<'a>(
    now: Timestamp,
    objects: impl Iterator<Item = &'a Arc<NnfNodeBlockStorage>>,
) -> Time {
    let told = objects.filter_map(|it| it.status.as_ref()?.pod_start_time.as_ref());
    let after = told.map(|at| at.0.as_second().saturating_add(1)).max();
    // Kubernetes keeps whole seconds of a time.
    let second = after.map_or(now.as_second(), |after| after.max(now.as_second()));
    Time(Timestamp::from_second(second).unwrap_or(now))
}

/// Whether any allocation was last known to have namespaces.
#[must_use]
pub fn has_devices(status: &NnfNodeBlockStorageStatus) -> bool {
    status.allocations.iter().any(|it| !it.devices.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples;

    fn old(allocation: &Allocation) -> Outcome {
        Ok(Converged { steps: Vec::new(), observed: seen(allocation) })
    }

    fn new(allocation: &Allocation) -> Outcome {
        let drive = "nqn.2026-01.io.warren:d0".parse().unwrap();
        let step = Step::CreateNamespace { allocation: allocation.id, drive, size: 4096, of: 1 };
        Ok(Converged { steps: vec![step], observed: seen(allocation) })
    }

    fn seen(allocation: &Allocation) -> Observed {
        let namespace = |nsid: u32| Namespace {
            id: storage::desired::NamespaceId {
                subsystem: "nqn.2026-01.io.warren:d0".parse().unwrap(),
                nsid,
            },
            owner: NamespaceOwner::Ours(allocation.id),
            size: 4096,
            access: allocation.access.iter().map(|it| it.node.clone()).collect(),
            device: Some(format!("/dev/loop{nsid}").into()),
            of: 2,
        };
        let mut foreign = namespace(9);
        foreign.owner = NamespaceOwner::Foreign("no owner".into());
        Observed { namespaces: vec![namespace(3), foreign, namespace(4)], ..Observed::default() }
    }

    fn full() -> Outcome {
        let (asked, usable, least, drives, full) = (8, 1, 2, 2, Vec::new());
        let full = Rejection::TooFewDrives { asked, usable, least, drives, full };
        Err(ConvergeError::Rejected(full))
    }

    #[test]
    fn the_status_has_the_shape_that_central_controllers_read() {
        let object = samples::block_storage(&[(8192, &["rabbit-1", "compute-01", "compute-03"])]);
        let wanted = samples::wanted(&object);
        let started = samples::started();
        let status = status(&object, &wanted, &[old(&wanted[0])], &[], &started, None);
        assert_eq!(
            serde_json::to_value(&status).unwrap(),
            json!({"ready": true, "podStartTime": "2026-06-01T07:12:09Z", "allocations": [{
                "accesses": {
                    "rabbit-1": {"storageGroupId": "default-job-7-0-xfs-0-0-0", "devicePaths": ["/dev/loop3", "/dev/loop4"]},
                    "compute-01": {"storageGroupId": "default-job-7-0-xfs-0-0-1"},
                    "compute-03": {"storageGroupId": "default-job-7-0-xfs-0-0-7"}},
                "devices": [
                    {"NQN": "nqn.2026-01.io.warren:d0", "namespaceId": "3", "capacityAllocated": 4096},
                    {"NQN": "nqn.2026-01.io.warren:d0", "namespaceId": "4", "capacityAllocated": 4096}],
                "capacityAllocated": 8192,
                "storagePoolId": "default-job-7-0-xfs-0-0"}]})
        );
        assert!(is_current(&status, &started));
        assert!(!is_current(&status, &"2026-06-01T07:12:10Z".parse().map(Time).unwrap()));
    }

    #[test]
    fn a_start_is_later_than_every_start_that_was_told() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let objects = ["2026-06-01T07:12:09Z", "2026-05-01T00:00:00Z"].map(|told| {
            let mut object = samples::block_storage_ready(1);
            let status = object.status.as_mut().unwrap();
            status.pod_start_time = Some(Time(at(told)));
            Arc::new(object)
        });
        for (now, started) in [
            ("2026-06-02T00:00:00.75Z", "2026-06-02T00:00:00Z"),
            ("2026-06-01T07:12:09.5Z", "2026-06-01T07:12:10Z"),
            ("1970-01-01T00:00:05Z", "2026-06-01T07:12:10Z"),
        ] {
            assert_eq!(started_after(at(now), objects.iter()), Time(at(started)), "{now}");
        }
        let first = started_after(at("2026-06-02T00:00:00.75Z"), [].iter());
        assert_eq!(first, Time(at("2026-06-02T00:00:00Z")));
    }

    #[test]
    fn what_may_be_on_a_drive_whose_records_cannot_be_read_is_not_taken_for_given_back() {
        let mut object = samples::block_storage_ready(1);
        let seen = |drives: &[&str]| {
            let unread = drives.iter().map(|it| it.parse().unwrap()).collect();
            Observed { unread, ..Observed::default() }
        };
        let (own, other) = (seen(&["nqn.2026-01.io.warren:d0"]), seen(&["nqn.x:d9"]));
        let failure = hidden(&object, &own).unwrap();
        assert_eq!((failure.severity, failure.retry), (Severity::Major, Retry::Later));
        assert!(failure.user.contains("on nqn.2026-01.io.warren:d0 is"), "{}", failure.user);
        assert_eq!(hidden(&object, &other), None, "all that it has is elsewhere");
        assert_eq!(hidden(&object, &Observed::default()), None);
        object.status = None;
        assert!(hidden(&object, &other).is_some(), "what it has is not known");
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

    #[test]
    fn a_drive_that_is_away_stays_in_the_list_and_keeps_nobody_from_the_others() {
        let mut object = samples::block_storage(&[(8192, &["rabbit-1", "compute-01"])]);
        let wanted = samples::wanted(&object);
        let made = status(&object, &wanted, &[old(&wanted[0])], &[], &samples::started(), None);
        object.status = Some(made.clone());
        let wanted = samples::wanted(&object);
        let mut observed = seen(&wanted[0]);
        observed.namespaces.remove(2);
        let after = |observed: Observed| {
            let outcome = Ok(Converged { steps: Vec::new(), observed });
            status(&object, &wanted, &[outcome], &[], &samples::started(), None)
        };
        let status = after(observed.clone());
        assert_eq!(status.allocations[0].devices, made.allocations[0].devices);
        assert_eq!(status.allocations[0].accesses["rabbit-1"].device_paths, ["/dev/loop3"]);
        assert!(status.ready && status.allocations[0].accesses.contains_key("compute-01"));
        let told = crate::failure::degraded(&missing(&wanted[0], &observed)).unwrap();
        assert!(
            told.user.starts_with("degraded: namespace 4 of nqn.2026-01.io.warren:d0"),
            "{}",
            told.user
        );
        observed.namespaces.clear();
        assert_eq!(after(observed).allocations[0].devices.len(), 0, "nothing is left of it");
        assert_eq!(crate::failure::degraded(&missing(&wanted[0], &seen(&wanted[0]))), None);
    }

    #[test]
    fn a_failure_keeps_what_is_known_and_does_not_vouch_for_paths() {
        let mut object = samples::block_storage(&[(8, &["rabbit-1"])]);
        let wanted = samples::wanted(&object);
        object.status =
            Some(status(&object, &wanted, &[old(&wanted[0])], &[], &samples::started(), None));
        let later: Time = "2026-06-02T00:00:00Z".parse().map(Time).unwrap();
        let failed = ConvergeError::NotConverging { rounds: 6, next: String::new() };
        let after =
            status(&object, &wanted, &[Err(failed)], &[], &later, Some(ResourceError::new("x")));
        let before = object.status.unwrap();
        assert_eq!(after.allocations, before.allocations);
        assert!(after.ready && !is_current(&after, &later));
    }
}
