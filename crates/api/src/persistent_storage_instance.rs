//! `PersistentStorageInstance`: storage that outlives the job that created it.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// Wanted state of the storage.
    pub enum PersistentStorageState {
        /// Jobs may use the storage.
        Active = "Active",
        /// The storage is deleted once no workflow uses it.
        Destroying = "Destroying",
    }
}

string_enum! {
    /// State of the storage.
    pub enum PersistentStorageStatusState {
        /// The storage is being created.
        Creating = "Creating",
        /// The storage is usable.
        Active = "Active",
        /// The storage is usable in spite of a fault.
        Degraded = "Degraded",
        /// The storage is being deleted.
        Destroying = "Destroying",
    }
}

/// Name, type and owner of the storage.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dataworkflowservices.github.io",
    version = "v1alpha7",
    kind = "PersistentStorageInstance",
    namespaced,
    status = "PersistentStorageInstanceStatus",
    derive = "PartialEq",
    doc = "Storage that outlives the job that created it",
    printcolumn(name = "ERROR", type_ = "string", json_path = ".status.error.severity"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PersistentStorageInstanceSpec {
    /// Name by which directives refer to the storage.
    pub name: String,
    /// Type of file system: `raw`, `xfs`, `gfs2` or `lustre`.
    #[schemars(extend("enum" = ["raw", "xfs", "gfs2", "lustre"]))]
    pub fs_type: String,
    /// The `#DW create_persistent` line that created the storage.
    pub dw_directive: String,
    /// User id (UID) of the owner.
    #[serde(rename = "userID")]
    #[schemars(schema_with = "schema::int32")]
    pub user_id: i64,
    /// Wanted state: Active or Destroying.
    pub state: PersistentStorageState,
    /// References to the workflows that use the storage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::references")]
    pub consumer_references: Vec<ObjectReference>,
}

/// State of the storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersistentStorageInstanceStatus {
    /// Reference to the Servers object, which names the rabbits of the storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub servers: Option<ObjectReference>,
    /// State: Creating, Active, Degraded or Destroying.
    #[serde(default = "PersistentStorageStatusState::absent")]
    #[schemars(!default)]
    pub state: PersistentStorageStatusState,
    /// Fault of the storage; absent without fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}
