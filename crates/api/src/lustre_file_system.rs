//! `LustreFileSystem`: a Lustre that is there for all jobs, beside what rabbits make. A kind of the project lustre-fs-operator, whose
//! controller makes a PersistentVolumeClaim for each namespace and mode in the spec. Where nobody uses that, the kind is missing.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::LocalObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::Nested;
use crate::nnf_container_profile::PvcMode;
use crate::string_enum::string_enum;

string_enum! {
    /// Whether pods can have the file system.
    pub enum LustreAccessState {
        /// Not yet.
        Pending = "Pending",
        /// Its claim is there.
        Ready = "Ready",
    }
}

/// Where it is, and who may have it.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "lus.cray.hpe.com",
    version = "v1beta1",
    kind = "LustreFileSystem",
    namespaced,
    status = "LustreFileSystemStatus",
    derive = "PartialEq",
    doc = "A Lustre that is there for all jobs"
)]
#[serde(rename_all = "camelCase")]
pub struct LustreFileSystemSpec {
    /// Its name in Lustre.
    #[schemars(length(min = 1, max = 8))]
    pub name: String,
    /// LNet addresses of its management servers, with commas and colons.
    pub mgs_nids: String,
    /// Where nodes have it mounted.
    pub mount_root: String,
    /// Kubernetes' class of its volumes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("default" = "nnf-lustre-fs"))]
    pub storage_class_name: String,
    /// The Kubernetes namespaces whose pods may have it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<String, LustreFileSystemNamespace>,
}

/// How pods of a namespace may have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LustreFileSystemNamespace {
    /// One claim for each of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<PvcMode>,
}

/// What became of that.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LustreFileSystemStatus {
    /// By namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<String, LustreFileSystemNamespaceStatus>,
}

/// What pods of a namespace have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LustreFileSystemNamespaceStatus {
    /// By mode.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub modes: BTreeMap<String, LustreFileSystemAccess>,
}

/// What they have in one mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LustreFileSystemAccess {
    /// Whether it can be had.
    #[serde(default = "LustreAccessState::unsaid")]
    #[schemars(!default)]
    pub state: LustreAccessState,
    /// Its PersistentVolume.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub persistent_volume_ref: Nested<LocalObjectReference>,
    /// Its PersistentVolumeClaim.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub persistent_volume_claim_ref: Nested<LocalObjectReference>,
}
