//! `LustreFileSystem`: a Lustre of the site, which exists apart from the file systems on rabbits. The kind belongs to
//! the project lustre-fs-operator, whose controller creates a PersistentVolumeClaim for each namespace and mode in the
//! spec. A site without that project may lack the kind.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::LocalObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::Nested;
use crate::nnf_container_profile::PvcMode;
use crate::string_enum::string_enum;

string_enum! {
    /// Availability of the file system to pods.
    pub enum LustreAccessState {
        /// The PersistentVolumeClaim does not exist yet.
        Pending = "Pending",
        /// The PersistentVolumeClaim exists.
        Ready = "Ready",
    }
}

/// Address and mount point of the file system, and the namespaces whose pods may use it.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "lus.cray.hpe.com",
    version = "v1beta1",
    kind = "LustreFileSystem",
    namespaced,
    status = "LustreFileSystemStatus",
    derive = "PartialEq",
    doc = "A Lustre file system of the site, available to all jobs"
)]
#[serde(rename_all = "camelCase")]
pub struct LustreFileSystemSpec {
    /// Name of the file system in Lustre (fsname), at most 8 characters.
    #[schemars(length(min = 1, max = 8))]
    pub name: String,
    /// LNet addresses (NIDs) of its management servers, separated by commas and colons.
    pub mgs_nids: String,
    /// Absolute path at which nodes have the file system mounted.
    pub mount_root: String,
    /// StorageClass of the file system's volumes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("default" = "nnf-lustre-fs"))]
    pub storage_class_name: String,
    /// Kubernetes namespaces whose pods may use the file system.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<String, LustreFileSystemNamespace>,
}

/// Access of one namespace's pods to the file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LustreFileSystemNamespace {
    /// Access modes; the controller creates one PersistentVolumeClaim for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<PvcMode>,
}

/// PersistentVolumeClaims that the controller has created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LustreFileSystemStatus {
    /// PersistentVolumeClaims by namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<String, LustreFileSystemNamespaceStatus>,
}

/// PersistentVolumeClaims in one namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LustreFileSystemNamespaceStatus {
    /// PersistentVolumeClaims by access mode.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub modes: BTreeMap<String, LustreFileSystemAccess>,
}

/// Volume and claim of one access mode in one namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LustreFileSystemAccess {
    /// Availability: Pending or Ready.
    #[serde(default = "LustreAccessState::absent")]
    #[schemars(!default)]
    pub state: LustreAccessState,
    /// Reference to the PersistentVolume.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub persistent_volume_ref: Nested<LocalObjectReference>,
    /// Reference to the PersistentVolumeClaim.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub persistent_volume_claim_ref: Nested<LocalObjectReference>,
}
