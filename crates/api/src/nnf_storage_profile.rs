//! `NnfStorageProfile`: the site's command lines and hooks. Its body is under `data`; it has no status.
//!
//! Agents read only the copy that is pinned to a workflow. The step of an empty command line is skipped. Nested objects
//! read as empty when they are absent.

mod lustre;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::Nested;
pub use lustre::*;

/// Fields of the object beside `metadata`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nnf.cray.hpe.com",
    version = "v1alpha11",
    kind = "NnfStorageProfile",
    namespaced,
    no_spec,
    derive = "PartialEq",
    doc = "The site's command lines and hooks that create, mount and delete storage",
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
    /// Body of the profile.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub data: Nested<NnfStorageProfileData>,
}

impl NnfStorageProfile {
    /// Returns the profile's body.
    #[must_use]
    pub fn data(&self) -> &NnfStorageProfileData {
        &self.spec.data
    }
}

/// Body of the profile, by type of file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfStorageProfileData {
    /// True for the profile of jobs whose directives name no profile.
    pub default: bool,
    /// True for the copy that belongs to one workflow; agents refuse any other.
    pub pinned: bool,
    /// Settings for Lustre file systems.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub lustre_storage: Nested<LustreProfile>,
    /// Settings for GFS2 file systems.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub gfs2_storage: Nested<StorageProfile>,
    /// Settings for XFS file systems.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub xfs_storage: Nested<StorageProfile>,
    /// Settings for raw devices.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub raw_storage: Nested<StorageProfile>,
}

/// Settings for one type of file system on logical volumes, or for raw logical volumes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageProfile {
    /// Commands that create and mount the file system.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub file_system_commands: Nested<FileSystemCommands>,
    /// Commands that create and activate the logical volume.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub block_device_commands: Nested<BlockDeviceCommands>,
    /// Hooks on the rabbit around set-up and teardown.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub user_commands: Nested<SetupUserCommands>,
    /// True if several clients share one allocation; read by the central controllers.
    #[serde(skip_serializing_if = "crate::omit::is_false")]
    pub shared_allocation: bool,
    /// Labels that a rabbit's `Storage` must have; read by the central controllers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storage_labels: Vec<String>,
    /// Factor applied to the requested capacity, as decimal text; read by the central controllers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "1.0"))]
    pub capacity_scaling_factor: Option<String>,
    /// Additional block storage that users do not see, such as `3.5%` or `100MiB`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub allocation_padding: String,
    /// Values for variables of the command lines, keys with the `$`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variable_override: BTreeMap<String, String>,
}

/// Commands that create and activate logical volumes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BlockDeviceCommands {
    /// True if all allocations of a workflow on one rabbit share a volume group.
    pub shared_vg: bool,
    /// Commands that run on the rabbit.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub rabbit_commands: Nested<RabbitBlockDeviceCommands>,
    /// Commands that run on computes.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub compute_commands: Nested<ComputeBlockDeviceCommands>,
}

/// Arguments of LVM commands that run on the rabbit. An empty text skips its command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RabbitBlockDeviceCommands {
    /// Arguments of `pvcreate` for each device.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pv_create: String,
    /// Arguments of `pvremove` for each device.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pv_remove: String,
    /// Arguments of `vgcreate` for the volume group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vg_create: String,
    /// Arguments of `vgchange` for the volume group.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub vg_change: Nested<VgChange>,
    /// Arguments of the commands that rebuild the volume group after a drive was replaced.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub lvm_rebuild: Nested<LvmRebuild>,
    /// Arguments of `vgremove` for the volume group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vg_remove: String,
    /// Arguments of `lvcreate` for the logical volume.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lv_create: String,
    /// Arguments of `lvchange` for the logical volume.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub lv_change: Nested<LvChange>,
    /// Arguments of `lvremove` for the logical volume.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lv_remove: String,
    /// Hooks around the activation of the logical volume.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub user_commands: Nested<BlockDeviceUserCommands>,
}

/// Arguments of LVM commands that run on a compute. An empty text skips its command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ComputeBlockDeviceCommands {
    /// Arguments of `vgchange` for the volume group.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub vg_change: Nested<VgChange>,
    /// Arguments of `lvchange` for the logical volume.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub lv_change: Nested<LvChange>,
    /// Hooks around the activation of the logical volume.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub user_commands: Nested<BlockDeviceUserCommands>,
}

/// Arguments of `vgchange`, by purpose. An empty text skips its command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VgChange {
    /// Arguments that start the lock space of the volume group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lock_start: String,
    /// Arguments that stop the lock space of the volume group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lock_stop: String,
}

/// Arguments of `lvchange`, by purpose. An empty text skips its command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LvChange {
    /// Arguments that activate the logical volume.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub activate: String,
    /// Arguments that deactivate the logical volume.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deactivate: String,
}

/// Arguments of LVM commands that repair a volume group. An empty text skips its command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LvmRebuild {
    /// Arguments of `vgextend`, which adds the new device.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vg_extend: String,
    /// Arguments of `vgreduce`, which removes the lost device.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vg_reduce: String,
    /// Arguments of `lvconvert --repair`, which rebuilds the logical volume.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lv_repair: String,
}

/// Hooks around the activation of the logical volume: command lines, run in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BlockDeviceUserCommands {
    /// Command lines that run before activation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_activate: Vec<String>,
    /// Command lines that run after activation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_activate: Vec<String>,
    /// Command lines that run before deactivation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_deactivate: Vec<String>,
    /// Command lines that run after deactivation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_deactivate: Vec<String>,
}

/// Commands that create and mount a file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FileSystemCommands {
    /// Commands that run on the rabbit.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub rabbit_commands: Nested<RabbitFileSystemCommands>,
    /// Commands that run on computes.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub compute_commands: Nested<ComputeFileSystemCommands>,
}

/// Arguments of file system commands that run on the rabbit. An empty text skips its command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RabbitFileSystemCommands {
    /// Arguments of `mkfs` for the file system.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mkfs: String,
    /// Arguments of `mount` for the file system.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mount: String,
    /// Arguments of `umount` for the file system.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unmount: String,
    /// Hooks around mounting on the rabbit.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub user_commands: Nested<FileSystemUserCommands>,
}

/// Arguments of file system commands that run on a compute. An empty text skips its command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ComputeFileSystemCommands {
    /// Arguments of `mount` for the file system.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mount: String,
    /// Arguments of `umount` for the file system.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unmount: String,
    /// Hooks around mounting on the compute.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub user_commands: Nested<FileSystemUserCommands>,
}

/// Hooks around mounting: command lines, run in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FileSystemUserCommands {
    /// Command lines that run before mounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_mount: Vec<String>,
    /// Command lines that run after mounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_mount: Vec<String>,
    /// Command lines that run before unmounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_unmount: Vec<String>,
    /// Command lines that run after unmounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_unmount: Vec<String>,
}

/// Hooks on the rabbit around set-up and teardown: command lines, run in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SetupUserCommands {
    /// Command lines that run after the file system is activated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_activate: Vec<String>,
    /// Command lines that run before the file system is deactivated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_deactivate: Vec<String>,
    /// Command lines that run after the file system is created, while it is mounted on the rabbit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_setup: Vec<String>,
    /// Command lines that run before the file system is deleted, while it is mounted on the rabbit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_teardown: Vec<String>,
    /// Command lines that run after the file system is deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_teardown: Vec<String>,
}
