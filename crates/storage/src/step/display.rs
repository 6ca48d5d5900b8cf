//! Formats the log lines of the steps.

use std::fmt;

use super::Step;
use crate::desired::RootFile;

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrepareDrive { drive, action } => write!(f, "{action} of drive {drive}"),
            Self::Rescan { namespaces } => {
                let namespaces: Vec<_> = namespaces.iter().map(ToString::to_string).collect();
                write!(f, "rescan for namespaces {}", namespaces.join(", "))
            }
            Self::CreateNamespace { allocation, drive, size, members: _ } => {
                write!(f, "create namespace of {size} bytes on {drive} for allocation {allocation}")
            }
            Self::AdoptNamespace { id, allocation, .. } => {
                write!(f, "adopt namespace {id} for allocation {allocation}")
            }
            Self::ReplaceNamespace { id, allocation } => {
                write!(f, "note that namespace {id} of allocation {allocation} was replaced")
            }
            Self::ForgetNamespace { id, allocation } => {
                write!(
                    f,
                    "forget namespace {id} of allocation {allocation}, whose drive is gone for good"
                )
            }
            Self::ZeroNamespace { id, allocation } => {
                write!(f, "zero namespace {id} of allocation {allocation}")
            }
            Self::EraseNamespace { id, allocation } => {
                write!(f, "erase namespace {id} of allocation {allocation}")
            }
            Self::DeleteNamespace { id, allocation } => {
                write!(f, "delete namespace {id} of allocation {allocation}")
            }
            Self::Attach { id, endpoint, node } => {
                write!(f, "attach namespace {id} to {node} (endpoint {})", endpoint.number())
            }
            Self::Detach { id, node } => write!(f, "detach namespace {id} from {node}"),
            Self::Volume { action, on, line, .. } => write!(f, "{action} {on}: {line}"),
            Self::Zfs { action, on, line, .. } => write!(f, "{action} {on}: {line}"),
            Self::RemoveMapping { name, .. } => {
                write!(f, "remove mapping {name}, which leads to no volume")
            }
            Self::DropLockSpace { group } => {
                write!(f, "leave the lock space of volume group {group}, which is gone")
            }
            Self::UnmarkPhysical { device } => {
                write!(f, "wipe label of unfinished volume group from {}", device.path.display())
            }
            Self::WipeSignature { device, id } => {
                write!(f, "wipe unfinished file system {id} from {}", device.path.display())
            }
            Self::MakeFileSystem { device, kind, id, line } => {
                write!(f, "make {kind} {id} on {}: {line}", device.path.display())
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
                write!(f, "change the owner of {target} to {}:{}", owner.uid, owner.gid)
            }
            Self::WriteFile { target, file: RootFile { name, owner, .. } } => {
                write!(f, "write {target}/{name} for {}:{}", owner.uid, owner.gid)
            }
            Self::Link { root, link } => write!(f, "link {root}/{link}"),
            Self::Unlink { root, name } => write!(f, "unlink {root}/{name}"),
            Self::OpenHooks { scope } => write!(f, "open hook records {}", scope.as_str()),
            Self::RunHook { id, line } => write!(f, "run hook {id}: {line}"),
            Self::ForgetHooks { scope } => write!(f, "forget hook records {}", scope.as_str()),
        }
    }
}
