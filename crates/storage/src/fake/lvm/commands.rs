//! Simulates the effects and refusals of LVM's commands.

use std::{collections::BTreeSet, path::Path};

use causes::CommandError;

use super::{Group, Logical, Name, OnDevices, OnNode};
use crate::{
    fake::errno,
    host::StepError,
    observed::{BlockDevice, DeviceName, Membership, Signature, VolumeDevice},
    step::VolumeAction,
};

pub(super) fn refused(action: VolumeAction, on: &str, stderr: &str) -> StepError {
    StepError::Command(CommandError::Failed {
        command: format!("{} {on}", action.command()),
        status: "exit status: 5".to_owned(),
        stderr: stderr.to_owned(),
    })
}

fn split(on: &str) -> Name {
    let (group, name) = on.split_once('/').unwrap_or((on, ""));
    (group.to_owned(), name.to_owned())
}

impl OnDevices {
    pub(in crate::fake) fn take(
        &mut self,
        action: VolumeAction,
        on: &str,
        (devices, line): (&[BlockDevice], &str),
        (node, is_mounted): (&mut OnNode, bool),
    ) -> Result<(), StepError> {
        let name = split(on);
        let no = |stderr: &str| Err(refused(action, on, stderr));
        match action {
            VolumeAction::CreatePhysical | VolumeAction::RemovePhysical => {
                return self.physical(action, on, devices);
            }
            VolumeAction::CreateGroup if self.groups.contains_key(on) => {
                return no("already exists");
            }
            VolumeAction::CreateGroup if self.marked(devices).next().is_some() => {
                return no("is used by a VG but its metadata is missing");
            }
            VolumeAction::CreateGroup => self.create_group(on, devices, line),
            VolumeAction::RemoveGroup if !self.groups.contains_key(on) => return no("not found"),
            VolumeAction::RemoveGroup => {
                self.remove_group(on, &Membership::Free);
                node.lock_spaces.remove(on);
            }
            VolumeAction::StartLocks => {
                node.lock_spaces.insert(name.0);
            }
            VolumeAction::StopLocks if node.active.iter().any(|volume| volume.0 == on) => {
                return no("locked by active LV");
            }
            VolumeAction::StopLocks => {
                node.lock_spaces.remove(on);
            }
            VolumeAction::CreateLogical if self.logical(&name).is_some() => {
                return no("already exists");
            }
            VolumeAction::CreateLogical => self.create_logical(&name, line),
            VolumeAction::ExtendGroup => return self.extend_group(on, (devices, line)),
            VolumeAction::ReduceGroup => return self.reduce_group(on, devices),
            _ if self.logical(&name).is_none() => return no("Failed to find logical volume"),
            VolumeAction::RemoveLogical | VolumeAction::Deactivate if is_mounted => {
                return no("contains a filesystem in use");
            }
            VolumeAction::RemoveLogical => {
                node.active.remove(&name);
                node.unfinished.remove(&name);
                self.groups.get_mut(&name.0).map(|group| group.volumes.remove(&name.1));
            }
            VolumeAction::Activate => {
                node.unfinished.remove(&name);
                node.active.insert(name);
            }
            VolumeAction::Deactivate => {
                node.active.remove(&name);
            }
            VolumeAction::Tag => self.tag(&name, line),
            VolumeAction::Refresh => {}
            VolumeAction::Repair if !node.active.contains(&name) => {
                return no("must be active to perform this operation");
            }
            VolumeAction::Repair => return self.repair(&name, devices),
        }
        Ok(())
    }

    fn physical(
        &mut self,
        action: VolumeAction,
        on: &str,
        devices: &[BlockDevice],
    ) -> Result<(), StepError> {
        let Some(device) = devices.iter().find(|device| device.path == Path::new(on)) else {
            return Err(refused(action, on, "is not among --devices"));
        };
        let known = self.physical.get(&device.namespace);
        match (action, known) {
            (_, Some(Membership::Of(group) | Membership::Stale(group))) => {
                return Err(refused(action, on, &format!("in use by VG {group}")));
            }
            (_, Some(Membership::Marked)) => {
                return Err(refused(action, on, "is used by a VG but its metadata is missing"));
            }
            (VolumeAction::CreatePhysical, _) => {
                self.physical.insert(device.namespace.clone(), Membership::Free);
            }
            (_, None) => return Err(refused(action, on, "No PV found on device")),
            (_, Some(Membership::Free)) => {
                self.physical.remove(&device.namespace);
            }
        }
        Ok(())
    }

    fn create_group(&mut self, name: &str, devices: &[BlockDevice], line: &str) {
        let members: BTreeSet<_> = devices.iter().map(|device| device.namespace.clone()).collect();
        for id in &members {
            self.physical.insert(id.clone(), Membership::Of(name.to_owned()));
        }
        let is_shared = line.split_whitespace().any(|word| word == "--shared");
        let group = Group { is_shared, members, ..Group::default() };
        self.groups.insert(name.to_owned(), group);
    }

    fn remove_group(&mut self, name: &str, leaves: &Membership) {
        self.groups.remove(name);
        let members = self.physical.values_mut().filter(|physical| physical.group() == Some(name));
        members.for_each(|membership| *membership = leaves.clone());
    }

    fn marked<'a>(
        &'a self,
        devices: &'a [BlockDevice],
    ) -> impl Iterator<Item = &'a BlockDevice> + 'a {
        devices
            .iter()
            .filter(|device| self.physical.get(&device.namespace) == Some(&Membership::Marked))
    }

    /// Applies the effect of an interrupted command. A command that changes a group leaves devices whose labels are
    /// marked as used by a group, because it sets the marks before it writes the group's metadata, and removes them
    /// only after it removed the metadata. A command that changes mappings leaves mappings without tables, because it
    /// creates the mappings before it loads their tables.
    pub(in crate::fake) fn half_take(
        &mut self,
        action: VolumeAction,
        on: &str,
        devices: &[BlockDevice],
        node: &mut OnNode,
    ) {
        let name = split(on);
        match action {
            VolumeAction::Activate
                if self.logical(&name).is_some() && !node.active.contains(&name) =>
            {
                node.unfinished.insert(name);
            }
            VolumeAction::CreateGroup if !self.groups.contains_key(on) => {
                for device in devices {
                    self.physical.insert(device.namespace.clone(), Membership::Marked);
                }
            }
            VolumeAction::RemoveGroup => self.remove_group(on, &Membership::Marked),
            VolumeAction::ExtendGroup => self.half_extend(on, devices),
            VolumeAction::Repair if node.active.contains(&name) => self.half_repair(&name, devices),
            _ => {}
        }
    }

    pub(in crate::fake) fn unmark(&mut self, device: &VolumeDevice) -> Result<(), StepError> {
        let DeviceName::Namespace(id) = &device.name else {
            return Err(crate::fake::refused("wipe the label of", &device.name, errno::ESTALE));
        };
        if self.physical.get(id) != Some(&Membership::Marked) {
            return Err(crate::fake::refused("wipe the label of", id, errno::ESTALE));
        }
        self.physical.remove(id);
        Ok(())
    }

    /// Creates a volume on all members of its group; a RAID if the line asks for one.
    fn create_logical(&mut self, name: &Name, line: &str) {
        if !self.minors.contains(name) {
            self.minors.push(name.clone());
        }
        if let Some(group) = self.groups.get_mut(&name.0) {
            let is_raid = line.contains("--type raid");
            let volume = Logical {
                tags: Vec::new(),
                content: Signature::Blank,
                parts: is_raid.then(|| group.members.clone()),
                is_syncing: false,
            };
            group.volumes.insert(name.1.clone(), volume);
        }
    }

    fn tag(&mut self, (group, name): &Name, line: &str) {
        let tag = line.split_whitespace().nth(1).unwrap_or_default();
        let group = self.groups.get_mut(group);
        if let Some(volume) = group.and_then(|group| group.volumes.get_mut(name)) {
            volume.tags.push(tag.to_owned());
        }
    }
}
