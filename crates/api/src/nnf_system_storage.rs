//! `NnfSystemStorage`: storage of the site itself, outside any job: one allocation on each rabbit, or one for each
//! compute. Administrators write this object.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::nested::Nested;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// The computes of a chassis that see the storage.
    #[derive(Default)]
    pub enum ComputesTarget {
        /// All computes.
        #[default]
        All = "all",
        /// Computes with an even index.
        Even = "even",
        /// Computes with an odd index.
        Odd = "odd",
        /// Computes whose index `computesPattern` lists.
        Pattern = "pattern",
    }
}

string_enum! {
    /// Type of storage.
    #[derive(Default)]
    pub enum SystemStorageType {
        /// A logical volume without file system.
        #[default]
        Raw = "raw",
        /// XFS, which one node at a time can mount.
        Xfs = "xfs",
        /// GFS2, which several nodes can mount.
        Gfs2 = "gfs2",
    }
}

/// Rabbits, computes and properties of the storage.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nnf.cray.hpe.com",
    version = "v1alpha11",
    kind = "NnfSystemStorage",
    namespaced,
    status = "NnfSystemStorageStatus",
    derive = "PartialEq",
    doc = "Storage of the site itself, outside any job, on chosen rabbits and computes",
    printcolumn(name = "READY", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "ERROR", type_ = "string", json_path = ".status.error.severity"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NnfSystemStorageSpec {
    /// Reference to the SystemConfiguration with the rabbits and computes; empty for default/default.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub system_configuration: Nested<ObjectReference>,
    /// Rabbits of the storage; empty for all rabbits of the SystemConfiguration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include_rabbits: Vec<String>,
    /// Rabbits without the storage; not together with `includeRabbits`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude_rabbits: Vec<String>,
    /// Whether rabbits that are disabled or not Ready are left out.
    #[serde(default)]
    pub exclude_disabled_rabbits: bool,
    /// Computes that see the storage; empty for the computes of its rabbits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include_computes: Vec<String>,
    /// Computes that do not see the storage; not together with `includeComputes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude_computes: Vec<String>,
    /// Which computes of a chassis see the storage, by their index: all, even, odd or pattern.
    #[serde(default)]
    pub computes_target: ComputesTarget,
    /// Indices of the computes with `computesTarget: pattern`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pattern")]
    pub computes_pattern: Vec<i64>,
    /// Bytes of each allocation.
    #[serde(default = "default_capacity")]
    pub capacity: i64,
    /// Type of storage: raw, xfs or gfs2.
    #[serde(default, rename = "type")]
    pub kind: SystemStorageType,
    /// True for one allocation on each rabbit, which all computes share; false for one allocation for each compute.
    #[serde(default = "default_shared")]
    pub shared: bool,
    /// Reference to the pinned NnfStorageProfile.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub storage_profile: ObjectReference,
    /// Whether `ready` ignores computes that are down.
    #[serde(default)]
    pub ignore_offline_computes: bool,
    /// Whether computes mount the storage; otherwise the drives are only attached to the computes.
    #[serde(default)]
    pub make_client_mounts: bool,
    /// Directory or file at which computes mount the storage, with `makeClientMounts`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub client_mount_path: String,
}

fn default_capacity() -> i64 {
    1 << 30
}

fn default_shared() -> bool {
    true
}

/// Returns the schema of at most 16 indices from 0 to 15.
fn pattern(_: &mut SchemaGenerator) -> Schema {
    let index = json_schema!({ "type": "integer", "minimum": 0, "maximum": 15 });
    json_schema!({ "type": "array", "maxItems": 16, "items": index })
}

/// State of the storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::require_ready)]
pub struct NnfSystemStorageStatus {
    /// True once all rabbits and computes have the storage as the spec asks.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
    /// Fault of the storage; absent without fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}

impl NnfSystemStorageSpec {
    /// Returns namespace and name of the SystemConfiguration; an empty part stands for `default`.
    #[must_use]
    pub fn system_configuration(&self) -> (String, String) {
        let part = |text: &Option<String>| {
            text.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| "default".to_owned())
        };
        (part(&self.system_configuration.namespace), part(&self.system_configuration.name))
    }
}
