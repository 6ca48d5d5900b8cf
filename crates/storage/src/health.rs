//! The state of a node's hardware and file systems, as facts without a judgement.
//!
//! Facts are what was read and nothing more. [`Facts::unread`] says what could not be read and why, so that a gap is
//! neither "all fine" nor "all bad".

use std::{collections::BTreeMap, fmt, fmt::Debug, path::PathBuf};

use crate::{
    desired::{AllocationId, Nqn},
    observed::{DeviceNumber, Drive, OwnGroup},
};

/// Reads the facts of a node.
pub trait Probe: Debug + Send + Sync {
    /// Links to computes by slot, for the slots that the site's configuration names. This asks no drive.
    fn links(&self) -> BTreeMap<u8, Link>;

    /// Everything else. A part that does not answer within its deadline is left out.
    fn facts(&self) -> Facts;
}

/// One reading of a node's state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Drives whose physical functions the node has.
    pub drives: BTreeMap<Nqn, DriveFacts>,
    /// Links of drives by slot, from the PCIe switches; slots that they do not report are left out.
    pub slots: BTreeMap<u32, Link>,
    /// File systems at mount points beneath the allowed roots; `None` when the mount table could not be read.
    pub file_systems: Option<Vec<FileSystemFacts>>,
    /// Volume groups of ours; `None` when they were not observed.
    pub groups: Option<Vec<GroupFacts>>,
    pub memory: Option<Memory>,
    pub load: Option<Load>,
    pub pressure: Option<Pressure>,
    /// Addresses in Lustre's network, the first of them the one that others use; none on a node without Lustre.
    pub nids: Vec<String>,
    pub unread: Vec<String>,
}

/// A PCIe link, as the end away from the processor shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    Up {
        /// What both ends agreed on; `None` where there is no PCIe capability, as in some guests.
        current: Option<LinkRate>,
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
    /// Whether this is less than `most` in speed or in width.
    pub fn is_less_than(self, most: Self) -> bool {
        self.transfers < most.transfers || self.lanes < most.lanes
    }

    /// The lower speed and width of two ends.
    pub fn common(self, other: Self) -> Self {
        Self { transfers: self.transfers.min(other.transfers), lanes: self.lanes.min(other.lanes) }
    }

    /// The rate of a PCIe generation (PCI Express Base Specification 6.0, 4.2); `None` for an unknown generation.
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
    /// Gives each drive the link that the switches report for its slot: behind a switch a node sees no physical
    /// function.
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

/// What the kernel knows of a drive; a field that could not be read is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DriveFacts {
    pub link: Option<Link>,
    pub errors: Option<LinkErrors>,
    /// Its temperature; `None` also while its controller is not live, because the kernel would have to ask it.
    pub temperature: Option<Temperature>,
    /// What the driver calls its controller's state: `live`, `resetting`, `connecting`, `deleting`, `dead`, …; empty when
    /// that is not known.
    pub controller: String,
    /// NSIDs of namespaces whose block device on this node takes no writes.
    pub read_only: Option<Vec<u32>>,
}

/// Errors that a function reported since the node booted (Documentation/ABI/testing/sysfs-bus-pci-devices-aer).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkErrors {
    /// Repaired by the link itself.
    pub correctable: u64,
    /// A transaction was lost.
    pub nonfatal: u64,
    /// The link was lost.
    pub fatal: u64,
}

/// Degrees Celsius.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Temperature {
    pub now: i64,
    /// Above this the drive warns (WCTEMP).
    pub warning: Option<i64>,
    /// Above this it protects itself (CCTEMP).
    pub critical: Option<i64>,
}

/// A drive's SMART log (NVM Express Base Specification 2.0, 5.16.1.3), as far as the critical warnings do not tell it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Smart {
    /// Percent of the spare blocks that are left.
    pub spare: u8,
    /// Below so many percent the drive warns.
    pub spare_threshold: u8,
    /// Times that data could not be read as it was written.
    pub media_errors: u64,
    /// Times that the drive lost power without notice.
    pub unsafe_shutdowns: u64,
    /// Its temperature; `None` when the drive does not report one.
    pub temperature: Option<Temperature>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystemFacts {
    pub target: String,
    pub device: DeviceNumber,
    pub kind: String,
    pub asked_read_only: bool,
    pub is_read_only: bool,
    pub answer: Answer,
}

/// The answer of a file system to a stat of its root directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Well,
    /// The kernel shut it down after an error, and every access fails; the text says how that was seen.
    ShutDown(String),
    Silent(String),
}

/// A volume group of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFacts {
    pub name: String,
    /// The allocation whose namespaces it lies on.
    pub allocation: Option<AllocationId>,
    pub devices: Vec<PathBuf>,
    /// Whether a lock manager guards it.
    pub is_shared: bool,
    pub missing: u32,
    /// Namespaces of its allocation that LVM does not use as members, each with the reason.
    pub lost: Vec<String>,
    /// Logical volumes that are not whole, each with what LVM says of it (`lv_health_status`, lvs(8)).
    pub unwell: Vec<(String, String)>,
}

impl GroupFacts {
    /// The facts of a group that Warren made; `None` for another's. A namespace that is only not attached to this node
    /// does not count as missing: it is being attached, or will be. A namespace known to be lost counts in any case,
    /// because one that is not attached may be its replacement.
    pub fn of(seen: &OwnGroup) -> Option<Self> {
        let group = &seen.group;
        if !group.is_warrens() {
            return None;
        }
        let count = |of: usize| u32::try_from(of).unwrap_or(u32::MAX);
        let (unattached, lost) = (count(seen.unattached.len()), count(seen.lost.len()));
        let missing = group.missing.saturating_sub(unattached).max(group.missing.min(lost));
        let lost = seen.lost.iter().map(|(id, why)| format!("{id}: {why}"));
        let trouble = group
            .volumes
            .iter()
            .filter_map(|volume| Some((volume.name.clone(), volume.trouble.clone()?)));
        // A volume is partial also while a member is not attached.
        let is_whole_elsewhere = unattached > 0 && missing == 0;
        Some(Self {
            name: group.name.clone(),
            allocation: seen.allocation,
            devices: seen.devices.clone(),
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
    /// Total bytes.
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

/// Part of the last minute in which every task waited at once (Documentation/accounting/psi.rst, `full avg60`), in hundredths
/// of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// For memory. Disks tell nothing: on a rabbit that copies data every task waits for them.
    pub memory: u64,
}

#[cfg(test)]
mod tests;
