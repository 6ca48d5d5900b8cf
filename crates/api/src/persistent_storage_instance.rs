//! `PersistentStorageInstance`: storage that outlives the job that made it.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// What is wanted of it.
    pub enum PersistentStorageState {
        /// It may be used.
        Active = "Active",
        /// It is to go, once nobody uses it.
        Destroying = "Destroying",
    }
}

string_enum! {
    /// How it is.
    pub enum PersistentStorageStatusState {
        /// Being made.
        Creating = "Creating",
        /// Usable.
        Active = "Active",
        /// Usable with a fault.
        Degraded = "Degraded",
        /// On its way out.
        Destroying = "Destroying",
    }
}

/// What it is.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dataworkflowservices.github.io",
    version = "v1alpha7",
    kind = "PersistentStorageInstance",
    namespaced,
    status = "PersistentStorageInstanceStatus",
    derive = "PartialEq",
    doc = "Storage that outlives the job that made it",
    printcolumn(name = "ERROR", type_ = "string", json_path = ".status.error.severity"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PersistentStorageInstanceSpec {
    /// The name that directives use.
    pub name: String,
    /// The file system: `raw`, `xfs`, `gfs2` or `lustre`.
    #[schemars(extend("enum" = ["raw", "xfs", "gfs2", "lustre"]))]
    pub fs_type: String,
    /// The `#DW` line that made it.
    pub dw_directive: String,
    /// Who owns it.
    #[serde(rename = "userID")]
    #[schemars(schema_with = "schema::int32")]
    pub user_id: i64,
    /// What is wanted of it.
    pub state: PersistentStorageState,
    /// Who uses it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::references")]
    pub consumer_references: Vec<ObjectReference>,
}

/// How it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersistentStorageInstanceStatus {
    /// Its Servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub servers: Option<ObjectReference>,
    /// How it is.
    #[serde(default = "PersistentStorageStatusState::unsaid")]
    #[schemars(!default)]
    pub state: PersistentStorageStatusState,
    /// What went wrong, if anything did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}
