//! The LVM commands that a step can run.

use std::fmt;

/// A command of LVM that changes one volume or its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeAction {
    CreatePhysical,
    RemovePhysical,
    CreateGroup,
    RemoveGroup,
    /// Adds a device that takes the place of a lost device.
    ExtendGroup,
    ReduceGroup,
    StartLocks,
    StopLocks,
    CreateLogical,
    RemoveLogical,
    /// Rebuilds the parts of a RAID that were on a lost device.
    Repair,
    /// Reloads the volume's device-mapper table on this node from LVM's metadata.
    Refresh,
    Activate,
    Deactivate,
    Tag,
}

impl VolumeAction {
    /// Returns three texts: the word for journals, the command, and a description of the action.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::CreatePhysical => ("pvcreate", "pvcreate", "make physical volume"),
            Self::RemovePhysical => ("pvremove", "pvremove", "remove physical volume"),
            Self::CreateGroup => {
                ("vgcreate", "vgcreate --addtag warren --setautoactivation n", "make volume group")
            }
            Self::RemoveGroup => ("vgremove", "vgremove", "remove volume group"),
            Self::ExtendGroup => ("vgextend", "vgextend", "extend volume group"),
            Self::ReduceGroup => ("vgreduce", "vgreduce", "forget lost devices of volume group"),
            Self::StartLocks => ("lock-start", "vgchange", "join lock space of volume group"),
            Self::StopLocks => ("lock-stop", "vgchange", "leave lock space of volume group"),
            Self::CreateLogical => ("lvcreate", "lvcreate", "make logical volume"),
            Self::RemoveLogical => ("lvremove", "lvremove", "remove logical volume"),
            Self::Repair => ("repair", "lvconvert --repair", "repair logical volume"),
            Self::Refresh => (
                "refresh",
                "lvchange --refresh --activationmode partial",
                "refresh device of logical volume",
            ),
            Self::Activate => ("activate", "lvchange", "activate logical volume"),
            Self::Deactivate => ("deactivate", "lvchange", "deactivate logical volume"),
            Self::Tag => ("tag", "lvchange", "note that the file system is made on logical volume"),
        }
    }

    /// Returns the word for the step in journals.
    pub fn kind(self) -> &'static str {
        self.words().0
    }

    /// Returns LVM's command with the options that make it this action. The options of `vgcreate` add Warren's tag, and
    /// keep udev from activating the group's volumes on every node: data is lost when two nodes write to one volume.
    /// The option `--activationmode partial` is needed because LVM otherwise refuses to refresh a volume that lacks a
    /// part.
    pub fn command(self) -> &'static str {
        self.words().1
    }

    /// Returns whether LVM asks for confirmation before this command. The agent cannot answer, so the command needs
    /// `--yes`.
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
        f.write_str(self.words().2)
    }
}
