//! Plans the creation of a volume: physical volumes, the group, the volume itself.

use super::{Lvm, Rejection};
use crate::{
    Step,
    desired::FileSystemId,
    observed::{BlockDevice, LogicalVolume, LvmReport, PhysicalVolume, VolumeGroup},
    step::VolumeAction,
};

impl Lvm<'_> {
    /// Plans the steps that create the volume, or complete it; none when the volume is complete.
    pub(in crate::plan) fn build(&self) -> Result<Vec<Step>, Rejection> {
        let Some(report) = self.report() else { return Ok(Vec::new()) };
        self.check_no_foreign_group(report)?;
        match self.group() {
            None => {
                self.check_all_devices()?;
                Ok(self.make_group(report))
            }
            Some(group) if group.missing > 0 && self.state.missing.is_empty() => {
                let repairing = self.repair(report, group);
                Ok(if repairing.is_empty() { self.make_logical(group) } else { repairing })
            }
            Some(group) if self.lacks_its_locks(group) => Ok(self.make_group_anew(report)),
            Some(group) => Ok(self.make_logical(group)),
        }
    }

    /// Returns whether a group that should be shared is local. `vgcreate` writes a shared group as a local group first
    /// (lvm2, tools/vgcreate.c). If `vgcreate` was interrupted before it made the group shared, no lock keeps two nodes
    /// from using the group at the same time. The group is still empty then, and can be made anew.
    fn lacks_its_locks(&self, group: &VolumeGroup) -> bool {
        let line = self.lines.vg_create.as_ref().map(|line| line.expand(&self.variables()));
        let is_to_be_shared = line.is_some_and(|line| asks_for_locks(&line));
        is_to_be_shared && !group.is_shared && group.is_warrens() && group.volumes.is_empty()
    }

    fn make_group_anew(&self, report: &LvmReport) -> Vec<Step> {
        let line = self.volume.group.clone();
        let removing = self.step(VolumeAction::RemoveGroup, line.clone(), line);
        [removing].into_iter().chain(self.make_group(report)).collect()
    }

    fn make_group(&self, report: &LvmReport) -> Vec<Step> {
        let mut steps: Vec<_> = self
            .state
            .devices
            .iter()
            .flat_map(|device| self.make_physical(report, device))
            .collect();
        steps.extend(self.on_group(VolumeAction::CreateGroup, &self.lines.vg_create));
        steps.extend(self.on_group(VolumeAction::StartLocks, &self.lines.lock_start));
        steps.extend(self.on_logical(VolumeAction::CreateLogical, &self.lines.lv_create));
        steps
    }

    /// Plans the creation of a physical volume. If the device's label is marked as used by a group that does not exist,
    /// plans to wipe the label first. Without this, LVM would need `--force`, an option that would also take a member
    /// away from another group.
    pub(super) fn make_physical(&self, report: &LvmReport, device: &BlockDevice) -> Vec<Step> {
        let physical = report.on(&device.path);
        let is_marked = physical.is_some_and(PhysicalVolume::is_marked);
        let unmark = is_marked.then(|| Step::UnmarkPhysical { device: device.into() });
        let make = (is_marked || physical.is_none())
            .then(|| self.on_device(VolumeAction::CreatePhysical, &self.lines.pv_create, device));
        unmark.into_iter().chain(make.flatten()).collect()
    }

    fn make_logical(&self, group: &VolumeGroup) -> Vec<Step> {
        let unmaking = self.remove_unfinished_raid(group);
        if group.volume(&self.volume.logical).is_some() && unmaking.is_empty() {
            return Vec::new();
        }
        let making = self.on_logical(VolumeAction::CreateLogical, &self.lines.lv_create);
        let joining = making.is_some().then(|| self.join_lock_space()).flatten();
        self.remove_leftover_mappings()
            .into_iter()
            .chain(joining)
            .chain(unmaking)
            .chain(making)
            .collect()
    }

    /// Plans the removal of a RAID whose `lvcreate` was interrupted: such a RAID never becomes active, and LVM does not
    /// report the interruption. No file system was ever made on it, so it can be created again.
    fn remove_unfinished_raid(&self, group: &VolumeGroup) -> Vec<Step> {
        let parts: Vec<_> = group.parts_of(&self.volume.logical).collect();
        let raid = group.volume(&self.volume.logical);
        let is_noted = raid.is_some_and(LogicalVolume::is_noted);
        if parts.is_empty() || is_noted || !group.is_warrens() {
            return Vec::new();
        }
        // Removing the volume removes its parts.
        let to_remove = raid.map_or(parts, |volume| vec![volume]);
        to_remove.into_iter().map(|volume| self.remove_named(group, volume)).collect()
    }

    pub(super) fn remove_named(&self, group: &VolumeGroup, volume: &LogicalVolume) -> Step {
        let name = format!("{}/{}", group.name, volume.name);
        self.step(VolumeAction::RemoveLogical, name.clone(), name)
    }

    /// Plans the tag on the volume that says that mkfs completed the file system.
    pub(in crate::plan) fn tag_complete(&self, id: FileSystemId) -> Option<Step> {
        let missing = self.logical().is_some_and(|logical| !logical.has_made(id));
        let line = format!("--addtag {} {}", LogicalVolume::tag_of(id), self.volume);
        missing.then(|| self.step(VolumeAction::Tag, self.volume.to_string(), line))
    }
}

fn asks_for_locks(line: &str) -> bool {
    line.split_whitespace().any(|word| word == "--shared" || word.starts_with("--locktype"))
}
