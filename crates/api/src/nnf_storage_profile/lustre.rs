//! The Lustre part of a profile.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::Nested;
use crate::nnf_node_storage::LustreTargetType;
use crate::schema;

/// A profile for Lustre.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreProfile {
    /// Whether management and metadata share one target.
    pub combined_mgt_mdt: bool,
    /// For management targets.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub mgt_options: Nested<LustreMgtOptions>,
    /// For metadata targets.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub mdt_options: Nested<LustreMdtOptions>,
    /// For combined targets.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub mgt_mdt_options: Nested<LustreMgtMdtOptions>,
    /// For object targets.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub ost_options: Nested<LustreOstOptions>,
    /// For clients.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub client_options: Nested<LustreClientOptions>,
}

impl LustreProfile {
    /// What all kinds of targets have, for one kind; `None` for a kind this version does not know.
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

/// Management targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreMgtOptions {
    /// NIDs of an existing management server, or `pool:<name>`; then none is made.
    #[serde(rename = "externalMgs", skip_serializing_if = "String::is_empty")]
    pub external_mgs: String,
    /// Pool that a stand-alone management target joins.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub standalone_mgt_pool_name: String,
    /// Size of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "5GiB", "pattern" = r"^\d+(KiB|KB|MiB|MB|GiB|GB|TiB|TB)$"))]
    pub capacity: Option<String>,
    /// What all targets have.
    #[serde(flatten)]
    pub target: LustreTargetOptions,
    /// Commands for the management server once all targets are up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_mount_commands: Vec<String>,
}

/// Metadata targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreMdtOptions {
    /// Size of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "5GiB", "pattern" = r"^\d+(KiB|KB|MiB|MB|GiB|GB|TiB|TB)$"))]
    pub capacity: Option<String>,
    /// Whether no other target may share the rabbit.
    pub exclusive: bool,
    /// What all targets have.
    #[serde(flatten)]
    pub target: LustreTargetOptions,
}

/// Combined management and metadata targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreMgtMdtOptions {
    /// Size of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "5GiB", "pattern" = r"^\d+(KiB|KB|MiB|MB|GiB|GB|TiB|TB)$"))]
    pub capacity: Option<String>,
    /// What all targets have.
    #[serde(flatten)]
    pub target: LustreTargetOptions,
}

/// Object targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreOstOptions {
    /// Factor on the capacity asked for, decimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "1.0"))]
    pub capacity_scaling_factor: Option<String>,
    /// What all targets have.
    #[serde(flatten)]
    pub target: LustreTargetOptions,
}

/// What all kinds of targets have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = require_colocation)]
pub struct LustreTargetOptions {
    /// Making, mounting and removing a target.
    #[serde(rename = "commandlines", skip_serializing_if = "Nested::is_absent")]
    pub command_lines: Nested<LustreCommandLines>,
    /// Values for variables of the command lines, keys with the `$`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variable_override: BTreeMap<String, String>,
    /// Whether targets go only to rabbits of the job's own computes.
    pub colocate_computes: bool,
    /// How many targets to make.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int", extend("minimum" = 1))]
    pub count: Option<i64>,
    /// How many targets to make, on a scale without unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int", extend("minimum" = 1, "maximum" = 10))]
    pub scale: Option<i64>,
    /// Labels a `Storage` must have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storage_labels: Vec<String>,
}

fn require_colocation(options: &mut schemars::Schema) {
    schema::require(options, &["colocateComputes"]);
}

/// Arguments of commands for a target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreCommandLines {
    /// For `zpool create`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub zpool_create: String,
    /// For `zpool destroy`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub zpool_destroy: String,
    /// For `zpool replace`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub zpool_replace: String,
    /// For `mkfs.lustre`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mkfs: String,
    /// For `mount`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mount_target: String,
    /// For `umount`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unmount_target: String,
    /// Hooks after the target is mounted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_activate: Vec<String>,
    /// Hooks before the target is unmounted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_deactivate: Vec<String>,
}

/// Clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreClientOptions {
    /// Mounting clients.
    #[serde(rename = "commandlines", skip_serializing_if = "Nested::is_absent")]
    pub command_lines: Nested<LustreClientCommandLines>,
    /// Values for variables of the command lines, keys with the `$`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variable_override: BTreeMap<String, String>,
}

/// Arguments of mount commands, and hooks, for clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreClientCommandLines {
    /// For `mount` on a rabbit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mount_rabbit: String,
    /// On a rabbit after the file system is made, while it is mounted there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rabbit_post_setup: Vec<String>,
    /// On a rabbit before the file system is removed, while it is mounted there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rabbit_pre_teardown: Vec<String>,
    /// On a rabbit after the file system is removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rabbit_post_teardown: Vec<String>,
    /// For `mount` on a compute.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mount_compute: String,
    /// For `umount` on a rabbit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unmount_rabbit: String,
    /// For `umount` on a compute.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unmount_compute: String,
    /// On a rabbit before mounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rabbit_pre_mount: Vec<String>,
    /// On a rabbit after mounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rabbit_post_mount: Vec<String>,
    /// On a rabbit before unmounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rabbit_pre_unmount: Vec<String>,
    /// On a rabbit after unmounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rabbit_post_unmount: Vec<String>,
    /// On a compute before mounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compute_pre_mount: Vec<String>,
    /// On a compute after mounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compute_post_mount: Vec<String>,
    /// On a compute before unmounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compute_pre_unmount: Vec<String>,
    /// On a compute after unmounting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compute_post_unmount: Vec<String>,
}
