//! LVM's report on physical volumes, volume groups and logical volumes.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use crate::desired::{FileSystemId, Volume};

/// The LVM objects on a volume's devices (lvm-fullreport(8)).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LvmReport {
    pub physical: Vec<PhysicalVolume>,
    pub groups: Vec<VolumeGroup>,
}

impl LvmReport {
    pub fn group(&self, name: &str) -> Option<&VolumeGroup> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Returns the names (group, volume) of a volume whose own names are a guess. If the report has exactly one group,
    /// this is the group's only volume or, in a group of several volumes, the volume with the guessed name; otherwise
    /// `None`.
    pub fn names_of(&self, guess: &Volume) -> Option<(String, String)> {
        let [group] = &self.groups[..] else { return None };
        let volume = match &group.volumes[..] {
            [only] => only,
            _ => group.volume(&guess.logical)?,
        };
        Some((group.name.clone(), volume.name.clone()))
    }

    pub fn on(&self, device: &Path) -> Option<&PhysicalVolume> {
        self.physical.iter().find(|physical| physical.device == device)
    }
}

/// A device that LVM uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalVolume {
    pub device: PathBuf,
    pub membership: Membership,
}

/// The relation of a physical volume to a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    Free,
    /// The label is marked as used by a group, but no group exists: an LVM command was interrupted between two writes.
    /// LVM refuses to use the device.
    Marked,
    Of(String),
    /// The group of this name continued without the device, and the group's metadata records that. LVM does not use the
    /// device until an admin restores it (vgextend(8), `--restoremissing`).
    Stale(String),
}

impl Membership {
    pub fn group(&self) -> Option<&str> {
        match self {
            Self::Of(group) | Self::Stale(group) => Some(group),
            Self::Free | Self::Marked => None,
        }
    }
}

impl PhysicalVolume {
    pub fn group(&self) -> Option<&str> {
        self.membership.group()
    }

    /// Returns whether the label is marked as used by a group that does not exist.
    pub fn is_marked(&self) -> bool {
        self.membership == Membership::Marked
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeGroup {
    pub name: String,
    pub tags: Vec<String>,
    /// Whether the group is shared under a lock manager (`vg_lock_type` other than `none`).
    pub is_shared: bool,
    /// Number of the group's members that are not among the devices given to LVM.
    pub missing: u32,
    pub volumes: Vec<LogicalVolume>,
}

impl VolumeGroup {
    pub fn volume(&self, name: &str) -> Option<&LogicalVolume> {
        self.volumes.iter().find(|volume| volume.name == name)
    }

    /// Returns the parts of a RAID that are visible as volumes: LVM hides the parts, except while it creates
    /// or repairs the RAID.
    pub fn parts_of<'a>(&'a self, raid: &'a str) -> impl Iterator<Item = &'a LogicalVolume> + 'a {
        self.volumes.iter().filter(move |volume| volume.is_part_of(raid))
    }

    /// Returns whether the group has Warren's tag; the sites' earlier agents set no tag on their groups.
    pub fn is_warrens(&self) -> bool {
        self.tags.iter().any(|tag| tag == WARRENS)
    }
}

/// Returns whether `name` is the name of a part of the RAID, `<raid>_rimage_0` or `<raid>_rmeta_0`. LVM reserves these
/// names (lvm(8), VALID NAMES).
pub fn is_part_of(name: &str, raid: &str) -> bool {
    let rest = name.strip_prefix(raid);
    rest.is_some_and(|rest| rest.starts_with("_rimage_") || rest.starts_with("_rmeta_"))
}

/// Tag of the groups that Warren makes.
pub const WARRENS: &str = "warren";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogicalVolume {
    pub name: String,
    pub tags: Vec<String>,
    /// Whether a mount or a program on this node, in any mount namespace, has the volume's device open.
    pub is_open: bool,
    /// Whether the volume is a RAID, which synchronises its parts.
    pub is_raid: bool,
    /// The share of a RAID that is synchronised (LVM's `sync_percent`); `None` while the volume is not active.
    pub synced: Option<Percent>,
    /// The problem of the volume, if any (`lv_health_status`: `partial`, `refresh needed`, `mismatches exist`).
    pub trouble: Option<String>,
}

impl LogicalVolume {
    /// Returns the tag of a volume on which mkfs completed this file system.
    pub fn tag_of(id: FileSystemId) -> String {
        format!("{WARRENS}.{id}")
    }

    /// Returns whether the volume has a tag of [`Self::tag_of`] for any file system, so that mkfs has completed a file
    /// system on it.
    pub fn is_noted(&self) -> bool {
        self.tags
            .iter()
            .any(|tag| tag.strip_prefix(WARRENS).is_some_and(|rest| rest.starts_with('.')))
    }

    pub fn is_part_of(&self, raid: &str) -> bool {
        is_part_of(&self.name, raid)
    }

    /// Returns whether the volume was a part of the RAID until a repair replaced it (lvm2, lib/metadata/raid_manip.c).
    /// Such a volume exists only after an interruption: a complete repair removes it.
    pub fn was_part_of(&self, raid: &str) -> bool {
        self.is_part_of(raid) && self.name.ends_with("_extracted")
    }

    /// Returns whether the volume's tag says that mkfs completed this file system on it.
    pub fn has_made(&self, id: FileSystemId) -> bool {
        self.tags.contains(&Self::tag_of(id))
    }

    /// Returns whether a device of the volume is lost.
    pub fn is_partial(&self) -> bool {
        self.trouble.as_deref() == Some("partial")
    }

    /// Returns whether the RAID is still being synchronised.
    pub fn is_syncing(&self) -> bool {
        self.is_raid && self.synced.is_some_and(|percent| percent < Percent::ALL)
    }
}

/// A share in hundredths of a percent, the precision of LVM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u16);

impl Percent {
    /// The whole, 100 %.
    pub const ALL: Self = Self(10_000);

    /// Returns the number of whole tenths: 4 for 42.17 %.
    pub fn tenth(self) -> u16 {
        self.0 / 1000
    }
}

impl FromStr for Percent {
    type Err = std::num::ParseFloatError;

    /// Parses a percentage as in LVM's reports, for example `42.17`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let percent: f64 = text.parse()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        Ok(Self((percent.clamp(0.0, 100.0) * 100.0).round() as u16))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}
