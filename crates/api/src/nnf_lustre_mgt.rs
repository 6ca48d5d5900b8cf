//! `NnfLustreMGT`: a Lustre management target, the file system names that it hands out, and the commands that run on
//! it.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::nested::Nested;
use crate::schema;

/// Address of the management target, and the requests to it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nnf.cray.hpe.com",
    version = "v1alpha11",
    kind = "NnfLustreMGT",
    root = "NnfLustreMgt",
    plural = "nnflustremgts",
    namespaced,
    status = "NnfLustreMgtStatus",
    derive = "PartialEq",
    doc = "A Lustre management target and the file system names that it hands out"
)]
#[serde(rename_all = "camelCase")]
pub struct NnfLustreMgtSpec {
    /// LNet addresses (NIDs) of the management target.
    pub addresses: Vec<String>,
    /// File system names that the target never hands out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fs_name_black_list: Vec<String>,
    /// First file system name to hand out, 8 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 8, max = 8))]
    pub fs_name_start: String,
    /// ConfigMap that holds the next name under the key `NextFsName`; used instead of `fsNameStart`.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub fs_name_start_reference: Nested<ObjectReference>,
    /// References to the NnfStorages that need a file system name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::references")]
    pub claim_list: Vec<ObjectReference>,
    /// Commands to run on the management server, one entry for each NnfStorage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_list: Vec<NnfLustreMgtSpecCommand>,
}

/// Commands to run on the management server for one NnfStorage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfLustreMgtSpecCommand {
    /// Reference to the NnfStorage.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub reference: Nested<ObjectReference>,
    /// Command lines, in the order in which they run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// File system names that are handed out, and results of the commands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfLustreMgtStatus {
    /// Next file system name to hand out, 8 characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 8, max = 8))]
    pub fs_name_next: String,
    /// File system names that are in use, one entry for each NnfStorage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claim_list: Vec<NnfLustreMgtStatusClaim>,
    /// Results of the commands, one entry for each NnfStorage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command_list: Vec<NnfLustreMgtStatusCommand>,
    /// Fault of the management target; absent without fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}

/// A file system name and the NnfStorage that has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfLustreMgtStatusClaim {
    /// Reference to the NnfStorage.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub reference: Nested<ObjectReference>,
    /// Name of the file system (fsname).
    #[serde(rename = "fsname", skip_serializing_if = "String::is_empty")]
    pub fs_name: String,
}

/// Result of the commands of one NnfStorage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfLustreMgtStatusCommand {
    /// Reference to the NnfStorage.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub reference: Nested<ObjectReference>,
    /// True once all commands have run.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
    /// Fault of the commands; absent without fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}
