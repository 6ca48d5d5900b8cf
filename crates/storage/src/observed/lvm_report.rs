//! What LVM reports of physical volumes, volume groups and logical volumes.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use crate::desired::{FileSystemId, Volume};

/// What LVM has on a volume's devices (lvm-fullreport(8)).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LvmReport {
    pub physical: Vec<PhysicalVolume>,
    pub groups: Vec<VolumeGroup>,
}

impl LvmReport {
    pub fn group(&self, name: &str) -> Option<&VolumeGroup> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// The group and name of the volume that `guess` stands for: the volume of that name in the only group, or the only
    /// volume there. `None` when neither exists.
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

/// To which group a physical volume belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    Free,
    /// Its header names a group that does not exist: a command was interrupted between the two writes. LVM refuses to
    /// use it.
    Marked,
    Of(String),
    /// This group, which went on without it and recorded that: LVM does not use it until somebody restores it.
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

    /// Whether it names a group that does not exist.
    pub fn is_marked(&self) -> bool {
        self.membership == Membership::Marked
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeGroup {
    pub name: String,
    pub tags: Vec<String>,
    /// Whether a lock manager guards it (`vg_lock_type` other than `none`).
    pub is_shared: bool,
    /// Members that are not among the devices that LVM was shown.
    pub missing: u32,
    pub volumes: Vec<LogicalVolume>,
}

impl VolumeGroup {
    pub fn volume(&self, name: &str) -> Option<&LogicalVolume> {
        self.volumes.iter().find(|volume| volume.name == name)
    }

    /// Parts of a RAID that are visible volumes: LVM hides them except while it creates or repairs the RAID.
    pub fn parts_of<'a>(&'a self, raid: &'a str) -> impl Iterator<Item = &'a LogicalVolume> + 'a {
        self.volumes.iter().filter(move |volume| volume.is_part_of(raid))
    }

    /// Whether Warren made it, and not an earlier agent.
    pub fn is_warrens(&self) -> bool {
        self.tags.iter().any(|tag| tag == WARRENS)
    }
}

/// Whether this is the name of a part of the RAID: `<raid>_rimage_0`, `<raid>_rmeta_0`. LVM reserves these names (lvm(8),
/// VALID NAMES).
pub(crate) fn is_part_of(name: &str, raid: &str) -> bool {
    let rest = name.strip_prefix(raid);
    rest.is_some_and(|rest| rest.starts_with("_rimage_") || rest.starts_with("_rmeta_"))
}

/// Tag of the groups that Warren makes.
pub const WARRENS: &str = "warren";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogicalVolume {
    pub name: String,
    pub tags: Vec<String>,
    /// Whether a mount or a program on this node, in any mount namespace, has its device open.
    pub is_open: bool,
    /// Whether it is a RAID, which synchronises its parts.
    pub is_raid: bool,
    /// How much is synchronised; `None` while it is not active.
    pub synced: Option<Percent>,
    /// What is wrong with it (`lv_health_status`: `partial`, `refresh needed`, `mismatches exist`), when something is.
    pub trouble: Option<String>,
}

impl LogicalVolume {
    /// The tag that says that mkfs completed this file system on the volume.
    pub fn tag_of(id: FileSystemId) -> String {
        format!("{WARRENS}.{id}")
    }

    /// Whether any file system is noted to be whole on it.
    pub fn is_noted(&self) -> bool {
        self.tags
            .iter()
            .any(|tag| tag.strip_prefix(WARRENS).is_some_and(|rest| rest.starts_with('.')))
    }

    pub fn is_part_of(&self, raid: &str) -> bool {
        is_part_of(&self.name, raid)
    }

    /// Whether it was one until a repair gave that another (lvm2, lib/metadata/raid_manip.c): the end of the repair removes it,
    /// unless it is cut off.
    pub fn was_part_of(&self, raid: &str) -> bool {
        self.is_part_of(raid) && self.name.ends_with("_extracted")
    }

    /// Whether it carries this file system, whole.
    pub fn has_made(&self, id: FileSystemId) -> bool {
        self.tags.contains(&Self::tag_of(id))
    }

    /// Whether a device that it lies on is lost.
    pub fn is_partial(&self) -> bool {
        self.trouble.as_deref() == Some("partial")
    }

    /// Whether its RAID is still being synchronised.
    pub fn is_syncing(&self) -> bool {
        self.is_raid && self.synced.is_some_and(|percent| percent < Percent::ALL)
    }
}

/// Hundredths of a percent, as LVM counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u16);

impl Percent {
    /// Everything.
    pub const ALL: Self = Self(10_000);

    /// How many whole tenths they are.
    pub fn tenth(self) -> u16 {
        self.0 / 1000
    }
}

impl FromStr for Percent {
    type Err = std::num::ParseFloatError;

    /// As in LVM's reports: `42.17`.
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
