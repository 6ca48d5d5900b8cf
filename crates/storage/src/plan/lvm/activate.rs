//! Activates a volume on this node, and deactivates it.

use super::{Lvm, Rejection};
use crate::{
    Step,
    observed::{Activation, DeviceNumber, Mapped, Unfinished},
    step::VolumeAction,
};

impl Lvm<'_> {
    /// Plans the steps that activate the volume on this node. The caller has checked that this is the right volume.
    pub(in crate::plan) fn activate(&self) -> Result<Vec<Step>, Rejection> {
        let volume = || self.volume.to_string();
        self.check_all_devices()?;
        if let Some(report) = self.report() {
            self.check_no_foreign_group(report)?;
        }
        if self.logical().is_none() {
            return Err(Rejection::NoVolume { volume: volume() });
        }
        let Some(step) = self.on_logical(VolumeAction::Activate, &self.lines.activate) else {
            return Err(Rejection::NoActivation { volume: volume() });
        };
        Ok(self
            .remove_leftover_mappings()
            .into_iter()
            .chain(self.join_lock_space())
            .chain([step])
            .collect())
    }

    /// Returns whether the site has no line to activate a volume, and none exists: then this node only joins the lock
    /// space of the group.
    pub(in crate::plan) fn is_only_a_group(&self) -> bool {
        self.lines.activate.is_none() && self.logical().is_none()
    }

    /// Plans the step with which this node joins the lock space of a group without volumes.
    pub(in crate::plan) fn join_group(&self) -> Result<Vec<Step>, Rejection> {
        self.check_all_devices()?;
        if let Some(report) = self.report() {
            self.check_no_foreign_group(report)?;
        }
        if self.group().is_none() {
            return Err(Rejection::NoVolume { volume: self.volume.group.clone() });
        }
        Ok(self.join_lock_space().into_iter().collect())
    }

    /// Plans the removal of mappings that a command left because it was interrupted while it activated, deactivated or
    /// repaired the volume. A suspended mapping of the volume stays, because LVM resumes it when it activates the
    /// volume.
    pub(super) fn remove_leftover_mappings(&self) -> Vec<Step> {
        let removing = |mapping: &Unfinished| Step::RemoveMapping {
            name: mapping.name.clone(),
            number: mapping.number,
        };
        self.lvm_state.leftovers().iter().map(removing).collect()
    }

    /// Returns whether the volume's mapping is suspended: the volume must then be activated before
    /// it can be deactivated.
    pub(super) fn is_suspended(&self) -> bool {
        matches!(self.lvm_state.activation, Activation::Suspended(_))
    }

    /// Plans the step that resumes a suspended volume. Until this step every use of the volume waits, even an unmount.
    pub(in crate::plan) fn resume(&self) -> Option<Step> {
        let activate = || self.on_logical(VolumeAction::Activate, &self.lines.activate);
        self.is_suspended().then(activate).flatten()
    }

    /// Returns whether `number` is the number of the volume's device and the device is suspended.
    pub(in crate::plan) fn is_suspended_at(&self, number: DeviceNumber) -> bool {
        self.lvm_state.activation == Activation::Suspended(number)
    }

    /// Plans the steps that remove all leftovers of the volume from this node.
    pub(in crate::plan) fn resume_or_remove_leftovers(&self) -> Vec<Step> {
        self.resume().map_or_else(|| self.remove_leftover_mappings(), |step| vec![step])
    }

    /// Plans the step with which this node joins the group's lock space, unless it has joined already.
    pub(super) fn join_lock_space(&self) -> Option<Step> {
        let outside = !self.lvm_state.in_lock_space;
        outside.then(|| self.on_group(VolumeAction::StartLocks, &self.lines.lock_start)).flatten()
    }

    /// Plans the deactivation of the volume, unless a mount or a program on this node has it open.
    pub(in crate::plan) fn deactivate_if_idle(&self) -> Option<Step> {
        let is_open = self.logical().is_some_and(|logical| logical.is_open);
        let idle = self.lvm_state.active().is_some() && !is_open;
        idle.then(|| self.on_logical(VolumeAction::Deactivate, &self.lines.deactivate)).flatten()
    }

    /// Plans the deactivation of the volume. If this is the group's last active volume on the node, also plans to leave
    /// the lock space, where [`LvmLines::leaves_lock_space`](crate::desired::LvmLines) asks for that.
    pub(in crate::plan) fn deactivate_and_stop_locks(&self) -> Vec<Step> {
        let mut steps = self.resume_or_remove_leftovers();
        if self.is_suspended() {
            return steps;
        }
        let is_there = self.group().is_some();
        if let Some(active) = self.lvm_state.active() {
            steps.extend(self.deactivate(active));
        }
        if is_there
            && self.lines.leaves_lock_space
            && self.lvm_state.in_lock_space
            && !self.lvm_state.siblings_active
        {
            steps.extend(self.on_group(VolumeAction::StopLocks, &self.lines.lock_stop));
        }
        steps
    }

    /// Plans the deactivation of an active volume. LVM finds a volume only by its metadata on the namespaces. When the
    /// namespaces are gone, device-mapper still has the volume's mapping, and the step removes this mapping. A mapping
    /// that still lies on a device stays, because the agent does not know which device that is.
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
