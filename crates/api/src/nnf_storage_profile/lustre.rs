//! Lustre settings of a storage profile.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::Nested;
use crate::nnf_node_storage::LustreTargetType;
use crate::schema;

/// Settings for Lustre file systems.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreProfile {
    /// True if management and metadata share one target.
    pub combined_mgt_mdt: bool,
    /// Settings of management targets (MGT).
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub mgt_options: Nested<LustreMgtOptions>,
    /// Settings of metadata targets (MDT).
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub mdt_options: Nested<LustreMdtOptions>,
    /// Settings of combined management and metadata targets.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub mgt_mdt_options: Nested<LustreMgtMdtOptions>,
    /// Settings of object storage targets (OST).
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub ost_options: Nested<LustreOstOptions>,
    /// Settings of Lustre clients.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub client_options: Nested<LustreClientOptions>,
}

impl LustreProfile {
    /// Returns the settings that all targets have, for one kind of target; `None` for a kind that this
    /// version does not know.
    #[must_use]
    pub fn target_options(&self, kind: &LustreTargetType) -> Option<&LustreTargetOptions> {
        match kind {
            LustreTargetType::Mgt => Some(&self.mgt_options.target),
            LustreTargetType::Mdt => Some(&self.mdt_options.target),
            LustreTargetType::MgtMdt => Some(&self.mgt_mdt_options.target),
            LustreTargetType::Ost => Some(&self.ost_options.target),
            LustreTargetType::Other(_) => None,
        }
    }
}

/// Settings of management targets (MGT).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreMgtOptions {
    /// LNet addresses (NIDs) of an existing management server, or `pool:<name>`; then no management target is created.
    #[serde(rename = "externalMgs", skip_serializing_if = "String::is_empty")]
    pub external_mgs: String,
    /// Pool that a stand-alone management target joins.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub standalone_mgt_pool_name: String,
    /// Size of the target, such as `5GiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "5GiB", "pattern" = r"^\d+(KiB|KB|MiB|MB|GiB|GB|TiB|TB)$"))]
    pub capacity: Option<String>,
    /// Settings that all kinds of targets have.
    #[serde(flatten)]
    pub target: LustreTargetOptions,
    /// Command lines that run on the management server once all targets are mounted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_mount_commands: Vec<String>,
}

/// Settings of metadata targets (MDT).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreMdtOptions {
    /// Size of the target, such as `5GiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "5GiB", "pattern" = r"^\d+(KiB|KB|MiB|MB|GiB|GB|TiB|TB)$"))]
    pub capacity: Option<String>,
    /// True if no other target may be on the same rabbit.
    pub exclusive: bool,
    /// Settings that all kinds of targets have.
    #[serde(flatten)]
    pub target: LustreTargetOptions,
}

/// Settings of combined management and metadata targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreMgtMdtOptions {
    /// Size of the target, such as `5GiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "5GiB", "pattern" = r"^\d+(KiB|KB|MiB|MB|GiB|GB|TiB|TB)$"))]
    pub capacity: Option<String>,
    /// Settings that all kinds of targets have.
    #[serde(flatten)]
    pub target: LustreTargetOptions,
}

/// Settings of object storage targets (OST).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreOstOptions {
    /// Factor applied to the requested capacity, as decimal text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "1.0"))]
    pub capacity_scaling_factor: Option<String>,
    /// Settings that all kinds of targets have.
    #[serde(flatten)]
    pub target: LustreTargetOptions,
}

/// Settings that all kinds of targets have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = require_colocation)]
pub struct LustreTargetOptions {
    /// Commands that create, mount and delete a target.
    #[serde(rename = "commandlines", skip_serializing_if = "Nested::is_absent")]
    pub command_lines: Nested<LustreCommandLines>,
    /// Values for variables of the command lines, keys with the `$`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variable_override: BTreeMap<String, String>,
    /// True if targets are placed only on rabbits of the job's own computes.
    pub colocate_computes: bool,
    /// Number of targets to create.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int", extend("minimum" = 1))]
    pub count: Option<i64>,
    /// Number of targets to create, on a scale from few (1) to many (10).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int", extend("minimum" = 1, "maximum" = 10))]
    pub scale: Option<i64>,
    /// Labels that a rabbit's `Storage` must have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storage_labels: Vec<String>,
}

fn require_colocation(options: &mut schemars::Schema) {
    schema::require(options, &["colocateComputes"]);
}

/// Arguments of commands for a target. An empty text skips its command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreCommandLines {
    /// Arguments of `zpool create` for the target's pool.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub zpool_create: String,
    /// Arguments of `zpool destroy` for the target's pool.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub zpool_destroy: String,
    /// Arguments of `zpool replace` for a replaced drive.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub zpool_replace: String,
    /// Arguments of `mkfs.lustre` for the target.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mkfs: String,
    /// Arguments of `mount` for the target.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mount_target: String,
    /// Arguments of `umount` for the target.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unmount_target: String,
    /// Command lines that run after the target is mounted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_activate: Vec<String>,
    /// Command lines that run before the target is unmounted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_deactivate: Vec<String>,
}

/// Settings of Lustre clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreClientOptions {
    /// Mount commands and hooks of clients.
    #[serde(rename = "commandlines", skip_serializing_if = "Nested::is_absent")]
    pub command_lines: Nested<LustreClientCommandLines>,
    /// Values for variables of the command lines, keys with the `$`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variable_override: BTreeMap<String, String>,
}

/// Arguments of mount commands, and hooks, of clients. An empty text skips its command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreClientCommandLines {
    /// Arguments of `mount` on a rabbit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mount_rabbit: String,
    /// Command lines that run on a rabbit after the file system is created, while it is mounted there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rabbit_post_setup: Vec<String>,
    /// Command lines that run on a rabbit before the file system is deleted, while it is mounted there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rabbit_pre_teardown: Vec<String>,
    /// Command lines that run on a rabbit after the file system is deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rabbit_post_teardown: Vec<String>,
    /// Arguments of `mount` on a compute.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mount_compute: String,
    /// Arguments of `umount` on a rabbit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unmount_rabbit: String,
    /// Arguments of `umount` on a compute.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unmount_compute: String,
    /// Command lines that run on a rabbit before mounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rabbit_pre_mount: Vec<String>,
    /// Command lines that run on a rabbit after mounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rabbit_post_mount: Vec<String>,
    /// Command lines that run on a rabbit before unmounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rabbit_pre_unmount: Vec<String>,
    /// Command lines that run on a rabbit after unmounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rabbit_post_unmount: Vec<String>,
    /// Command lines that run on a compute before mounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compute_pre_mount: Vec<String>,
    /// Command lines that run on a compute after mounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compute_post_mount: Vec<String>,
    /// Command lines that run on a compute before unmounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compute_pre_unmount: Vec<String>,
    /// Command lines that run on a compute after unmounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compute_post_unmount: Vec<String>,
}
