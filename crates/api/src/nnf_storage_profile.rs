//! `NnfStorageProfile`: the site's command lines and hooks. Its body is under `data`; it has no status.
//!
//! Agents read only the copy that is pinned to a workflow. An empty command line means that the step is skipped.
//! Nested objects read as empty when they are absent.

mod lustre;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::Nested;
pub use lustre::*;

/// What stands beside `metadata`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nnf.cray.hpe.com",
    version = "v1alpha11",
    kind = "NnfStorageProfile",
    namespaced,
    no_spec,
    derive = "PartialEq",
    doc = "The site's command lines and hooks for making, mounting and removing storage",
    printcolumn(
        name = "DEFAULT",
        type_ = "boolean",
        json_path = ".data.default",
        description = "True if this is the default instance"
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(default)]
pub struct NnfStorageProfileBody {
    /// The profile.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub data: Nested<NnfStorageProfileData>,
}

impl NnfStorageProfile {
    /// The profile itself.
    #[must_use]
    pub fn data(&self) -> &NnfStorageProfileData {
        &self.spec.data
    }
}

/// A profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfStorageProfileData {
    /// Whether this is the profile of jobs that name none.
    pub default: bool,
    /// Whether this copy belongs to a workflow; agents refuse any other.
    pub pinned: bool,
    /// For Lustre.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub lustre_storage: Nested<LustreProfile>,
    /// For GFS2.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub gfs2_storage: Nested<StorageProfile>,
    /// For XFS.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub xfs_storage: Nested<StorageProfile>,
    /// For raw devices.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub raw_storage: Nested<StorageProfile>,
}

/// A profile for file systems on logical volumes, and for raw ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageProfile {
    /// Making and mounting the file system.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub file_system_commands: Nested<FileSystemCommands>,
    /// Making and activating the logical volume.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub block_device_commands: Nested<BlockDeviceCommands>,
    /// Hooks on the rabbit around set-up and teardown.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub user_commands: Nested<SetupUserCommands>,
    /// Whether several clients share one allocation; for the central controllers.
    #[serde(skip_serializing_if = "crate::omit::is_false")]
    pub shared_allocation: bool,
    /// Labels a `Storage` must have; for the central controllers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storage_labels: Vec<String>,
    /// Factor on the capacity asked for, decimal; for the central controllers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "1.0"))]
    pub capacity_scaling_factor: Option<String>,
    /// Extra block storage, such as `3.5%` or `100MiB`, that users do not see.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub allocation_padding: String,
    /// Values for variables of the command lines, keys with the `$`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variable_override: BTreeMap<String, String>,
}

/// Making and activating logical volumes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BlockDeviceCommands {
    /// Whether all allocations of a workflow on one rabbit share a volume group.
    pub shared_vg: bool,
    /// On the rabbit.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub rabbit_commands: Nested<RabbitBlockDeviceCommands>,
    /// On computes.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub compute_commands: Nested<ComputeBlockDeviceCommands>,
}

/// Arguments of LVM commands on the rabbit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RabbitBlockDeviceCommands {
    /// For `pvcreate`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pv_create: String,
    /// For `pvremove`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pv_remove: String,
    /// For `vgcreate`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vg_create: String,
    /// For `vgchange`.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub vg_change: Nested<VgChange>,
    /// For rebuilding after a drive was replaced.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub lvm_rebuild: Nested<LvmRebuild>,
    /// For `vgremove`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vg_remove: String,
    /// For `lvcreate`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lv_create: String,
    /// For `lvchange`.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub lv_change: Nested<LvChange>,
    /// For `lvremove`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lv_remove: String,
    /// Hooks around activation.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub user_commands: Nested<BlockDeviceUserCommands>,
}

/// Arguments of LVM commands on a compute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ComputeBlockDeviceCommands {
    /// For `vgchange`.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub vg_change: Nested<VgChange>,
    /// For `lvchange`.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub lv_change: Nested<LvChange>,
    /// Hooks around activation.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub user_commands: Nested<BlockDeviceUserCommands>,
}

/// Arguments of `vgchange`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VgChange {
    /// To start the lock space.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lock_start: String,
    /// To stop the lock space.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lock_stop: String,
}

/// Arguments of `lvchange`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LvChange {
    /// To activate.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub activate: String,
    /// To deactivate.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deactivate: String,
}

/// Arguments of LVM commands that repair a volume group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LvmRebuild {
    /// For `vgextend`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vg_extend: String,
    /// For `vgreduce`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vg_reduce: String,
    /// For `lvconvert --repair`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lv_repair: String,
}

/// Hooks around activation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BlockDeviceUserCommands {
    /// Before activation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_activate: Vec<String>,
    /// After activation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_activate: Vec<String>,
    /// Before deactivation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_deactivate: Vec<String>,
    /// After deactivation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_deactivate: Vec<String>,
}

/// Making and mounting a file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FileSystemCommands {
    /// On the rabbit.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub rabbit_commands: Nested<RabbitFileSystemCommands>,
    /// On computes.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub compute_commands: Nested<ComputeFileSystemCommands>,
}

/// Arguments of file system commands on the rabbit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RabbitFileSystemCommands {
    /// For `mkfs`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mkfs: String,
    /// For `mount`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mount: String,
    /// For `umount`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unmount: String,
    /// Hooks around mounting.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub user_commands: Nested<FileSystemUserCommands>,
}

/// Arguments of file system commands on a compute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ComputeFileSystemCommands {
    /// For `mount`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mount: String,
    /// For `umount`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unmount: String,
    /// Hooks around mounting.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub user_commands: Nested<FileSystemUserCommands>,
}

/// Hooks around mounting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FileSystemUserCommands {
    /// Before mounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_mount: Vec<String>,
    /// After mounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_mount: Vec<String>,
    /// Before unmounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_unmount: Vec<String>,
    /// After unmounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_unmount: Vec<String>,
}

/// Hooks on the rabbit around set-up and teardown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SetupUserCommands {
    /// After the file system is activated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_activate: Vec<String>,
    /// Before the file system is deactivated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_deactivate: Vec<String>,
    /// After the file system is made, while it is mounted on the rabbit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_setup: Vec<String>,
    /// Before the file system is removed, while it is mounted on the rabbit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_teardown: Vec<String>,
    /// After the file system is removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_teardown: Vec<String>,
}
