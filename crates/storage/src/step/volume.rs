//! What LVM is asked to do.

use std::fmt;

/// One of LVM's commands on one volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeAction {
    /// Make a device a physical volume.
    CreatePhysical,
    /// Make a device an ordinary one again.
    RemovePhysical,
    /// Make a volume group.
    CreateGroup,
    /// Remove an empty one.
    RemoveGroup,
    /// Take a device into a group in place of one that is lost.
    ExtendGroup,
    /// Forget devices that are lost.
    ReduceGroup,
    /// Join a group's lock space.
    StartLocks,
    /// Leave it.
    StopLocks,
    /// Make a logical volume.
    CreateLogical,
    /// Remove one with its data.
    RemoveLogical,
    /// Rebuild what was on a lost device.
    Repair,
    /// Have its device on this node follow what is written of it.
    Refresh,
    /// Give it a device on this node.
    Activate,
    /// Take the device away.
    Deactivate,
    /// Note that its file system is whole.
    Tag,
}

impl VolumeAction {
    /// The step's word in journals.
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

    /// LVM's command, with what makes it this action. A group that Warren makes carries its tag, and no event of udev's
    /// activates what is in it: a volume that two nodes write is lost. What is refreshed lacks a part, and LVM wants to be told
    /// that this is known.
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

    /// Whether LVM would ask before it does it, and nobody is there to answer.
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
