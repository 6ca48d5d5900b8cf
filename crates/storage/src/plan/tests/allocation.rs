//! Allocations over many drives: where they go, what is completed, adopted, replaced, and what never is.

use super::*;
use crate::desired::Reported;

const MIB: u64 = 1 << 20;

fn nqn(slot: u32) -> crate::desired::Nqn {
    format!("nqn.2026-01.io.warren:p:drive-{slot}").parse().unwrap()
}

fn on(slot: u32, owner: NamespaceOwner) -> Namespace {
    let id = NamespaceId { subsystem: nqn(slot), nsid: 1 };
    let access = ["rabbit-1", "compute-3"].map(|name| node(name).into()).into();
    Namespace { id, owner, size: 8192, access, device: Some("/dev/loop0".into()), members: 4 }
}

fn ours(slot: u32) -> Namespace {
    on(slot, NamespaceOwner::Ours(allocation(1).id))
}

fn rabbit(drives: u32, namespaces: Vec<Namespace>) -> Observed {
    let drives = (0..drives).map(|slot| drive(slot, 100 * MIB, 0)).collect();
    Observed { drives, namespaces, ..Observed::default() }
}

fn over(most: u8, least: u8, told: &[u32]) -> Allocation {
    let told = told.iter().map(|slot| Reported {
        id: NamespaceId { subsystem: nqn(*slot), nsid: 1 },
        size: 8192,
        contested: false,
    });
    let spread = Spread::new(most, least).unwrap();
    Allocation { spread, reported: told.collect(), ..allocation(30_000) }
}

fn steps(wanted: &Allocation, observed: &Observed) -> Vec<Step> {
    plan(&Desired::Allocated(wanted.clone()), observed).unwrap()
}

fn refused(wanted: &Allocation, observed: &Observed) -> Rejection {
    plan(&Desired::Allocated(wanted.clone()), observed).unwrap_err()
}

/// Slots of the drives on which namespaces are made, with size and number.
fn made(steps: &[Step]) -> Vec<(u32, u64, u16)> {
    let made = steps.iter().map(|step| {
        let Step::CreateNamespace { drive, size, members, .. } = step else { panic!("{step}") };
        let slot = (0..99).find(|slot| nqn(*slot) == *drive).unwrap();
        (slot, *size, *members)
    });
    made.collect()
}

#[test]
fn the_freest_drives_take_equal_shares_rounded_to_blocks() {
    let mut seen = rabbit(18, vec![]);
    seen.drives[3].allocated = 10 * MIB;
    seen.drives[7].fault = Some("gone".into());
    seen.drives[9].warnings = vec![DriveWarning::ReadOnly];
    let made = made(&steps(&over(16, 14, &[]), &seen));
    let slots: Vec<_> = made.iter().map(|step| step.0).collect();
    assert_eq!(slots, [0, 1, 2, 4, 5, 6, 8, 10, 11, 12, 13, 14, 15, 16, 17, 3]);
    assert!(made.iter().all(|step| (step.1, step.2) == (4096, 16)), "30000 / 16, rounded up");
    let fourteen = Observed { drives: seen.drives[..16].to_vec(), ..seen };
    let made = super::allocation::made(&steps(&over(16, 14, &[]), &fourteen));
    assert_eq!(made.len(), 14, "two of sixteen cannot be used, and that is enough");
}

#[test]
fn too_few_drives_or_one_without_its_share_are_refused_with_the_numbers() {
    let refusal = refused(&over(16, 14, &[]), &rabbit(13, vec![]));
    assert_eq!(refusal.class(), RejectionClass::Capacity);
    assert_eq!(
        refusal.to_string(),
        "insufficient capacity: 30000 bytes asked for, over at least 14 drives, and 13 of 13 have room and can be used: \
         check the drives of this node, or free allocations"
    );
    let mut seen = rabbit(4, vec![]);
    seen.drives[1].allocated = 100 * MIB - 4096;
    let refusal = refused(&over(4, 2, &[]), &seen);
    assert_eq!(
        refusal.to_string(),
        "insufficient capacity: 30000 bytes asked for, 8192 on each of 4 drives, and nqn.2026-01.io.warren:p:drive-1 has \
         4096 of 104857600 bytes left: ask for less or free allocations"
    );
    let pool = Some(Pool { available: 4 * 8192 - 1, promised: 0 });
    let refusal = refused(&over(4, 2, &[]), &Observed { pool, ..rabbit(4, vec![]) });
    assert!(matches!(refusal, Rejection::PoolFull { asked: 30_000, .. }), "{refusal}");
    assert!(matches!(
        refused(&Allocation { capacity: u64::MAX, ..over(4, 2, &[]) }, &seen),
        Rejection::InsufficientCapacity { drives: 4, .. }
    ));
}

/// Equal drives: what they have left is had by one allocation over all of them, or over one.
#[test]
fn what_counts_as_allocatable_is_allocated_and_nothing_more() {
    let pool = |available| Some(Pool { available, promised: 5 * MIB });
    let mut limited = rabbit(4, vec![on(0, NamespaceOwner::Unknown)]);
    limited.drives.iter_mut().for_each(|drive| drive.max_namespaces = Some(1));
    let mut read_only = rabbit(4, vec![]);
    read_only.drives[2].warnings = vec![DriveWarning::ReadOnly];
    let mut faulty = rabbit(4, vec![]);
    faulty.drives[1].fault = Some("it does not answer".into());
    for (seen, wanted, bytes) in [
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
        assert_eq!(allocatable(&seen, wanted.spread), bytes, "{seen:?}");
        let all = Allocation { capacity: bytes, ..wanted.clone() };
        if bytes > 0 {
            assert!(!steps(&all, &seen).is_empty());
        }
        refused(&Allocation { capacity: bytes + 1, ..wanted }, &seen);
    }
}

#[test]
fn drives_that_cannot_be_used_now_are_waited_for_while_there_are_enough_with_them() {
    let mut seen = rabbit(14, vec![]);
    seen.drives[3].fault = Some("it does not answer".into());
    let refusal = refused(&over(16, 14, &[]), &seen);
    assert_eq!(refusal.class(), RejectionClass::Lost);
    assert_eq!(
        refusal.to_string(),
        "30000 bytes asked for, over at least 14 drives, and 13 of 14 have room and can be used now: \
         nqn.2026-01.io.warren:p:drive-3 cannot (it does not answer): wait for them, or exchange them if they stay so"
    );
    let class = |seen: &Observed| refused(&over(16, 14, &[]), seen).class();
    seen.drives[4].allocated = 100 * MIB;
    assert_eq!(class(&seen), RejectionClass::Capacity, "a full one does not come back");
    seen.drives[4].allocated = 0;
    seen.replaced.insert(nqn(3));
    assert_eq!(class(&seen), RejectionClass::Capacity, "nor does one that was replaced");
    seen.replaced.clear();
    seen.drives.pop();
    assert_eq!(class(&seen), RejectionClass::Capacity, "there are not enough");

    // What a crash kept from being made does not go where one of it is already.
    let mut seen = rabbit(2, vec![ours(0), ours(1)]);
    seen.drives[1].fault = Some("it does not answer".into());
    assert_eq!(refused(&over(4, 2, &[]), &seen).class(), RejectionClass::Capacity);
}

#[test]
fn a_drive_with_all_the_namespaces_it_can_have_takes_part_no_more() {
    let other = AllocationId { index: 9, ..allocation(1).id };
    let mut seen = rabbit(4, vec![on(0, NamespaceOwner::Ours(other))]);
    seen.drives.iter_mut().for_each(|drive| drive.max_namespaces = Some(1));
    let slots: Vec<_> = made(&steps(&over(4, 2, &[]), &seen)).iter().map(|step| step.0).collect();
    assert_eq!(slots, [1, 2, 3], "the freest by bytes is none of them");
    seen.drives.truncate(2);
    let refusal = refused(&over(4, 2, &[]), &seen);
    assert_eq!(refusal.class(), RejectionClass::Capacity);
    let told = format!("1 of 2 have room and can be used; {} has all 1 namespaces", nqn(0));
    assert!(refusal.to_string().contains(&told), "{refusal}");
}

#[test]
fn what_a_crash_kept_from_being_made_is_made_elsewhere_if_nobody_was_told() {
    let seen = rabbit(6, vec![ours(0), ours(2)]);
    assert_eq!(made(&steps(&over(4, 2, &[]), &seen)), [(1, 8192, 4), (3, 8192, 4)]);
    let partial = on(1, NamespaceOwner::Partial(allocation(1).id));
    let seen = rabbit(6, vec![ours(0), partial.clone(), ours(2)]);
    let first = Step::DeleteNamespace { id: partial.id.clone(), allocation: allocation(1).id };
    assert_eq!(steps(&over(4, 2, &[]), &seen), [first], "its room is counted only when it is gone");
    let told = rabbit(6, vec![ours(0), ours(2)]);
    assert_eq!(steps(&over(4, 2, &[0, 1, 2, 3]), &told), [], "what was told of is not made again");
    assert_eq!(missing_namespaces(&over(4, 2, &[0, 1, 2, 3]), &told).len(), 2);
    let mut away = rabbit(6, vec![ours(0), partial, ours(2), ours(3)]);
    away.drives[1].fault = Some("gone".into());
    assert_eq!(made(&steps(&over(4, 2, &[]), &away)), [(4, 8192, 4)], "not waited for");
    away.drives[1].fault = Some("its ledger cannot be read".into());
    away.namespaces.remove(1);
    away.unreadable.insert(nqn(1));
    let refusal = refused(&over(4, 2, &[]), &away);
    assert_eq!(refusal.class(), RejectionClass::Lost, "it may be there");
    assert!(refusal.to_string().contains("drive-1 cannot (its ledger"), "{refusal}");
}

#[test]
fn what_lost_its_records_is_adopted_whole_or_not_at_all() {
    let unknown = |slot| on(slot, NamespaceOwner::Unknown);
    let told = over(4, 2, &[0, 1, 2]);
    let adopted = steps(&told, &rabbit(6, vec![unknown(0), ours(1), unknown(2), unknown(5)]));
    let adopt = |slot| Step::AdoptNamespace {
        id: unknown(slot).id,
        allocation: told.id,
        size: 8192,
        members: 3,
    };
    assert_eq!(adopted, [adopt(0), adopt(2)]);
    let only = |seen: &Observed| plan(&Desired::Adopted(told.clone()), seen).unwrap();
    assert_eq!(only(&rabbit(6, vec![unknown(0), ours(1), unknown(2)])), adopted);
    assert_eq!(only(&rabbit(6, vec![ours(0), ours(1), ours(2)])), [], "and nothing else");
    assert_eq!(only(&rabbit(6, vec![unknown(0), ours(1)])), [], "a list with gaps proves nothing");

    let refusal = |namespaces: Vec<Namespace>| match refused(&told, &rabbit(6, namespaces)) {
        Rejection::Lost { missing, .. } => {
            missing.into_iter().map(|missing| missing.why).collect::<Vec<_>>()
        }
        other => panic!("{other}"),
    };
    let rest = [Absence::Unrecorded, Absence::Unrecorded];
    let larger = Namespace { size: 12_288, ..unknown(0) };
    assert_eq!(refusal(vec![larger, unknown(1), unknown(2)])[0], Absence::Size(12_288));
    assert_eq!(refusal(vec![unknown(1), unknown(2)]), [&[Absence::Deleted][..], &rest].concat());
    let another = AllocationId { index: 9, ..told.id };
    let taken = on(0, NamespaceOwner::Ours(another));
    assert!(matches!(refusal(vec![taken, unknown(1), unknown(2)])[0], Absence::Other(_)));

    let mut contested = told.clone();
    contested.reported[0].contested = true;
    let all = rabbit(6, vec![unknown(0), unknown(1), unknown(2)]);
    assert_eq!(refused(&contested, &all).class(), RejectionClass::Lost);
    let mut hidden = all;
    hidden.drives.remove(0);
    hidden.namespaces.remove(0);
    let Rejection::Lost { missing, .. } = refused(&told, &hidden) else { panic!("adopted") };
    assert_eq!(missing[0].why, Absence::NoDrive);
}

#[test]
fn what_is_told_beside_all_that_was_made_is_neither_missed_nor_adopted() {
    let two = |slot| Namespace { members: 2, ..ours(slot) };
    let unknown = |slot| on(slot, NamespaceOwner::Unknown);
    let whole = rabbit(6, vec![two(0), two(1), unknown(3)]);
    // A namespace without a record, one that is not there, and one of a drive that nobody knows.
    for forged in [3, 4, 77] {
        let told = over(2, 2, &[0, 1, forged]);
        assert_eq!(missing_namespaces(&told, &whole), [], "drive {forged}");
        assert_eq!(steps(&told, &whole), []);
        assert_eq!(plan(&Desired::Adopted(told), &whole), Ok(vec![]));
    }
    // One is missing: which of two is meant cannot be told, and neither is taken.
    let lacking = rabbit(6, vec![two(0), unknown(3), unknown(4)]);
    let told = over(2, 2, &[0, 3, 4]);
    assert_eq!(steps(&told, &lacking), []);
    assert_eq!(missing_namespaces(&told, &lacking).len(), 2);
    assert_eq!(steps(&over(2, 2, &[0, 3]), &lacking).len(), 1, "it is the one");
}

#[test]
fn a_drive_that_is_away_or_faulty_is_waited_for_and_the_others_go_on() {
    let mut seen = rabbit(6, vec![ours(0), ours(1), ours(2)]);
    seen.drives[1].fault = Some("it is not plugged in".into());
    (seen.namespaces[1].access, seen.namespaces[1].device) = (BTreeSet::new(), None);
    seen.namespaces[2].access.clear();
    let wanted = over(4, 2, &[0, 1, 2]);
    let attached = steps(&wanted, &seen);
    assert!(
        attached
            .iter()
            .all(|step| matches!(step, Step::Attach { id, .. } if id.subsystem == nqn(2)))
    );
    assert_eq!(attached.len(), 2);
    let told: Vec<_> = missing_namespaces(&wanted, &seen).iter().map(ToString::to_string).collect();
    let expected = format!("namespace 1 of {} cannot be reached: it is not plugged in", nqn(1));
    assert_eq!(told, [expected]);

    seen.namespaces.truncate(2);
    seen.drives[0].fault = Some("it does not answer".into());
    assert_eq!(
        refused(&wanted, &seen).class(),
        RejectionClass::Lost,
        "nothing is left to go on with"
    );
    let id = wanted.id;
    let release = plan(&Desired::Released(id), &seen).unwrap();
    assert!(
        release.contains(&Step::DeleteNamespace { id: ours(1).id, allocation: id }),
        "it fails, and is told"
    );
}

#[test]
fn only_a_drive_that_is_gone_for_good_gets_a_successor() {
    let mut seen = rabbit(6, vec![ours(0), ours(1), ours(2)]);
    seen.drives[1].fault = Some("another is in its slot".into());
    seen.replaced.insert(nqn(1));
    let wanted = over(4, 2, &[0, 1, 2]);
    assert_eq!(made(&steps(&wanted, &seen)), [(3, 8192, 4)]);
    assert_eq!(steps(&Allocation { replace: false, ..wanted.clone() }, &seen), []);

    // With a successor made, and nobody told of it yet.
    seen.namespaces.push(ours(3));
    let note = Step::ReplaceNamespace { id: ours(1).id, allocation: wanted.id };
    assert_eq!(steps(&wanted, &seen), [note]);
    seen.namespaces[1].owner = NamespaceOwner::Replaced(wanted.id);
    assert_eq!(steps(&wanted, &seen), []);
    assert_eq!(missing_namespaces(&wanted, &seen), []);
    let deleted = plan(&Desired::Released(wanted.id), &seen).unwrap();
    let of_it = |step: &&Step| step.drive() == Some(&nqn(1));
    let forget = Step::ForgetNamespace { id: ours(1).id, allocation: wanted.id };
    assert_eq!(deleted.iter().filter(of_it).collect::<Vec<_>>(), [&forget], "nothing to delete");
    assert_eq!(deleted.last(), Some(&forget), "when all else is given back");
    seen.replaced.clear();
    seen.drives[1].fault = None;
    let deleted = plan(&Desired::Released(wanted.id), &seen).unwrap();
    assert_eq!(deleted.iter().filter(of_it).count(), 3, "it came back: it goes with the others");
}

#[test]
fn what_was_alone_gets_no_successor_and_without_room_it_goes_on_as_it_is() {
    let mut seen = rabbit(3, vec![ours(1)]);
    seen.drives[1].fault = Some("another is in its slot".into());
    seen.replaced.insert(nqn(1));
    assert_eq!(refused(&over(1, 1, &[1]), &seen).class(), RejectionClass::Lost);

    seen.namespaces = vec![ours(0), ours(1)];
    seen.drives[2].allocated = 100 * MIB;
    let wanted = over(4, 2, &[0, 1]);
    assert_eq!(steps(&wanted, &seen), []);
    assert_eq!(missing_namespaces(&wanted, &seen)[0].why, Absence::Replaced);
}

#[test]
fn what_was_begun_on_a_drive_that_is_gone_for_good_is_forgotten_with_its_allocation() {
    let partial = on(1, NamespaceOwner::Partial(allocation(1).id));
    let mut seen = rabbit(3, vec![partial.clone()]);
    seen.replaced.insert(nqn(1));
    let forget = Step::ForgetNamespace { id: partial.id, allocation: allocation(1).id };
    assert_eq!(plan(&Desired::Released(allocation(1).id), &seen), Ok(vec![forget]));
    let another = AllocationId { index: 9, ..allocation(1).id };
    assert_eq!(plan(&Desired::Released(another), &seen), Ok(vec![]));
}

#[test]
fn nothing_is_deleted_before_everything_was_withdrawn() {
    let begun =
        Namespace { access: BTreeSet::new(), ..on(2, NamespaceOwner::Partial(allocation(1).id)) };
    let seen = rabbit(4, vec![begun, ours(0), ours(1)]);
    let release = plan(&Desired::Released(allocation(1).id), &seen);
    let kinds: Vec<_> = release.unwrap().iter().map(Step::kind).collect();
    assert_eq!(kinds, [&["detach"; 4][..], &["delete-namespace"; 3]].concat());
}

fn at(slot: u8, name: &str) -> Access {
    Access { endpoint: Endpoint::Compute(slot), node: node(name) }
}

/// The steps when these are to reach the allocation and those do.
fn regranted(wanted: &[Access], seen: &[Access]) -> Vec<String> {
    let wanted = Allocation { access: wanted.iter().cloned().collect(), ..over(1, 1, &[0]) };
    let access = seen.iter().cloned().map(Into::into).collect();
    let namespace = Namespace { access, size: 32_768, members: 1, ..ours(0) };
    lines(plan(&Desired::Allocated(wanted), &rabbit(1, vec![namespace])))
}

#[test]
fn access_is_a_places_and_not_a_names() {
    let id = ours(0).id;
    let attach = |number, name| format!("attach namespace {id} to {name} (endpoint {number})");
    let detach = |name| format!("detach namespace {id} from {name}");
    let was = [at(3, "compute-a"), at(5, "compute-b")];
    let now = [at(5, "compute-a"), at(3, "compute-b")];
    let moved = [detach("compute-a"), attach(6, "compute-a")];
    assert_eq!(regranted(&now[..1], &was[..1]), moved, "who is there now is cut off first");
    assert_eq!(regranted(&now[..1], &was), moved, "exchanged, and one is to reach it");
    let exchanged = [attach(4, "compute-b"), attach(6, "compute-a")];
    assert_eq!(regranted(&now, &was), exchanged, "and both are to reach it");
    assert_eq!(regranted(&now[1..], &was[..1]), exchanged[..1], "another name for the same host");
    let another = [attach(6, "compute-a"), detach("compute-c")];
    assert_eq!(regranted(&now[..1], &[at(7, "compute-c")]), another, "given before it is taken");
    assert_eq!(regranted(&now, &now), [""; 0]);
}

#[test]
fn what_is_recorded_and_gone_is_struck_out_with_its_allocation() {
    let id = allocation(1).id;
    let mut seen = rabbit(3, Vec::new());
    seen.vanished.insert(ours(1).id, NamespaceOwner::Ours(id));
    let strike = Step::DeleteNamespace { id: ours(1).id, allocation: id };
    assert_eq!(plan(&Desired::Released(id), &seen), Ok(vec![strike]));
    let another = AllocationId { index: 9, ..id };
    assert_eq!(plan(&Desired::Released(another), &seen), Ok(vec![]));
    let told = missing_namespaces(&over(1, 1, &[1]), &seen);
    assert_eq!(told[0].why, Absence::Deleted, "the drive's word counts, not the record's");
}
