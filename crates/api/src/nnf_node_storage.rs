//! `NnfNodeStorage`: file systems of one rabbit on its block storage, `count` of them, all alike.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::nested::Nested;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// Type of file system on the block storage.
    #[derive(Default)]
    pub enum FileSystemType {
        /// No file system: the logical volume itself.
        #[default]
        Raw = "raw",
        /// Part of the schema; agents refuse it.
        Lvm = "lvm",
        /// Part of the schema; agents refuse it.
        Zfs = "zfs",
        /// XFS, which one node mounts at a time.
        Xfs = "xfs",
        /// GFS2, which several nodes mount at once.
        Gfs2 = "gfs2",
        /// A Lustre target.
        Lustre = "lustre",
    }
}

string_enum! {
    /// Lustre service of a target.
    pub enum LustreTargetType {
        /// Management target (MGT).
        Mgt = "mgt",
        /// Metadata target (MDT).
        Mdt = "mdt",
        /// Management and metadata in one target.
        MgtMdt = "mgtmdt",
        /// Object storage target (OST).
        Ost = "ost",
    }
}

string_enum! {
    /// File system that a Lustre target is formatted with.
    pub enum BackFs {
        /// ldiskfs, Lustre's variant of ext4.
        Ldiskfs = "ldiskfs",
        /// ZFS, in a pool of its own.
        Zfs = "zfs",
    }
}

string_enum! {
    /// Health of the storage under a file system. Left out when unknown, never empty.
    pub enum NnfStorageHealth {
        /// No fault is known.
        Healthy = "Healthy",
        /// Usable with a fault, such as a lost drive.
        Degraded = "Degraded",
        /// The storage is unusable.
        Faulted = "Faulted",
    }
}

/// File systems that the rabbit shall create.
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
    /// Number of file systems, all alike.
    #[schemars(schema_with = "schema::int", extend("minimum" = 0))]
    pub count: i64,
    /// True if all file systems share one allocation of the block storage.
    pub shared_allocation: bool,
    /// Size of each file system in bytes, without the padding of its block storage.
    #[serde(default, skip_serializing_if = "crate::omit::is_zero")]
    pub capacity: i64,
    /// User id (UID) of the owner of the file systems.
    #[serde(rename = "userID")]
    #[schemars(schema_with = "schema::int32")]
    pub user_id: i64,
    /// Group id (GID) of the file systems.
    #[serde(rename = "groupID")]
    #[schemars(schema_with = "schema::int32")]
    pub group_id: i64,
    /// Variables for the profile's command lines, in addition to the agent's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_variables: Vec<CommandVariable>,
    /// Type of file system: `raw`, `xfs`, `gfs2` or `lustre`.
    #[serde(default)]
    pub file_system_type: FileSystemType,
    /// Lustre target, with type `lustre` only.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    pub lustre_storage: Nested<LustreStorageSpec>,
    /// Reference to the `NnfNodeBlockStorage` under the file systems.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub block_reference: Nested<ObjectReference>,
}

/// A variable for the profile's command lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CommandVariable {
    /// Name of the variable, with the `$`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// True if each allocation has a value of its own.
    #[serde(skip_serializing_if = "crate::omit::is_false")]
    pub indexed: bool,
    /// Value for all allocations; not used with `indexed`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Values by allocation index; used with `indexed`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub indexed_values: Vec<String>,
}

/// Parameters of a Lustre target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreStorageSpec {
    /// Name of the file system (fsname), at most 8 characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 8))]
    pub file_system_name: String,
    /// Lustre service of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_type: Option<LustreTargetType>,
    /// Lustre index of the first target; the other targets follow.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    #[schemars(schema_with = "schema::int", extend("minimum" = 0))]
    pub start_index: i64,
    /// LNet address (NID) of the management server, for metadata and object storage targets.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mgs_address: String,
    /// File system that the target is formatted with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_fs: Option<BackFs>,
    /// Rabbits that hold the targets of the file system.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub lustre_components: Nested<LustreComponents>,
}

/// Rabbits that hold the targets of one Lustre file system, one entry for each target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LustreComponents {
    /// Rabbits of the metadata targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mdts: Vec<String>,
    /// Rabbits of the management targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mgts: Vec<String>,
    /// Rabbits of the combined management and metadata targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mgtmdts: Vec<String>,
    /// Rabbits of the object storage targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub osts: Vec<String>,
    /// All rabbits of the file system, each listed once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nnf_nodes: Vec<String>,
}

/// State of the file systems.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfNodeStorageStatus {
    /// File systems that exist, in the order of their allocation indices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<NnfNodeStorageAllocationStatus>,
    /// Health of the storage as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<NnfStorageHealth>,
    /// True once all file systems exist and are set up.
    #[serde(skip_serializing_if = "crate::omit::is_false")]
    pub ready: bool,
    /// Fault that keeps the file systems from being created; absent without fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}

/// State of one file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfNodeStorageAllocationStatus {
    /// LVM volume group of the file system; empty without LVM.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_group: String,
    /// LVM logical volume of the file system; empty without LVM.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub logical_volume: String,
    /// Health of the storage under the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<NnfStorageHealth>,
    /// True once the file system exists and is set up.
    #[serde(skip_serializing_if = "crate::omit::is_false")]
    pub ready: bool,
}
