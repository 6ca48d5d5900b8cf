//! Computes the NnfNode's status from the observed drives and the SystemConfiguration. Does no I/O.
//!
//! `capacity` is the free bytes of all drives, and `capacityAllocated` their allocated bytes, because the sites'
//! central controllers and Flux read the two fields in this way (Storage.status.capacity is a copy). The size of one
//! drive is in `drives[].capacity`. Both totals change with every allocation, not only when a link to a drive changes.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use api::{
    NnfNodeStatus,
    nnf_node::{NnfDriveStatus, NnfResourceHealth, NnfResourceStatus, NnfServerStatus},
};
use fence::chassis::{Chassis, SLOTS};
use storage::{
    Observed,
    desired::{Endpoint, NamespaceId, NodeName, ObjectUid, Spread},
    observed::{Drive, Namespace},
    plan::allocatable,
};

use crate::health::{self, Judgement};

/// Returns the status. The fencing flag and the LNet address stay as they are in `before`, because
/// other programs write them.
///
/// `seen` is `None` when the drives could not be read: the drives then stay as last reported, and the rabbit is
/// reported as failed. If `slots` is not 0, empty slots are listed too.
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
    let drives =
        seen.drives.iter().enumerate().map(|(id, observed)| drive(id, label(), observed, judged));
    after.drives = drives.collect();
    after.drives.extend((count..slots.into()).map(|id| empty_slot(id, label())));
    after
}

/// Returns an endless series of labels: first one for each drive, then labels for empty slots. A drive has its printed
/// label, or else the first free number that is not below the number of its slot; empty slots have the remaining
/// numbers. If any drive has a printed label, numbers begin with 1.
fn labels(drives: &[Drive]) -> impl Iterator<Item = String> {
    let printed = drives.iter().map(|drive| drive.label.clone()).filter(|drive| !drive.is_empty());
    let mut used: BTreeSet<_> = printed.collect();
    let first = u32::from(!used.is_empty());
    let mut there = Vec::new();
    for drive in drives {
        let label = match &drive.label {
            printed if !printed.is_empty() => printed.clone(),
            _ => first_free(&used, drive.slot.max(first)),
        };
        used.insert(label.clone());
        there.push(label);
    }
    let empty = iter::repeat_with(move || {
        let label = first_free(&used, first);
        used.insert(label.clone());
        label
    });
    there.into_iter().chain(empty)
}

/// Returns the first number from `first` upwards that is not in `used`.
fn first_free(used: &BTreeSet<String>, first: u32) -> String {
    let mut numbers = (first..).map(|number| number.to_string());
    numbers.find(|number| !used.contains(number)).unwrap_or_default()
}

/// Reports fenced computes as fenced, whatever else their state is: central controllers then create no mounts for them.
pub fn mark_fenced(servers: &mut [NnfServerStatus], fenced: &BTreeSet<NodeName>) {
    for server in servers {
        if fenced.iter().any(|node| node.as_str() == server.hostname) {
            server.status = Some(NnfResourceStatus::Fenced);
            server.health = Some(NnfResourceHealth::Critical);
        }
    }
}

/// Returns the bytes that namespaces occupy, but not more than the drives' capacity.
pub fn allocated(drives: &[Drive]) -> u64 {
    drives.iter().fold(0_u64, |sum, drive| sum.saturating_add(drive.allocated.min(drive.capacity)))
}

/// Returns the namespaces that belong to no NnfNodeBlockStorage. The agent reports them and never deletes them: it
/// cannot know whose data they hold.
pub fn unclaimed<'a>(
    namespaces: &'a [Namespace],
    block_storage_uids: &BTreeSet<ObjectUid>,
) -> Vec<&'a Namespace> {
    let has_object = |namespace: &Namespace| {
        namespace.owner.allocation().is_some_and(|id| block_storage_uids.contains(&id.owner))
    };
    namespaces.iter().filter(|namespace| !has_object(namespace)).collect()
}

/// Returns the namespaces that an object's status names but no drive has. Namespaces on drives that cannot be used are
/// left out: they may still exist.
pub fn lost_namespaces<'a>(
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

/// Returns the entries of `status.servers`: the rabbit, and the 16 slots for computes. A slot without a compute has no
/// host name, so central controllers leave it out.
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

/// Returns a warning if the status has an LNet address and the node's present addresses are unknown. The address stays
/// in the status: management targets were formatted with it, and the node may get it again.
pub fn unknown_nid(before: &NnfNodeStatus, facts: &storage::health::Facts) -> Option<String> {
    (facts.nids.is_empty() && !before.lnet_nid.is_empty()).then(|| {
        format!(
            "status.lnetNid stays {}, and the present address is unknown: see why `lctl list_nids` prints none on this rabbit",
            before.lnet_nid
        )
    })
}
