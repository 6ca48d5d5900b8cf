//! Logical volumes: made, activated, put down, repaired, removed.
//!
//! A group is ours when it has our name and lies on our namespaces; a look sees those devices and no others. Whether Warren
//! made it, or the agent that was here before, its tag tells.

use std::collections::BTreeMap;

use super::{Rejection, volume};
use crate::{
    Step,
    desired::{FileSystemId, LvmLines, Volume},
    observed::{
        BlockDevice, DeviceNumber, LogicalVolume, LvmReport, LvmState, Mapped, MountedThing,
        VolumeDevice, VolumeGroup, VolumeState,
    },
    step::VolumeAction,
    template::SiteCommand,
};

/// A volume, its lines, and what was seen of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lvm<'a> {
    volume: &'a Volume,
    lines: &'a LvmLines,
    state: &'a VolumeState,
    seen: &'a LvmState,
}

impl<'a> Lvm<'a> {
    /// `None` for a volume without LVM.
    pub(super) fn of(volume: &'a Volume, state: Option<&'a VolumeState>) -> Option<Self> {
        let (lines, state) = (volume.layer.lines()?, state?);
        Some(Self { volume, lines, state, seen: state.lvm.as_ref()? })
    }

    /// Its device, when it is active here; one that lies on anything but its namespaces is not its device.
    pub(super) fn device(&self) -> Result<Option<VolumeDevice>, Rejection> {
        let Some(active) = &self.seen.active else { return Ok(None) };
        if !active.strangers.is_empty() {
            return Err(Rejection::Strangers {
                volume: self.volume.to_string(),
                devices: active.strangers.clone(),
            });
        }
        Ok(Some(active.device(self.volume)))
    }

    /// The device that it will have: its name is known before.
    pub(super) fn device_to_be(&self) -> VolumeDevice {
        let number = DeviceNumber { major: 0, minor: 0 };
        let path = mapper_path(self.volume);
        Mapped { path, number, strangers: Vec::new() }.device(self.volume)
    }

    /// Whether another agent made the group: then its file systems have UUIDs that were not derived.
    pub(super) fn is_adopted(&self) -> bool {
        self.group().is_some_and(|group| !group.is_warrens())
    }

    /// Whether it is noted that its file system is whole.
    pub(super) fn has_made(&self, id: FileSystemId) -> bool {
        self.logical().is_some_and(|logical| logical.has_made(id))
    }

    /// Whether it must have been active once before it is ready: a RAID is synchronised only then.
    pub(super) fn is_raid(&self) -> bool {
        self.logical().is_some_and(|logical| logical.is_raid)
    }

    /// Whether a site's lines make no volume, so that there is nothing to have ready.
    pub(super) fn is_without_volume(&self) -> bool {
        self.logical().is_none() && self.lines.lv_create.is_none()
    }

    fn report(&self) -> Option<&'a LvmReport> {
        self.seen.report.as_ref()
    }

    fn group(&self) -> Option<&'a VolumeGroup> {
        self.report()?.group(&self.volume.group)
    }

    fn logical(&self) -> Option<&'a LogicalVolume> {
        self.group()?.volume(&self.volume.logical)
    }

    /// The steps until the volume exists, whole; empty when it does.
    pub(super) fn build(&self) -> Result<Vec<Step>, Rejection> {
        let Some(report) = self.report() else { return Ok(Vec::new()) };
        self.no_stranger_has(report)?;
        match self.group() {
            None => {
                self.all_devices()?;
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

    /// A shared group is written as a local one first (lvm2, tools/vgcreate.c): cut off in between, no lock would keep two
    /// nodes from it. Nothing is in it yet.
    fn lacks_its_locks(&self, group: &VolumeGroup) -> bool {
        let is_to_be_shared = self.on_group(VolumeAction::CreateGroup, &self.lines.vg_create);
        let is_to_be_shared = is_to_be_shared.is_some_and(|step| asks_for_locks(&step));
        is_to_be_shared && !group.is_shared && group.is_warrens() && group.volumes.is_empty()
    }

    fn make_group_anew(&self, report: &LvmReport) -> Vec<Step> {
        let line = self.volume.group.clone();
        let removing = self.step(VolumeAction::RemoveGroup, line.clone(), line);
        [removing].into_iter().chain(self.make_group(report)).collect()
    }

    /// Whether the group does without a device, or a device of it cannot be reached.
    pub(super) fn has_lost_a_device(&self) -> bool {
        !self.state.missing.is_empty() || self.group().is_some_and(|group| group.missing > 0)
    }

    fn make_group(&self, report: &LvmReport) -> Vec<Step> {
        let mut steps: Vec<_> =
            self.state.devices.iter().flat_map(|it| self.make_physical(report, it)).collect();
        steps.extend(self.on_group(VolumeAction::CreateGroup, &self.lines.vg_create));
        steps.extend(self.on_group(VolumeAction::StartLocks, &self.lines.lock_start));
        steps.extend(self.on_logical(VolumeAction::CreateLogical, &self.lines.lv_create));
        steps
    }

    /// One that is marked as a group's which nobody has is begun anew: LVM would have to be forced to use it, and forced it
    /// takes whatever there is.
    fn make_physical(&self, report: &LvmReport, device: &BlockDevice) -> Vec<Step> {
        let physical = report.on(&device.path);
        let is_marked = physical.is_some_and(|it| it.is_marked);
        let unmark = is_marked.then(|| Step::UnmarkPhysical { device: device.into() });
        let make = (is_marked || physical.is_none())
            .then(|| self.on_device(VolumeAction::CreatePhysical, &self.lines.pv_create, device));
        unmark.into_iter().chain(make.flatten()).collect()
    }

    fn make_logical(&self, group: &VolumeGroup) -> Vec<Step> {
        let unmaking = self.unmake(group);
        if group.volume(&self.volume.logical).is_some() && unmaking.is_empty() {
            return Vec::new();
        }
        let making = self.on_logical(VolumeAction::CreateLogical, &self.lines.lv_create);
        let joining = making.is_some().then(|| self.join()).flatten();
        self.clear_up().into_iter().chain(joining).chain(unmaking).chain(making).collect()
    }

    /// A RAID whose `lvcreate` was cut off is never activated, and LVM says nothing of it. It is made anew: no file system was
    /// ever on it.
    fn unmake(&self, group: &VolumeGroup) -> Vec<Step> {
        let parts: Vec<_> = group.parts_of(&self.volume.logical).collect();
        let whole = group.volume(&self.volume.logical);
        let is_noted = whole.is_some_and(LogicalVolume::is_noted);
        if parts.is_empty() || is_noted || !group.is_warrens() {
            return Vec::new();
        }
        // Its parts go with it.
        let going = whole.map_or(parts, |it| vec![it]);
        going.into_iter().map(|it| self.remove_named(group, it)).collect()
    }

    fn remove_named(&self, group: &VolumeGroup, volume: &LogicalVolume) -> Step {
        let name = format!("{}/{}", group.name, volume.name);
        self.step(VolumeAction::RemoveLogical, name.clone(), name)
    }

    /// Devices that are no members yet take the place of those that are lost: for this volume, and when no other of the group
    /// lacks anything, for the group. Each part is known to be undone by itself, so that whoever is interrupted goes on.
    /// Lines that a profile leaves empty are left out, and without any of them a group that has lost a device stays as it is.
    fn repair(&self, report: &LvmReport, group: &VolumeGroup) -> Vec<Step> {
        let lines = self.lines;
        if lines.lv_repair.is_none() {
            return Vec::new();
        }
        let mut steps = self.extend(report);
        let is_member = |device: &BlockDevice| {
            report.on(&device.path).is_some_and(|it| it.group.is_some() && !it.is_stale)
        };
        let has_all = !steps.is_empty() || self.state.devices.iter().all(is_member);
        let is_partial = self.logical().is_some_and(LogicalVolume::is_partial);
        if has_all && is_partial {
            if self.seen.active.is_none() {
                steps.extend(self.clear_up());
                steps.extend(self.on_logical(VolumeAction::Activate, &lines.activate));
            }
            steps.extend(self.on_logical(VolumeAction::Repair, &lines.lv_repair));
        }
        let others = group.volumes.iter().filter(|it| it.name != self.volume.logical);
        if has_all && !others.into_iter().any(LogicalVolume::is_partial) {
            steps.extend(self.on_group(VolumeAction::ReduceGroup, &lines.vg_reduce));
        }
        if steps.is_empty() {
            return steps;
        }
        self.join().into_iter().chain(steps).collect()
    }

    /// The steps that make members of those devices that are none yet.
    fn extend(&self, report: &LvmReport) -> Vec<Step> {
        let mut steps = Vec::new();
        for device in &self.state.devices {
            if report.on(&device.path).is_some_and(|it| it.group.is_some()) {
                continue;
            }
            steps.extend(self.make_physical(report, device));
            let line = &self.lines.vg_extend;
            steps.extend(self.on_device(VolumeAction::ExtendGroup, line, device));
        }
        steps
    }

    /// Nothing but the synchronisation of a RAID is to be waited for.
    pub(super) fn is_in_sync(&self) -> Result<(), Rejection> {
        match self.logical() {
            Some(logical) if logical.is_syncing() => Err(Rejection::Syncing {
                volume: self.volume.to_string(),
                percent: logical.synced.unwrap_or_default(),
            }),
            _ => Ok(()),
        }
    }

    /// The steps that give it a device here; what proves that it is the right one was checked before.
    pub(super) fn activate(&self) -> Result<Vec<Step>, Rejection> {
        let volume = || self.volume.to_string();
        self.all_devices()?;
        if let Some(report) = self.report() {
            self.no_stranger_has(report)?;
        }
        if self.logical().is_none() {
            return Err(Rejection::NoVolume { volume: volume() });
        }
        let Some(step) = self.on_logical(VolumeAction::Activate, &self.lines.activate) else {
            return Err(Rejection::NoActivation { volume: volume() });
        };
        Ok(self.clear_up().into_iter().chain(self.join()).chain([step]).collect())
    }

    /// Takes away what a command left that was cut off while it gave a device or took it away. LVM itself goes on with a
    /// device that stands still, when it is to activate it.
    fn clear_up(&self) -> Vec<Step> {
        let left = self.seen.unfinished.iter().filter(|it| !it.is_suspended);
        left.map(|it| Step::RemoveMapping { name: it.name.clone(), number: it.number }).collect()
    }

    /// Whether it stands still, so that it must be activated before it can be put down.
    fn is_suspended(&self) -> bool {
        self.seen.unfinished.iter().any(|it| it.is_suspended)
    }

    /// The step after which it stands still no more: until then whoever uses it waits, an unmount too.
    pub(super) fn resume(&self) -> Option<Step> {
        let activate = || self.on_logical(VolumeAction::Activate, &self.lines.activate);
        self.is_suspended().then(activate).flatten()
    }

    /// Whether that is its device, though it stands still.
    pub(super) fn stands_still_at(&self, number: DeviceNumber) -> bool {
        self.seen.unfinished.iter().any(|it| it.is_suspended && it.number == number)
    }

    /// The steps after which nothing of it is left on this node that was not to be there.
    pub(super) fn tidy(&self) -> Vec<Step> {
        self.resume().map_or_else(|| self.clear_up(), |step| vec![step])
    }

    /// Whether a file system of this id may be looked for on it: its rabbit has made it, or another agent has.
    pub(super) fn is_finished(&self, id: FileSystemId) -> Result<(), Rejection> {
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

    /// The step into the group's lock space, when there is one and this node is outside.
    fn join(&self) -> Option<Step> {
        let outside = !self.seen.in_lock_space;
        outside.then(|| self.on_group(VolumeAction::StartLocks, &self.lines.lock_start)).flatten()
    }

    /// Notes that the file system is whole.
    pub(super) fn note_made(&self, id: FileSystemId) -> Option<Step> {
        let missing = self.logical().is_some_and(|logical| !logical.has_made(id));
        let line = format!("--addtag {} {}", LogicalVolume::tag_of(id), self.volume);
        missing.then(|| self.step(VolumeAction::Tag, self.volume.to_string(), line))
    }

    /// Takes its device away; what is mounted keeps it.
    pub(super) fn put_down(&self) -> Option<Step> {
        let is_open = self.logical().is_some_and(|logical| logical.is_open);
        let idle = self.seen.active.is_some() && !is_open;
        idle.then(|| self.on_logical(VolumeAction::Deactivate, &self.lines.deactivate)).flatten()
    }

    /// Takes its device away, and leaves the lock space with the last one.
    pub(super) fn leave(&self) -> Vec<Step> {
        let mut steps = self.tidy();
        if self.is_suspended() {
            return steps;
        }
        let is_there = self.group().is_some();
        if let Some(active) = &self.seen.active {
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

    /// LVM knows it by what is on its namespaces; when those are gone, device-mapper alone still has it. A mapping that lies
    /// on anything is not of that kind: its namespaces could not be named, or are not visible under the names we know.
    fn deactivate(&self, active: &Mapped) -> Option<Step> {
        if self.group().is_some() {
            return self.on_logical(VolumeAction::Deactivate, &self.lines.deactivate);
        }
        let is_gone = active.strangers.is_empty() && self.state.devices.is_empty();
        let name = mapper_name(self.volume);
        (is_gone && self.report().is_some())
            .then_some(Step::RemoveMapping { name, number: active.number })
    }

    /// Whoever has it mounted, other than a step of ours that comes before, is asked to unmount it first.
    pub(super) fn is_idle(&self, temporary: Option<&MountedThing>) -> Result<(), Rejection> {
        let is_open = self.logical().is_some_and(|logical| logical.is_open);
        let busy = self.seen.active.as_ref().is_some_and(|active| {
            is_open && temporary.is_none_or(|there| there.device != active.number)
        });
        let volume = || self.volume.to_string();
        if busy { Err(Rejection::StillMounted { volume: volume() }) } else { Ok(()) }
    }

    /// Everything of it goes; a group goes with its last volume. What a lost device leaves in a group's metadata is left
    /// to the erasure of its namespaces, because LVM would have to be forced; so is what a `vgremove` that was cut off leaves.
    pub(super) fn remove(&self) -> Result<Vec<Step>, Rejection> {
        let Some(report) = self.report() else { return Ok(Vec::new()) };
        self.no_stranger_has(report)?;
        let mut steps = self.tidy();
        if self.is_suspended() {
            return Ok(steps);
        }
        let group = self.group();
        let is_whole = group.is_some_and(|group| group.missing == 0);
        steps.extend(is_whole.then(|| self.join()).flatten());
        if let Some(active) = &self.seen.active {
            steps.extend(self.deactivate(active));
        }
        if let Some(group) = group.filter(|_| is_whole) {
            steps.extend(self.remove_volume(group));
            let own = &self.volume.logical;
            if group.volumes.iter().any(|it| it.name != *own && !it.is_part_of(own)) {
                return Ok(steps);
            }
            steps.extend(self.on_group(VolumeAction::RemoveGroup, &self.lines.vg_remove));
        }
        if group.is_none() || is_whole {
            let is_to_go = |it: &&BlockDevice| report.on(&it.path).is_some_and(|it| !it.is_marked);
            let physical = self.state.devices.iter().filter(is_to_go);
            let line = &self.lines.pv_remove;
            steps.extend(
                physical.filter_map(|it| self.on_device(VolumeAction::RemovePhysical, line, it)),
            );
        }
        Ok(steps)
    }

    fn remove_volume(&self, group: &VolumeGroup) -> Option<Step> {
        group.volume(&self.volume.logical)?;
        self.on_logical(VolumeAction::RemoveLogical, &self.lines.lv_remove)
    }

    fn all_devices(&self) -> Result<(), Rejection> {
        if self.state.missing.is_empty() && !self.state.devices.is_empty() {
            return Ok(());
        }
        let missing = self.state.missing.clone();
        Err(Rejection::NoDevice { volume: format!("volume {}", self.volume), missing })
    }

    fn no_stranger_has(&self, report: &LvmReport) -> Result<(), Rejection> {
        let stranger = report.physical.iter().find_map(|physical| {
            let group = physical.group.as_ref().filter(|group| **group != self.volume.group)?;
            Some((physical.device.clone(), group.clone()))
        });
        stranger.map_or(Ok(()), |(device, group)| {
            Err(Rejection::ForeignGroup { device, group, wanted: self.volume.group.clone() })
        })
    }

    fn on_device(
        &self,
        action: VolumeAction,
        line: &Option<SiteCommand>,
        device: &BlockDevice,
    ) -> Option<Step> {
        let mut more = self.variables();
        more.insert("$DEVICE".to_owned(), device.path.display().to_string());
        let line = line.as_ref()?.expand(&more);
        Some(self.step(action, device.path.display().to_string(), line))
    }

    fn on_group(&self, action: VolumeAction, line: &Option<SiteCommand>) -> Option<Step> {
        let line = line.as_ref()?.expand(&self.variables());
        Some(self.step(action, self.volume.group.clone(), line))
    }

    fn on_logical(&self, action: VolumeAction, line: &Option<SiteCommand>) -> Option<Step> {
        let line = line.as_ref()?.expand(&self.variables());
        Some(self.step(action, self.volume.to_string(), line))
    }

    fn step(&self, action: VolumeAction, on: String, line: String) -> Step {
        Step::Volume { action, on, devices: self.state.devices.clone(), line }
    }

    fn variables(&self) -> BTreeMap<String, String> {
        let names = [("$VG_NAME", &self.volume.group), ("$LV_NAME", &self.volume.logical)];
        let names = names.map(|(variable, name)| (variable.to_owned(), name.clone()));
        volume::variables(volume::of_devices(&self.state.devices).into_iter().chain(names))
    }
}

fn asks_for_locks(step: &Step) -> bool {
    matches!(step, Step::Volume { line, .. } if line.split_whitespace().any(|word| {
        word == "--shared" || word.starts_with("--locktype")
    }))
}

/// The name of a logical volume's device in `/dev/mapper`: hyphens in either part are doubled (lvm2, libdm
/// `dm_build_dm_name`).
pub(crate) fn mapper_name(volume: &Volume) -> String {
    format!("{}-{}", volume.group.replace('-', "--"), volume.logical.replace('-', "--"))
}

fn mapper_path(volume: &Volume) -> std::path::PathBuf {
    std::path::Path::new("/dev/mapper").join(mapper_name(volume))
}
