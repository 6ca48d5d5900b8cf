//! Plans the removal of a volume, and of its group with the last volume.

use super::{Lvm, Rejection};
use crate::{
    Step,
    observed::{BlockDevice, VolumeGroup},
    step::VolumeAction,
};

impl Lvm<'_> {
    /// Plans the removal of the volume, and of the group if this is its last volume. Leaves the metadata of a group
    /// that lost a device, and the rest of an interrupted `vgremove`: LVM would remove them only with `--force`, and
    /// the erasure of the namespaces removes them later.
    pub(in crate::plan) fn remove(&self) -> Result<Vec<Step>, Rejection> {
        let Some(report) = self.report() else { return Ok(Vec::new()) };
        self.check_no_foreign_group(report)?;
        let mut steps = self.resume_or_remove_leftovers();
        if self.is_suspended() {
            return Ok(steps);
        }
        let group = self.group();
        let is_whole = group.is_some_and(|group| group.missing == 0);
        steps.extend(is_whole.then(|| self.join_lock_space()).flatten());
        if let Some(active) = self.lvm_state.active() {
            steps.extend(self.deactivate(active));
        }
        if let Some(group) = group.filter(|_| is_whole) {
            steps.extend(self.remove_volume(group));
            let own = &self.volume.logical;
            if group.volumes.iter().any(|volume| volume.name != *own && !volume.is_part_of(own)) {
                return Ok(steps);
            }
            steps.extend(self.on_group(VolumeAction::RemoveGroup, &self.lines.vg_remove));
        }
        if group.is_none() || is_whole {
            let is_to_go = |device: &&BlockDevice| {
                report.on(&device.path).is_some_and(|physical| !physical.is_marked())
            };
            let physical = self.state.devices.iter().filter(is_to_go);
            let line = &self.lines.pv_remove;
            steps.extend(
                physical.filter_map(|device| {
                    self.on_device(VolumeAction::RemovePhysical, line, device)
                }),
            );
        }
        Ok(steps)
    }

    fn remove_volume(&self, group: &VolumeGroup) -> Option<Step> {
        group.volume(&self.volume.logical)?;
        self.on_logical(VolumeAction::RemoveLogical, &self.lines.lv_remove)
    }
}
