//! Plans the creation, attachment, detachment and deletion of an allocation's namespaces.
//!
//! An allocation is created whole or not at all, one namespace on each of its drives. Once the object's status reports
//! the namespaces, a lost namespace is usually not replaced, because the new namespace would be empty; the allocation
//! continues with the remaining namespaces. The planner replaces a lost namespace only if its drive is gone for good
//! and the allocation has other namespaces: a volume with redundancy can then rebuild the lost contents on the new
//! namespace.

mod members;
mod place;

use std::collections::BTreeSet;

pub use members::{Absence, Missing, missing_namespaces};
pub use place::allocatable;

use self::{
    members::{Members, Need},
    place::{Placement, place_all, place_more},
};
use super::Rejection;
use crate::{
    Step,
    desired::{Access, Allocation, AllocationId, Endpoint, Nqn},
    observed::{Attached, Namespace, NamespaceOwner, Observed},
};

pub(super) fn allocate(
    allocation: &Allocation,
    observed: &Observed,
) -> Result<Vec<Step>, Rejection> {
    if allocation.capacity == 0 {
        return Err(Rejection::ZeroCapacity { allocation: allocation.id });
    }
    let members = Members::new(allocation, observed);
    // Steps on a drive that cannot be used now are left out until the drive can be used; the steps on other drives
    // continue.
    let is_possible = |step: &Step| step.drive().is_some_and(|drive| !is_faulty(drive, observed));
    let partial: Vec<_> = partial_namespaces(allocation.id, observed).collect();
    let leftovers: Vec<_> = delete(allocation.id, &partial).filter(is_possible).collect();
    let adopt = members.adopt();
    if !adopt.is_empty() {
        return Ok([leftovers, adopt].concat());
    }
    members.check()?;
    let placement = match members.need() {
        Need::Nothing => {
            let mut steps = leftovers;
            let (unzeroed, usable): (Vec<_>, Vec<_>) =
                members.reachable.iter().copied().partition(|namespace| namespace.needs_zeroing);
            // Access to the other namespaces comes first: zeroing takes hours, and may fail.
            steps.extend(grant(&usable, &allocation.access, observed));
            steps.extend(unzeroed.into_iter().map(|namespace| zero(namespace, allocation.id)));
            steps.extend(replace_lost(&members, observed));
            return Ok(steps);
        }
        // Leftovers of an earlier attempt occupy space: delete them first.
        Need::All | Need::More(_) if !leftovers.is_empty() => return Ok(leftovers),
        Need::All => place_all(allocation, observed)?,
        Need::More(wanted) => place_more(allocation, wanted, observed)?,
    };
    // The drives choose the NSIDs, so only the next round can attach the namespaces.
    Ok(placement.steps(allocation.id))
}

/// Plans to adopt the namespaces that belong to the allocation according to the object's status. Leaves out the
/// namespaces that cannot be adopted.
pub(super) fn adopt(allocation: &Allocation, observed: &Observed) -> Vec<Step> {
    Members::new(allocation, observed).adopt()
}

pub(super) fn release(id: AllocationId, observed: &Observed) -> Vec<Step> {
    let owners = [NamespaceOwner::Ours(id), NamespaceOwner::Replaced(id)];
    let may_return = |namespace: &&Namespace| !observed.is_replaced(&namespace.id.subsystem);
    let ours = observed
        .namespaces
        .iter()
        .filter(|namespace| owners.contains(&namespace.owner))
        .filter(may_return);
    let ours: Vec<_> = ours.collect();
    // Detach all namespaces of the allocation before deleting any of them, so that no detachment waits for an erasure.
    let no_hosts = BTreeSet::new();
    let reached = ours.iter().flat_map(|namespace| {
        hosts_to_detach(namespace, &no_hosts).map(move |host| (namespace, host))
    });
    let mut steps: Vec<_> = reached.map(|(namespace, host)| detach(namespace, host)).collect();
    let partial = partial_namespaces(id, observed);
    steps.extend(delete(id, &partial.chain(ours.iter().copied()).collect::<Vec<_>>()));
    steps.extend(delete_vanished(id, observed));
    steps.extend(forget_replaced(id, observed));
    steps
}

/// Plans the deletion of namespaces that are recorded but no longer on their drive. The step asks the drive once more
/// and removes the record. If the record stayed, every observation in which the drive does not answer would list the
/// namespace for an object that is deleted.
fn delete_vanished(id: AllocationId, observed: &Observed) -> impl Iterator<Item = Step> {
    let lost = observed.vanished.iter().filter(move |(_, owner)| owner.allocation() == Some(id));
    lost.map(move |(lost_id, _)| Step::DeleteNamespace { id: lost_id.clone(), allocation: id })
}

/// Plans the removal of records of namespaces on drives that are gone for good: otherwise the records would outlive the
/// allocation. These steps come last, because the allocation does not count as released while it has a record.
fn forget_replaced(id: AllocationId, observed: &Observed) -> impl Iterator<Item = Step> {
    let replaced = observed.of_allocation(id);
    let replaced = replaced.filter(|namespace| observed.is_replaced(&namespace.id.subsystem));
    replaced
        .map(move |namespace| Step::ForgetNamespace { id: namespace.id.clone(), allocation: id })
}

/// Plans to detach all namespaces of an allocation from a host, including partly created namespaces, because the host
/// could write to these too.
pub(super) fn cut_off(id: AllocationId, host: &Attached, observed: &Observed) -> Vec<Step> {
    let reached = observed.of_allocation(id).filter(|namespace| namespace.access.contains(host));
    reached.map(|namespace| detach(namespace, host)).collect()
}

/// Plans replacements for namespaces that are gone for good. Once enough replacements exist, plans to record the lost
/// namespaces as replaced. Without room for the replacements the allocation stays as it is.
fn replace_lost(members: &Members<'_>, observed: &Observed) -> Vec<Step> {
    let id = members.allocation.id;
    match members.successors() {
        None => Vec::new(),
        Some(wanted) if wanted.count > 0 => place_more(members.allocation, wanted, observed)
            .map_or_else(|_| Vec::new(), |placement| placement.steps(id)),
        Some(_) => {
            let replaced = |namespace: &&Namespace| Step::ReplaceNamespace {
                id: namespace.id.clone(),
                allocation: id,
            };
            members.replaced.iter().map(replaced).collect()
        }
    }
}

impl Placement<'_> {
    fn steps(self, allocation: AllocationId) -> Vec<Step> {
        let (size, members) = (self.size, self.members);
        let create = |drive: &crate::observed::Drive| {
            let drive = drive.nqn.clone();
            Step::CreateNamespace { allocation, drive, size, members }
        };
        self.drives.into_iter().map(create).collect()
    }
}

fn zero(namespace: &Namespace, allocation: AllocationId) -> Step {
    Step::ZeroNamespace { id: namespace.id.clone(), allocation }
}

/// Plans the attachments before the detachments, except in one case. When a host of the allocation has moved to another
/// port of the chassis, another host may now be at the port that it left, and that host must not have access. The port
/// that the host left is therefore detached first: it loses access even when an attachment fails.
fn grant(ours: &[&Namespace], wanted: &BTreeSet<Access>, observed: &Observed) -> Vec<Step> {
    let has_moved = |host: &Attached| wanted.iter().any(|wanted| wanted.node == host.node);
    let detachments = |namespace| {
        hosts_to_detach(namespace, wanted)
            .map(move |host| (has_moved(host), detach(namespace, host)))
    };
    let (moved, others): (Vec<_>, Vec<_>) =
        ours.iter().copied().flat_map(detachments).partition(|(has_moved, _)| *has_moved);
    let mut steps: Vec<_> = moved.into_iter().map(|(_, step)| step).collect();
    steps.extend(ours.iter().flat_map(|namespace| attach(namespace, wanted, observed)));
    steps.extend(others.into_iter().map(|(_, step)| step));
    steps
}

fn attach<'a>(
    namespace: &'a Namespace,
    wanted: &'a BTreeSet<Access>,
    observed: &'a Observed,
) -> impl Iterator<Item = Step> + 'a {
    // After a reboot a namespace is still attached but has no device: attaching it again restores the device. A
    // namespace on file drives has one device for all hosts on the machine; on a real drive, this node has only the
    // rabbit's own device.
    let missing = |access: &Access| {
        let has_it = access.endpoint == Endpoint::Rabbit || observed.pool.is_some();
        namespace.device.is_none() && has_it
    };
    wanted.iter().filter(move |access| missing(access) || !namespace.is_attached_to(access)).map(
        |access| Step::Attach {
            id: namespace.id.clone(),
            endpoint: access.endpoint,
            node: access.node.clone(),
        },
    )
}

/// Returns the hosts that have access but should not.
fn hosts_to_detach<'a>(
    namespace: &'a Namespace,
    wanted: &'a BTreeSet<Access>,
) -> impl Iterator<Item = &'a Attached> {
    namespace.access.iter().filter(|host| !wanted.iter().any(|wanted| host.is_at(wanted)))
}

fn detach(namespace: &Namespace, host: &Attached) -> Step {
    Step::Detach { id: namespace.id.clone(), node: host.node.clone() }
}

fn is_faulty(drive: &Nqn, observed: &Observed) -> bool {
    observed.drives.iter().any(|known| known.nqn == *drive && known.fault.is_some())
}

/// Returns the namespaces of an allocation whose creation was interrupted.
fn partial_namespaces(id: AllocationId, observed: &Observed) -> impl Iterator<Item = &Namespace> {
    let is_partial = move |namespace: &&Namespace| namespace.owner == NamespaceOwner::Partial(id);
    let namespaces = observed.namespaces.iter().filter(is_partial);
    namespaces.filter(|namespace| !observed.is_replaced(&namespace.id.subsystem))
}

/// Plans the deletion of namespaces. All erasures come first: they run in parallel on all drives.
fn delete(id: AllocationId, namespaces: &[&Namespace]) -> impl Iterator<Item = Step> {
    let ids = |namespaces: Vec<&Namespace>| {
        namespaces.into_iter().map(|namespace| namespace.id.clone()).collect::<Vec<_>>()
    };
    let full = namespaces.iter().copied().filter(|namespace| namespace.needs_erasure);
    let erase = ids(full.collect()).into_iter();
    let erase = erase.map(move |namespace| Step::EraseNamespace { id: namespace, allocation: id });
    let delete = ids(namespaces.to_vec()).into_iter();
    erase
        .chain(delete.map(move |namespace| Step::DeleteNamespace { id: namespace, allocation: id }))
}
