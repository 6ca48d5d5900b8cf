//! `NnfNodeStorage`: the file systems one rabbit makes on its block storage, `count` times the same.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::nested::Nested;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// What is made on the block storage.
    #[derive(Default)]
    pub enum FileSystemType {
        /// Nothing: the logical volume itself.
        #[default]
        Raw = "raw",
        /// In the schema, refused by agents.
        Lvm = "lvm",
        /// In the schema, refused by agents.
        Zfs = "zfs",
        /// XFS.
        Xfs = "xfs",
        /// GFS2.
        Gfs2 = "gfs2",
        /// A Lustre target.
        Lustre = "lustre",
    }
}

string_enum! {
    /// Which Lustre service a target is for.
    pub enum LustreTargetType {
        /// Management.
        Mgt = "mgt",
        /// Metadata.
        Mdt = "mdt",
        /// Management and metadata in one.
        MgtMdt = "mgtmdt",
        /// Objects.
        Ost = "ost",
    }
}

string_enum! {
    /// What a Lustre target is formatted with.
    pub enum BackFs {
        /// ldiskfs.
        Ldiskfs = "ldiskfs",
        /// ZFS.
        Zfs = "zfs",
    }
}

string_enum! {
    /// How the storage under a file system is. Left out when unknown, never empty.
    pub enum NnfStorageHealth {
        /// No fault.
        Healthy = "Healthy",
        /// Usable with a fault, such as a lost drive.
        Degraded = "Degraded",
        /// Not usable.
        Faulted = "Faulted",
    }
}

/// The file systems to make.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nnf.cray.hpe.com",
    version = "v1alpha11",
    kind = "NnfNodeStorage",
    namespaced,
    status = "NnfNodeStorageStatus",
    derive = "PartialEq",
    doc = "File systems on one rabbit's block storage",
    printcolumn(name = "READY", type_ = "string", json_path = ".status.ready"),
    printcolumn(name = "ERROR", type_ = "string", json_path = ".status.error.severity"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NnfNodeStorageSpec {
    /// How many, all alike.
    #[schemars(schema_with = "schema::int", extend("minimum" = 0))]
    pub count: i64,
    /// Whether all of them share one allocation of the block storage.
    pub shared_allocation: bool,
    /// Bytes of each, without the padding of its block storage.
    #[serde(default, skip_serializing_if = "crate::omit::is_zero")]
    pub capacity: i64,
    /// Owner of the file systems.
    #[serde(rename = "userID")]
    #[schemars(schema_with = "schema::int32")]
    pub user_id: i64,
    /// Group of the file systems.
    #[serde(rename = "groupID")]
    #[schemars(schema_with = "schema::int32")]
    pub group_id: i64,
    /// Variables for the profile's command lines, besides the agent's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_variables: Vec<CommandVariable>,
    /// What to make.
    #[serde(default)]
    pub file_system_type: FileSystemType,
    /// The Lustre target, if it is one.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    pub lustre_storage: Nested<LustreStorageSpec>,
    /// The `NnfNodeBlockStorage` underneath.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub block_reference: Nested<ObjectReference>,
}

/// A variable for the profile's command lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CommandVariable {
    /// Its name, with the `$`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Whether each allocation has a value of its own.
    #[serde(skip_serializing_if = "crate::omit::is_false")]
    pub indexed: bool,
    /// The value, unless indexed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The values by allocation index, if indexed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub indexed_values: Vec<String>,
}

/// A Lustre target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreStorageSpec {
    /// Name of the file system, at most 8 characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 8))]
    pub file_system_name: String,
    /// Which service the target is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_type: Option<LustreTargetType>,
    /// Index of the first target; the others follow.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    #[schemars(schema_with = "schema::int", extend("minimum" = 0))]
    pub start_index: i64,
    /// NID of the management server, for metadata and object targets.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mgs_address: String,
    /// What the target is formatted with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_fs: Option<BackFs>,
    /// Where all targets of the file system are.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub lustre_components: Nested<LustreComponents>,
}

/// The rabbits that hold the targets of one Lustre file system, one entry per target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreComponents {
    /// Metadata targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mdts: Vec<String>,
    /// Management targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mgts: Vec<String>,
    /// Combined targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mgtmdts: Vec<String>,
    /// Object targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub osts: Vec<String>,
    /// Every rabbit once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nnf_nodes: Vec<String>,
}

/// How the file systems are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfNodeStorageStatus {
    /// One entry per file system, by allocation index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<NnfNodeStorageAllocationStatus>,
    /// How the storage is as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<NnfStorageHealth>,
    /// Whether all file systems are made and set up.
    #[serde(skip_serializing_if = "crate::omit::is_false")]
    pub ready: bool,
    /// What went wrong, if anything did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}

/// How one file system is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfNodeStorageAllocationStatus {
    /// Volume group, when there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_group: String,
    /// Logical volume, when there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub logical_volume: String,
    /// How its storage is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<NnfStorageHealth>,
    /// Whether it is made and set up.
    #[serde(skip_serializing_if = "crate::omit::is_false")]
    pub ready: bool,
}
