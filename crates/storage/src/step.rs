//! One change to a node. The log and a dry run print its `Display` text.

mod display;
mod drive;
mod mountable;
mod volume;
mod zfs;

use std::fmt;

pub use drive::DriveAction;
pub use mountable::Mountable;
pub use volume::VolumeAction;
pub use zfs::ZfsAction;

use crate::desired::{
    AllocationId, Endpoint, FileSystemId, FileSystemKind, HookId, HookScope, IndexLink, MountPoint,
    NamespaceId, NodeName, Nqn, Owner, RootFile,
};
use crate::observed::{BlockDevice, DeviceNumber, VolumeDevice};

/// One change to a node. It is safe to apply the same step twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make a drive ready for its hosts.
    PrepareDrive {
        drive: Nqn,
        action: DriveAction,
    },
    /// Let the kernel search the controllers of these namespaces' drives for new namespaces, and wait until the
    /// namespaces appear.
    Rescan {
        namespaces: Vec<NamespaceId>,
    },
    /// Create a namespace whose blocks read as zero.
    CreateNamespace {
        allocation: AllocationId,
        drive: Nqn,
        /// Size of the namespace in bytes.
        size: u64,
        /// Number of namespaces of the allocation, including this namespace.
        members: u16,
    },
    /// Attach a new namespace to the rabbit, write zeroes to all its blocks, detach it, and record that it is zeroed.
    ZeroNamespace {
        id: NamespaceId,
        allocation: AllocationId,
    },
    /// Record that a namespace without a record belongs to an allocation.
    AdoptNamespace {
        id: NamespaceId,
        allocation: AllocationId,
        /// Size in bytes that the namespace must have.
        size: u64,
        /// Number of namespaces of the allocation, including this namespace.
        members: u16,
    },
    /// Record that a namespace whose drive is gone for good was replaced by another namespace.
    ReplaceNamespace {
        id: NamespaceId,
        allocation: AllocationId,
    },
    /// Remove the record of a namespace whose drive is gone for good.
    ForgetNamespace {
        id: NamespaceId,
        allocation: AllocationId,
    },
    /// Detach a namespace from every host, and erase it.
    EraseNamespace {
        id: NamespaceId,
        allocation: AllocationId,
    },
    /// Delete a namespace that was erased, or that lies in a file, and its record.
    DeleteNamespace {
        id: NamespaceId,
        allocation: AllocationId,
    },
    Attach {
        id: NamespaceId,
        /// The host's port in the chassis.
        endpoint: Endpoint,
        node: NodeName,
    },
    Detach {
        id: NamespaceId,
        node: NodeName,
    },
    Volume {
        action: VolumeAction,
        /// The device, volume group or logical volume that the command changes.
        on: String,
        /// All devices that LVM may read or change; the step fails if one of them is no longer the same namespace.
        devices: Vec<BlockDevice>,
        /// Arguments of the command, with all variables replaced.
        line: String,
    },
    /// Run a command of ZFS or a command that makes or mounts Lustre targets.
    Zfs {
        action: ZfsAction,
        on: String,
        /// All devices of the allocation; the step fails if one of them is no longer the same namespace.
        devices: Vec<BlockDevice>,
        /// Arguments of the command, with all variables replaced.
        line: String,
    },
    /// Remove a mapping of a logical volume: a mapping that was never completed, or whose namespaces are gone.
    RemoveMapping {
        /// Name of the mapping in `/dev/mapper`.
        name: String,
        /// Device number that the mapping must have.
        number: DeviceNumber,
    },
    /// Leave the DLM lock space of a volume group that no longer exists.
    DropLockSpace {
        group: String,
    },
    /// Wipe the label of a device on which a `vgcreate`, a `vgextend` or a `vgremove` was interrupted: LVM accepts the
    /// device only after that.
    UnmarkPhysical {
        device: VolumeDevice,
    },
    /// Wipe the superblock that an interrupted mkfs of Warren's left.
    WipeSignature {
        device: VolumeDevice,
        /// UUID that the superblock must have.
        id: FileSystemId,
    },
    MakeFileSystem {
        device: VolumeDevice,
        kind: FileSystemKind,
        /// UUID that the file system gets.
        id: FileSystemId,
        /// Arguments of `mkfs -t <kind>`, with all variables replaced.
        line: String,
    },
    /// Create the mount point: a directory, or for raw a file.
    CreateMountPoint {
        target: MountPoint,
        /// Whether the mount point is a file.
        file: bool,
    },
    Mount {
        source: Mountable,
        target: MountPoint,
        kind: FileSystemKind,
        /// Arguments of `mount -t <kind>`, with all variables replaced.
        line: String,
    },
    Unmount {
        target: MountPoint,
        device: DeviceNumber,
        /// Arguments of `umount`, with all variables replaced.
        line: String,
    },
    /// Remove an empty mount point. Also remove its parent if the parent is the root of an index tree
    /// and is then empty.
    RemoveMountPoint {
        target: MountPoint,
    },
    CreateDirectory {
        path: MountPoint,
    },
    RemoveDirectory {
        path: MountPoint,
    },
    /// Change the owner of a mount's root: chown(2).
    SetOwner {
        target: MountPoint,
        owner: Owner,
    },
    WriteFile {
        target: MountPoint,
        file: RootFile,
    },
    /// Create a link in an index tree, or replace a link that has another target.
    Link {
        root: MountPoint,
        link: IndexLink,
    },
    Unlink {
        root: MountPoint,
        name: String,
    },
    /// Record that set-up begins in a scope of hooks: the scope's tear-down hooks must then run later.
    OpenHooks {
        scope: HookScope,
    },
    /// Run a site's hook, then record that it ran.
    RunHook {
        id: HookId,
        /// The line for `bash -c`, with all variables replaced.
        line: String,
    },
    /// Remove the records of a scope's hooks.
    ForgetHooks {
        scope: HookScope,
    },
}

impl Step {
    /// Returns the step's kind, in one word that never changes, because admins filter journals by it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PrepareDrive { action, .. } => action.kind(),
            Self::Rescan { .. } => "rescan",
            Self::CreateNamespace { .. } => "create-namespace",
            Self::ZeroNamespace { .. } => "zero-namespace",
            Self::AdoptNamespace { .. } => "adopt-namespace",
            Self::ReplaceNamespace { .. } => "replace-namespace",
            Self::ForgetNamespace { .. } => "forget-namespace",
            Self::EraseNamespace { .. } => "erase-namespace",
            Self::DeleteNamespace { .. } => "delete-namespace",
            Self::Attach { .. } => "attach",
            Self::Detach { .. } => "detach",
            Self::Volume { action, .. } => action.kind(),
            Self::Zfs { action, .. } => action.kind(),
            Self::RemoveMapping { .. } => "remove-mapping",
            Self::DropLockSpace { .. } => "drop-lock-space",
            Self::UnmarkPhysical { .. } => "unmark",
            Self::WipeSignature { .. } => "wipe",
            Self::MakeFileSystem { .. } => "mkfs",
            Self::CreateMountPoint { .. } => "create-mount-point",
            Self::Mount { .. } => "mount",
            Self::Unmount { .. } => "unmount",
            Self::RemoveMountPoint { .. } => "remove-mount-point",
            Self::CreateDirectory { .. } => "create-directory",
            Self::RemoveDirectory { .. } => "remove-directory",
            Self::SetOwner { .. } => "chown",
            Self::WriteFile { .. } => "write-file",
            Self::Link { .. } => "link",
            Self::Unlink { .. } => "unlink",
            Self::OpenHooks { .. } => "open-hooks",
            Self::RunHook { .. } => "hook",
            Self::ForgetHooks { .. } => "forget-hooks",
        }
    }

    /// Returns the step's text without the site's command line, for errors: the error of a command
    /// quotes the line itself.
    pub fn briefly(&self) -> String {
        let whole = self.to_string();
        match self {
            Self::Volume { line, .. }
            | Self::Zfs { line, .. }
            | Self::MakeFileSystem { line, .. }
            | Self::Mount { line, .. }
            | Self::Unmount { line, .. }
            | Self::RunHook { line, .. } => match whole.strip_suffix(&format!(": {line}")) {
                Some(brief) => brief.to_owned(),
                None => whole,
            },
            _ => whole,
        }
    }

    /// Returns the drive, if the step changes only a drive: steps of the same kind on different drives
    /// may run in parallel.
    pub fn drive(&self) -> Option<&Nqn> {
        match self {
            Self::PrepareDrive { drive, .. } | Self::CreateNamespace { drive, .. } => Some(drive),
            Self::ZeroNamespace { id, .. }
            | Self::AdoptNamespace { id, .. }
            | Self::ReplaceNamespace { id, .. }
            | Self::ForgetNamespace { id, .. }
            | Self::EraseNamespace { id, .. }
            | Self::DeleteNamespace { id, .. }
            | Self::Attach { id, .. }
            | Self::Detach { id, .. } => Some(&id.subsystem),
            _ => None,
        }
    }

    /// Returns the object that the step changes: a mount point, a namespace, a volume, a drive, the root of a tree, or
    /// a scope of hooks.
    pub fn on(&self) -> &dyn fmt::Display {
        match self {
            Self::PrepareDrive { drive, .. } | Self::CreateNamespace { drive, .. } => drive,
            Self::Rescan { .. } => &"namespaces",
            Self::ZeroNamespace { id, .. }
            | Self::EraseNamespace { id, .. }
            | Self::DeleteNamespace { id, .. }
            | Self::AdoptNamespace { id, .. }
            | Self::ReplaceNamespace { id, .. }
            | Self::ForgetNamespace { id, .. }
            | Self::Attach { id, .. }
            | Self::Detach { id, .. } => id,
            Self::Volume { on, .. } | Self::Zfs { on, .. } => on,
            Self::RemoveMapping { name, .. } => name,
            Self::DropLockSpace { group } => group,
            Self::UnmarkPhysical { device }
            | Self::WipeSignature { device, .. }
            | Self::MakeFileSystem { device, .. } => &device.name,
            Self::CreateMountPoint { target, .. }
            | Self::Mount { target, .. }
            | Self::Unmount { target, .. }
            | Self::RemoveMountPoint { target }
            | Self::SetOwner { target, .. }
            | Self::WriteFile { target, .. } => target,
            Self::CreateDirectory { path } | Self::RemoveDirectory { path } => path,
            Self::Link { root, .. } | Self::Unlink { root, .. } => root,
            Self::RunHook { id, .. } => &id.scope,
            Self::OpenHooks { scope } | Self::ForgetHooks { scope } => scope,
        }
    }
}
