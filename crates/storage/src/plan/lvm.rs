//! Plans the creation, activation, deactivation, repair and removal of logical volumes.
//!
//! A group belongs to the volume when it has the group name of the volume and lies on the volume's namespaces; LVM
//! reads only these devices. If the group has Warren's tag, Warren made it; otherwise the site's earlier agent did.

mod activate;
mod lines;
mod make;
mod remove;
mod repair;

use super::Rejection;
use crate::{
    desired::{FileSystemId, LvmLines, Volume},
    observed::{
        DeviceNumber, LogicalVolume, LvmReport, LvmState, Mapped, MountedThing, VolumeDevice,
        VolumeGroup, VolumeState,
    },
};

/// A volume, the site's lines for it, and its observed state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lvm<'a> {
    volume: &'a Volume,
    lines: &'a LvmLines,
    state: &'a VolumeState,
    lvm_state: &'a LvmState,
}

impl<'a> Lvm<'a> {
    /// Returns `None` if the volume does not use LVM.
    pub(super) fn new(volume: &'a Volume, state: Option<&'a VolumeState>) -> Option<Self> {
        let (lines, state) = (volume.layer.lines()?, state?);
        Some(Self { volume, lines, state, lvm_state: state.lvm.as_ref()? })
    }

    /// Returns the volume's device, when it is active on this node. Rejects a mapping that lies on other devices
    /// than the volume's namespaces.
    pub(super) fn device(&self) -> Result<Option<VolumeDevice>, Rejection> {
        let Some(active) = self.lvm_state.active() else { return Ok(None) };
        if !active.foreign_devices.is_empty() {
            return Err(Rejection::ForeignMapping {
                volume: self.volume.to_string(),
                devices: active.foreign_devices.clone(),
            });
        }
        Ok(Some(active.device(self.volume)))
    }

    /// Returns the device that the volume will have once it is active: its path is known in advance, its number is not.
    pub(super) fn device_to_be(&self) -> VolumeDevice {
        let number = DeviceNumber { major: 0, minor: 0 };
        let path = mapper_path(self.volume);
        Mapped { path, number, foreign_devices: Vec::new(), unused_parts: Vec::new() }
            .device(self.volume)
    }

    /// Returns whether another agent made the group: its file systems then have UUIDs that Warren did not derive.
    pub(super) fn is_adopted(&self) -> bool {
        self.group().is_some_and(|group| !group.is_warrens())
    }

    /// Returns whether the volume's tag says that its file system is complete.
    pub(super) fn has_made(&self, id: FileSystemId) -> bool {
        self.logical().is_some_and(|logical| logical.has_made(id))
    }

    /// Returns whether the volume is a RAID. A RAID must be active once before it counts as ready, because it
    /// synchronises only while it is active.
    pub(super) fn is_raid(&self) -> bool {
        self.logical().is_some_and(|logical| logical.is_raid)
    }

    /// Returns whether no volume exists and the site has no line to create one. The file system then does not wait for
    /// a volume.
    pub(super) fn is_without_volume(&self) -> bool {
        self.logical().is_none() && self.lines.lv_create.is_none()
    }

    /// Returns whether the group lacks a device, or a device of the group cannot be reached.
    pub(super) fn has_lost_a_device(&self) -> bool {
        !self.state.missing.is_empty() || self.group().is_some_and(|group| group.missing > 0)
    }

    /// Rejects a RAID that is still being synchronised.
    pub(super) fn check_synchronised(&self) -> Result<(), Rejection> {
        match self.logical() {
            Some(logical) if logical.is_syncing() => Err(Rejection::Syncing {
                volume: self.volume.to_string(),
                percent: logical.synced.unwrap_or_default(),
            }),
            _ => Ok(()),
        }
    }

    /// Rejects a volume on which the rabbit has not made this file system yet. A group of an earlier agent is not
    /// rejected for this reason, because it has no tag that records its file system.
    pub(super) fn check_finished(&self, id: FileSystemId) -> Result<(), Rejection> {
        match self.report() {
            Some(_) if self.logical().is_none() => {
                Err(Rejection::NoVolume { volume: self.volume.to_string() })
            }
            Some(_) if !self.is_adopted() && !self.has_made(id) => {
                Err(Rejection::NotMade { device: mapper_path(self.volume), wanted: id })
            }
            _ => Ok(()),
        }
    }

    /// Rejects a volume that another program has mounted or open: that use must end first.
    pub(super) fn check_unused(&self, temporary: Option<&MountedThing>) -> Result<(), Rejection> {
        let is_open = self.logical().is_some_and(|logical| logical.is_open);
        let busy = self.lvm_state.active().is_some_and(|active| {
            is_open && temporary.is_none_or(|existing| existing.device != active.number)
        });
        let volume = || self.volume.to_string();
        if busy { Err(Rejection::StillMounted { volume: volume() }) } else { Ok(()) }
    }

    fn report(&self) -> Option<&'a LvmReport> {
        self.lvm_state.report.as_ref()
    }

    fn group(&self) -> Option<&'a VolumeGroup> {
        self.report()?.group(&self.volume.group)
    }

    fn logical(&self) -> Option<&'a LogicalVolume> {
        self.group()?.volume(&self.volume.logical)
    }

    fn check_all_devices(&self) -> Result<(), Rejection> {
        if self.state.missing.is_empty() && !self.state.devices.is_empty() {
            return Ok(());
        }
        let missing = self.state.missing.clone();
        Err(Rejection::NoDevice { volume: format!("volume {}", self.volume), missing })
    }

    fn check_no_foreign_group(&self, report: &LvmReport) -> Result<(), Rejection> {
        let foreign = report.physical.iter().find_map(|physical| {
            let group = physical.group().filter(|group| *group != self.volume.group)?;
            Some((physical.device.clone(), group.to_owned()))
        });
        foreign.map_or(Ok(()), |(device, group)| {
            Err(Rejection::ForeignGroup { device, group, wanted: self.volume.group.clone() })
        })
    }
}

fn mapper_path(volume: &Volume) -> std::path::PathBuf {
    std::path::Path::new("/dev/mapper").join(volume.mapper_name())
}
