//! The NnfNode's status, from the observed drives and the SystemConfiguration. Does no I/O.
//!
//! `capacity` is what can be allocated, and `capacityAllocated` what jobs have: the sites' central controllers and Flux
//! read them so (Storage.status.capacity is a copy). A drive's size is in `drives[].capacity`. Both change with every
//! allocation, not only with a link.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use api::{
    NnfNodeStatus,
    nnf_node::{NnfDriveStatus, NnfResourceHealth, NnfResourceStatus, NnfServerStatus},
};
use storage::{
    Observed,
    desired::{Endpoint, NamespaceId, ObjectUid, Spread},
    observed::{Drive, Namespace},
    plan::allocatable,
};

use crate::{
    chassis::{Chassis, SLOTS},
    health::{self, Judgement},
};

/// The status, based on `before`: other programs write the fencing flag and the LNet address, which stay as they are.
///
/// `seen` is `None` when the drives could not be read: they stay as last reported, marked as failed. When `slots` is
/// not 0, empty slots are listed too.
pub fn status(
    before: &NnfNodeStatus,
    seen: Option<&Observed>,
    chassis: &Chassis,
    judged: &Judgement,
    slots: u16,
    spread: Spread,
) -> NnfNodeStatus {
    let mut after = before.clone();
    after.servers = servers(chassis, judged);
    let Some(seen) = seen else {
        after.status = Some(NnfResourceStatus::Failed);
        after.health = Some(NnfResourceHealth::Critical);
        return after;
    };
    let is_usable =
        |drive: &&Drive| health::of_drive(judged, &drive.nqn).0 != NnfResourceStatus::Offline;
    let usable = seen.drives.iter().filter(is_usable).count();
    after.status = Some(match (seen.drives.len(), usable) {
        (0, _) => NnfResourceStatus::NotPresent,
        (_, 0) => NnfResourceStatus::Failed,
        _ => NnfResourceStatus::Ready,
    });
    after.health = Some(match usable {
        0 => NnfResourceHealth::Critical,
        _ => health::overall(judged),
    });
    after.capacity = bytes(allocatable(seen, spread));
    after.capacity_allocated = bytes(allocated(&seen.drives));
    let count = seen.drives.len();
    let mut labels = labels(&seen.drives);
    let mut label = || labels.next().unwrap_or_default();
    let there =
        seen.drives.iter().enumerate().map(|(id, observed)| drive(id, label(), observed, judged));
    after.drives = there.collect();
    after.drives.extend((count..slots.into()).map(|id| empty_slot(id, label())));
    after
}

/// The label printed beside each slot with a drive, or a free number from the slot's number on; then free numbers for
/// empty slots. Where labels are printed, numbers begin with 1.
fn labels(drives: &[Drive]) -> impl Iterator<Item = String> {
    let printed = drives.iter().map(|drive| drive.label.clone()).filter(|drive| !drive.is_empty());
    let mut given: BTreeSet<_> = printed.collect();
    let first = u32::from(!given.is_empty());
    let mut there = Vec::new();
    for drive in drives {
        let label = match &drive.label {
            printed if !printed.is_empty() => printed.clone(),
            _ => free(&given, drive.slot.max(first)),
        };
        given.insert(label.clone());
        there.push(label);
    }
    let empty = iter::repeat_with(move || {
        let label = free(&given, first);
        given.insert(label.clone());
        label
    });
    there.into_iter().chain(empty)
}

/// The first number from `first` that is not in `given`.
fn free(given: &BTreeSet<String>, first: u32) -> String {
    let mut numbers = (first..).map(|number| number.to_string());
    numbers.find(|number| !given.contains(number)).unwrap_or_default()
}

/// Bytes that namespaces occupy, at most the drives' capacity.
pub fn allocated(drives: &[Drive]) -> u64 {
    drives.iter().fold(0_u64, |sum, drive| sum.saturating_add(drive.allocated.min(drive.capacity)))
}

/// Namespaces that no NnfNodeBlockStorage claims. The agent reports and never deletes them: it cannot know whose data
/// they hold.
pub fn unclaimed<'a>(
    namespaces: &'a [Namespace],
    claimants: &BTreeSet<ObjectUid>,
) -> Vec<&'a Namespace> {
    let claimed = |namespace: &Namespace| {
        namespace.owner.allocation().is_some_and(|id| claimants.contains(&id.owner))
    };
    namespaces.iter().filter(|namespace| !claimed(namespace)).collect()
}

/// Names of namespaces that statuses of objects name and that are on no drive. Namespaces on drives that cannot be used
/// are not known to be lost.
pub fn lost<'a>(
    seen: &Observed,
    reported: &'a BTreeMap<NamespaceId, String>,
) -> Vec<(&'a NamespaceId, &'a str)> {
    let there: BTreeSet<_> = seen.namespaces.iter().map(|namespace| &namespace.id).collect();
    let unusable = seen.drives.iter().filter(|drive| drive.fault.is_some());
    let unusable: BTreeSet<_> = unusable.map(|drive| &drive.nqn).collect();
    let is_lost = |id: &NamespaceId| !there.contains(id) && !unusable.contains(&id.subsystem);
    let lost = reported.iter().filter(|(id, _)| is_lost(id));
    lost.map(|(id, object)| (id, object.as_str())).collect()
}

/// All 17 ports. A port without a compute has no host name: central controllers leave it out by that.
pub fn servers(chassis: &Chassis, judged: &Judgement) -> Vec<NnfServerStatus> {
    let slots = chassis.slots();
    let rabbit = NnfServerStatus {
        hostname: chassis.rabbit().to_string(),
        id: Endpoint::Rabbit.number().to_string(),
        name: "Rabbit".to_owned(),
        status: Some(NnfResourceStatus::Ready),
        health: Some(health::of_rabbit(judged)),
    };
    let computes = (0..SLOTS).map(|slot| {
        let host = slots.get(&slot);
        let (status, health) = health::of_compute(judged, slot);
        NnfServerStatus {
            hostname: host.map(ToString::to_string).unwrap_or_default(),
            id: Endpoint::Compute(slot).number().to_string(),
            name: format!("Compute {slot}"),
            status: Some(host.map_or(NnfResourceStatus::NotPresent, |_| status)),
            health: host.map(|_| health),
        }
    });
    [rabbit].into_iter().chain(computes).collect()
}

fn drive(id: usize, slot: String, drive: &Drive, judged: &Judgement) -> NnfDriveStatus {
    let (status, health) = health::of_drive(judged, &drive.nqn);
    NnfDriveStatus {
        model: drive.model.clone(),
        serial_number: drive.serial.clone(),
        firmware_version: drive.firmware.clone(),
        slot,
        capacity: bytes(drive.capacity),
        wear_level: drive.wear.into(),
        id: id.to_string(),
        status: Some(status),
        health: Some(health),
        ..NnfDriveStatus::default()
    }
}

fn empty_slot(id: usize, slot: String) -> NnfDriveStatus {
    NnfDriveStatus {
        slot,
        id: id.to_string(),
        status: Some(NnfResourceStatus::NotPresent),
        health: Some(NnfResourceHealth::Ok),
        ..NnfDriveStatus::default()
    }
}

fn bytes(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A warning when the LNet address in the status is not one of the node's. The address stays: management targets were
/// formatted with it, and it may be right again.
pub fn unknown_nid(before: &NnfNodeStatus, facts: &storage::health::Facts) -> Option<String> {
    (facts.nids.is_empty() && !before.lnet_nid.is_empty()).then(|| {
        format!(
            "status.lnetNid stays {}, and what it is now is unknown: see that `lctl list_nids` tells an address here",
            before.lnet_nid
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use storage::{
        desired::AllocationId,
        health::Link,
        observed::{DriveWarning, NamespaceOwner, Pool},
    };

    use super::*;
    use crate::{
        health::{DrivesSeen, Seen, judge},
        samples,
    };

    /// The judgement of a first health check.
    fn judged(seen: &Observed) -> Judgement {
        let drives = DrivesSeen::Whole { observed: seen, unclaimed: &[], lost: &[] };
        let seen =
            Seen { computes: &BTreeMap::new(), links: None, facts: None, drives, claimants: None };
        judge(&Judgement::default(), &seen, Instant::now())
    }

    fn reported(seen: &Observed) -> NnfNodeStatus {
        told_of(seen, 0)
    }

    fn told_of(seen: &Observed, slots: u16) -> NnfNodeStatus {
        let before = NnfNodeStatus::default();
        status(&before, Some(seen), &samples::chassis(), &judged(seen), slots, Spread::ONE)
    }

    fn drive_of(capacity: u64, allocated: u64) -> Drive {
        Drive {
            nqn: "nqn.2026-01.io.warren:d0".parse().unwrap(),
            serial: "S1".into(),
            model: "M".into(),
            firmware: "F".into(),
            slot: 8,
            label: String::new(),
            capacity,
            allocated,
            max_namespaces: None,
            wear: 0,
            warnings: Vec::new(),
            fault: None,
        }
    }

    #[test]
    fn capacity_is_what_is_free_and_follows_allocations() {
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
    fn what_the_disk_beneath_file_drives_does_not_have_is_not_offered() {
        let drives = vec![drive_of(40 << 40, 0)];
        let pool = Some(Pool { available: 3 << 40, promised: 1 << 40 });
        let status = reported(&Observed { drives, pool, ..Observed::default() });
        assert_eq!((status.capacity, status.drives[0].capacity), (2 << 40, 40 << 40));
    }

    #[test]
    fn one_drive_that_cannot_be_used_is_a_warning_and_none_that_can_a_failure() {
        let nqn = "nqn.2026-01.io.warren:d1".parse().unwrap();
        let lost = Drive { nqn, fault: Some("it is not plugged in".into()), ..drive_of(0, 0) };
        let reported = |drives: Vec<Drive>| {
            let seen = Observed { drives, ..Observed::default() };
            let status = super::tests::reported(&seen);
            (
                status.status.unwrap(),
                status.health.unwrap(),
                status.drives[0].status.clone().unwrap(),
            )
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
    fn what_a_drive_warns_of_is_in_its_status() {
        for (warnings, status, health) in [
            (vec![], NnfResourceStatus::Ready, NnfResourceHealth::Ok),
            (
                vec![DriveWarning::Temperature, DriveWarning::ReadOnly],
                NnfResourceStatus::Disabled,
                NnfResourceHealth::Warning,
            ),
            (
                vec![DriveWarning::Temperature],
                NnfResourceStatus::Failed,
                NnfResourceHealth::Critical,
            ),
        ] {
            let warns = Drive { warnings, wear: 99, ..drive_of(100, 0) };
            let seen = Observed { drives: vec![warns], ..Observed::default() };
            let shown = drive(0, "8".into(), &seen.drives[0], &judged(&seen));
            assert_eq!((shown.status, shown.health), (Some(status), Some(health)), "{seen:?}");
            assert_eq!(shown.wear_level, 99);
        }
    }

    #[test]
    fn a_drive_that_claims_more_than_it_has_does_not_underflow() {
        let drives = vec![drive_of(100, 130), drive_of(50, 0)];
        let status = reported(&Observed { drives, ..Observed::default() });
        assert_eq!((status.capacity, status.capacity_allocated), (50, 100));
    }

    #[test]
    fn seventeen_servers_with_hosts_in_their_slots() {
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
    fn a_compute_whose_link_is_down_is_offline_and_an_unassigned_slot_is_not_present() {
        let chassis = samples::chassis();
        let links = BTreeMap::from([(0, Link::Down), (5, Link::Down)]);
        let computes = chassis.slots();
        let seen = Seen {
            computes: &computes,
            links: Some(&links),
            facts: None,
            drives: DrivesSeen::NotAsked,
            claimants: None,
        };
        let servers = servers(&chassis, &judge(&Judgement::default(), &seen, Instant::now()));
        let reported =
            |id: usize| (servers[id].status.clone().unwrap(), servers[id].health.clone());
        let of = |status, health| (status, Some(health));
        assert_eq!(reported(0), of(NnfResourceStatus::Ready, NnfResourceHealth::Ok));
        assert_eq!(reported(1), of(NnfResourceStatus::Offline, NnfResourceHealth::Critical));
        assert_eq!(reported(2), of(NnfResourceStatus::Ready, NnfResourceHealth::Ok));
        assert_eq!(reported(6), (NnfResourceStatus::NotPresent, None));
    }

    #[test]
    fn an_address_that_nothing_tells_any_more_is_said_to_be_unknown() {
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
        let status = told_of(&seen, 3);
        let reported: Vec<_> =
            status.drives.iter().map(|drive| (&*drive.id, drive.status.clone())).collect();
        let not_present = || Some(NnfResourceStatus::NotPresent);
        let ready = Some(NnfResourceStatus::Ready);
        assert_eq!(reported, [("0", ready), ("1", not_present()), ("2", not_present())]);
    }

    #[test]
    fn slots_are_called_what_is_written_beside_them_and_others_have_the_numbers_left() {
        let drives = |labels: &[&str]| -> Vec<_> {
            let drive = |(slot, label): (u32, &&str)| Drive {
                slot,
                label: (*label).to_owned(),
                ..drive_of(100, 0)
            };
            (0..).zip(labels).map(drive).collect()
        };
        let shown = |labels: &[&str]| super::labels(&drives(labels)).take(5).collect::<Vec<_>>();
        assert_eq!(shown(&["8", "7", "3"]), ["8", "7", "3", "1", "2"], "empty slots have the rest");
        assert_eq!(shown(&["2", "", ""]), ["2", "1", "3", "4", "5"], "of one nothing is known");
        assert_eq!(shown(&["", ""]), ["0", "1", "2", "3", "4"], "no slot is labelled here");
        assert_eq!(shown(&["x", "1-1"]), ["x", "1-1", "1", "2", "3"]);
        let seen = Observed { drives: drives(&["8", "7"]), ..Observed::default() };
        let reported = told_of(&seen, 3).drives;
        let reported: Vec<_> = reported.iter().map(|drive| (&*drive.id, &*drive.slot)).collect();
        assert_eq!(reported, [("0", "8"), ("1", "7"), ("2", "1")]);
    }

    #[test]
    fn what_belongs_to_others_stays() {
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
    fn namespaces_without_an_object_are_told() {
        let owner: ObjectUid = samples::BLOCK_UID.parse().unwrap();
        let namespace = |owner| Namespace {
            id: NamespaceId { subsystem: "nqn.2026-01.io.warren:d0".parse().unwrap(), nsid: 1 },
            owner,
            size: 1,
            access: BTreeSet::new(),
            device: None,
            members: 1,
        };
        let all = [
            namespace(NamespaceOwner::Ours(AllocationId { owner, index: 0 })),
            namespace(NamespaceOwner::Foreign("no owner".into())),
        ];
        assert_eq!(unclaimed(&all, &BTreeSet::from([owner])), [&all[1]]);
        assert_eq!(unclaimed(&all, &BTreeSet::new()).len(), 2);
    }

    #[test]
    fn what_objects_were_told_to_have_is_lost_when_a_drive_that_is_well_does_not_have_it() {
        let at = |drive: &str, nsid| NamespaceId {
            subsystem: format!("nqn.2026-01.io.warren:{drive}").parse().unwrap(),
            nsid,
        };
        let reported: BTreeMap<_, _> = [at("d0", 1), at("d0", 2), at("d1", 1), at("d9", 1)]
            .map(|id| (id, "job".to_owned()))
            .into();
        let owner = NamespaceOwner::Unknown;
        let (id, access) = (at("d0", 1), BTreeSet::new());
        let there = Namespace { id, owner, size: 1, access, device: None, members: 0 };
        let silent = Drive {
            nqn: at("d1", 1).subsystem,
            fault: Some("it does not answer".into()),
            ..drive_of(0, 0)
        };
        let drives = vec![drive_of(100, 1), silent];
        let seen = Observed { drives, namespaces: vec![there], ..Observed::default() };
        assert_eq!(lost(&seen, &reported), [(&at("d0", 2), "job"), (&at("d9", 1), "job")]);
    }
}
