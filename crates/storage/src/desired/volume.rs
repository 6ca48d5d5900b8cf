//! Volumes: what a file system lies on.

use std::fmt;

use super::{AllocationId, NamespaceId};
use crate::template::SiteCommand;

/// Where a file system lives: a logical volume, or with the `plain` layer the one namespace itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Volume group, formed as the sites' controllers expect: `<owner uid>_<directive>[_<index>]`.
    pub group: String,
    /// Logical volume: `lv` or, in a shared group, `lv-<index>`.
    pub logical: String,
    pub namespaces: Vec<NamespaceId>,
    /// The allocation that they were made for; known on the rabbit only. A drive reuses NSIDs, so a namespace that is
    /// recorded for another allocation by now is none of them.
    pub made_for: Option<AllocationId>,
    pub layer: VolumeLayer,
}

impl Volume {
    /// The same volume with the names that LVM reports, where its own were a guess.
    pub fn named(&self, names: Option<&(String, String)>) -> Self {
        let (group, logical) = names.cloned().unwrap_or((self.group.clone(), self.logical.clone()));
        Self { group, logical, ..self.clone() }
    }

    /// The name of its device in `/dev/mapper`, when it is a logical volume.
    pub(crate) fn mapper_name(&self) -> String {
        mapper_name(&self.group, &self.logical)
    }

    /// Whether its names are a guess.
    pub fn is_guessed(&self) -> bool {
        self.layer.lines().is_some_and(|lines| lines.finds_names)
    }
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.logical)
    }
}

/// The name of a logical volume's device in `/dev/mapper`: LVM doubles hyphens in both parts (lvm2, libdm
/// `dm_build_dm_name`).
pub(crate) fn mapper_name(group: &str, logical: &str) -> String {
    [group, logical].map(|part| part.replace('-', "--")).join("-")
}

/// What lies between namespaces and a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeLayer {
    /// Nothing: the one namespace is the volume.
    Plain,
    /// LVM, driven by these lines.
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

/// A site's arguments for LVM's commands; `None` where its line is empty: that command and its checks are skipped.
///
/// A compute has only those of the lock and of activation: it never creates, repairs or removes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LvmLines {
    /// `pvcreate`, for each device by itself.
    pub pv_create: Option<SiteCommand>,
    pub pv_remove: Option<SiteCommand>,
    pub vg_create: Option<SiteCommand>,
    pub vg_remove: Option<SiteCommand>,
    /// `vgextend`, for a device that replaces a lost one.
    pub vg_extend: Option<SiteCommand>,
    /// `vgreduce`, for a lost device.
    pub vg_reduce: Option<SiteCommand>,
    pub lv_create: Option<SiteCommand>,
    pub lv_remove: Option<SiteCommand>,
    /// `lvconvert --yes --repair`.
    pub lv_repair: Option<SiteCommand>,
    /// `vgchange`, to join the group's lock space.
    pub lock_start: Option<SiteCommand>,
    /// `vgchange`, to leave it.
    pub lock_stop: Option<SiteCommand>,
    /// `lvchange`, to activate.
    pub activate: Option<SiteCommand>,
    /// `lvchange`, to deactivate.
    pub deactivate: Option<SiteCommand>,
    /// Whether the node leaves the group's lock space with its last volume: a compute does, a rabbit stays for the
    /// other nodes.
    pub leaves_lock_space: bool,
    /// Whether the volume's names are a guess because the profile that names it is gone. LVM then reports the names
    /// from the namespaces, and the lines have no values of `$VG_NAME` and `$LV_NAME` of their own.
    pub finds_names: bool,
}
