//! The status of a NnfNodeBlockStorage, from what was observed on the drives. Does no I/O.

mod roll_back;
mod start;

pub use roll_back::{drives_unreadable, is_deleted, is_lack_of_room, is_lost, to_roll_back};
pub use start::{is_current, is_of, started_after};

use std::collections::{BTreeMap, BTreeSet};

use api::{
    NnfNodeBlockStorage, NnfNodeBlockStorageStatus, ResourceError,
    nnf_node_block_storage::{
        NnfNodeBlockStorageAccessStatus, NnfNodeBlockStorageAllocationStatus,
        NnfNodeBlockStorageDeviceStatus,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use storage::{
    ConvergeError, Converged, Observed,
    desired::{Allocation, AllocationId, Endpoint, NamespaceId},
    observed::{Namespace, NamespaceOwner},
    plan::missing,
};

pub type Outcome = Result<Converged, ConvergeError>;

/// The status after every allocation converged or failed.
///
/// A failed allocation keeps what was last reported, and its paths may be outdated: `podStartTime` becomes `started`
/// only when all allocations were observed. An allocation whose drives are all away counts as observed: it has no
/// paths, and others are used or torn down without it. `rolled_back` allocations are reported as never made.
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
            Err(error) => {
                let known = before.allocations.get(index).cloned().unwrap_or_default();
                if is_lost(error) { without_paths(known) } else { known }
            }
        })
        .collect();
    let all_made = outcomes.iter().all(Result::is_ok);
    let all_seen = outcomes.iter().all(|outcome| outcome.as_ref().err().is_none_or(is_lost));
    NnfNodeBlockStorageStatus {
        ready: allocations.iter().all(|allocation| !allocation.devices.is_empty())
            && (all_made || before.ready),
        pod_start_time: if all_seen { Some(started.clone()) } else { before.pod_start_time },
        allocations,
        error,
    }
}

/// The status when the object is invalid: as before, with the error.
pub fn refused(object: &NnfNodeBlockStorage, error: ResourceError) -> NnfNodeBlockStorageStatus {
    NnfNodeBlockStorageStatus { error: Some(error), ..object.status.clone().unwrap_or_default() }
}

/// Computes stay listed: a drive that this rabbit cannot reach may still serve them.
fn without_paths(
    mut known: NnfNodeBlockStorageAllocationStatus,
) -> NnfNodeBlockStorageAllocationStatus {
    known.accesses.values_mut().for_each(|access| access.device_paths.clear());
    known
}

fn made(
    pool: &str,
    allocation: &Allocation,
    observed: &Observed,
) -> NnfNodeBlockStorageAllocationStatus {
    let missing: BTreeSet<_> =
        missing(allocation, observed).into_iter().map(|namespace| namespace.id).collect();
    let ours = NamespaceOwner::Ours(allocation.id);
    let ours: Vec<&Namespace> =
        observed.namespaces.iter().filter(|namespace| namespace.owner == ours).collect();
    if ours.is_empty() {
        return NnfNodeBlockStorageAllocationStatus::default();
    }
    let mut devices: BTreeMap<_, _> = ours
        .iter()
        .map(|namespace| (namespace.id.clone(), device(&namespace.id, namespace.size)))
        .collect();
    // A reported namespace that is missing stays listed, because nothing replaces it. All have the size of the others,
    // whatever the status says.
    let each = ours.iter().map(|namespace| namespace.size).max().unwrap_or_default();
    for reported in allocation.reported.iter().filter(|reported| missing.contains(&reported.id)) {
        devices.entry(reported.id.clone()).or_insert_with(|| device(&reported.id, each));
    }
    let mut reached = ours;
    reached.retain(|namespace| !missing.contains(&namespace.id));
    reached.sort_by(|a, b| a.id.cmp(&b.id));
    let devices: Vec<_> = devices.into_values().collect();
    NnfNodeBlockStorageAllocationStatus {
        accesses: accesses(pool, allocation, &reached),
        capacity_allocated: devices.iter().map(|device| device.capacity_allocated).sum(),
        storage_pool_id: pool.to_owned(),
        devices,
    }
}

/// The hosts that reach all namespaces that the rabbit can reach.
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
        .filter(|access| reached.iter().all(|namespace| namespace.is_attached_to(access)));
    let reported = granted.map(|access| {
        let device_paths = match access.endpoint {
            Endpoint::Rabbit => reached
                .iter()
                .filter_map(|namespace| Some(namespace.device.as_ref()?.display().to_string()))
                .collect(),
            Endpoint::Compute(_) => Vec::new(),
        };
        let storage_group_id = format!("{pool}-{}", access.endpoint.number());
        (
            access.node.to_string(),
            NnfNodeBlockStorageAccessStatus { device_paths, storage_group_id },
        )
    });
    reported.collect()
}

fn device(id: &NamespaceId, size: u64) -> NnfNodeBlockStorageDeviceStatus {
    NnfNodeBlockStorageDeviceStatus {
        nqn: id.subsystem.to_string(),
        namespace_id: id.nsid.to_string(),
        capacity_allocated: i64::try_from(size).unwrap_or(i64::MAX),
    }
}

pub fn has_devices(status: &NnfNodeBlockStorageStatus) -> bool {
    status.allocations.iter().any(|allocation| !allocation.devices.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use storage::{Rejection, observed::Attached};

    use super::*;
    use crate::samples;

    pub(super) fn old(allocation: &Allocation) -> Outcome {
        Ok(Converged { steps: Vec::new(), observed: seen(allocation) })
    }

    pub(super) fn seen(allocation: &Allocation) -> Observed {
        let namespace = |nsid: u32| Namespace {
            id: storage::desired::NamespaceId {
                subsystem: "nqn.2026-01.io.warren:d0".parse().unwrap(),
                nsid,
            },
            owner: NamespaceOwner::Ours(allocation.id),
            size: 4096,
            access: allocation.access.iter().cloned().map(Attached::from).collect(),
            device: Some(format!("/dev/loop{nsid}").into()),
            members: 2,
        };
        let mut foreign = namespace(9);
        foreign.owner = NamespaceOwner::Foreign("no owner".into());
        Observed { namespaces: vec![namespace(3), foreign, namespace(4)], ..Observed::default() }
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
        let reported = crate::failure::degraded(&missing(&wanted[0], &observed)).unwrap();
        assert!(
            reported.user.starts_with("degraded: namespace 4 of nqn.2026-01.io.warren:d0"),
            "{}",
            reported.user
        );
        observed.namespaces.clear();
        assert_eq!(after(observed).allocations[0].devices.len(), 0, "nothing is left of it");
        assert_eq!(crate::failure::degraded(&missing(&wanted[0], &seen(&wanted[0]))), None);
    }

    #[test]
    fn a_device_that_somebody_wrote_into_the_status_is_not_taken_over() {
        let mut object = samples::block_storage(&[(8192, &["rabbit-1"])]);
        let wanted = samples::wanted(&object);
        let report = |object: &NnfNodeBlockStorage, observed: &Observed| {
            let wanted = samples::wanted(object);
            let outcome = Ok(Converged { steps: Vec::new(), observed: observed.clone() });
            status(object, &wanted, &[outcome], &[], &samples::started(), None)
        };
        let whole = seen(&wanted[0]);
        let honest = report(&object, &whole);
        object.status = Some(honest.clone());
        let devices = &mut object.status.as_mut().unwrap().allocations[0].devices;
        devices.push(NnfNodeBlockStorageDeviceStatus {
            nqn: "nqn.2026-01.io.warren:forged".to_owned(),
            namespace_id: "7".to_owned(),
            capacity_allocated: 1 << 50,
        });
        assert_eq!(report(&object, &whole), honest);

        // Somebody edited the status: a missing namespace is said to be larger.
        object.status = Some(honest.clone());
        object.status.as_mut().unwrap().allocations[0].devices[1].capacity_allocated = 1 << 50;
        let mut lacking = whole;
        lacking.namespaces.remove(2);
        assert_eq!(report(&object, &lacking).allocations[0].capacity_allocated, 8192);
    }

    #[test]
    fn a_compute_that_only_its_former_slot_reaches_is_not_shown() {
        let object = samples::block_storage(&[(8192, &["rabbit-1", "compute-01"])]);
        let wanted = samples::wanted(&object);
        let mut observed = seen(&wanted[0]);
        for namespace in &mut observed.namespaces {
            let elsewhere = |host: Attached| match host.endpoint {
                Some(Endpoint::Compute(0)) => {
                    Attached { endpoint: Some(Endpoint::Compute(4)), ..host }
                }
                _ => host,
            };
            namespace.access = namespace.access.iter().cloned().map(elsewhere).collect();
        }
        let outcome = Ok(Converged { steps: Vec::new(), observed });
        let status = status(&object, &wanted, &[outcome], &[], &samples::started(), None);
        let shown: Vec<_> = status.allocations[0].accesses.keys().collect();
        assert_eq!(shown, ["rabbit-1"]);
    }

    #[test]
    fn what_is_away_as_a_whole_was_seen_and_has_no_paths() {
        let mut object =
            samples::block_storage(&[(8, &["rabbit-1", "compute-01"]), (8, &["rabbit-1"])]);
        let wanted = samples::wanted(&object);
        let both = || [old(&wanted[0]), old(&wanted[1])];
        let before = status(&object, &wanted, &both(), &[], &samples::started(), None);
        object.status = Some(before.clone());
        let later: Time = "2026-06-02T00:00:00Z".parse().map(Time).unwrap();
        let lost = Rejection::Lost { allocation: wanted[0].id, missing: Vec::new() };
        let outcomes = [Err(ConvergeError::Rejected(lost)), old(&wanted[1])];
        let error = Some(ResourceError::new("x"));
        let after = status(&object, &wanted, &outcomes, &[], &later, error.clone());
        assert!(is_current(&after, &later), "the other's paths hold");
        let [lost, other] = &after.allocations[..] else { panic!("{after:?}") };
        assert_eq!(lost.devices, before.allocations[0].devices);
        assert_eq!(lost.accesses.keys().collect::<Vec<_>>(), ["compute-01", "rabbit-1"]);
        assert!(lost.accesses["rabbit-1"].device_paths.is_empty());
        assert_eq!(other.accesses, before.allocations[1].accesses);

        object.status = None;
        let lost = Rejection::Lost { allocation: wanted[0].id, missing: Vec::new() };
        let outcomes = [Err(ConvergeError::Rejected(lost)), old(&wanted[1])];
        let never = status(&object, &wanted, &outcomes, &[], &later, error);
        assert!(!never.ready, "it was never made");
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
