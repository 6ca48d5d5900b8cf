use serde_json::json;
use storage::{Rejection, Rounds, observed::Attached};

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
        needs_erasure: true,
        needs_zeroing: false,
    };
    let mut foreign = namespace(9);
    foreign.owner = NamespaceOwner::Foreign("no owner".into());
    Observed { namespaces: vec![namespace(3), foreign, namespace(4)], ..Observed::default() }
}

#[test]
fn the_status_has_the_shape_that_central_controllers_read() {
    let object = samples::block_storage(&[(8192, &["rabbit-1", "compute-01", "compute-03"])]);
    let allocations = samples::allocations(&object);
    let started = samples::started();
    let status = status(&object, &allocations, &[old(&allocations[0])], &[], &started, None);
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
fn a_missing_namespace_stays_listed_and_its_allocation_stays_usable() {
    let mut object = samples::block_storage(&[(8192, &["rabbit-1", "compute-01"])]);
    let allocations = samples::allocations(&object);
    let made =
        status(&object, &allocations, &[old(&allocations[0])], &[], &samples::started(), None);
    object.status = Some(made.clone());
    let allocations = samples::allocations(&object);
    let mut observed = seen(&allocations[0]);
    observed.namespaces.remove(2);
    let after = |observed: Observed| {
        let outcome = Ok(Converged { steps: Vec::new(), observed });
        status(&object, &allocations, &[outcome], &[], &samples::started(), None)
    };
    let status = after(observed.clone());
    assert_eq!(status.allocations[0].devices, made.allocations[0].devices);
    assert_eq!(status.allocations[0].accesses["rabbit-1"].device_paths, ["/dev/loop3"]);
    assert!(status.ready && status.allocations[0].accesses.contains_key("compute-01"));
    let reported =
        crate::core::failure::degraded(&missing_namespaces(&allocations[0], &observed)).unwrap();
    assert!(
        reported.user.starts_with("degraded: namespace 4 of nqn.2026-01.io.warren:d0"),
        "{}",
        reported.user
    );
    observed.namespaces.clear();
    assert_eq!(
        after(observed).allocations[0].devices.len(),
        0,
        "the allocation has no device left"
    );
    assert_eq!(
        crate::core::failure::degraded(&missing_namespaces(
            &allocations[0],
            &seen(&allocations[0])
        )),
        None
    );
}

#[test]
fn a_device_that_another_program_wrote_into_the_status_is_ignored() {
    let mut object = samples::block_storage(&[(8192, &["rabbit-1"])]);
    let allocations = samples::allocations(&object);
    let report = |object: &NnfNodeBlockStorage, observed: &Observed| {
        let allocations = samples::allocations(object);
        let outcome = Ok(Converged { steps: Vec::new(), observed: observed.clone() });
        status(object, &allocations, &[outcome], &[], &samples::started(), None)
    };
    let whole = seen(&allocations[0]);
    let honest = report(&object, &whole);
    object.status = Some(honest.clone());
    let devices = &mut object.status.as_mut().unwrap().allocations[0].devices;
    devices.push(NnfNodeBlockStorageDeviceStatus {
        nqn: "nqn.2026-01.io.warren:forged".to_owned(),
        namespace_id: "7".to_owned(),
        capacity_allocated: 1 << 50,
    });
    assert_eq!(report(&object, &whole), honest);

    // Another writer states a larger size for a missing namespace.
    object.status = Some(honest.clone());
    object.status.as_mut().unwrap().allocations[0].devices[1].capacity_allocated = 1 << 50;
    let mut lacking = whole;
    lacking.namespaces.remove(2);
    assert_eq!(report(&object, &lacking).allocations[0].capacity_allocated, 8192);
}

#[test]
fn a_compute_attached_only_through_its_former_slot_is_not_listed() {
    let object = samples::block_storage(&[(8192, &["rabbit-1", "compute-01"])]);
    let allocations = samples::allocations(&object);
    let mut observed = seen(&allocations[0]);
    for namespace in &mut observed.namespaces {
        let elsewhere = |host: Attached| match host.endpoint {
            Some(Endpoint::Compute(0)) => Attached { endpoint: Some(Endpoint::Compute(4)), ..host },
            _ => host,
        };
        namespace.access = namespace.access.iter().cloned().map(elsewhere).collect();
    }
    let outcome = Ok(Converged { steps: Vec::new(), observed });
    let status = status(&object, &allocations, &[outcome], &[], &samples::started(), None);
    let shown: Vec<_> = status.allocations[0].accesses.keys().collect();
    assert_eq!(shown, ["rabbit-1"]);
}

#[test]
fn an_allocation_without_drives_counts_as_observed_and_has_no_paths() {
    let mut object =
        samples::block_storage(&[(8, &["rabbit-1", "compute-01"]), (8, &["rabbit-1"])]);
    let allocations = samples::allocations(&object);
    let both = || [old(&allocations[0]), old(&allocations[1])];
    let before = status(&object, &allocations, &both(), &[], &samples::started(), None);
    object.status = Some(before.clone());
    let later: Time = "2026-06-02T00:00:00Z".parse().map(Time).unwrap();
    let lost = Rejection::Lost { allocation: allocations[0].id, missing: Vec::new() };
    let outcomes = [Err(ConvergeError::Rejected(lost)), old(&allocations[1])];
    let error = Some(ResourceError::new("x"));
    let after = status(&object, &allocations, &outcomes, &[], &later, error.clone());
    assert!(is_current(&after, &later), "the other allocation's paths are current");
    let [lost, other] = &after.allocations[..] else { panic!("{after:?}") };
    assert_eq!(lost.devices, before.allocations[0].devices);
    assert_eq!(lost.accesses.keys().collect::<Vec<_>>(), ["compute-01", "rabbit-1"]);
    assert!(lost.accesses["rabbit-1"].device_paths.is_empty());
    assert_eq!(other.accesses, before.allocations[1].accesses);

    object.status = None;
    let lost = Rejection::Lost { allocation: allocations[0].id, missing: Vec::new() };
    let outcomes = [Err(ConvergeError::Rejected(lost)), old(&allocations[1])];
    let never = status(&object, &allocations, &outcomes, &[], &later, error);
    assert!(!never.ready, "the allocation was never made");
}

#[test]
fn a_failure_keeps_the_last_report_and_an_old_start_time() {
    let mut object = samples::block_storage(&[(8, &["rabbit-1"])]);
    let allocations = samples::allocations(&object);
    object.status = Some(status(
        &object,
        &allocations,
        &[old(&allocations[0])],
        &[],
        &samples::started(),
        None,
    ));
    let later: Time = "2026-06-02T00:00:00Z".parse().map(Time).unwrap();
    let failed = Rounds::new("allocation 0", 0).begin(&["a step"]).unwrap_err().into();
    let after =
        status(&object, &allocations, &[Err(failed)], &[], &later, Some(ResourceError::new("x")));
    let before = object.status.unwrap();
    assert_eq!(after.allocations, before.allocations);
    assert!(after.ready && !is_current(&after, &later));
}
