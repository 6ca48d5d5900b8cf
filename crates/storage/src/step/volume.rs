//! LVM's commands.

use std::fmt;

/// One of LVM's commands on one volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeAction {
    /// Make a device a physical volume.
    CreatePhysical,
    /// Remove the label of a physical volume.
    RemovePhysical,
    /// Create a volume group.
    CreateGroup,
    /// Remove an empty volume group.
    RemoveGroup,
    /// Add a device to a group in place of a lost one.
    ExtendGroup,
    /// Remove lost devices from a group.
    ReduceGroup,
    /// Join a group's lock space.
    StartLocks,
    /// Leave a group's lock space.
    StopLocks,
    /// Create a logical volume.
    CreateLogical,
    /// Remove a logical volume with its data.
    RemoveLogical,
    /// Rebuild the parts of a RAID that were on a lost device.
    Repair,
    /// Reload the volume's table on this node from LVM's metadata.
    Refresh,
    /// Activate a volume on this node.
    Activate,
    /// Deactivate a volume on this node.
    Deactivate,
    /// Tag a volume: its file system is complete.
    Tag,
}

impl VolumeAction {
    /// The word for the step in journals.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::CreatePhysical => "pvcreate",
            Self::RemovePhysical => "pvremove",
            Self::CreateGroup => "vgcreate",
            Self::RemoveGroup => "vgremove",
            Self::ExtendGroup => "vgextend",
            Self::ReduceGroup => "vgreduce",
            Self::StartLocks => "lock-start",
            Self::StopLocks => "lock-stop",
            Self::CreateLogical => "lvcreate",
            Self::RemoveLogical => "lvremove",
            Self::Repair => "repair",
            Self::Refresh => "refresh",
            Self::Activate => "activate",
            Self::Deactivate => "deactivate",
            Self::Tag => "tag",
        }
    }

    /// LVM's command, with the options that make it this action. A group that Warren creates gets its tag, and no udev
    /// event activates its volumes: a volume that two nodes write is lost. A volume to refresh lacks a part, and LVM
    /// needs an option to accept that.
    #[must_use]
    pub fn command(self) -> &'static str {
        match self {
            Self::CreatePhysical => "pvcreate",
            Self::RemovePhysical => "pvremove",
            Self::CreateGroup => "vgcreate --addtag warren --setautoactivation n",
            Self::RemoveGroup => "vgremove",
            Self::ExtendGroup => "vgextend",
            Self::ReduceGroup => "vgreduce",
            Self::StartLocks | Self::StopLocks => "vgchange",
            Self::CreateLogical => "lvcreate",
            Self::RemoveLogical => "lvremove",
            Self::Repair => "lvconvert --repair",
            Self::Refresh => "lvchange --refresh --activationmode partial",
            Self::Activate | Self::Deactivate | Self::Tag => "lvchange",
        }
    }

    /// Whether LVM would ask for confirmation, which nobody could answer.
    #[must_use]
    pub fn is_asked_about(self) -> bool {
        matches!(
            self,
            Self::RemovePhysical
                | Self::RemoveGroup
                | Self::CreateLogical
                | Self::RemoveLogical
                | Self::Repair
        )
    }
}

impl fmt::Display for VolumeAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CreatePhysical => "make physical volume",
            Self::RemovePhysical => "remove physical volume",
            Self::CreateGroup => "make volume group",
            Self::RemoveGroup => "remove volume group",
            Self::ExtendGroup => "extend volume group",
            Self::ReduceGroup => "forget lost devices of volume group",
            Self::StartLocks => "join lock space of volume group",
            Self::StopLocks => "leave lock space of volume group",
            Self::CreateLogical => "make logical volume",
            Self::RemoveLogical => "remove logical volume",
            Self::Repair => "repair logical volume",
            Self::Refresh => "refresh device of logical volume",
            Self::Activate => "activate logical volume",
            Self::Deactivate => "deactivate logical volume",
            Self::Tag => "note that the file system is made on logical volume",
        })
    }
}
