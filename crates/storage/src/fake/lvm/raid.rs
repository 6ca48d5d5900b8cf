//! Simulates RAIDs that lose a device, and their repair.

use std::{collections::BTreeSet, path::Path};

use super::{Group, Logical, Name, OnDevices, commands::refused};
use crate::{
    desired::NamespaceId,
    host::StepError,
    observed::{BlockDevice, LogicalVolume, Membership, Percent, Signature},
    step::VolumeAction,
};

impl Group {
    /// Returns the members on which no RAID lies.
    fn unused(&self) -> impl Iterator<Item = &NamespaceId> {
        let is_used = |id: &NamespaceId| {
            self.volumes
                .values()
                .filter_map(|volume| volume.parts.as_ref())
                .any(|on| on.contains(id))
        };
        self.members.iter().filter(move |id| !is_used(id))
    }
}

impl Logical {
    pub(super) fn describe(&self, name: &str, missing: &BTreeSet<NamespaceId>) -> LogicalVolume {
        let is_partial = self
            .parts
            .as_ref()
            .map_or(!missing.is_empty(), |parts| parts.iter().any(|part| missing.contains(part)));
        let is_raid = self.parts.is_some();
        let share = if self.is_syncing { "42.17" } else { "100.00" };
        LogicalVolume {
            name: name.to_owned(),
            tags: self.tags.clone(),
            is_open: false,
            is_raid,
            synced: share.parse::<Percent>().ok().filter(|_| is_raid),
            trouble: is_partial.then(|| "partial".to_owned()),
        }
    }
}

impl OnDevices {
    /// Returns the members that are not among the devices given to LVM, or that a command found missing before.
    pub(super) fn missing(&self, group: &str, devices: &[BlockDevice]) -> BTreeSet<NamespaceId> {
        let stale = Membership::Stale(group.to_owned());
        let is_here = |id: &&NamespaceId| {
            devices.iter().any(|device| device.namespace == **id)
                && self.physical.get(*id) != Some(&stale)
        };
        let members = self.groups.get(group).into_iter().flat_map(|group| &group.members);
        members.filter(|id| !is_here(id)).cloned().collect()
    }

    /// Records in the metadata of a group which members are missing, as every command that writes metadata does. LVM
    /// does not use such a member when it returns.
    fn mark_missing(&mut self, group: &str, missing: &BTreeSet<NamespaceId>) {
        for (id, label) in &mut self.physical {
            if missing.contains(id) {
                *label = Membership::Stale(group.to_owned());
            }
        }
    }

    pub(in crate::fake) fn synchronise(&mut self) {
        let volumes = self.groups.values_mut().flat_map(|group| group.volumes.values_mut());
        volumes.for_each(|volume| volume.is_syncing = false);
    }

    /// Adds the device with the path `on` to its volume's group.
    pub(super) fn extend_group(
        &mut self,
        on: &str,
        (devices, line): (&[BlockDevice], &str),
    ) -> Result<(), StepError> {
        let no = |why| Err(refused(VolumeAction::ExtendGroup, on, why));
        let name = line.split_whitespace().next().unwrap_or_default();
        let Some(device) = devices.iter().find(|device| device.path == Path::new(on)) else {
            return no("is not among --devices");
        };
        let missing = self.missing(name, devices);
        let Some(group) = self.groups.get_mut(name) else { return no("not found") };
        match self.physical.get(&device.namespace) {
            Some(Membership::Free) => {}
            Some(Membership::Marked) => {
                return no("is used by a VG but its metadata is missing");
            }
            Some(Membership::Of(_) | Membership::Stale(_)) => return no("already in a VG"),
            None => return no("Cannot use: device is not a PV"),
        }
        group.members.insert(device.namespace.clone());
        self.physical.insert(device.namespace.clone(), Membership::Of(name.to_owned()));
        self.mark_missing(name, &missing);
        Ok(())
    }

    /// Removes the missing devices from a group.
    pub(super) fn reduce_group(
        &mut self,
        on: &str,
        devices: &[BlockDevice],
    ) -> Result<(), StepError> {
        let no = |why| Err(refused(VolumeAction::ReduceGroup, on, why));
        let missing = self.missing(on, devices);
        let Some(group) = self.groups.get_mut(on) else { return no("not found") };
        let is_needed = |volume: &Logical| volume.describe("", &missing).is_partial();
        if group.volumes.values().any(is_needed) {
            return no("There are still partial LVs in VG");
        }
        group.members.retain(|id| !missing.contains(id));
        self.mark_missing(on, &missing);
        Ok(())
    }

    /// Rebuilds the lost part of a RAID on an unused member of the group.
    pub(super) fn repair(&mut self, name: &Name, devices: &[BlockDevice]) -> Result<(), StepError> {
        self.replace_part(name, devices).map(drop)
    }

    /// Replaces the lost part of a RAID; returns the device of the lost part, if there is one.
    fn replace_part(
        &mut self,
        name: &Name,
        devices: &[BlockDevice],
    ) -> Result<Option<NamespaceId>, StepError> {
        let on = format!("{}/{}", name.0, name.1);
        let no = |why: &str| Err(refused(VolumeAction::Repair, &on, why));
        let missing = self.missing(&name.0, devices);
        let Some(group) = self.groups.get_mut(&name.0) else { return no("not found") };
        let unused = group.unused().find(|id| !missing.contains(id)).cloned();
        let volume = group.volumes.get_mut(&name.1);
        let Some((volume, parts)) = volume.and_then(|volume| {
            let parts = volume.parts.clone()?;
            Some((volume, parts))
        }) else {
            return no("is not RAID");
        };
        let lost: Vec<_> = parts.intersection(&missing).cloned().collect();
        match (&lost[..], unused) {
            ([], _) => Ok(None),
            ([_], _) if volume.is_syncing => no("Unable to replace devices: not in-sync"),
            ([_], None) => no("Insufficient suitable allocatable extents"),
            ([one], Some(unused)) => {
                let kept = parts.into_iter().filter(|part| part != one);
                volume.parts = Some(kept.chain([unused]).collect());
                volume.is_syncing = true;
                self.mark_missing(&name.0, &missing);
                Ok(Some(one.clone()))
            }
            _ => {
                // A RAID 5 that has lost two parts has lost its data.
                volume.content = Signature::Blank;
                no("Unable to replace more than one PV")
            }
        }
    }

    /// Applies the effect of an interrupted `vgextend`, which marks the label before it writes the group's metadata.
    pub(super) fn half_extend(&mut self, on: &str, devices: &[BlockDevice]) {
        let device = devices.iter().find(|device| device.path == Path::new(on));
        let label = device.and_then(|device| self.physical.get_mut(&device.namespace));
        if let Some(label) = label.filter(|label| **label == Membership::Free) {
            *label = Membership::Marked;
        }
    }

    /// Applies the effect of an interrupted `lvconvert --repair`: the replaced part stays as a volume of its own.
    pub(super) fn half_repair(&mut self, name: &Name, devices: &[BlockDevice]) {
        let Ok(Some(lost)) = self.replace_part(name, devices) else { return };
        let part = Logical {
            tags: Vec::new(),
            content: Signature::Blank,
            parts: Some([lost].into()),
            is_syncing: false,
        };
        if let Some(group) = self.groups.get_mut(&name.0) {
            group.volumes.insert(format!("{}_rimage_1_extracted", name.1), part);
        }
    }
}
