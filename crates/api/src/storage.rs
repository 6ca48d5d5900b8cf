//! `Storage`: one rabbit as workload managers see it. Central controllers write it; agents read only the list of nodes
//! with access.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::Nested;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// Administrator's switch for a rabbit.
    #[derive(Default)]
    pub enum StorageState {
        /// The rabbit may be given to new jobs.
        #[default]
        Enabled = "Enabled",
        /// The rabbit is not given to new jobs.
        Disabled = "Disabled",
    }
}

string_enum! {
    /// Writer of the status.
    #[derive(Default)]
    pub enum StorageMode {
        /// The controllers keep the status up to date.
        #[default]
        Live = "Live",
        /// A person writes the status by hand, for tests.
        Testing = "Testing",
    }
}

string_enum! {
    /// Medium of the storage.
    pub enum StorageType {
        /// Local NVMe drives.
        Nvme = "NVMe",
    }
}

string_enum! {
    /// Protocol between nodes and storage.
    pub enum StorageAccessProtocol {
        /// PCI Express, within one chassis.
        Pcie = "PCIe",
    }
}

string_enum! {
    /// State of a rabbit, a node or a drive.
    pub enum ResourceStatus {
        /// It is being started.
        Starting = "Starting",
        /// It is usable.
        Ready = "Ready",
        /// An administrator has taken it out of use.
        Disabled = "Disabled",
        /// The slot or port is empty.
        NotPresent = "NotPresent",
        /// It does not answer.
        Offline = "Offline",
        /// It is broken.
        Failed = "Failed",
        /// It is usable in spite of a fault.
        Degraded = "Degraded",
        /// An administrator has drained it.
        Drained = "Drained",
        /// The cluster's fencing has cut the rabbit off from the storage.
        Fenced = "Fenced",
        /// No component has reported its state.
        Unknown = "Unknown",
    }
}

/// Administrator's settings for the rabbit.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dataworkflowservices.github.io",
    version = "v1alpha7",
    kind = "Storage",
    namespaced,
    status = "StorageStatus",
    derive = "PartialEq",
    doc = "One rabbit: its drives, and the nodes that reach them",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".spec.state",
        description = "State of the storage resource"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.status",
        description = "Status of the storage resource"
    ),
    printcolumn(
        name = "Mode",
        type_ = "string",
        json_path = ".spec.mode",
        description = "State of live updates"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct StorageSpec {
    /// Whether the rabbit may be given to new jobs: Enabled or Disabled.
    #[serde(default)]
    pub state: StorageState,
    /// Writer of the status: the controllers (Live) or a person (Testing).
    #[serde(default)]
    pub mode: StorageMode,
}

/// State of the rabbit, its drives and the nodes that reach them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = require_capacity)]
pub struct StorageStatus {
    /// Medium of the storage: NVMe.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<StorageType>,
    /// The drives of the rabbit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<StorageDevice>,
    /// Nodes that reach the storage, and the protocol that they use.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    pub access: Nested<StorageAccess>,
    /// Usable capacity of the rabbit, in bytes.
    #[serde(default)]
    pub capacity: i64,
    /// State of the rabbit as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ResourceStatus>,
    /// True while only a reboot brings the rabbit back into service.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub reboot_required: bool,
    /// Reason for the status, as text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

fn require_capacity(status: &mut schemars::Schema) {
    schema::require(status, &["capacity"]);
}

/// One drive of the rabbit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageDevice {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wear_level: Option<i64>,
    /// State of the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ResourceStatus>,
}

/// Nodes that reach the storage, and the protocol that they use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageAccess {
    /// Protocol between nodes and storage: PCIe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<StorageAccessProtocol>,
    /// The rabbit itself, with its status.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<StorageNode>,
    /// Compute nodes in the rabbit's chassis.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub computes: Vec<StorageNode>,
}

/// One node that reaches the storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageNode {
    /// Host name of the node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// State of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ResourceStatus>,
}
