//! Plans the creation, attachment, detachment and deletion of an allocation's namespaces.
//!
//! An allocation is created whole or not at all, one namespace on each of its drives. Once its object reports the
//! namespaces, the planner replaces no lost namespace: a replacement would be empty, so the allocation continues with
//! the rest. The only exception is a drive that is gone for good, when the allocation has others: there redundancy
//! needs a replacement to rebuild on.

mod members;
mod place;

use std::collections::BTreeSet;

pub use members::{Absence, Missing, missing_namespaces};
pub use place::allocatable;

use self::{
    members::{Members, Need},
    place::{Placement, fresh, more},
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
    // Steps on a drive that cannot be used now wait for it and hold up no others.
    let can_go = |step: &Step| step.drive().is_some_and(|drive| !is_faulty(drive, observed));
    let leftovers: Vec<_> = partial(allocation.id, observed).filter(can_go).collect();
    let adopt = members.adopt();
    if !adopt.is_empty() {
        return Ok([leftovers, adopt].concat());
    }
    members.check()?;
    let placement = match members.need() {
        Need::Nothing => {
            let mut steps = leftovers;
            steps.extend(grant(&members.reachable, &allocation.access, observed));
            steps.extend(succeed(&members, observed));
            return Ok(steps);
        }
        // Leftovers of an earlier attempt occupy space: delete them first.
        Need::All | Need::More(_) if !leftovers.is_empty() => return Ok(leftovers),
        Need::All => fresh(allocation, observed)?,
        Need::More(wanted) => more(allocation, wanted, observed)?,
    };
    // The drives choose the NSIDs, so the next round attaches them.
    Ok(placement.steps(allocation.id))
}

/// Adopts the namespaces that the object's status proves to be the allocation's; the allocation
/// does without the others.
pub(super) fn adopt(allocation: &Allocation, observed: &Observed) -> Vec<Step> {
    Members::new(allocation, observed).adopt()
}

pub(super) fn release(id: AllocationId, observed: &Observed) -> Vec<Step> {
    let mine = [NamespaceOwner::Ours(id), NamespaceOwner::Replaced(id)];
    let is_there = |namespace: &&Namespace| !observed.is_replaced(&namespace.id.subsystem);
    let ours = observed
        .namespaces
        .iter()
        .filter(|namespace| mine.contains(&namespace.owner))
        .filter(is_there);
    let ours: Vec<_> = ours.collect();
    // A namespace is deleted only once no host has any of them attached, and detaching does not wait for an erasure.
    let nobody = BTreeSet::new();
    let reached = ours
        .iter()
        .flat_map(|namespace| unwanted(namespace, &nobody).map(move |host| (namespace, host)));
    let mut steps: Vec<_> = reached.map(|(namespace, host)| detach(namespace, host)).collect();
    steps.extend(partial(id, observed));
    let delete =
        |namespace: &&Namespace| Step::DeleteNamespace { id: namespace.id.clone(), allocation: id };
    steps.extend(ours.iter().map(delete));
    steps.extend(delete_vanished(id, observed));
    steps.extend(forget(id, observed));
    steps
}

/// Plans the deletion of vanished namespaces, which asks their drive once more and removes their records. Otherwise the
/// record would assign the namespace to a deleted object whenever the drive does not answer.
fn delete_vanished(id: AllocationId, observed: &Observed) -> impl Iterator<Item = Step> {
    let lost = observed.vanished.iter().filter(move |(_, owner)| owner.allocation() == Some(id));
    lost.map(move |(lost_id, _)| Step::DeleteNamespace { id: lost_id.clone(), allocation: id })
}

/// Removes the records of namespaces on drives that are gone for good; they would outlive their allocation. This comes
/// last: until then the allocation does not count as released.
fn forget(id: AllocationId, observed: &Observed) -> impl Iterator<Item = Step> {
    let replaced = observed.of_allocation(id);
    let replaced = replaced.filter(|namespace| observed.is_replaced(&namespace.id.subsystem));
    replaced
        .map(move |namespace| Step::ForgetNamespace { id: namespace.id.clone(), allocation: id })
}

/// Detaches all namespaces of an allocation from a host, also partly created ones: the host could write to them.
pub(super) fn cut_off(id: AllocationId, host: &Attached, observed: &Observed) -> Vec<Step> {
    let reached = observed.of_allocation(id).filter(|namespace| namespace.access.contains(host));
    reached.map(|namespace| detach(namespace, host)).collect()
}

/// Creates replacements for namespaces that are gone for good, and records them as replaced once there are enough.
/// Without room for one the allocation stays as it is.
fn succeed(members: &Members<'_>, observed: &Observed) -> Vec<Step> {
    let id = members.allocation.id;
    match members.successors() {
        None => Vec::new(),
        Some(wanted) if wanted.count > 0 => more(members.allocation, wanted, observed)
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

/// Attaches all namespaces before it detaches any, with one exception: a host at a port that a host of the allocation
/// has left was never meant to have access, and loses it first, whatever else fails.
fn grant(ours: &[&Namespace], wanted: &BTreeSet<Access>, observed: &Observed) -> Vec<Step> {
    let has_moved = |host: &Attached| wanted.iter().any(|wanted| wanted.node == host.node);
    let detachments = |namespace| {
        unwanted(namespace, wanted).map(move |host| (has_moved(host), detach(namespace, host)))
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
    // After a reboot a namespace is still attached but has no device: attaching again restores it. File drives have
    // one device for all hosts on the machine, real drives one for the rabbit itself.
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

/// Returns the hosts that have access and should not.
fn unwanted<'a>(
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

fn partial(id: AllocationId, observed: &Observed) -> impl Iterator<Item = Step> {
    observed
        .namespaces
        .iter()
        .filter(move |namespace| namespace.owner == NamespaceOwner::Partial(id))
        .filter(|namespace| !observed.is_replaced(&namespace.id.subsystem))
        .map(move |namespace| Step::DeleteNamespace { id: namespace.id.clone(), allocation: id })
}
