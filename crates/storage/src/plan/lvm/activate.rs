//! Activates a volume on this node, and deactivates it.

use super::{Lvm, Rejection};
use crate::{
    Step,
    observed::{Activation, DeviceNumber, Mapped, Unfinished},
    step::VolumeAction,
};

impl Lvm<'_> {
    /// The steps that activate it here. The caller has checked that it is the right one.
    pub(in crate::plan) fn activate(&self) -> Result<Vec<Step>, Rejection> {
        let volume = || self.volume.to_string();
        self.all_devices()?;
        if let Some(report) = self.report() {
            self.is_in_no_foreign_group(report)?;
        }
        if self.logical().is_none() {
            return Err(Rejection::NoVolume { volume: volume() });
        }
        let Some(step) = self.on_logical(VolumeAction::Activate, &self.lines.activate) else {
            return Err(Rejection::NoActivation { volume: volume() });
        };
        Ok(self.clear_up().into_iter().chain(self.join()).chain([step]).collect())
    }

    /// Removes what an interrupted command left while it activated, deactivated or repaired the volume. LVM itself
    /// continues with a suspended mapping when it activates the volume.
    pub(super) fn clear_up(&self) -> Vec<Step> {
        let removing = |left: &Unfinished| Step::RemoveMapping {
            name: left.name.clone(),
            number: left.number,
        };
        self.seen.left().iter().map(removing).collect()
    }

    /// Whether it is suspended, so that it must be activated before it can be deactivated.
    pub(super) fn is_suspended(&self) -> bool {
        matches!(self.seen.activation, Activation::Suspended(_))
    }

    /// The step that resumes it: until then every user waits, an unmount too.
    pub(in crate::plan) fn resume(&self) -> Option<Step> {
        let activate = || self.on_logical(VolumeAction::Activate, &self.lines.activate);
        self.is_suspended().then(activate).flatten()
    }

    /// Whether `number` is its device, and suspended.
    pub(in crate::plan) fn is_suspended_at(&self, number: DeviceNumber) -> bool {
        self.seen.activation == Activation::Suspended(number)
    }

    /// The steps that remove all leftovers of it from this node.
    pub(in crate::plan) fn clean_up(&self) -> Vec<Step> {
        self.resume().map_or_else(|| self.clear_up(), |step| vec![step])
    }

    /// The step that joins the group's lock space, when there is one and this node is outside.
    pub(super) fn join(&self) -> Option<Step> {
        let outside = !self.seen.in_lock_space;
        outside.then(|| self.on_group(VolumeAction::StartLocks, &self.lines.lock_start)).flatten()
    }

    /// Deactivates it, unless something on this node has it open.
    pub(in crate::plan) fn deactivate_if_idle(&self) -> Option<Step> {
        let is_open = self.logical().is_some_and(|logical| logical.is_open);
        let idle = self.seen.active().is_some() && !is_open;
        idle.then(|| self.on_logical(VolumeAction::Deactivate, &self.lines.deactivate)).flatten()
    }

    /// Deactivates it, and leaves the lock space with the last volume.
    pub(in crate::plan) fn deactivate_and_stop_locks(&self) -> Vec<Step> {
        let mut steps = self.clean_up();
        if self.is_suspended() {
            return steps;
        }
        let is_there = self.group().is_some();
        if let Some(active) = self.seen.active() {
            steps.extend(self.deactivate(active));
        }
        if is_there
            && self.lines.leaves_lock_space
            && self.seen.in_lock_space
            && !self.seen.siblings_active
        {
            steps.extend(self.on_group(VolumeAction::StopLocks, &self.lines.lock_stop));
        }
        steps
    }

    /// LVM finds a volume by its metadata on the namespaces; when those are gone, only device-mapper has it and the
    /// mapping itself is removed. A mapping that still lies on any device is left alone: its namespaces were not
    /// identified, or have other names than we know.
    pub(super) fn deactivate(&self, active: &Mapped) -> Option<Step> {
        if self.group().is_some() {
            return self.on_logical(VolumeAction::Deactivate, &self.lines.deactivate);
        }
        let is_gone = active.foreign_devices.is_empty() && self.state.devices.is_empty();
        let name = self.volume.mapper_name();
        (is_gone && self.report().is_some())
            .then_some(Step::RemoveMapping { name, number: active.number })
    }
}
