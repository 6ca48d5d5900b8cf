//! Tests allocations on drives, and the access to the drives' namespaces.

use super::*;

#[test]
fn an_allocation_goes_to_the_drive_with_the_most_free_bytes_and_among_equals_to_the_lowest_slot() {
    for (candidates, chosen) in [
        (vec![drive(0, 100 << 20, 0), drive(1, 200 << 20, 0)], 1),
        (vec![drive(0, 200 << 20, 150 << 20), drive(1, 100 << 20, 0)], 1),
        (vec![drive(2, 100 << 20, 0), drive(1, 100 << 20, 0)], 1),
    ] {
        let steps = lines(plan(&Desired::Allocated(allocation(5000)), &drives(candidates)));
        let expected = format!(
            "create namespace of 8192 bytes on nqn.2026-01.io.warren:p:drive-{chosen} for allocation {}.4",
            uid()
        );
        assert_eq!(steps, [expected]);
    }
}

#[test]
fn mounts_from_one_volume_group_converge_one_after_another_and_are_observed_separately() {
    let mounted = Desired::Mounted(mount());
    let other = Desired::Unmounted(Mount { target: point("/mnt/nnf/another"), ..mount() });
    assert_eq!(mounted.group(), other.group());
    assert_ne!(mounted.unit(), other.unit());
}

#[test]
fn insufficient_capacity_is_rejected_with_numbers() {
    let no = |capacity, observed: &Observed| {
        plan(&Desired::Allocated(allocation(capacity)), observed).unwrap_err()
    };
    let observed = drives(vec![drive(0, 100 << 20, 60 << 20)]);
    assert!(matches!(no(0, &observed), Rejection::ZeroCapacity { .. }));
    assert!(matches!(no(1, &drives(vec![])), Rejection::NoDrives { requested: 1, .. }));
    assert_eq!(
        no(50 << 20, &observed).to_string(),
        "insufficient capacity: 52428800 bytes are requested, 52428800 on each of 1 drives, but drive \
         nqn.2026-01.io.warren:p:drive-0 has only 41943040 of 104857600 bytes free: ask for fewer bytes, or delete other allocations"
    );
    // The size, rounded up, must not exceed the free bytes.
    assert!(matches!(no((40 << 20) + 1, &observed), Rejection::InsufficientCapacity { .. }));
    assert!(matches!(no(u64::MAX, &observed), Rejection::InsufficientCapacity { .. }));
    let full =
        Observed { pool: Some(Pool { available: 30 << 20, promised: 10 << 20 }), ..observed };
    assert!(
        matches!(no(21 << 20, &full), Rejection::PoolFull { promised, .. } if promised == 10 << 20)
    );
    assert_eq!(no(21 << 20, &full).class(), RejectionClass::Capacity);
    let warns = |warning| Drive { warnings: vec![warning], ..drive(1, 100 << 20, 0) };
    assert_eq!(warns(DriveWarning::Temperature).free(), 100 << 20);
    assert_eq!(warns(DriveWarning::ReadOnly).free(), 0);
    let lost = Drive { fault: Some("gone".into()), ..drive(1, 100 << 20, 0) };
    assert!(matches!(
        no(1, &drives(vec![lost])),
        Rejection::DrivesFaulty { usable: 0, least: 1, drives: 1, .. }
    ));
    assert_eq!(lines(plan(&Desired::Allocated(allocation(20 << 20)), &full)).len(), 1);
}

#[test]
fn hosts_are_attached_and_detached_until_exactly_the_requested_hosts_have_access() {
    let ours = NamespaceOwner::Ours(allocation(1).id);
    let observation = |access: &[&str], device| Observed {
        namespaces: vec![
            namespace(1, NamespaceOwner::Foreign("x".into()), &["compute-9"], true),
            namespace(2, ours.clone(), access, device),
        ],
        ..Observed::default()
    };
    let attach_both = [
        format!("attach namespace {} to rabbit-1 (endpoint 0)", id(2)),
        format!("attach namespace {} to compute-3 (endpoint 3)", id(2)),
    ];
    let detach = format!("detach namespace {} from compute-9", id(2));
    let plan = |observed: &Observed| lines(plan(&Desired::Allocated(allocation(1)), observed));
    assert_eq!(plan(&observation(&[], false)), attach_both);
    assert_eq!(plan(&observation(&["compute-3", "rabbit-1"], true)), [""; 0]);
    assert_eq!(
        plan(&observation(&["compute-3", "compute-9"], true)),
        [attach_both[0].clone(), detach]
    );
    // After a reboot, a file drive has one device for all hosts; a real drive has only the rabbit's own device.
    let rebooted = observation(&["compute-3", "rabbit-1"], false);
    assert_eq!(plan(&rebooted), attach_both[..1]);
    let pool = Some(Pool { available: 1, promised: 0 });
    assert_eq!(plan(&Observed { pool, ..rebooted }), attach_both);
}

#[test]
fn release_deletes_only_the_namespaces_of_its_allocation() {
    let wanted = allocation(1).id;
    let other = AllocationId { index: 5, ..wanted };
    let observed = Observed {
        namespaces: vec![
            namespace(1, NamespaceOwner::Ours(other), &["rabbit-1"], true),
            namespace(2, NamespaceOwner::Ours(wanted), &["rabbit-1"], true),
            namespace(3, NamespaceOwner::Partial(wanted), &[], false),
            namespace(4, NamespaceOwner::Partial(other), &[], false),
            namespace(5, NamespaceOwner::Foreign("x".into()), &[], false),
        ],
        ..Observed::default()
    };
    let expected = [
        format!("detach namespace {} from rabbit-1", id(2)),
        format!("erase namespace {} of allocation {wanted}", id(3)),
        format!("erase namespace {} of allocation {wanted}", id(2)),
        format!("delete namespace {} of allocation {wanted}", id(3)),
        format!("delete namespace {} of allocation {wanted}", id(2)),
    ];
    assert_eq!(lines(plan(&Desired::Released(wanted), &observed)), expected);
}

#[test]
fn withdrawal_detaches_one_host_and_changes_nothing_else() {
    let wanted = allocation(1).id;
    let other = AllocationId { index: 5, ..wanted };
    let node: NodeName = "compute-1".parse().unwrap();
    let cut = |namespaces| {
        let desired = Desired::Withdrawn { allocation: wanted, host: node.clone().into() };
        lines(plan(&desired, &Observed { namespaces, ..Observed::default() }))
    };
    let both = &["rabbit-1", "compute-1"];
    let reached = vec![
        namespace(1, NamespaceOwner::Ours(other), both, true),
        namespace(2, NamespaceOwner::Ours(wanted), both, true),
        namespace(3, NamespaceOwner::Partial(wanted), &["compute-1"], false),
        namespace(4, NamespaceOwner::Ours(wanted), &["rabbit-1", "compute-2"], true),
        namespace(5, NamespaceOwner::Foreign("x".into()), both, false),
    ];
    let detach = |nsid| format!("detach namespace {} from compute-1", id(nsid));
    assert_eq!(cut(reached), [detach(2), detach(3)]);
    assert!(cut(Vec::new()).is_empty(), "no namespace is created for a withdrawal");
}
