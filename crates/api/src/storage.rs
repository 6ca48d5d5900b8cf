//! `Storage`: one rabbit as workload managers see it, written centrally; agents only read who has access.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::Nested;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// Whether an administrator lets the rabbit be used.
    #[derive(Default)]
    pub enum StorageState {
        /// In use.
        #[default]
        Enabled = "Enabled",
        /// Not to be given to new jobs.
        Disabled = "Disabled",
    }
}

string_enum! {
    /// Who keeps the status up to date.
    #[derive(Default)]
    pub enum StorageMode {
        /// The controllers.
        #[default]
        Live = "Live",
        /// A person, by hand.
        Testing = "Testing",
    }
}

string_enum! {
    /// What the storage is made of.
    pub enum StorageType {
        /// NVMe drives.
        Nvme = "NVMe",
    }
}

string_enum! {
    /// How nodes reach the storage.
    pub enum StorageAccessProtocol {
        /// PCI Express.
        Pcie = "PCIe",
    }
}

string_enum! {
    /// How a rabbit, a node or a drive is.
    pub enum ResourceStatus {
        /// Coming up.
        Starting = "Starting",
        /// Usable.
        Ready = "Ready",
        /// Taken out of use by an administrator.
        Disabled = "Disabled",
        /// Not there.
        NotPresent = "NotPresent",
        /// Not answering.
        Offline = "Offline",
        /// Broken.
        Failed = "Failed",
        /// Usable with a fault.
        Degraded = "Degraded",
        /// Drained by an administrator.
        Drained = "Drained",
        /// Cut off from the storage by the cluster's fencing.
        Fenced = "Fenced",
        /// Nobody knows.
        Unknown = "Unknown",
    }
}

/// What an administrator wants of the rabbit.
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
    /// Whether the rabbit may be used.
    #[serde(default)]
    pub state: StorageState,
    /// Who keeps the status up to date.
    #[serde(default)]
    pub mode: StorageMode,
}

/// How the rabbit is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = require_capacity)]
pub struct StorageStatus {
    /// What the storage is made of.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<StorageType>,
    /// The drives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<StorageDevice>,
    /// Who reaches the storage, and how.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    pub access: Nested<StorageAccess>,
    /// Usable bytes.
    #[serde(default)]
    pub capacity: i64,
    /// How the rabbit is as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ResourceStatus>,
    /// Whether only a reboot brings the rabbit back.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub reboot_required: bool,
    /// More about the status, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

fn require_capacity(status: &mut schemars::Schema) {
    schema::require(status, &["capacity"]);
}

/// One drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageDevice {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wear_level: Option<i64>,
    /// How the drive is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ResourceStatus>,
}

/// Who reaches the storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageAccess {
    /// By which means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<StorageAccessProtocol>,
    /// The rabbit itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<StorageNode>,
    /// The compute nodes of its chassis.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub computes: Vec<StorageNode>,
}

/// One node that reaches the storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageNode {
    /// The node's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How the node is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ResourceStatus>,
}
