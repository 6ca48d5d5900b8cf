//! Simulates LVM. The metadata is on the devices, so all nodes share it; each node has active volumes and lock spaces
//! of its own.
//!
//! Exit codes and refusals are those of LVM 2.03.16, as observed on virtual machines. The repair of a RAID behaves as in
//! the lab's scenarios `raid` and `cuts`.

mod commands;
mod raid;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::{
    desired::{FileSystemId, NamespaceId, Volume, mapper_name},
    observed::{
        Activation, BlockDevice, DeviceNumber, LvmReport, LvmState, Mapped, Mapping, Membership,
        PhysicalVolume, Signature, Unfinished, VolumeGroup, WARRENS,
    },
};

/// The full name of a logical volume: the name of its group, and its own name.
pub(super) type Name = (String, String);

/// LVM's metadata on the devices.
#[derive(Debug, Default)]
pub(super) struct OnDevices {
    physical: BTreeMap<NamespaceId, Membership>,
    groups: BTreeMap<String, Group>,
    minors: Vec<Name>,
}

#[derive(Debug, Default)]
struct Group {
    is_shared: bool,
    /// The group's physical volumes, as its metadata lists them on every member.
    members: BTreeSet<NamespaceId>,
    volumes: BTreeMap<String, Logical>,
}

#[derive(Debug)]
struct Logical {
    tags: Vec<String>,
    content: Signature,
    /// The physical volumes beneath a RAID or a part of a RAID; `None` for a volume that lies on all members.
    parts: Option<BTreeSet<NamespaceId>>,
    /// Whether a RAID still rebuilds a part.
    is_syncing: bool,
}

/// The active volumes and lock spaces of one node.
#[derive(Debug, Default)]
pub(super) struct OnNode {
    pub(super) active: BTreeSet<Name>,
    /// Volumes whose activation was interrupted. Their mappings have no active table, but keep the devices open.
    pub(super) unfinished: BTreeSet<Name>,
    pub(super) lock_spaces: BTreeSet<String>,
}

impl OnDevices {
    pub(super) fn report(&self, devices: &[BlockDevice]) -> LvmReport {
        let mut lvm_report = LvmReport::default();
        for device in devices {
            if let Some(member) = self.physical.get(&device.namespace) {
                lvm_report.physical.push(PhysicalVolume {
                    device: device.path.clone(),
                    membership: member.clone(),
                });
            }
        }
        let names: BTreeSet<_> =
            lvm_report.physical.iter().filter_map(PhysicalVolume::group).collect();
        lvm_report.groups = names.iter().filter_map(|name| self.describe(name, devices)).collect();
        lvm_report
    }

    fn describe(&self, name: &str, devices: &[BlockDevice]) -> Option<VolumeGroup> {
        let group = self.groups.get(name)?;
        let missing = self.missing(name, devices);
        let volumes = group.volumes.iter().map(|(name, volume)| volume.describe(name, &missing));
        Some(VolumeGroup {
            name: name.to_owned(),
            tags: vec![WARRENS.to_owned()],
            is_shared: group.is_shared,
            missing: u32::try_from(missing.len()).unwrap_or(u32::MAX),
            volumes: volumes.collect(),
        })
    }

    pub(super) fn state(
        &self,
        volume: &Volume,
        devices: &[BlockDevice],
        node: &OnNode,
        is_reached: impl Fn(&NamespaceId) -> bool,
    ) -> LvmState {
        let wanted = (volume.group.clone(), volume.logical.clone());
        let active = || Mapped {
            path: PathBuf::from("/dev/mapper").join(volume.mapper_name()),
            number: self.number(&wanted),
            foreign_devices: self.foreign_devices(&wanted, devices, is_reached),
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
        let leftover = node
            .unfinished
            .get(&wanted)
            .map(|name| Unfinished { name: volume.mapper_name(), number: self.number(name) });
        Activation::of_leftovers(leftover.into_iter().collect())
    }

    /// Returns the mappings of a node, each with the namespaces beneath it that the node reaches.
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

    /// Returns the devices beneath a volume that are not among `devices`. The kernel removes the device of a drive that
    /// was pulled also from the list of devices beneath a volume.
    fn foreign_devices(
        &self,
        name: &Name,
        devices: &[BlockDevice],
        is_reached: impl Fn(&NamespaceId) -> bool,
    ) -> Vec<String> {
        let is_known = |id: &NamespaceId| devices.iter().any(|device| device.namespace == *id);
        let beneath = self.members(name).into_iter();
        beneath.filter(|id| !is_known(id) && is_reached(id)).map(|id| id.to_string()).collect()
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

    /// Returns the physical volumes beneath a volume.
    pub(super) fn members(&self, name: &Name) -> BTreeSet<NamespaceId> {
        let Some(group) = self.groups.get(&name.0) else { return BTreeSet::new() };
        let parts = group.volumes.get(&name.1).and_then(|volume| volume.parts.as_ref());
        parts.unwrap_or(&group.members).clone()
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

    /// Removes the metadata on namespaces that were erased.
    pub(super) fn keep(&mut self, exists: impl Fn(&NamespaceId) -> bool) {
        self.physical.retain(|id, _| exists(id));
        let left: BTreeSet<_> = self.physical.values().filter_map(Membership::group).collect();
        self.groups.retain(|name, _| left.contains(name.as_str()));
    }

    /// Applies half of a mkfs. mkfs writes the superblock of GFS2 last; the superblock of XFS is marked as in progress.
    pub(super) fn half_make(&mut self, name: &Name, id: FileSystemId, is_xfs: bool) {
        if is_xfs && self.signature(name) == Signature::Blank {
            self.set_signature(name, Signature::HalfMade(id));
        }
    }

    pub(super) fn is_clean(&self) -> bool {
        self.physical.is_empty() && self.groups.is_empty()
    }
}
