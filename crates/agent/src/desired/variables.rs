//! The `$VARIABLES` that are known when a ClientMount is read. `$DEVICE` and its kin come later, from the node.

use std::collections::BTreeMap;

use api::{ClientMount, RabbitLabels, client_mount::ClientMountInfo, names::label};
use storage::desired::{FileSystemKind, MountSource};

use super::{commands::Commands, device::Device};

/// The table for one mount: the object's, the device's, and over both the profile's overrides.
///
/// An override of `$MOUNT_PATH` is meant for the controller that forms `spec.mounts[].mountPath`; the mount point that was
/// checked is the one that every line sees.
pub(super) fn table(
    client_mount: &ClientMount,
    info: &ClientMountInfo,
    kind: FileSystemKind,
    device: &Device,
    commands: &Commands,
) -> BTreeMap<String, String> {
    let mut table = common(client_mount, info);
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

/// The variables that the object's labels and the mount's owner give.
pub(super) fn common(
    client_mount: &ClientMount,
    info: &ClientMountInfo,
) -> BTreeMap<String, String> {
    let from_labels = [
        ("$JOBID", label::JOB_ID),
        ("$WORKFLOW_UID", label::WORKFLOW_UID),
        ("$DIRECTIVE_INDEX", label::DIRECTIVE_INDEX),
        // The storage's directive, where it differs from the job's: a persistent instance is mounted by many jobs.
        ("$DIRECTIVE_INDEX", label::TARGET_DIRECTIVE_INDEX),
    ];
    let mut table = BTreeMap::new();
    for (name, key) in from_labels {
        if let Some(value) = client_mount.label(key) {
            table.insert(name.to_owned(), value.to_owned());
        }
    }
    table.insert("$USERID".to_owned(), info.user_id.unwrap_or(0).to_string());
    table.insert("$GROUPID".to_owned(), info.group_id.unwrap_or(0).to_string());
    table
}
