//! Facts about a node's hardware and file systems.
//!
//! Facts are the values that were read, without conclusions. [`Facts::unread`] lists each failed read with its reason,
//! so that a missing value counts neither as healthy nor as broken.

use std::{collections::BTreeMap, fmt, fmt::Debug, path::PathBuf};

use crate::{
    desired::{AllocationId, Nqn},
    observed::{DeviceNumber, Drive, OwnGroup},
};

/// Reads the facts of a node.
pub trait Probe: Debug + Send + Sync {
    /// Reads the links to computes, by the slot of each compute: the slots that the site's configuration names, and the
    /// slots that PCIe switches report. Sends no command to a drive.
    fn links(&self) -> BTreeMap<u8, Link>;

    /// Reads all other facts. A part that does not answer within its deadline is left out.
    fn facts(&self) -> Facts;
}

/// One reading of a node's state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Drives whose physical functions this node has.
    pub drives: BTreeMap<Nqn, DriveFacts>,
    /// Links of drives by slot, from the PCIe switches; a slot that no switch reports is left out.
    pub slots: BTreeMap<u32, Link>,
    /// File systems at mount points beneath the allowed roots; `None` when the mount table could not be read.
    pub file_systems: Option<Vec<FileSystemFacts>>,
    /// Volume groups that Warren made; `None` when they were not observed.
    pub groups: Option<Vec<GroupFacts>>,
    pub memory: Option<Memory>,
    pub load: Option<Load>,
    pub pressure: Option<Pressure>,
    /// The node's LNet addresses; none on a node without Lustre. Other nodes use the first address.
    pub nids: Vec<String>,
    /// Failed reads, each with its reason.
    pub unread: Vec<String>,
}

/// A PCIe link, as the kernel shows it for the function at the far end, or as a switch reports it for a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    Up {
        /// The rate that both ends agreed on; `None` without a PCIe capability, as in some virtual machines.
        current: Option<LinkRate>,
        /// The highest rate that both ends support; `None` when it is unknown.
        most: Option<LinkRate>,
    },
    Down,
    Unread(String),
}

/// Speed and width of a PCIe link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRate {
    /// Megatransfers per second and lane: 16000 for the fourth generation.
    pub transfers: u32,
    pub lanes: u8,
}

impl LinkRate {
    /// Returns whether this rate is less than `most` in speed or in width.
    pub fn is_less_than(self, most: Self) -> bool {
        self.transfers < most.transfers || self.lanes < most.lanes
    }

    /// Returns the highest rate that both ends support: the lower speed and the lower width of the two.
    pub fn common(self, other: Self) -> Self {
        Self { transfers: self.transfers.min(other.transfers), lanes: self.lanes.min(other.lanes) }
    }

    /// Returns the rate of a PCIe generation (PCI Express Base Specification 6.0, 4.2); `None`
    /// for an unknown generation.
    pub fn of_generation(generation: u8, lanes: u8) -> Option<Self> {
        let transfers = match generation {
            1 => 2_500,
            2 => 5_000,
            3 => 8_000,
            4 => 16_000,
            5 => 32_000,
            6 => 64_000,
            _ => return None,
        };
        (lanes > 0).then_some(Self { transfers, lanes })
    }
}

impl Facts {
    /// Gives each drive the link that the switches report for its slot. A drive behind a switch has no other source for
    /// its link, because the node does not see the drive's physical function.
    pub fn link_drives(&mut self, drives: &[Drive]) {
        for drive in drives {
            if let Some(link) = self.slots.get(&drive.slot) {
                self.drives.entry(drive.nqn.clone()).or_default().link = Some(link.clone());
            }
        }
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, tenth) = (self.transfers / 1000, self.transfers % 1000 / 100);
        write!(f, "{whole}.{tenth} GT/s x{}", self.lanes)
    }
}

/// The kernel's facts about a drive; a field whose read failed is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DriveFacts {
    pub link: Option<Link>,
    pub errors: Option<LinkErrors>,
    /// Temperature of the drive. `None` also while its controller is not live: the kernel reads the temperature by a
    /// command, which would wait.
    pub temperature: Option<Temperature>,
    /// The controller's state in the driver's words: `live`, `resetting`, `connecting`, `deleting`, `dead`, …;
    /// empty when not known.
    pub controller: String,
    /// NSIDs of namespaces whose block device on this node is read-only.
    pub read_only: Option<Vec<u32>>,
}

/// PCIe errors that a PCI function reported since the node booted
/// (Documentation/ABI/testing/sysfs-bus-pci-devices-aer).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkErrors {
    /// Errors that the link itself repaired.
    pub correctable: u64,
    /// Errors that lost a transaction.
    pub nonfatal: u64,
    /// Errors that lost the link.
    pub fatal: u64,
}

/// Temperature of a drive and its thresholds, in degrees Celsius.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Temperature {
    pub now: i64,
    /// The drive warns above this temperature (WCTEMP).
    pub warning: Option<i64>,
    /// The drive throttles or stops above this temperature (CCTEMP).
    pub critical: Option<i64>,
}

/// A drive's SMART log (NVM Express Base Specification 2.0, 5.16.1.3), without the critical warnings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Smart {
    /// Remaining spare blocks, in percent.
    pub spare: u8,
    /// The drive warns below this percentage of spare blocks.
    pub spare_threshold: u8,
    /// Number of reads for which the drive could not return the data that was written.
    pub media_errors: u64,
    /// Number of times that the drive lost power without notice.
    pub unsafe_shutdowns: u64,
    /// Temperature of the drive; `None` when the drive does not report it.
    pub temperature: Option<Temperature>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystemFacts {
    pub target: String,
    pub device: DeviceNumber,
    pub kind: String,
    /// Whether the mount has the option `ro`.
    pub is_mounted_read_only: bool,
    /// Whether the file system itself is read-only, for example after an error.
    pub is_read_only: bool,
    pub answer: Answer,
}

/// A file system's answer to stat(2) of its root directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Well,
    /// The kernel shut the file system down after an error, so every access fails; the text says how
    /// the agent detected that.
    ShutDown(String),
    Silent(String),
}

/// A volume group that Warren made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFacts {
    pub name: String,
    /// The allocation whose namespaces are the group's devices.
    pub allocation: Option<AllocationId>,
    pub devices: Vec<PathBuf>,
    /// Whether the group is shared under a lock manager.
    pub is_shared: bool,
    pub missing: u32,
    /// Namespaces of the allocation that should be members of the group but that LVM does not use,
    /// each with the reason.
    pub lost: Vec<String>,
    /// Logical volumes that are not whole, each with its `lv_health_status` (lvs(8)).
    pub unwell: Vec<(String, String)>,
}

impl GroupFacts {
    /// Returns the facts of a group; `None` when Warren did not make it. Members that are merely not attached to this
    /// node are subtracted from the missing members, because they will be attached. But every namespace that is known
    /// to be lost counts as a missing member, up to the number that LVM reports: an unattached namespace may be a
    /// replacement that is not a member yet, so that the subtraction would hide a lost member.
    pub fn from_group(own_group: &OwnGroup) -> Option<Self> {
        let group = &own_group.group;
        if !group.is_warrens() {
            return None;
        }
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let (unattached, lost) = (count(own_group.unattached.len()), count(own_group.lost.len()));
        let missing = group.missing.saturating_sub(unattached).max(group.missing.min(lost));
        let lost = own_group.lost.iter().map(|(id, why)| format!("{id}: {why}"));
        let trouble = group
            .volumes
            .iter()
            .filter_map(|volume| Some((volume.name.clone(), volume.trouble.clone()?)));
        // LVM reports a volume as partial even when its member is merely not attached.
        let is_whole_elsewhere = unattached > 0 && missing == 0;
        Some(Self {
            name: group.name.clone(),
            allocation: own_group.allocation,
            devices: own_group.devices.clone(),
            is_shared: group.is_shared,
            missing,
            lost: lost.collect(),
            unwell: trouble.filter(|_| !is_whole_elsewhere).collect(),
        })
    }
}

/// Bytes of memory (proc_meminfo(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of usable memory (`MemTotal`).
    pub total: u64,
    /// Bytes available without swapping.
    pub available: u64,
}

/// Tasks that run or wait for a disk (proc_loadavg(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Mean of five minutes, in hundredths of a task.
    pub hundredths: u64,
    pub processors: u64,
}

/// Share of the last minute in which all tasks that were not idle waited at once (Documentation/accounting/psi.rst,
/// `full avg60`), in hundredths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// Share of the time in which the tasks waited for memory. The share for disks is not read, because it is no sign
    /// of trouble: on a rabbit that copies data, all tasks wait for disks.
    pub memory: u64,
}

#[cfg(test)]
mod tests;
