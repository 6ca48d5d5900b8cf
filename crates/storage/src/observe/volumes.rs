//! Observes all volume groups on the rabbit's namespaces, and the leftovers of groups that no longer exist.

use std::path::PathBuf;

use super::Observer;
use crate::{
    Observed,
    desired::{AllocationId, Endpoint},
    host::ObserveError,
    observed::{BlockDevice, LvmReport, Membership, Namespace, OwnGroup, VolumeGroup},
};

/// Observes the volume groups. LVM reads only the namespaces of allocations on drives without a fault, and no other
/// device of the node.
pub(super) fn volumes(observer: &impl Observer) -> Result<Observed, ObserveError> {
    let mut observed = observer.inventory()?;
    let mut devices = Vec::new();
    for namespace in &observed.namespaces {
        let allocation = namespace.owner.allocation();
        if allocation.is_some() && fault(namespace, &observed).is_none() {
            devices.extend(observer.device(&namespace.id, allocation)?);
        }
    }
    // Without a device list, LVM would read every disk of the node.
    let report = if devices.is_empty() { LvmReport::default() } else { observer.lvm(&devices)? };
    let context = GroupContext { report: &report, devices: &devices, observed: &observed };
    observed.groups = report.groups.iter().map(|group| context.describe(group)).collect();
    observed.mappings = observer.mappings()?;
    observed.lock_spaces = observer.lock_spaces()?;
    Ok(observed)
}

fn fault<'a>(namespace: &Namespace, observed: &'a Observed) -> Option<&'a str> {
    let drive = observed.drives.iter().find(|drive| drive.nqn == namespace.id.subsystem);
    drive.map_or(Some("its drive is missing"), |drive| drive.fault.as_deref())
}

/// The facts from which a group is described.
struct GroupContext<'a> {
    report: &'a LvmReport,
    devices: &'a [BlockDevice],
    observed: &'a Observed,
}

/// The relation of a namespace to the volume group of its allocation.
enum Standing {
    /// The namespace is a member that LVM uses.
    Used,
    /// The namespace is not attached to this node.
    Unattached,
    /// The namespace should be a member and is not; the text says why.
    Lost(String),
}

impl GroupContext<'_> {
    fn describe(&self, group: &VolumeGroup) -> OwnGroup {
        let members =
            self.report.physical.iter().filter(|physical| physical.group() == Some(&group.name));
        let devices: Vec<_> = members.map(|physical| physical.device.clone()).collect();
        let allocation = self.allocation(&devices);
        let (mut unattached, mut lost) = (Vec::new(), Vec::new());
        let same = |namespace: &&Namespace| {
            allocation.is_some() && namespace.owner.allocation() == allocation
        };
        for namespace in self.observed.namespaces.iter().filter(same) {
            match self.standing(namespace, group) {
                Standing::Used => {}
                Standing::Unattached => unattached.push(namespace.id.clone()),
                Standing::Lost(why) => lost.push((namespace.id.clone(), why)),
            }
        }
        OwnGroup { group: group.clone(), allocation, devices, unattached, lost }
    }

    /// Returns the allocation of the namespaces beneath these devices, if all of them belong to the same allocation.
    fn allocation(&self, on: &[PathBuf]) -> Option<AllocationId> {
        let under = |namespace: &&Namespace| {
            self.device(namespace).is_some_and(|device| on.contains(&device.path))
        };
        let mut owners: Vec<_> = self
            .observed
            .namespaces
            .iter()
            .filter(under)
            .map(|namespace| namespace.owner.allocation())
            .collect();
        owners.dedup();
        match owners[..] {
            [only] => only,
            _ => None,
        }
    }

    /// Returns the standing of a namespace. A namespace that LVM does not use counts as unattached if it must
    /// still be zeroed, or is neither attached to the rabbit nor a block device here; otherwise it counts as lost.
    fn standing(&self, namespace: &Namespace, group: &VolumeGroup) -> Standing {
        if let Some(why) = fault(namespace, self.observed) {
            return Standing::Lost(why.to_owned());
        }
        if namespace.needs_zeroing {
            return Standing::Unattached;
        }
        let Some(device) = self.device(namespace) else {
            let rabbit = Some(Endpoint::Rabbit);
            let is_attached = namespace.access.iter().any(|host| host.endpoint == rabbit);
            let why = || "it is attached to this rabbit, but has no block device here".to_owned();
            return if is_attached { Standing::Lost(why()) } else { Standing::Unattached };
        };
        let path = device.path.display();
        match self.report.on(&device.path).map(|physical| &physical.membership) {
            Some(Membership::Of(name)) if *name == group.name => Standing::Used,
            Some(Membership::Stale(name)) if *name == group.name => Standing::Lost(format!(
                "the group continued without {path}, and LVM does not use it until an admin restores it (vgextend --restoremissing)"
            )),
            _ => Standing::Lost(format!("LVM finds no member on {path}")),
        }
    }

    fn device(&self, namespace: &Namespace) -> Option<&BlockDevice> {
        self.devices.iter().find(|device| device.namespace == namespace.id)
    }
}

#[cfg(test)]
mod tests;
