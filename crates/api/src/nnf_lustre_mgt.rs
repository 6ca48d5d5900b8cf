//! `NnfLustreMGT`: a Lustre management target, the file system names it has given out, and commands run on it.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::nested::Nested;
use crate::schema;

/// Who asks the management target for what.
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
    doc = "A Lustre management target and the file system names it has given out"
)]
#[serde(rename_all = "camelCase")]
pub struct NnfLustreMgtSpec {
    /// LNet addresses of the target.
    pub addresses: Vec<String>,
    /// File system names not to be given out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fs_name_black_list: Vec<String>,
    /// The first name to give out, 8 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 8, max = 8))]
    pub fs_name_start: String,
    /// A ConfigMap that holds the next name instead, under `NextFsName`.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub fs_name_start_reference: Nested<ObjectReference>,
    /// The storages that want a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::references")]
    pub claim_list: Vec<ObjectReference>,
    /// The storages that want commands run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_list: Vec<NnfLustreMgtSpecCommand>,
}

/// Commands one storage wants run on the target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfLustreMgtSpecCommand {
    /// The `NnfStorage` that asks.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub reference: Nested<ObjectReference>,
    /// The commands, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// What the management target has given out and run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfLustreMgtStatus {
    /// The next name to give out, 8 characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 8, max = 8))]
    pub fs_name_next: String,
    /// The names given out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claim_list: Vec<NnfLustreMgtStatusClaim>,
    /// How the commands went.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command_list: Vec<NnfLustreMgtStatusCommand>,
    /// What went wrong, if anything did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}

/// One name given out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfLustreMgtStatusClaim {
    /// The `NnfStorage` that has it.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub reference: Nested<ObjectReference>,
    /// The name.
    #[serde(rename = "fsname", skip_serializing_if = "String::is_empty")]
    pub fs_name: String,
}

/// How one storage's commands went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfLustreMgtStatusCommand {
    /// The `NnfStorage` that asked.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub reference: Nested<ObjectReference>,
    /// Whether all commands were run.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
    /// What went wrong, if anything did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}
