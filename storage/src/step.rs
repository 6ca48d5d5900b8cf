//! One change to a node. `Display` is its log line, and what a dry run prints.

use std::{fmt, path::PathBuf};

use crate::desired::{
    AllocationId, Endpoint, FileSystemId, FileSystemKind, HookId, HookScope, IndexLink, MountPoint,
    NamespaceId, NodeName, Nqn, Owner,
};
use crate::observed::DeviceNumber;

/// One change to a node; taking it again is safe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make a namespace, its blocks zero.
    CreateNamespace {
        /// Whose it will be.
        allocation: AllocationId,
        /// On which drive.
        drive: Nqn,
        /// Bytes.
        size: u64,
    },
    /// Delete a namespace with its data.
    DeleteNamespace {
        /// Which.
        id: NamespaceId,
        /// Whose it must be.
        allocation: AllocationId,
    },
    /// Let a host reach a namespace.
    Attach {
        /// Which.
        id: NamespaceId,
        /// The host's place.
        endpoint: Endpoint,
        /// The host.
        node: NodeName,
    },
    /// Let a host reach a namespace no more.
    Detach {
        /// Which.
        id: NamespaceId,
        /// The host.
        node: NodeName,
    },
    /// Wipe what a mkfs of ours left when it was cut off.
    WipeSignature {
        /// The namespace.
        namespace: NamespaceId,
        /// Its device.
        device: PathBuf,
        /// What must be found there.
        id: FileSystemId,
    },
    /// Make a file system.
    MakeFileSystem {
        /// The namespace.
        namespace: NamespaceId,
        /// Its device.
        device: PathBuf,
        /// Its type.
        kind: FileSystemKind,
        /// The UUID it gets.
        id: FileSystemId,
        /// Arguments of `mkfs -t <kind>`, expanded.
        line: String,
    },
    /// Make the directory, or for raw the file, to mount on.
    CreateMountPoint {
        /// Where.
        target: MountPoint,
        /// Whether it is a file.
        file: bool,
    },
    /// Mount.
    Mount {
        /// A device, a directory to show once more, or `<mgs>:/<fsname>`.
        source: String,
        /// Where.
        target: MountPoint,
        /// File system type.
        kind: FileSystemKind,
        /// Arguments of `mount -t <kind>`, expanded.
        line: String,
    },
    /// Unmount.
    Unmount {
        /// Where.
        target: MountPoint,
        /// Device of what must be found there.
        device: DeviceNumber,
        /// Arguments of `umount`, expanded.
        line: String,
    },
    /// Remove an empty mount point, and its parent when that was an index tree's root and is empty now.
    RemoveMountPoint {
        /// Where.
        target: MountPoint,
    },
    /// Make a directory and those above it.
    CreateDirectory {
        /// Where.
        path: MountPoint,
    },
    /// Remove an empty directory.
    RemoveDirectory {
        /// Where.
        path: MountPoint,
    },
    /// Give a mount's root to its user.
    SetOwner {
        /// Where.
        target: MountPoint,
        /// To whom.
        owner: Owner,
    },
    /// Put a link in an index tree, in place of one that leads elsewhere.
    Link {
        /// The tree.
        root: MountPoint,
        /// The link.
        link: IndexLink,
    },
    /// Take a link out of an index tree.
    Unlink {
        /// The tree.
        root: MountPoint,
        /// Its name.
        name: String,
    },
    /// Record that something begins whose hooks must one day end it.
    OpenHooks {
        /// Whose hooks.
        scope: HookScope,
    },
    /// Run a site's hook, then record that it ran.
    RunHook {
        /// Its record.
        id: HookId,
        /// The expanded line for `bash -c`.
        line: String,
    },
    /// Forget which hooks of a scope ran.
    ForgetHooks {
        /// Whose hooks.
        scope: HookScope,
    },
}

impl Step {
    /// What kind of step it is, in one word that never changes: journals are filtered by it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::CreateNamespace { .. } => "create-namespace",
            Self::DeleteNamespace { .. } => "delete-namespace",
            Self::Attach { .. } => "attach",
            Self::Detach { .. } => "detach",
            Self::WipeSignature { .. } => "wipe",
            Self::MakeFileSystem { .. } => "mkfs",
            Self::CreateMountPoint { .. } => "create-mount-point",
            Self::Mount { .. } => "mount",
            Self::Unmount { .. } => "unmount",
            Self::RemoveMountPoint { .. } => "remove-mount-point",
            Self::CreateDirectory { .. } => "create-directory",
            Self::RemoveDirectory { .. } => "remove-directory",
            Self::SetOwner { .. } => "chown",
            Self::Link { .. } => "link",
            Self::Unlink { .. } => "unlink",
            Self::OpenHooks { .. } => "open-hooks",
            Self::RunHook { .. } => "hook",
            Self::ForgetHooks { .. } => "forget-hooks",
        }
    }

    /// Its text without the site's command line: the error of a command names its line itself.
    #[must_use]
    pub fn briefly(&self) -> String {
        let whole = self.to_string();
        match self {
            Self::MakeFileSystem { line, .. }
            | Self::Mount { line, .. }
            | Self::Unmount { line, .. }
            | Self::RunHook { line, .. } => match whole.strip_suffix(&format!(": {line}")) {
                Some(brief) => brief.to_owned(),
                None => whole,
            },
            _ => whole,
        }
    }

    /// The one thing it changes: a mount point, a namespace, a drive, a tree's root or a scope of hooks.
    #[must_use]
    pub fn on(&self) -> &dyn fmt::Display {
        match self {
            Self::CreateNamespace { drive, .. } => drive,
            Self::DeleteNamespace { id, .. }
            | Self::Attach { id, .. }
            | Self::Detach { id, .. } => id,
            Self::WipeSignature { namespace, .. } | Self::MakeFileSystem { namespace, .. } => {
                namespace
            }
            Self::CreateMountPoint { target, .. }
            | Self::Mount { target, .. }
            | Self::Unmount { target, .. }
            | Self::RemoveMountPoint { target }
            | Self::SetOwner { target, .. } => target,
            Self::CreateDirectory { path } | Self::RemoveDirectory { path } => path,
            Self::Link { root, .. } | Self::Unlink { root, .. } => root,
            Self::RunHook { id, .. } => &id.scope,
            Self::OpenHooks { scope } | Self::ForgetHooks { scope } => scope,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateNamespace { allocation, drive, size } => {
                write!(f, "create namespace of {size} bytes on {drive} for allocation {allocation}")
            }
            Self::DeleteNamespace { id, allocation } => {
                write!(f, "delete namespace {id} of allocation {allocation}")
            }
            Self::Attach { id, endpoint, node } => {
                write!(f, "attach namespace {id} to {node} (endpoint {})", endpoint.number())
            }
            Self::Detach { id, node } => write!(f, "detach namespace {id} from {node}"),
            Self::WipeSignature { device, id, .. } => {
                write!(f, "wipe unfinished file system {id} from {}", device.display())
            }
            Self::MakeFileSystem { device, kind, id, line, .. } => {
                write!(f, "make {kind} {id} on {}: {line}", device.display())
            }
            Self::CreateMountPoint { target, file: false } => {
                write!(f, "create mount point {target}")
            }
            Self::CreateMountPoint { target, file: true } => {
                write!(f, "create mount point {target} (a file)")
            }
            Self::Mount { source, target, kind, line } => {
                write!(f, "mount {kind} {source} on {target}: {line}")
            }
            Self::Unmount { target, line, .. } => write!(f, "unmount {target}: {line}"),
            Self::RemoveMountPoint { target } => write!(f, "remove mount point {target}"),
            Self::CreateDirectory { path } => write!(f, "create directory {path}"),
            Self::RemoveDirectory { path } => write!(f, "remove directory {path}"),
            Self::SetOwner { target, owner } => {
                write!(f, "give {target} to {}:{}", owner.uid, owner.gid)
            }
            Self::Link { root, link } => write!(f, "link {root}/{link}"),
            Self::Unlink { root, name } => write!(f, "unlink {root}/{name}"),
            Self::OpenHooks { scope } => write!(f, "open hook records {}", scope.as_str()),
            Self::RunHook { id, line } => write!(f, "run hook {id}: {line}"),
            Self::ForgetHooks { scope } => write!(f, "forget hook records {}", scope.as_str()),
        }
    }
}
