//! `NnfNode`: one rabbit as its own agent reports it, named `nnf-nlc` in the rabbit's namespace.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::string_enum::string_enum;

string_enum! {
    /// Administrator's switch for a rabbit.
    pub enum NnfNodeState {
        /// The rabbit serves jobs.
        Enable = "Enable",
        /// The rabbit does not serve jobs.
        Disable = "Disable",
    }
}

string_enum! {
    /// State of a rabbit, a server or a drive.
    pub enum NnfResourceStatus {
        /// An administrator has put it into use.
        Enabled = "Enabled",
        /// An administrator has taken it out of use.
        Disabled = "Disabled",
        /// The slot or port is empty.
        NotPresent = "NotPresent",
        /// It does not answer.
        Offline = "Offline",
        /// It is being started.
        Starting = "Starting",
        /// It is being deleted.
        Deleting = "Deleting",
        /// It has been deleted.
        Deleted = "Deleted",
        /// It is usable.
        Ready = "Ready",
        /// It is broken.
        Failed = "Failed",
        /// The request for it could not be carried out.
        Invalid = "Invalid",
        /// The cluster's fencing has cut the rabbit off from the storage.
        Fenced = "Fenced",
    }
}

string_enum! {
    /// Health of a rabbit, a server or a drive.
    pub enum NnfResourceHealth {
        /// No fault is known.
        Ok = "OK",
        /// A fault that does not stop work.
        Warning = "Warning",
        /// A fault that stops work.
        Critical = "Critical",
    }
}

/// Name of the rabbit, and whether it serves jobs.
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
    /// Name of the rabbit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Name of the pod that the agent runs in; empty outside Kubernetes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// Whether the rabbit serves jobs: Enable or Disable.
    pub state: NnfNodeState,
}

/// State of the rabbit as its agent measures it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfNodeStatus {
    /// State of the rabbit as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub status: Option<NnfResourceStatus>,
    /// Health of the rabbit as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub health: Option<NnfResourceHealth>,
    /// True while the cluster's fencing has cut the rabbit off from the storage.
    #[serde(skip_serializing_if = "crate::omit::is_false")]
    pub fenced: bool,
    /// LNet address (NID) of the rabbit; Lustre management targets on the rabbit are reached at this address.
    #[serde(rename = "lnetNid", skip_serializing_if = "String::is_empty")]
    pub lnet_nid: String,
    /// Usable capacity of the rabbit's drives, in bytes.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    pub capacity: i64,
    /// Capacity allocated to jobs and persistent storage, in bytes.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    pub capacity_allocated: i64,
    /// The rabbit (id 0) and the switch ports of its computes (id = index + 1).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<NnfServerStatus>,
    /// The NVMe drives of the rabbit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<NnfDriveStatus>,
}

/// State of one port of the PCIe switch, and of the node behind it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfServerStatus {
    /// Host name of the node behind the port; empty where SystemConfiguration names none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// Endpoint id as decimal text: 0 for the rabbit, index + 1 for a compute.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Name of the port.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// State of the port and of the node behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub status: Option<NnfResourceStatus>,
    /// Health of the port and of the node behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub health: Option<NnfResourceHealth>,
}

/// State of one NVMe drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfDriveStatus {
    /// Model that the drive reports.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Serial number that the drive reports.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial_number: String,
    /// Firmware version that the drive reports.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub firmware_version: String,
    /// Slot of the drive in the chassis.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub slot: String,
    /// Capacity of the drive, in bytes.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    pub capacity: i64,
    /// Rated life that the drive has used, in percent as the drive reports it; may exceed 100.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    pub wear_level: i64,
    /// Id of the drive on its rabbit, as decimal text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Name of the drive.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// State of the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub status: Option<NnfResourceStatus>,
    /// Health of the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub health: Option<NnfResourceHealth>,
}
