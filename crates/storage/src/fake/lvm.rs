//! LVM in memory: the metadata on the devices, which all nodes share, and the active volumes of each node.
//!
//! Exit codes and refusals are those that LVM 2.03.16 gave in the lab.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::{
    desired::{FileSystemId, NamespaceId, Volume, mapper_name},
    host::{CommandError, StepError},
    observed::{
        Activation, BlockDevice, DeviceName, DeviceNumber, LogicalVolume, LvmReport, LvmState,
        Mapped, Mapping, Membership, PhysicalVolume, Signature, Unfinished, VolumeDevice,
        VolumeGroup, WARRENS,
    },
    step::VolumeAction,
};

/// A logical volume: its group and its own name.
pub(super) type Name = (String, String);

/// What is written on the devices.
#[derive(Debug, Default)]
pub(super) struct OnDevices {
    physical: BTreeMap<NamespaceId, Membership>,
    groups: BTreeMap<String, Group>,
    minors: Vec<Name>,
}

#[derive(Debug, Default)]
struct Group {
    is_warrens: bool,
    is_shared: bool,
    volumes: BTreeMap<String, Logical>,
}

#[derive(Debug)]
struct Logical {
    tags: Vec<String>,
    content: Signature,
}

/// What one node has active.
#[derive(Debug, Default)]
pub(super) struct OnNode {
    pub(super) active: BTreeSet<Name>,
    /// Volumes whose activation was interrupted: mappings without an active table, which have their devices open.
    pub(super) unfinished: BTreeSet<Name>,
    pub(super) lock_spaces: BTreeSet<String>,
}

fn refused(action: VolumeAction, on: &str, stderr: &str) -> StepError {
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
    pub(super) fn report(&self, devices: &[BlockDevice]) -> LvmReport {
        let mut seen = LvmReport::default();
        for device in devices {
            if let Some(member) = self.physical.get(&device.namespace) {
                seen.physical.push(PhysicalVolume {
                    device: device.path.clone(),
                    membership: member.clone(),
                });
            }
        }
        let names: BTreeSet<_> = seen.physical.iter().filter_map(PhysicalVolume::group).collect();
        seen.groups = names.iter().filter_map(|name| self.describe(name, &seen)).collect();
        seen
    }

    fn describe(&self, name: &str, seen: &LvmReport) -> Option<VolumeGroup> {
        let group = self.groups.get(name)?;
        let members =
            self.physical.values().filter(|physical| physical.group() == Some(name)).count();
        let is_in = |physical: &&PhysicalVolume| physical.group() == Some(name);
        let there = seen.physical.iter().filter(is_in).count();
        let volumes = group.volumes.iter().map(|(name, volume)| LogicalVolume {
            name: name.clone(),
            tags: volume.tags.clone(),
            ..LogicalVolume::default()
        });
        Some(VolumeGroup {
            name: name.to_owned(),
            tags: group.is_warrens.then(|| WARRENS.to_owned()).into_iter().collect(),
            is_shared: group.is_shared,
            missing: u32::try_from(members - there).unwrap_or(u32::MAX),
            volumes: volumes.collect(),
        })
    }

    pub(super) fn state(
        &self,
        volume: &Volume,
        devices: &[BlockDevice],
        node: &OnNode,
    ) -> LvmState {
        let wanted = (volume.group.clone(), volume.logical.clone());
        let active = || Mapped {
            path: PathBuf::from("/dev/mapper").join(volume.mapper_name()),
            number: self.number(&wanted),
            foreign_devices: self.foreign_devices(&volume.group, devices),
            unused_parts: Vec::new(),
        };
        let is_active = node.active.contains(&wanted);
        LvmState {
            activation: if is_active {
                Activation::Active(active())
            } else {
                self.unfinished(volume, node)
            },
            siblings_active: node
                .active
                .iter()
                .any(|volume| volume.0 == wanted.0 && *volume != wanted),
            in_lock_space: node.lock_spaces.contains(&volume.group),
            report: None,
            names: None,
        }
    }

    pub(super) fn unfinished(&self, volume: &Volume, node: &OnNode) -> Activation {
        let wanted = (volume.group.clone(), volume.logical.clone());
        let left = node
            .unfinished
            .get(&wanted)
            .map(|left| Unfinished { name: volume.mapper_name(), number: self.number(left) });
        Activation::of_left(left.into_iter().collect())
    }

    /// What a node has active, on those of its namespaces that are reached.
    pub(super) fn mappings(
        &self,
        node: &OnNode,
        is_reached: impl Fn(&NamespaceId) -> bool,
    ) -> Vec<Mapping> {
        let mapping = |name: &Name| Mapping {
            name: mapper_name(&name.0, &name.1),
            number: self.number(name),
            layers: 1,
            on: self
                .members(name)
                .iter()
                .filter(|namespace| is_reached(namespace))
                .map(ToString::to_string)
                .collect(),
        };
        node.active.iter().chain(&node.unfinished).map(mapping).collect()
    }

    fn foreign_devices(&self, group: &str, devices: &[BlockDevice]) -> Vec<String> {
        let is_known = |id: &NamespaceId| devices.iter().any(|device| device.namespace == *id);
        let members =
            self.physical.iter().filter(|(_, membership)| membership.group() == Some(group));
        members.filter(|(id, _)| !is_known(id)).map(|(id, _)| id.to_string()).collect()
    }

    pub(super) fn number(&self, name: &Name) -> DeviceNumber {
        let minor = self.minors.iter().position(|known| known == name).unwrap_or(self.minors.len());
        DeviceNumber { major: 253, minor: u32::try_from(minor).unwrap_or(u32::MAX) }
    }

    pub(super) fn by_path(&self, device: &str, node: &OnNode) -> Option<Name> {
        let path = Path::new(device);
        node.active
            .iter()
            .find(|(group, name)| path == Path::new("/dev/mapper").join(mapper_name(group, name)))
            .cloned()
    }

    pub(super) fn members(&self, name: &Name) -> Vec<NamespaceId> {
        let members =
            self.physical.iter().filter(|(_, membership)| membership.group() == Some(&name.0));
        members.map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn signature(&self, name: &Name) -> Signature {
        self.logical(name).map_or(Signature::Blank, |volume| volume.content.clone())
    }

    pub(super) fn set_signature(&mut self, (group, name): &Name, signature: Signature) {
        let group = self.groups.get_mut(group);
        if let Some(volume) = group.and_then(|group| group.volumes.get_mut(name)) {
            volume.content = signature;
        }
    }

    fn logical(&self, (group, name): &Name) -> Option<&Logical> {
        self.groups.get(group)?.volumes.get(name)
    }

    /// Removes what was on erased namespaces.
    pub(super) fn keep(&mut self, exists: impl Fn(&NamespaceId) -> bool) {
        self.physical.retain(|id, _| exists(id));
        let left: BTreeSet<_> = self.physical.values().filter_map(Membership::group).collect();
        self.groups.retain(|name, _| left.contains(name.as_str()));
    }

    /// Makes the group one of an earlier agent.
    pub(super) fn disown(&mut self, group: &str) {
        if let Some(group) = self.groups.get_mut(group) {
            group.is_warrens = false;
        }
    }

    pub(super) fn take(
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
            VolumeAction::CreateLogical => self.create_logical(&name),
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
            VolumeAction::ExtendGroup
            | VolumeAction::ReduceGroup
            | VolumeAction::Repair
            | VolumeAction::Refresh => {
                return no("RAID is not modelled");
            }
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
        for device in devices {
            self.physical.insert(device.namespace.clone(), Membership::Of(name.to_owned()));
        }
        let is_shared = line.split_whitespace().any(|word| word == "--shared");
        let group = Group { is_warrens: true, is_shared, ..Group::default() };
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

    /// What an interrupted command leaves: marks in labels, which are written before a group's metadata and removed
    /// after it, and mappings, which are created before they get a table.
    pub(super) fn half_take(
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
            _ => {}
        }
    }

    pub(super) fn unmark(&mut self, device: &VolumeDevice) -> Result<(), StepError> {
        let DeviceName::Namespace(id) = &device.name else {
            return Err(super::refused("wipe the label of", &device.name, libc::ESTALE));
        };
        if self.physical.get(id) != Some(&Membership::Marked) {
            return Err(super::refused("wipe the label of", id, libc::ESTALE));
        }
        self.physical.remove(id);
        Ok(())
    }

    fn create_logical(&mut self, name: &Name) {
        if !self.minors.contains(name) {
            self.minors.push(name.clone());
        }
        let volume = Logical { tags: Vec::new(), content: Signature::Blank };
        if let Some(group) = self.groups.get_mut(&name.0) {
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

impl OnDevices {
    /// Half of a mkfs: GFS2's superblock is written last, XFS's is marked.
    pub(super) fn half_make(&mut self, name: &Name, id: FileSystemId, is_xfs: bool) {
        if is_xfs && self.signature(name) == Signature::Blank {
            self.set_signature(name, Signature::HalfMade(id));
        }
    }

    pub(super) fn is_clean(&self) -> bool {
        self.physical.is_empty() && self.groups.is_empty()
    }
}
