//! A look at all volume groups on the rabbit's namespaces, and at what remains of others.

use super::Eyes;
use crate::{
    Observed,
    desired::AllocationId,
    host::ObserveError,
    observed::{BlockDevice, LvmReport, Namespace, NamespaceOwner, OwnGroup, VolumeGroup},
};

/// LVM is shown the namespaces that are ours on drives that answer, and nothing else of the node.
pub(super) fn volumes(eyes: &impl Eyes) -> Result<Observed, ObserveError> {
    let mut observed = eyes.inventory()?;
    let mut devices = Vec::new();
    for namespace in &observed.namespaces {
        if of_ours(namespace).is_some() && fault(namespace, &observed).is_none() {
            devices.extend(eyes.device(&namespace.id)?);
        }
    }
    // LVM without a list would look at every disk of the node.
    let report = if devices.is_empty() { LvmReport::default() } else { eyes.lvm(&devices)? };
    let groups = report.groups.iter();
    observed.groups = groups.map(|it| describe(it, &report, &devices, &observed)).collect();
    observed.mappings = eyes.mappings()?;
    observed.lock_spaces = eyes.lock_spaces()?;
    Ok(observed)
}

fn of_ours(namespace: &Namespace) -> Option<AllocationId> {
    match namespace.owner {
        NamespaceOwner::Ours(id) | NamespaceOwner::Partial(id) | NamespaceOwner::Replaced(id) => {
            Some(id)
        }
        NamespaceOwner::Unknown | NamespaceOwner::Foreign(_) => None,
    }
}

fn fault<'a>(namespace: &Namespace, observed: &'a Observed) -> Option<&'a str> {
    let drive = observed.drives.iter().find(|it| it.nqn == namespace.id.subsystem);
    drive.map_or(Some("its drive is not there"), |it| it.fault.as_deref())
}

fn describe(
    group: &VolumeGroup,
    report: &LvmReport,
    devices: &[BlockDevice],
    observed: &Observed,
) -> OwnGroup {
    let members = report.physical.iter().filter(|it| it.group() == Some(&group.name));
    let on: Vec<_> = members.map(|it| it.device.clone()).collect();
    let under = |namespace: &&Namespace| {
        devices.iter().any(|it| it.namespace == namespace.id && on.contains(&it.path))
    };
    let mut owners: Vec<_> = observed.namespaces.iter().filter(under).map(of_ours).collect();
    owners.dedup();
    let allocation = match owners[..] {
        [only] => only,
        _ => None,
    };
    let (mut unattached, mut lost) = (Vec::new(), Vec::new());
    let same = |it: &&Namespace| allocation.is_some() && of_ours(it) == allocation;
    for namespace in observed.namespaces.iter().filter(same).filter(|it| !under(it)) {
        match fault(namespace, observed) {
            Some(why) => lost.push((namespace.id.clone(), why.to_owned())),
            None => unattached.push(namespace.id.clone()),
        }
    }
    OwnGroup { group: group.clone(), allocation, devices: on, unattached, lost }
}
