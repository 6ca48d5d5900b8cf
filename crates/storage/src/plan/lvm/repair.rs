//! Plans the repair of a group that lost a device: another device takes the place of the lost one.

use super::Lvm;
use crate::{
    Step,
    observed::{BlockDevice, LogicalVolume, LvmReport, Membership, VolumeGroup},
    step::VolumeAction,
};

impl Lvm<'_> {
    /// Plans the replacement of lost devices by devices that are not members yet. First the lost parts of this volume
    /// are rebuilt on the new devices; once no other volume of the group lacks a part, the group drops the lost
    /// devices. Each step of the repair is planned only if its effect is missing, so that a repair continues after an
    /// interruption. A step whose line the profile leaves empty is skipped; without the line for `lvconvert --repair`,
    /// a group that has lost a device stays as it is.
    pub(super) fn repair(&self, report: &LvmReport, group: &VolumeGroup) -> Vec<Step> {
        let lines = self.lines;
        if lines.lv_repair.is_none() {
            return Vec::new();
        }
        // Resume a suspended volume first: all its users wait until it is resumed.
        if let Some(resuming) = self.resume() {
            return self.after_joining(vec![resuming]);
        }
        let mut steps = self.add_new_devices(report);
        let is_member = |device: &BlockDevice| {
            report
                .on(&device.path)
                .is_some_and(|physical| matches!(physical.membership, Membership::Of(_)))
        };
        let has_all = !steps.is_empty() || self.state.devices.iter().all(is_member);
        let is_partial = self.logical().is_some_and(LogicalVolume::is_partial);
        if has_all && is_partial {
            steps.extend(self.remove_leftover_mappings());
            if let Some(first) = self.step_before_repair() {
                steps.push(first);
                return self.after_joining(steps);
            }
            steps.extend(self.on_logical(VolumeAction::Repair, &lines.lv_repair));
        }
        let own = &self.volume.logical;
        let others = group.volumes.iter().filter(|volume| volume.name != *own);
        let (replaced, others): (Vec<_>, Vec<_>) =
            others.partition(|volume| volume.was_part_of(own));
        steps.extend(replaced.into_iter().map(|volume| self.remove_named(group, volume)));
        if has_all && !others.into_iter().any(LogicalVolume::is_partial) {
            steps.extend(self.on_group(VolumeAction::ReduceGroup, &lines.vg_reduce));
        }
        self.after_joining(steps)
    }

    /// Plans the step that must come before a repair, followed by another observation. The volume must be active,
    /// because the leftovers of an interrupted repair are visible only then. If there are leftovers, the volume's table
    /// must also be refreshed: an interrupted repair may have left a table that uses new parts without data, and LVM
    /// would refuse to repair the volume.
    fn step_before_repair(&self) -> Option<Step> {
        if self.lvm_state.active().is_none() {
            return self.on_logical(VolumeAction::Activate, &self.lines.activate);
        }
        let name = self.volume.to_string();
        let has_leftovers = !self.lvm_state.leftovers().is_empty();
        has_leftovers.then(|| self.step(VolumeAction::Refresh, name.clone(), name))
    }

    /// Returns the steps, preceded by the step that joins the group's lock space.
    fn after_joining(&self, steps: Vec<Step>) -> Vec<Step> {
        let joining = (!steps.is_empty()).then(|| self.join_lock_space()).flatten();
        joining.into_iter().chain(steps).collect()
    }

    /// Plans the steps that add to the group the devices that are not members yet.
    fn add_new_devices(&self, report: &LvmReport) -> Vec<Step> {
        let mut steps = Vec::new();
        for device in &self.state.devices {
            if report.on(&device.path).is_some_and(|physical| physical.group().is_some()) {
                continue;
            }
            steps.extend(self.make_physical(report, device));
            let line = &self.lines.vg_extend;
            steps.extend(self.on_device(VolumeAction::ExtendGroup, line, device));
        }
        steps
    }
}
