//! `NnfNode`: one rabbit as its own agent sees it, named `nnf-nlc` in the rabbit's namespace.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::string_enum::string_enum;

string_enum! {
    /// Whether the rabbit shall serve.
    pub enum NnfNodeState {
        /// Serve.
        Enable = "Enable",
        /// Do not serve.
        Disable = "Disable",
    }
}

string_enum! {
    /// How a rabbit, a server or a drive is.
    pub enum NnfResourceStatus {
        /// In use.
        Enabled = "Enabled",
        /// Taken out of use.
        Disabled = "Disabled",
        /// Not there.
        NotPresent = "NotPresent",
        /// Not answering.
        Offline = "Offline",
        /// Coming up.
        Starting = "Starting",
        /// Going away.
        Deleting = "Deleting",
        /// Gone.
        Deleted = "Deleted",
        /// Usable.
        Ready = "Ready",
        /// Broken.
        Failed = "Failed",
        /// Asked for something impossible.
        Invalid = "Invalid",
        /// Cut off from the storage by the cluster's fencing.
        Fenced = "Fenced",
    }
}

string_enum! {
    /// How well a rabbit, a server or a drive is.
    pub enum NnfResourceHealth {
        /// No fault.
        Ok = "OK",
        /// A fault that does not stop work.
        Warning = "Warning",
        /// A fault that stops work.
        Critical = "Critical",
    }
}

/// What the rabbit is and whether it shall serve.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nnf.cray.hpe.com",
    version = "v1alpha11",
    kind = "NnfNode",
    namespaced,
    status = "NnfNodeStatus",
    derive = "PartialEq",
    doc = "One rabbit as its own agent sees it",
    printcolumn(
        name = "STATE",
        type_ = "string",
        json_path = ".spec.state",
        description = "Current desired state"
    ),
    printcolumn(
        name = "HEALTH",
        type_ = "string",
        json_path = ".status.health",
        description = "Health of node"
    ),
    printcolumn(
        name = "STATUS",
        type_ = "string",
        json_path = ".status.status",
        description = "Current status of node"
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "POD",
        type_ = "string",
        json_path = ".spec.pod",
        description = "Parent pod name",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct NnfNodeSpec {
    /// The rabbit's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The pod the agent runs in, if it runs in one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// Whether the rabbit shall serve.
    pub state: NnfNodeState,
}

/// How the rabbit is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfNodeStatus {
    /// How the rabbit is as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub status: Option<NnfResourceStatus>,
    /// How well the rabbit is as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub health: Option<NnfResourceHealth>,
    /// Whether the cluster's fencing cut the rabbit off.
    #[serde(skip_serializing_if = "crate::omit::is_false")]
    pub fenced: bool,
    /// The rabbit's LNet address, which becomes the management server's.
    #[serde(rename = "lnetNid", skip_serializing_if = "String::is_empty")]
    pub lnet_nid: String,
    /// Usable bytes.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    pub capacity: i64,
    /// Bytes given to jobs.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    pub capacity_allocated: i64,
    /// The rabbit (id 0) and the switch ports of its computes (id = index + 1).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<NnfServerStatus>,
    /// The drives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<NnfDriveStatus>,
}

/// How one port of the switch, and the node behind it, is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfServerStatus {
    /// The node behind the port; empty where none is configured.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// Endpoint id, decimal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Name of the port.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub status: Option<NnfResourceStatus>,
    /// How well it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub health: Option<NnfResourceHealth>,
}

/// How one drive is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfDriveStatus {
    /// Model, as the drive reports it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Serial number, as the drive reports it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial_number: String,
    /// Firmware version, as the drive reports it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub firmware_version: String,
    /// Slot in the chassis.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub slot: String,
    /// Bytes of the drive.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    pub capacity: i64,
    /// Percentage of the rated life used up; may pass 100.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    pub wear_level: i64,
    /// Id of the drive on its rabbit, decimal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Name of the drive.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub status: Option<NnfResourceStatus>,
    /// How well it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub health: Option<NnfResourceHealth>,
}
