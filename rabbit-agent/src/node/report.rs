//! How the rabbit is: the NnfNode's status, from what was seen of its drives and from the SystemConfiguration. Pure.
//!
//! `capacity` is what is free, `capacityAllocated` what is given to jobs: so the sites' central controllers and Flux read
//! them (Storage.status.capacity is copied from here). A drive's own size is in `drives[].capacity`. Both change with
//! every allocation, not only when a link goes up or down.

use std::collections::BTreeSet;

use api::{
    NnfNodeStatus,
    nnf_node::{NnfDriveStatus, NnfResourceHealth, NnfResourceStatus, NnfServerStatus},
};
use storage::{
    Observed,
    desired::{Endpoint, ObjectUid},
    observed::{Drive, DriveWarning, Namespace, NamespaceOwner},
};

use crate::chassis::{Chassis, SLOTS};

/// The status, on top of `before`: fencing and the LNet address belong to others and stay as they are.
///
/// `seen` is `None` when the drives could not be looked at; what was last known of them then stays, marked as failed.
#[must_use]
pub fn status(
    before: &NnfNodeStatus,
    seen: Option<&Observed>,
    chassis: &Chassis,
    unclaimed: usize,
) -> NnfNodeStatus {
    let mut after = before.clone();
    after.servers = servers(chassis);
    let Some(seen) = seen else {
        after.status = Some(NnfResourceStatus::Failed);
        after.health = Some(NnfResourceHealth::Critical);
        return after;
    };
    let usable = seen.drives.iter().filter(|it| it.fault.is_none()).count();
    after.status = Some(match (seen.drives.len(), usable) {
        (0, _) => NnfResourceStatus::NotPresent,
        (_, 0) => NnfResourceStatus::Failed,
        _ => NnfResourceStatus::Ready,
    });
    after.health = Some(match (usable, faults(&seen.drives).len(), unclaimed) {
        (0, _, _) => NnfResourceHealth::Critical,
        (_, 0, 0) => NnfResourceHealth::Ok,
        _ => NnfResourceHealth::Warning,
    });
    let (total, allocated) = capacity(&seen.drives);
    after.capacity = bytes(total - allocated);
    after.capacity_allocated = bytes(allocated);
    after.drives = seen.drives.iter().enumerate().map(|(id, it)| drive(id, it)).collect();
    after
}

/// Bytes of all drives, and bytes of them that namespaces occupy; never more than there are.
#[must_use]
pub fn capacity(drives: &[Drive]) -> (u64, u64) {
    let total = drives.iter().fold(0_u64, |sum, it| sum.saturating_add(it.capacity));
    let allocated =
        drives.iter().fold(0_u64, |sum, it| sum.saturating_add(it.allocated.min(it.capacity)));
    (total, allocated)
}

/// Drives that cannot be used or warn of something, each with what it is.
#[must_use]
pub fn faults(drives: &[Drive]) -> Vec<String> {
    let told = |it: &Drive| {
        let warnings: Vec<_> = it.warnings.iter().map(ToString::to_string).collect();
        let told =
            it.fault.clone().or_else(|| Some(warnings.join(", ")).filter(|it| !it.is_empty()));
        Some(format!("{}: {}", it.nqn, told?))
    };
    drives.iter().filter_map(told).collect()
}

/// Namespaces that no NnfNodeBlockStorage claims. They are told and never deleted: whose data it is, is not ours to guess.
#[must_use]
pub fn unclaimed<'a>(
    namespaces: &'a [Namespace],
    claimants: &BTreeSet<ObjectUid>,
) -> Vec<&'a Namespace> {
    let claimed = |it: &Namespace| match &it.owner {
        NamespaceOwner::Ours(id) | NamespaceOwner::Partial(id) => claimants.contains(&id.owner),
        NamespaceOwner::Foreign(_) => false,
    };
    namespaces.iter().filter(|it| !claimed(it)).collect()
}

/// All 17 ports. An unassigned one has no host name, which is how central controllers know to leave it out.
fn servers(chassis: &Chassis) -> Vec<NnfServerStatus> {
    let slots = chassis.slots();
    let rabbit = NnfServerStatus {
        hostname: chassis.rabbit().to_string(),
        id: Endpoint::Rabbit.number().to_string(),
        name: "Rabbit".to_owned(),
        status: Some(NnfResourceStatus::Ready),
        health: Some(NnfResourceHealth::Ok),
    };
    let computes = (0..SLOTS).map(|slot| {
        let host = slots.get(&slot);
        NnfServerStatus {
            hostname: host.map(ToString::to_string).unwrap_or_default(),
            id: Endpoint::Compute(slot).number().to_string(),
            name: format!("Compute {slot}"),
            status: Some(if host.is_some() {
                NnfResourceStatus::Ready
            } else {
                NnfResourceStatus::NotPresent
            }),
            health: host.map(|_| NnfResourceHealth::Ok),
        }
    });
    [rabbit].into_iter().chain(computes).collect()
}

fn drive(id: usize, drive: &Drive) -> NnfDriveStatus {
    let (status, health) = match (&drive.fault, &*drive.warnings) {
        (Some(_), _) => (NnfResourceStatus::Offline, NnfResourceHealth::Critical),
        (None, []) => (NnfResourceStatus::Ready, NnfResourceHealth::Ok),
        // The states that the sites' tools know: a drive that ends writing is disabled, any other warning is a failure.
        (None, warnings) if warnings.iter().any(DriveWarning::ends_writing) => {
            (NnfResourceStatus::Disabled, NnfResourceHealth::Warning)
        }
        (None, _) => (NnfResourceStatus::Failed, NnfResourceHealth::Critical),
    };
    NnfDriveStatus {
        model: drive.model.clone(),
        serial_number: drive.serial.clone(),
        firmware_version: drive.firmware.clone(),
        slot: drive.slot.to_string(),
        capacity: bytes(drive.capacity),
        wear_level: drive.wear.into(),
        id: id.to_string(),
        status: Some(status),
        health: Some(health),
        ..NnfDriveStatus::default()
    }
}

fn bytes(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use storage::desired::{AllocationId, NamespaceId};

    use super::*;
    use crate::samples;

    fn drive_of(capacity: u64, allocated: u64) -> Drive {
        Drive {
            nqn: "nqn.2026-01.io.warren:d0".parse().unwrap(),
            serial: "S1".into(),
            model: "M".into(),
            firmware: "F".into(),
            slot: 8,
            capacity,
            allocated,
            wear: 0,
            warnings: Vec::new(),
            fault: None,
        }
    }

    #[test]
    fn capacity_is_what_is_free_and_follows_allocations() {
        let seen =
            Observed { drives: vec![drive_of(100, 30), drive_of(100, 0)], ..Observed::default() };
        let status = status(&NnfNodeStatus::default(), Some(&seen), &samples::chassis(), 0);
        assert_eq!((status.capacity, status.capacity_allocated), (170, 30));
        assert_eq!(status.status, Some(NnfResourceStatus::Ready));
        assert_eq!(
            (status.drives.len(), status.drives[0].capacity, &*status.drives[0].slot),
            (2, 100, "8")
        );
    }

    #[test]
    fn one_drive_that_cannot_be_used_is_a_warning_and_none_that_can_a_failure() {
        let lost = Drive { fault: Some("it is not plugged in".into()), ..drive_of(0, 0) };
        let told = |drives: Vec<Drive>| {
            let seen = Observed { drives, ..Observed::default() };
            let told = status(&NnfNodeStatus::default(), Some(&seen), &samples::chassis(), 0);
            (told.status.unwrap(), told.health.unwrap(), told.drives[0].status.clone().unwrap())
        };
        assert_eq!(
            told(vec![lost.clone(), drive_of(100, 0)]),
            (NnfResourceStatus::Ready, NnfResourceHealth::Warning, NnfResourceStatus::Offline)
        );
        assert_eq!(
            told(vec![lost]),
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
            let warns = Drive { warnings, wear: 104, ..drive_of(100, 0) };
            let told = drive(0, &warns);
            assert_eq!((told.status, told.health), (Some(status), Some(health)), "{warns:?}");
            assert_eq!(
                (told.wear_level, faults(std::slice::from_ref(&warns)).len()),
                (104, usize::from(!warns.warnings.is_empty()))
            );
        }
    }

    #[test]
    fn a_drive_that_claims_more_than_it_has_does_not_underflow() {
        assert_eq!(capacity(&[drive_of(100, 130), drive_of(50, 0)]), (150, 100));
    }

    #[test]
    fn seventeen_servers_with_hosts_in_their_slots() {
        let status =
            status(&NnfNodeStatus::default(), Some(&Observed::default()), &samples::chassis(), 0);
        let named: Vec<_> = status
            .servers
            .iter()
            .filter(|it| !it.hostname.is_empty())
            .map(|it| (&*it.id, &*it.name, &*it.hostname))
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
    fn what_belongs_to_others_stays() {
        let before = NnfNodeStatus {
            fenced: true,
            lnet_nid: "10.0.0.1@tcp".into(),
            capacity: 7,
            ..NnfNodeStatus::default()
        };
        let failed = status(&before, None, &samples::chassis(), 0);
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
        };
        let all = [
            namespace(NamespaceOwner::Ours(AllocationId { owner, index: 0 })),
            namespace(NamespaceOwner::Foreign("no owner".into())),
        ];
        assert_eq!(unclaimed(&all, &BTreeSet::from([owner])), [&all[1]]);
        assert_eq!(unclaimed(&all, &BTreeSet::new()).len(), 2);
    }
}
