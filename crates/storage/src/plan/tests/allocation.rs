//! Tests allocations over many drives: their placement, completion, adoption and replacement.

use super::*;
use crate::desired::Reported;

const MIB: u64 = 1 << 20;

fn nqn(slot: u32) -> crate::desired::Nqn {
    format!("nqn.2026-01.io.warren:p:drive-{slot}").parse().unwrap()
}

fn on(slot: u32, owner: NamespaceOwner) -> Namespace {
    let id = NamespaceId { subsystem: nqn(slot), nsid: 1 };
    let access = ["rabbit-1", "compute-3"].map(|name| node(name).into()).into();
    Namespace {
        id,
        owner,
        size: 8192,
        access,
        device: Some("/dev/loop0".into()),
        members: 4,
        needs_erasure: true,
        needs_zeroing: false,
    }
}

fn ours(slot: u32) -> Namespace {
    on(slot, NamespaceOwner::Ours(allocation(1).id))
}

fn rabbit(drives: u32, namespaces: Vec<Namespace>) -> Observed {
    let drives = (0..drives).map(|slot| drive(slot, 100 * MIB, 0)).collect();
    Observed { drives, namespaces, ..Observed::default() }
}

fn over(most: u8, least: u8, slots: &[u32]) -> Allocation {
    let reported = slots.iter().map(|slot| Reported {
        id: NamespaceId { subsystem: nqn(*slot), nsid: 1 },
        size: 8192,
        contested: false,
    });
    let spread = Spread::new(most, least).unwrap();
    Allocation { spread, reported: reported.collect(), ..allocation(30_000) }
}

fn steps(wanted: &Allocation, observed: &Observed) -> Vec<Step> {
    plan(&Desired::Allocated(wanted.clone()), observed).unwrap()
}

fn refused(wanted: &Allocation, observed: &Observed) -> Rejection {
    plan(&Desired::Allocated(wanted.clone()), observed).unwrap_err()
}

/// Returns the drive's slot, the size and the member count of each creation of a namespace.
fn creations(steps: &[Step]) -> Vec<(u32, u64, u16)> {
    let created = steps.iter().map(|step| {
        let Step::CreateNamespace { drive, size, members, .. } = step else { panic!("{step}") };
        let slot = (0..99).find(|slot| nqn(*slot) == *drive).unwrap();
        (slot, *size, *members)
    });
    created.collect()
}

#[test]
fn the_drives_with_the_most_free_bytes_get_equal_shares_rounded_to_blocks() {
    let mut observed = rabbit(18, vec![]);
    observed.drives[3].allocated = 10 * MIB;
    observed.drives[7].fault = Some("gone".into());
    observed.drives[9].warnings = vec![DriveWarning::ReadOnly];
    let created = creations(&steps(&over(16, 14, &[]), &observed));
    let slots: Vec<_> = created.iter().map(|step| step.0).collect();
    assert_eq!(slots, [0, 1, 2, 4, 5, 6, 8, 10, 11, 12, 13, 14, 15, 16, 17, 3]);
    assert!(created.iter().all(|step| (step.1, step.2) == (4096, 16)), "30000 / 16, rounded up");
    let fourteen = Observed { drives: observed.drives[..16].to_vec(), ..observed };
    let created = super::allocation::creations(&steps(&over(16, 14, &[]), &fourteen));
    assert_eq!(created.len(), 14, "14 drives are enough when two of sixteen cannot be used");
}

#[test]
fn too_few_drives_and_a_drive_without_room_are_rejected_with_numbers() {
    let refusal = refused(&over(16, 14, &[]), &rabbit(13, vec![]));
    assert_eq!(refusal.class(), RejectionClass::Capacity);
    assert_eq!(
        refusal.to_string(),
        "insufficient capacity: 30000 bytes are requested on at least 14 drives, but only 13 of 13 drives have room and can be \
         used: check the drives of this node, or delete other allocations"
    );
    let mut observed = rabbit(4, vec![]);
    observed.drives[1].allocated = 100 * MIB - 4096;
    let refusal = refused(&over(4, 2, &[]), &observed);
    assert_eq!(
        refusal.to_string(),
        "insufficient capacity: 30000 bytes are requested, 8192 on each of 4 drives, but drive nqn.2026-01.io.warren:p:drive-1 has \
         only 4096 of 104857600 bytes free: ask for fewer bytes, or delete other allocations"
    );
    let pool = Some(Pool { available: 4 * 8192 - 1, promised: 0 });
    let refusal = refused(&over(4, 2, &[]), &Observed { pool, ..rabbit(4, vec![]) });
    assert!(matches!(refusal, Rejection::PoolFull { requested: 30_000, .. }), "{refusal}");
    assert!(matches!(
        refused(&Allocation { capacity: u64::MAX, ..over(4, 2, &[]) }, &observed),
        Rejection::InsufficientCapacity { drives: 4, .. }
    ));
}

/// In each row, an allocation of `bytes` bytes can be placed, and an allocation of one byte more cannot.
#[test]
fn allocatable_returns_the_largest_capacity_that_can_be_allocated() {
    let pool = |available| Some(Pool { available, promised: 5 * MIB });
    let mut limited = rabbit(4, vec![on(0, NamespaceOwner::Unknown)]);
    limited.drives.iter_mut().for_each(|drive| drive.max_namespaces = Some(1));
    let mut read_only = rabbit(4, vec![]);
    read_only.drives[2].warnings = vec![DriveWarning::ReadOnly];
    let mut faulty = rabbit(4, vec![]);
    faulty.drives[1].fault = Some("it does not answer".into());
    for (observed, wanted, bytes) in [
        (rabbit(4, vec![]), over(4, 2, &[]), 400 * MIB),
        (limited.clone(), over(4, 3, &[]), 300 * MIB),
        (limited, over(4, 4, &[]), 0),
        (read_only, over(4, 2, &[]), 300 * MIB),
        (faulty, over(4, 4, &[]), 0),
        (Observed { pool: pool(45 * MIB + 123), ..rabbit(4, vec![]) }, over(4, 2, &[]), 40 * MIB),
        (
            Observed { pool: pool(45 * MIB - 1), ..rabbit(4, vec![]) },
            over(4, 2, &[]),
            40 * MIB - 4 * 4096,
        ),
        (
            Observed { pool: pool(45 * MIB - 1), ..rabbit(4, vec![]) },
            over(1, 1, &[]),
            40 * MIB - 4096,
        ),
        (Observed { pool: pool(4 * MIB), ..rabbit(4, vec![]) }, over(1, 1, &[]), 0),
        (rabbit(0, vec![]), over(1, 1, &[]), 0),
    ] {
        assert_eq!(allocatable(&observed, wanted.spread), bytes, "{observed:?}");
        let all = Allocation { capacity: bytes, ..wanted.clone() };
        if bytes > 0 {
            assert!(!steps(&all, &observed).is_empty());
        }
        refused(&Allocation { capacity: bytes + 1, ..wanted }, &observed);
    }
}

#[test]
fn an_allocation_waits_for_faulty_drives_when_there_would_be_enough_drives_with_them() {
    let mut observed = rabbit(14, vec![]);
    observed.drives[3].fault = Some("it does not answer".into());
    let refusal = refused(&over(16, 14, &[]), &observed);
    assert_eq!(refusal.class(), RejectionClass::Lost);
    assert_eq!(
        refusal.to_string(),
        "30000 bytes are requested on at least 14 drives, but only 13 of 14 drives have room and can be used now; \
         nqn.2026-01.io.warren:p:drive-3 cannot be used (it does not answer): wait until these drives work again, or exchange them"
    );
    let class = |observed: &Observed| refused(&over(16, 14, &[]), observed).class();
    observed.drives[4].allocated = 100 * MIB;
    assert_eq!(class(&observed), RejectionClass::Capacity, "a full drive does not become usable");
    observed.drives[4].allocated = 0;
    observed.replaced.insert(nqn(3));
    assert_eq!(class(&observed), RejectionClass::Capacity, "a replaced drive does not return");
    observed.replaced.clear();
    observed.drives.pop();
    assert_eq!(
        class(&observed),
        RejectionClass::Capacity,
        "with that drive there would still be too few drives"
    );

    // After a crash, a missing namespace is not created on a drive that already has a namespace of the allocation.
    let mut observed = rabbit(2, vec![ours(0), ours(1)]);
    observed.drives[1].fault = Some("it does not answer".into());
    assert_eq!(refused(&over(4, 2, &[]), &observed).class(), RejectionClass::Capacity);
}

#[test]
fn a_drive_whose_namespaces_are_all_in_use_gets_no_namespace() {
    let other = AllocationId { index: 9, ..allocation(1).id };
    let mut observed = rabbit(4, vec![on(0, NamespaceOwner::Ours(other))]);
    observed.drives.iter_mut().for_each(|drive| drive.max_namespaces = Some(1));
    let slots: Vec<_> =
        creations(&steps(&over(4, 2, &[]), &observed)).iter().map(|step| step.0).collect();
    assert_eq!(slots, [1, 2, 3], "the drive with the most free bytes is not used");
    observed.drives.truncate(2);
    let refusal = refused(&over(4, 2, &[]), &observed);
    assert_eq!(refusal.class(), RejectionClass::Capacity);
    let text = format!(
        "1 of 2 drives have room and can be used; all 1 namespaces of {} are in use",
        nqn(0)
    );
    assert!(refusal.to_string().contains(&text), "{refusal}");
}

#[test]
fn an_allocation_whose_creation_a_crash_interrupted_is_completed_on_other_drives() {
    let observed = rabbit(6, vec![ours(0), ours(2)]);
    assert_eq!(creations(&steps(&over(4, 2, &[]), &observed)), [(1, 8192, 4), (3, 8192, 4)]);
    let partial = on(1, NamespaceOwner::Partial(allocation(1).id));
    let observed = rabbit(6, vec![ours(0), partial.clone(), ours(2)]);
    let (id, owner) = (partial.id.clone(), allocation(1).id);
    let first = [
        Step::EraseNamespace { id: id.clone(), allocation: owner },
        Step::DeleteNamespace { id, allocation: owner },
    ];
    assert_eq!(
        steps(&over(4, 2, &[]), &observed),
        first,
        "the bytes of the partial namespace count as free only after its deletion"
    );
    let incomplete = rabbit(6, vec![ours(0), ours(2)]);
    assert_eq!(
        steps(&over(4, 2, &[0, 1, 2, 3]), &incomplete),
        [],
        "reported namespaces are not created again"
    );
    assert_eq!(missing_namespaces(&over(4, 2, &[0, 1, 2, 3]), &incomplete).len(), 2);
    let mut away = rabbit(6, vec![ours(0), partial, ours(2), ours(3)]);
    away.drives[1].fault = Some("gone".into());
    assert_eq!(
        creations(&steps(&over(4, 2, &[]), &away)),
        [(4, 8192, 4)],
        "the absent drive is not awaited"
    );
    away.drives[1].fault = Some("its ledger cannot be read".into());
    away.namespaces.remove(1);
    away.unreadable.insert(nqn(1));
    let refusal = refused(&over(4, 2, &[]), &away);
    assert_eq!(
        refusal.class(),
        RejectionClass::Lost,
        "the missing namespace may be on the unreadable drive"
    );
    assert!(refusal.to_string().contains("drive-1 cannot be used (its ledger"), "{refusal}");
}

#[test]
fn an_allocation_without_records_is_adopted_whole_or_not_at_all() {
    let unknown = |slot| on(slot, NamespaceOwner::Unknown);
    let wanted = over(4, 2, &[0, 1, 2]);
    let adopted = steps(&wanted, &rabbit(6, vec![unknown(0), ours(1), unknown(2), unknown(5)]));
    let adopt = |slot| Step::AdoptNamespace {
        id: unknown(slot).id,
        allocation: wanted.id,
        size: 8192,
        members: 3,
    };
    assert_eq!(adopted, [adopt(0), adopt(2)]);
    let only = |observed: &Observed| plan(&Desired::Adopted(wanted.clone()), observed).unwrap();
    assert_eq!(only(&rabbit(6, vec![unknown(0), ours(1), unknown(2)])), adopted);
    assert_eq!(
        only(&rabbit(6, vec![ours(0), ours(1), ours(2)])),
        [],
        "recorded namespaces need no step"
    );
    assert_eq!(
        only(&rabbit(6, vec![unknown(0), ours(1)])),
        [],
        "one reported namespace does not exist"
    );

    let refusal = |namespaces: Vec<Namespace>| match refused(&wanted, &rabbit(6, namespaces)) {
        Rejection::Lost { missing, .. } => {
            missing.into_iter().map(|missing| missing.why).collect::<Vec<_>>()
        }
        other => panic!("{other}"),
    };
    let rest = [Absence::Unrecorded, Absence::Unrecorded];
    let larger = Namespace { size: 12_288, ..unknown(0) };
    assert_eq!(refusal(vec![larger, unknown(1), unknown(2)])[0], Absence::Size(12_288));
    assert_eq!(refusal(vec![unknown(1), unknown(2)]), [&[Absence::Deleted][..], &rest].concat());
    let another = AllocationId { index: 9, ..wanted.id };
    let taken = on(0, NamespaceOwner::Ours(another));
    assert!(matches!(refusal(vec![taken, unknown(1), unknown(2)])[0], Absence::Other(_)));

    let mut contested = wanted.clone();
    contested.reported[0].contested = true;
    let all = rabbit(6, vec![unknown(0), unknown(1), unknown(2)]);
    assert_eq!(refused(&contested, &all).class(), RejectionClass::Lost);
    let mut hidden = all;
    hidden.drives.remove(0);
    hidden.namespaces.remove(0);
    let Rejection::Lost { missing, .. } = refused(&wanted, &hidden) else { panic!("adopted") };
    assert_eq!(missing[0].why, Absence::NoDrive);
}

#[test]
fn namespaces_that_a_user_added_to_the_status_are_neither_missing_nor_adopted() {
    let two = |slot| Namespace { members: 2, ..ours(slot) };
    let unknown = |slot| on(slot, NamespaceOwner::Unknown);
    let whole = rabbit(6, vec![two(0), two(1), unknown(3)]);
    // The object's status names namespaces that do not belong to the allocation: they have no record, do not exist, or
    // are on an unknown drive.
    for forged in [3, 4, 77] {
        let wanted = over(2, 2, &[0, 1, forged]);
        assert_eq!(missing_namespaces(&wanted, &whole), [], "drive {forged}");
        assert_eq!(steps(&wanted, &whole), []);
        assert_eq!(plan(&Desired::Adopted(wanted), &whole), Ok(vec![]));
    }
    // One namespace is missing, and each of two unrecorded namespaces could be that namespace: neither is adopted.
    let lacking = rabbit(6, vec![two(0), unknown(3), unknown(4)]);
    let wanted = over(2, 2, &[0, 3, 4]);
    assert_eq!(steps(&wanted, &lacking), []);
    assert_eq!(missing_namespaces(&wanted, &lacking).len(), 2);
    assert_eq!(steps(&over(2, 2, &[0, 3]), &lacking).len(), 1, "only one namespace matches");
}

#[test]
fn a_faulty_drive_does_not_stop_the_steps_on_other_drives() {
    let mut observed = rabbit(6, vec![ours(0), ours(1), ours(2)]);
    observed.drives[1].fault = Some("it is not plugged in".into());
    (observed.namespaces[1].access, observed.namespaces[1].device) = (BTreeSet::new(), None);
    observed.namespaces[2].access.clear();
    let wanted = over(4, 2, &[0, 1, 2]);
    let attached = steps(&wanted, &observed);
    assert!(
        attached
            .iter()
            .all(|step| matches!(step, Step::Attach { id, .. } if id.subsystem == nqn(2)))
    );
    assert_eq!(attached.len(), 2);
    let absences: Vec<_> =
        missing_namespaces(&wanted, &observed).iter().map(ToString::to_string).collect();
    let expected = format!("namespace 1 of {} cannot be reached: it is not plugged in", nqn(1));
    assert_eq!(absences, [expected]);

    observed.namespaces.truncate(2);
    observed.drives[0].fault = Some("it does not answer".into());
    assert_eq!(
        refused(&wanted, &observed).class(),
        RejectionClass::Lost,
        "no namespace of the allocation can be reached"
    );
    let id = wanted.id;
    let release = plan(&Desired::Released(id), &observed).unwrap();
    assert!(
        release.contains(&Step::DeleteNamespace { id: ours(1).id, allocation: id }),
        "the step will fail and be reported"
    );
}

#[test]
fn a_namespace_is_replaced_only_when_its_drive_was_replaced() {
    let mut observed = rabbit(6, vec![ours(0), ours(1), ours(2)]);
    observed.drives[1].fault = Some("another is in its slot".into());
    observed.replaced.insert(nqn(1));
    let wanted = over(4, 2, &[0, 1, 2]);
    assert_eq!(creations(&steps(&wanted, &observed)), [(3, 8192, 4)]);
    assert_eq!(steps(&Allocation { replace: false, ..wanted.clone() }, &observed), []);

    // The replacement is created, but the object's status does not name it yet.
    observed.namespaces.push(ours(3));
    let note = Step::ReplaceNamespace { id: ours(1).id, allocation: wanted.id };
    assert_eq!(steps(&wanted, &observed), [note]);
    observed.namespaces[1].owner = NamespaceOwner::Replaced(wanted.id);
    assert_eq!(steps(&wanted, &observed), []);
    assert_eq!(missing_namespaces(&wanted, &observed), []);
    let deleted = plan(&Desired::Released(wanted.id), &observed).unwrap();
    let of_it = |step: &&Step| step.drive() == Some(&nqn(1));
    let forget = Step::ForgetNamespace { id: ours(1).id, allocation: wanted.id };
    assert_eq!(
        deleted.iter().filter(of_it).collect::<Vec<_>>(),
        [&forget],
        "a namespace on a replaced drive is forgotten, not deleted"
    );
    assert_eq!(deleted.last(), Some(&forget), "the record is removed after all other steps");
    observed.replaced.clear();
    observed.drives[1].fault = None;
    let deleted = plan(&Desired::Released(wanted.id), &observed).unwrap();
    assert_eq!(
        deleted.iter().filter(of_it).count(),
        4,
        "the drive came back: its namespace is deleted like the others"
    );
}

#[test]
fn a_lost_namespace_is_not_replaced_on_a_single_drive_or_without_room() {
    let mut observed = rabbit(3, vec![ours(1)]);
    observed.drives[1].fault = Some("another is in its slot".into());
    observed.replaced.insert(nqn(1));
    assert_eq!(refused(&over(1, 1, &[1]), &observed).class(), RejectionClass::Lost);

    observed.namespaces = vec![ours(0), ours(1)];
    observed.drives[2].allocated = 100 * MIB;
    let wanted = over(4, 2, &[0, 1]);
    assert_eq!(steps(&wanted, &observed), []);
    assert_eq!(missing_namespaces(&wanted, &observed)[0].why, Absence::Replaced);
}

#[test]
fn releasing_an_allocation_forgets_its_partial_namespace_on_a_replaced_drive() {
    let partial = on(1, NamespaceOwner::Partial(allocation(1).id));
    let mut observed = rabbit(3, vec![partial.clone()]);
    observed.replaced.insert(nqn(1));
    let forget = Step::ForgetNamespace { id: partial.id, allocation: allocation(1).id };
    assert_eq!(plan(&Desired::Released(allocation(1).id), &observed), Ok(vec![forget]));
    let another = AllocationId { index: 9, ..allocation(1).id };
    assert_eq!(plan(&Desired::Released(another), &observed), Ok(vec![]));
}

#[test]
fn releasing_an_allocation_detaches_all_namespaces_then_erases_and_then_deletes() {
    let begun =
        Namespace { access: BTreeSet::new(), ..on(2, NamespaceOwner::Partial(allocation(1).id)) };
    let observed = rabbit(4, vec![begun, ours(0), ours(1)]);
    let release = plan(&Desired::Released(allocation(1).id), &observed);
    let kinds: Vec<_> = release.unwrap().iter().map(Step::kind).collect();
    let erase_and_delete = [["erase-namespace"; 3], ["delete-namespace"; 3]].concat();
    assert_eq!(kinds, [&["detach"; 4][..], &erase_and_delete].concat());
    let mut erased = observed;
    erased.namespaces.iter_mut().for_each(|namespace| namespace.needs_erasure = false);
    let release = plan(&Desired::Released(allocation(1).id), &erased).unwrap();
    assert!(release.iter().all(|step| step.kind() != "erase-namespace"), "{release:?}");
}

fn at(slot: u8, name: &str) -> Access {
    Access { endpoint: Endpoint::Compute(slot), node: node(name) }
}

/// Returns the steps by which the access changes from `observed` to `wanted`.
fn regranted(wanted: &[Access], observed: &[Access]) -> Vec<String> {
    let wanted = Allocation { access: wanted.iter().cloned().collect(), ..over(1, 1, &[0]) };
    let access = observed.iter().cloned().map(Into::into).collect();
    let namespace = Namespace { access, size: 32_768, members: 1, ..ours(0) };
    lines(plan(&Desired::Allocated(wanted), &rabbit(1, vec![namespace])))
}

#[test]
fn access_is_changed_when_the_host_at_an_endpoint_changes() {
    let id = ours(0).id;
    let attach = |number, name| format!("attach namespace {id} to {name} (endpoint {number})");
    let detach = |name| format!("detach namespace {id} from {name}");
    let was = [at(3, "compute-a"), at(5, "compute-b")];
    let now = [at(5, "compute-a"), at(3, "compute-b")];
    let moved = [detach("compute-a"), attach(6, "compute-a")];
    assert_eq!(
        regranted(&now[..1], &was[..1]),
        moved,
        "the present host of the endpoint loses its access first"
    );
    assert_eq!(
        regranted(&now[..1], &was),
        moved,
        "two hosts exchanged their ports, and one of them should have access"
    );
    let exchanged = [attach(4, "compute-b"), attach(6, "compute-a")];
    assert_eq!(
        regranted(&now, &was),
        exchanged,
        "two hosts exchanged their ports, and both should have access"
    );
    assert_eq!(
        regranted(&now[1..], &was[..1]),
        exchanged[..1],
        "the host at the port has another name, and is attached again under that name"
    );
    let another = [attach(6, "compute-a"), detach("compute-c")];
    assert_eq!(
        regranted(&now[..1], &[at(7, "compute-c")]),
        another,
        "the attachment comes before the detachment"
    );
    assert_eq!(regranted(&now, &now), [""; 0]);
}

#[test]
fn releasing_an_allocation_removes_the_record_of_a_namespace_that_no_longer_exists() {
    let id = allocation(1).id;
    let mut observed = rabbit(3, Vec::new());
    observed.vanished.insert(ours(1).id, NamespaceOwner::Ours(id));
    let strike = Step::DeleteNamespace { id: ours(1).id, allocation: id };
    assert_eq!(plan(&Desired::Released(id), &observed), Ok(vec![strike]));
    let another = AllocationId { index: 9, ..id };
    assert_eq!(plan(&Desired::Released(another), &observed), Ok(vec![]));
    let missing = missing_namespaces(&over(1, 1, &[1]), &observed);
    assert_eq!(
        missing[0].why,
        Absence::Deleted,
        "a namespace that its drive does not list is deleted, whatever its record says"
    );
}
