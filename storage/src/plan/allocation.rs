//! Allocations: namespaces made, granted, withdrawn, deleted.

use std::collections::BTreeSet;

use super::Rejection;
use crate::{
    Step,
    desired::{Access, Allocation, AllocationId, Endpoint, NodeName},
    observed::{Drive, Namespace, NamespaceOwner, Observed},
};

/// What namespaces are a multiple of, in bytes: a drive formatted with 4 KiB blocks has nothing smaller.
const BLOCK: u64 = 4096;

pub(super) fn allocate(
    allocation: &Allocation,
    observed: &Observed,
) -> Result<Vec<Step>, Rejection> {
    if allocation.capacity == 0 {
        return Err(Rejection::ZeroCapacity { allocation: allocation.id });
    }
    let mut steps: Vec<_> = partial(allocation.id, observed).collect();
    let ours: Vec<_> = owned(allocation.id, observed).collect();
    if ours.is_empty() {
        let size = allocation.capacity.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
        let drive = place(allocation, size, observed)?;
        steps.push(Step::CreateNamespace {
            allocation: allocation.id,
            drive: drive.nqn.clone(),
            size,
        });
        // Its NSID is the drive's to choose: access is for the next look.
        return Ok(steps);
    }
    for namespace in ours {
        steps.extend(grant(namespace, &allocation.access, observed));
    }
    Ok(steps)
}

pub(super) fn release(id: AllocationId, observed: &Observed) -> Vec<Step> {
    let mut steps: Vec<_> = partial(id, observed).collect();
    for namespace in owned(id, observed) {
        steps.extend(withdraw(namespace, &BTreeSet::new()));
        steps.push(Step::DeleteNamespace { id: namespace.id.clone(), allocation: id });
    }
    steps
}

/// The policy: one namespace on the freest drive, because a volume without LVM is exactly one device. Ties go to the
/// lowest slot.
fn place<'a>(
    allocation: &Allocation,
    size: u64,
    observed: &'a Observed,
) -> Result<&'a Drive, Rejection> {
    let asked = allocation.capacity;
    let freest =
        observed.drives.iter().max_by_key(|drive| (drive.free(), std::cmp::Reverse(drive.slot)));
    let Some(freest) = freest else {
        return Err(Rejection::NoDrives { allocation: allocation.id, asked });
    };
    if freest.free() < size {
        return Err(Rejection::InsufficientCapacity {
            asked,
            largest: freest.free(),
            capacity: freest.capacity,
            drives: observed.drives.len(),
        });
    }
    match observed.pool {
        Some(pool) if pool.room() < size => {
            Err(Rejection::PoolFull { asked, available: pool.available, promised: pool.promised })
        }
        _ => Ok(freest),
    }
}

fn grant(namespace: &Namespace, wanted: &BTreeSet<Access>, observed: &Observed) -> Vec<Step> {
    // After a reboot access is there and the device is not: attaching again brings it back. File drives have one device for
    // all hosts of the box, real ones have the rabbit's own.
    let missing = |access: &Access| {
        let has_it = access.endpoint == Endpoint::Rabbit || observed.pool.is_some();
        namespace.device.is_none() && has_it
    };
    let names: BTreeSet<_> = wanted.iter().map(|access| access.node.clone()).collect();
    let mut steps: Vec<_> = wanted
        .iter()
        .filter(|access| missing(access) || !namespace.access.contains(&access.node))
        .map(|access| Step::Attach {
            id: namespace.id.clone(),
            endpoint: access.endpoint,
            node: access.node.clone(),
        })
        .collect();
    steps.extend(withdraw(namespace, &names));
    steps
}

fn withdraw<'a>(
    namespace: &'a Namespace,
    keep: &'a BTreeSet<NodeName>,
) -> impl Iterator<Item = Step> + 'a {
    namespace
        .access
        .difference(keep)
        .map(|node| Step::Detach { id: namespace.id.clone(), node: node.clone() })
}

fn owned(id: AllocationId, observed: &Observed) -> impl Iterator<Item = &Namespace> {
    observed.namespaces.iter().filter(move |namespace| namespace.owner == NamespaceOwner::Ours(id))
}

fn partial(id: AllocationId, observed: &Observed) -> impl Iterator<Item = Step> {
    observed
        .namespaces
        .iter()
        .filter(move |namespace| namespace.owner == NamespaceOwner::Partial(id))
        .map(move |namespace| Step::DeleteNamespace { id: namespace.id.clone(), allocation: id })
}
