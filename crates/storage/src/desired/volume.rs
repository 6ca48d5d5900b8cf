//! Volumes: the devices of file systems.

use std::fmt;

use super::{AllocationId, NamespaceId};
use crate::template::SiteCommand;

/// The volume of a file system: a logical volume, or with the `plain` layer the only namespace itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Name of the volume group, in the form that the sites' controllers expect: `<owner uid>_<directive>[_<index>]`.
    pub group: String,
    /// Name of the logical volume: `lv` or, in a group that several allocations share, `lv-<index>`.
    pub logical: String,
    pub namespaces: Vec<NamespaceId>,
    /// The allocation that the namespaces were made for; only the rabbit knows it. A drive reuses NSIDs, so a namespace
    /// that is now recorded for another allocation does not belong to the volume.
    pub made_for: Option<AllocationId>,
    pub layer: VolumeLayer,
}

impl Volume {
    /// Returns the volume with `names` (group, logical volume) in place of its own names; unchanged without `names`.
    pub fn with_names(&self, names: Option<&(String, String)>) -> Self {
        let (group, logical) = names.cloned().unwrap_or((self.group.clone(), self.logical.clone()));
        Self { group, logical, ..self.clone() }
    }

    /// Returns the name of the volume's device in `/dev/mapper`; only a logical volume has one.
    pub fn mapper_name(&self) -> String {
        mapper_name(&self.group, &self.logical)
    }

    /// Returns whether the volume's names are a guess.
    pub fn is_guessed(&self) -> bool {
        self.layer.lines().is_some_and(|lines| lines.finds_names)
    }
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.logical)
    }
}

/// Returns the name of a logical volume's device in `/dev/mapper`, `<group>-<logical>`: LVM doubles the hyphens within
/// both names (lvm2, libdm `dm_build_dm_name`).
pub fn mapper_name(group: &str, logical: &str) -> String {
    [group, logical].map(|part| part.replace('-', "--")).join("-")
}

/// The layer between namespaces and a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeLayer {
    /// No layer: the only namespace is the volume.
    Plain,
    /// LVM, with these arguments of the site.
    Lvm(Box<LvmLines>),
}

impl VolumeLayer {
    pub fn lines(&self) -> Option<&LvmLines> {
        match self {
            Self::Plain => None,
            Self::Lvm(lines) => Some(lines),
        }
    }
}

/// A site's arguments for LVM's commands. `None` where the site's line is empty: the agent then skips the
/// command and its checks.
///
/// A compute has only the arguments for locks and activation, because it never creates, repairs or removes a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LvmLines {
    /// `pvcreate`, once for each device.
    pub pv_create: Option<SiteCommand>,
    pub pv_remove: Option<SiteCommand>,
    pub vg_create: Option<SiteCommand>,
    pub vg_remove: Option<SiteCommand>,
    /// `vgextend`, for a device that replaces a lost device.
    pub vg_extend: Option<SiteCommand>,
    /// `vgreduce`, for a lost device.
    pub vg_reduce: Option<SiteCommand>,
    pub lv_create: Option<SiteCommand>,
    pub lv_remove: Option<SiteCommand>,
    /// `lvconvert --yes --repair`, for a volume with a lost device.
    pub lv_repair: Option<SiteCommand>,
    /// `vgchange`, to join the group's lock space.
    pub lock_start: Option<SiteCommand>,
    /// `vgchange`, to leave the group's lock space.
    pub lock_stop: Option<SiteCommand>,
    /// `lvchange`, to activate.
    pub activate: Option<SiteCommand>,
    /// `lvchange`, to deactivate.
    pub deactivate: Option<SiteCommand>,
    /// Whether the node leaves the group's lock space once it has deactivated its last active volume of the group. A
    /// compute then leaves the lock space, and a rabbit stays in it.
    pub leaves_lock_space: bool,
    /// Whether the volume's names are a guess, because the profile that determines them is gone. The agent then takes
    /// the names from LVM's report on the namespaces; the site's lines get values for `$VG_NAME` and `$LV_NAME` only
    /// from that report.
    pub finds_names: bool,
}
