//! The `$VARIABLES` that a ClientMount defines. The storage crate adds `$DEVICE` and other variables of the node later,
//! when it has observed the node.

use std::collections::BTreeMap;

use api::{ClientMount, client_mount::ClientMountInfo};
use storage::desired::{FileSystemKind, MountSource};

use super::{commands::Commands, device::Device, object_variables};

/// Returns the variables of one mount: the variables of the object and of the device; an override in the profile
/// replaces a variable of the same name.
///
/// An override of `$MOUNT_PATH` is ignored here, because it is meant for the controller that writes
/// `spec.mounts[].mountPath`. In all lines, `$MOUNT_PATH` is the mount point that the agent has checked.
pub(super) fn table(
    client_mount: &ClientMount,
    info: &ClientMountInfo,
    kind: FileSystemKind,
    device: &Device,
    commands: &Commands,
) -> BTreeMap<String, String> {
    let mut table = object_variables::table(client_mount, info);
    let mut set = |name: &str, value: String| table.insert(name.to_owned(), value);
    set("$FSTYPE", kind.as_str().to_owned());
    set("$MOUNT_TARGET", if kind == FileSystemKind::Raw { "file" } else { "directory" }.to_owned());
    match &device.source {
        MountSource::Volume { volume, .. } => {
            set("$VG_NAME", volume.group.clone());
            set("$LV_NAME", volume.logical.clone());
        }
        MountSource::Lustre(source) => {
            let (mgs, name) = source.split_once(":/").unwrap_or((source, ""));
            set("$MGS_NID", mgs.to_owned());
            set("$FS_NAME", name.to_owned());
            set("$BACKFS", "none".to_owned());
        }
        MountSource::Bind(_) => {}
    }
    if let Some(reference) = &device.reference {
        set("$LV_INDEX", reference.index.to_string());
        set("$INDEX", reference.index.to_string());
        if kind == FileSystemKind::Gfs2 {
            set("$CLUSTER_NAME", reference.rabbit.clone());
            set("$PROTOCOL", "lock_dlm".to_owned());
        }
    }
    table.extend(
        commands
            .overrides
            .iter()
            .filter(|(name, _)| *name != "$MOUNT_PATH")
            .map(|(n, v)| (n.clone(), v.clone())),
    );
    table
}
