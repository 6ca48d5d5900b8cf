//! A group that lost a device, given another.

use super::Lvm;
use crate::{
    Step,
    observed::{BlockDevice, LogicalVolume, LvmReport, Membership, VolumeGroup},
    step::VolumeAction,
};

impl Lvm<'_> {
    /// Devices that are no members yet take the place of those that are lost: for this volume, and when no other of the group
    /// lacks anything, for the group. Each part is known to be undone by itself, so that whoever is interrupted goes on.
    /// Lines that a profile leaves empty are left out, and without any of them a group that has lost a device stays as it is.
    pub(super) fn repair(&self, report: &LvmReport, group: &VolumeGroup) -> Vec<Step> {
        let lines = self.lines;
        if lines.lv_repair.is_none() {
            return Vec::new();
        }
        let mut steps = self.extend(report);
        let is_member = |device: &BlockDevice| {
            report.on(&device.path).is_some_and(|it| matches!(it.membership, Membership::Of(_)))
        };
        let has_all = !steps.is_empty() || self.state.devices.iter().all(is_member);
        let is_partial = self.logical().is_some_and(LogicalVolume::is_partial);
        if has_all && is_partial {
            steps.extend(self.clear_up());
            let activate = self.on_logical(VolumeAction::Activate, &lines.activate);
            if let Some(activate) = activate.filter(|_| self.seen.active().is_none()) {
                // What an earlier repair left shows once it has a device.
                steps.push(activate);
                return self.inside(steps);
            }
            steps.extend(self.on_logical(VolumeAction::Repair, &lines.lv_repair));
        }
        let others = group.volumes.iter().filter(|it| it.name != self.volume.logical);
        if has_all && !others.into_iter().any(LogicalVolume::is_partial) {
            steps.extend(self.on_group(VolumeAction::ReduceGroup, &lines.vg_reduce));
        }
        self.inside(steps)
    }

    /// The same in the group's lock space.
    fn inside(&self, steps: Vec<Step>) -> Vec<Step> {
        let joining = (!steps.is_empty()).then(|| self.join()).flatten();
        joining.into_iter().chain(steps).collect()
    }

    /// The steps that make members of those devices that are none yet.
    fn extend(&self, report: &LvmReport) -> Vec<Step> {
        let mut steps = Vec::new();
        for device in &self.state.devices {
            if report.on(&device.path).is_some_and(|it| it.group().is_some()) {
                continue;
            }
            steps.extend(self.make_physical(report, device));
            let line = &self.lines.vg_extend;
            steps.extend(self.on_device(VolumeAction::ExtendGroup, line, device));
        }
        steps
    }
}
