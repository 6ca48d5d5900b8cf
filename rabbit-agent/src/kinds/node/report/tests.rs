use std::time::Instant;

use storage::{
    desired::AllocationId,
    health::Link,
    observed::{DriveWarning, NamespaceOwner, Pool},
};

use super::*;
use crate::{
    health::{CheckFacts, DrivesRead, judge},
    samples,
};

/// Returns the judgement of a first health check.
fn judged(seen: &Observed) -> Judgement {
    let drives = DrivesRead::Complete { observed: seen, unclaimed: &[], lost: &[] };
    let seen = CheckFacts {
        computes: &BTreeMap::new(),
        links: None,
        facts: None,
        drives,
        block_storage_uids: None,
    };
    judge(&Judgement::default(), &seen, Instant::now())
}

fn reported(seen: &Observed) -> NnfNodeStatus {
    status_with_slots(seen, 0)
}

fn status_with_slots(seen: &Observed, slots: u16) -> NnfNodeStatus {
    let before = NnfNodeStatus::default();
    status(&before, Some(seen), &samples::chassis(), &judged(seen), slots, Spread::ONE)
}

fn drive_of(capacity: u64, allocated: u64) -> Drive {
    Drive {
        serial: "S1".into(),
        model: "M".into(),
        firmware: "F".into(),
        slot: 8,
        capacity,
        allocated,
        ..Drive::with_nqn("nqn.2026-01.io.warren:d0".parse().unwrap())
    }
}

#[test]
fn capacity_is_the_free_bytes() {
    let seen =
        Observed { drives: vec![drive_of(100, 30), drive_of(100, 0)], ..Observed::default() };
    let status = reported(&seen);
    assert_eq!((status.capacity, status.capacity_allocated), (170, 30));
    assert_eq!(status.status, Some(NnfResourceStatus::Ready));
    assert_eq!(
        (status.drives.len(), status.drives[0].capacity, &*status.drives[0].slot),
        (2, 100, "8")
    );
}

#[test]
fn capacity_of_file_drives_is_limited_by_their_disk() {
    let drives = vec![drive_of(40 << 40, 0)];
    let pool = Some(Pool { available: 3 << 40, promised: 1 << 40 });
    let status = reported(&Observed { drives, pool, ..Observed::default() });
    assert_eq!((status.capacity, status.drives[0].capacity), (2 << 40, 40 << 40));
}

#[test]
fn one_unusable_drive_is_a_warning_and_no_usable_drive_a_failure() {
    let nqn = "nqn.2026-01.io.warren:d1".parse().unwrap();
    let lost = Drive { nqn, fault: Some("it is not plugged in".into()), ..drive_of(0, 0) };
    let reported = |drives: Vec<Drive>| {
        let seen = Observed { drives, ..Observed::default() };
        let status = super::tests::reported(&seen);
        (status.status.unwrap(), status.health.unwrap(), status.drives[0].status.clone().unwrap())
    };
    assert_eq!(
        reported(vec![lost.clone(), drive_of(100, 0)]),
        (NnfResourceStatus::Ready, NnfResourceHealth::Warning, NnfResourceStatus::Offline)
    );
    assert_eq!(
        reported(vec![lost]),
        (NnfResourceStatus::Failed, NnfResourceHealth::Critical, NnfResourceStatus::Offline)
    );
}

#[test]
fn the_status_of_a_drive_shows_its_warnings() {
    for (warnings, status, health) in [
        (vec![], NnfResourceStatus::Ready, NnfResourceHealth::Ok),
        (
            vec![DriveWarning::Temperature, DriveWarning::ReadOnly],
            NnfResourceStatus::Disabled,
            NnfResourceHealth::Warning,
        ),
        (vec![DriveWarning::Temperature], NnfResourceStatus::Failed, NnfResourceHealth::Critical),
    ] {
        let warns = Drive { warnings, wear: 99, ..drive_of(100, 0) };
        let seen = Observed { drives: vec![warns], ..Observed::default() };
        let drive_status = drive(0, "8".into(), &seen.drives[0], &judged(&seen));
        assert_eq!(
            (drive_status.status, drive_status.health),
            (Some(status), Some(health)),
            "{seen:?}"
        );
        assert_eq!(drive_status.wear_level, 99);
    }
}

#[test]
fn a_drive_that_reports_more_allocated_bytes_than_its_capacity_counts_as_full() {
    let drives = vec![drive_of(100, 130), drive_of(50, 0)];
    let status = reported(&Observed { drives, ..Observed::default() });
    assert_eq!((status.capacity, status.capacity_allocated), (50, 100));
}

#[test]
fn the_status_lists_seventeen_servers_with_hosts_in_their_slots() {
    let status = reported(&Observed::default());
    let named: Vec<_> = status
        .servers
        .iter()
        .filter(|server| !server.hostname.is_empty())
        .map(|server| (&*server.id, &*server.name, &*server.hostname))
        .collect();
    assert_eq!(status.servers.len(), 17);
    assert_eq!(
        named,
        [
            ("0", "Rabbit", "rabbit-1"),
            ("1", "Compute 0", "compute-01"),
            ("2", "Compute 1", "compute-02"),
            ("7", "Compute 6", "compute-03")
        ]
    );
}

#[test]
fn a_compute_without_link_is_offline_and_a_slot_without_compute_not_present() {
    let chassis = samples::chassis();
    let links = BTreeMap::from([(0, Link::Down), (5, Link::Down)]);
    let computes = chassis.slots();
    let seen = CheckFacts {
        computes: &computes,
        links: Some(&links),
        facts: None,
        drives: DrivesRead::NotRead,
        block_storage_uids: None,
    };
    let servers = servers(&chassis, &judge(&Judgement::default(), &seen, Instant::now()));
    let reported = |id: usize| (servers[id].status.clone().unwrap(), servers[id].health.clone());
    let expected = |status, health| (status, Some(health));
    assert_eq!(reported(0), expected(NnfResourceStatus::Ready, NnfResourceHealth::Ok));
    assert_eq!(reported(1), expected(NnfResourceStatus::Offline, NnfResourceHealth::Critical));
    assert_eq!(reported(2), expected(NnfResourceStatus::Ready, NnfResourceHealth::Ok));
    assert_eq!(reported(6), (NnfResourceStatus::NotPresent, None));
}

#[test]
fn an_unknown_present_lnet_address_is_reported_if_the_status_has_an_address() {
    let before = |nid: &str| NnfNodeStatus { lnet_nid: nid.into(), ..NnfNodeStatus::default() };
    let facts = |nids: &[&str]| storage::health::Facts {
        nids: nids.iter().map(|nid| (*nid).to_owned()).collect(),
        ..storage::health::Facts::default()
    };
    let text = unknown_nid(&before("10.0.0.1@tcp"), &facts(&[])).unwrap();
    assert!(text.contains("stays 10.0.0.1@tcp") && text.contains("unknown"), "{text}");
    assert_eq!(unknown_nid(&before("10.0.0.1@tcp"), &facts(&["10.0.0.2@tcp"])), None);
    assert_eq!(unknown_nid(&before(""), &facts(&[])), None, "a node without Lustre");
}

#[test]
fn slots_without_a_drive_are_not_present() {
    let seen = Observed { drives: vec![drive_of(100, 0)], ..Observed::default() };
    let status = status_with_slots(&seen, 3);
    let reported: Vec<_> =
        status.drives.iter().map(|drive| (&*drive.id, drive.status.clone())).collect();
    let not_present = || Some(NnfResourceStatus::NotPresent);
    let ready = Some(NnfResourceStatus::Ready);
    assert_eq!(reported, [("0", ready), ("1", not_present()), ("2", not_present())]);
}

#[test]
fn slots_with_a_printed_label_have_this_label_and_other_slots_have_free_numbers() {
    let drives = |labels: &[&str]| -> Vec<_> {
        let drive = |(slot, label): (u32, &&str)| Drive {
            slot,
            label: (*label).to_owned(),
            ..drive_of(100, 0)
        };
        (0..).zip(labels).map(drive).collect()
    };
    let labels_of = |labels: &[&str]| super::labels(&drives(labels)).take(5).collect::<Vec<_>>();
    assert_eq!(
        labels_of(&["8", "7", "3"]),
        ["8", "7", "3", "1", "2"],
        "empty slots get the remaining numbers"
    );
    assert_eq!(
        labels_of(&["2", "", ""]),
        ["2", "1", "3", "4", "5"],
        "unlabelled slots get free numbers"
    );
    assert_eq!(labels_of(&["", ""]), ["0", "1", "2", "3", "4"], "no slot has a printed label");
    assert_eq!(labels_of(&["x", "1-1"]), ["x", "1-1", "1", "2", "3"]);
    let seen = Observed { drives: drives(&["8", "7"]), ..Observed::default() };
    let reported = status_with_slots(&seen, 3).drives;
    let reported: Vec<_> = reported.iter().map(|drive| (&*drive.id, &*drive.slot)).collect();
    assert_eq!(reported, [("0", "8"), ("1", "7"), ("2", "1")]);
}

#[test]
fn fields_that_other_programs_write_stay() {
    let before = NnfNodeStatus {
        fenced: true,
        lnet_nid: "10.0.0.1@tcp".into(),
        capacity: 7,
        ..NnfNodeStatus::default()
    };
    let judged = Judgement::default();
    let failed = status(&before, None, &samples::chassis(), &judged, 0, Spread::ONE);
    assert_eq!((failed.fenced, &*failed.lnet_nid, failed.capacity), (true, "10.0.0.1@tcp", 7));
    assert_eq!(failed.health, Some(NnfResourceHealth::Critical));
}

#[test]
fn namespaces_without_an_object_are_unclaimed() {
    let owner: ObjectUid = samples::BLOCK_UID.parse().unwrap();
    let namespace = |owner| Namespace {
        id: NamespaceId { subsystem: "nqn.2026-01.io.warren:d0".parse().unwrap(), nsid: 1 },
        owner,
        size: 1,
        access: BTreeSet::new(),
        device: None,
        members: 1,
        needs_erasure: true,
        needs_zeroing: false,
    };
    let all = [
        namespace(NamespaceOwner::Ours(AllocationId { owner, index: 0 })),
        namespace(NamespaceOwner::Foreign("no owner".into())),
    ];
    assert_eq!(unclaimed(&all, &BTreeSet::from([owner])), [&all[1]]);
    assert_eq!(unclaimed(&all, &BTreeSet::new()).len(), 2);
}

#[test]
fn a_reported_namespace_is_lost_if_a_healthy_drive_lacks_it() {
    let at = |drive: &str, nsid| NamespaceId {
        subsystem: format!("nqn.2026-01.io.warren:{drive}").parse().unwrap(),
        nsid,
    };
    let reported: BTreeMap<_, _> = [at("d0", 1), at("d0", 2), at("d1", 1), at("d9", 1)]
        .map(|id| (id, "job".to_owned()))
        .into();
    let owner = NamespaceOwner::Unknown;
    let (id, access) = (at("d0", 1), BTreeSet::new());
    let there = Namespace {
        id,
        owner,
        size: 1,
        access,
        device: None,
        members: 0,
        needs_erasure: true,
        needs_zeroing: false,
    };
    let silent = Drive {
        nqn: at("d1", 1).subsystem,
        fault: Some("it does not answer".into()),
        ..drive_of(0, 0)
    };
    let drives = vec![drive_of(100, 1), silent];
    let seen = Observed { drives, namespaces: vec![there], ..Observed::default() };
    assert_eq!(lost_namespaces(&seen, &reported), [(&at("d0", 2), "job"), (&at("d9", 1), "job")]);
}

#[test]
fn only_the_fenced_compute_is_reported_as_fenced() {
    let mut servers = servers(&samples::chassis(), &Judgement::default());
    let before = servers.clone();
    mark_fenced(&mut servers, &["compute-03".parse().unwrap()].into());
    for (place, (now, before)) in servers.iter().zip(&before).enumerate() {
        if place == 7 {
            let expected = (Some(NnfResourceStatus::Fenced), Some(NnfResourceHealth::Critical));
            assert_eq!((now.status.clone(), now.health.clone()), expected);
        } else {
            assert_eq!(now, before);
        }
    }
}
