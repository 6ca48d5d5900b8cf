//! `ClientMount`: what one node, compute or rabbit, shall have mounted for one job.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// Whether a mount is, or shall be, there.
    pub enum MountState {
        /// Mounted.
        Mounted = "mounted",
        /// Not mounted.
        Unmounted = "unmounted",
    }
}

string_enum! {
    /// What is mounted.
    pub enum FileSystemKind {
        /// A Lustre client mount.
        Lustre = "lustre",
        /// XFS on one logical volume.
        Xfs = "xfs",
        /// GFS2 on one logical volume, shared by lock manager.
        Gfs2 = "gfs2",
        /// No file system: the raw device.
        Raw = "none",
    }
}

string_enum! {
    /// What the mount point is.
    pub enum TargetType {
        /// A file.
        File = "file",
        /// A directory.
        Directory = "directory",
    }
}

string_enum! {
    /// How the device of a mount is found.
    pub enum DeviceType {
        /// By Lustre file system name and management server.
        Lustre = "lustre",
        /// By the NVMe namespaces under a logical volume.
        Lvm = "lvm",
        /// By reference to an object of the same node.
        Reference = "reference",
    }
}

string_enum! {
    /// What lies under a logical volume.
    pub enum LvmDeviceType {
        /// NVMe namespaces.
        Nvme = "nvme",
    }
}

/// The mounts one node shall have.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dataworkflowservices.github.io",
    version = "v1alpha7",
    kind = "ClientMount",
    namespaced,
    status = "ClientMountStatus",
    derive = "PartialEq",
    doc = "Mounts on one node, made by the central controllers and carried out by the node's agent",
    printcolumn(
        name = "DESIREDSTATE",
        type_ = "string",
        json_path = ".spec.desiredState",
        description = "The desired state"
    ),
    printcolumn(
        name = "READY",
        type_ = "boolean",
        json_path = ".status.allReady",
        description = "True if desired state is achieved"
    ),
    printcolumn(name = "ERROR", type_ = "string", json_path = ".status.error.severity"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountSpec {
    /// The node that mounts; equal to the object's namespace.
    pub node: String,
    /// What shall become of all mounts of this object.
    pub desired_state: MountState,
    /// The mounts, in the order of `status.mounts`.
    #[schemars(length(min = 1))]
    pub mounts: Vec<ClientMountInfo>,
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountInfo {
    /// Absolute path of the mount point.
    pub mount_path: String,
    /// User id for the root of the mount, if permissions are to be set; absent reads as 0.
    #[serde(rename = "userID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub user_id: Option<i64>,
    /// Group id for the root of the mount, if permissions are to be set; absent reads as 0.
    #[serde(rename = "groupID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub group_id: Option<i64>,
    /// Whether the root of the mount is given to `userID` and `groupID`.
    pub set_permissions: bool,
    /// Mount options; the profile's command lines decide instead.
    pub options: String,
    /// What to mount.
    pub device: ClientMountDevice,
    /// The file system, or `none` for a raw device.
    #[serde(rename = "type")]
    pub kind: FileSystemKind,
    /// What the mount point is; the profile's command lines decide instead.
    pub target_type: TargetType,
    /// The compute node whose allocation this is, if it is one node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<String>,
}

/// What is mounted, and how it is found on the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountDevice {
    /// Which of the following describes the device.
    #[serde(rename = "type")]
    pub kind: DeviceType,
    /// A Lustre file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lustre: Option<ClientMountDeviceLustre>,
    /// A logical volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lvm: Option<ClientMountDeviceLvm>,
    /// The object that made the storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_reference: Option<ClientMountDeviceReference>,
}

/// A Lustre file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountDeviceLustre {
    /// The file system's name.
    pub file_system_name: String,
    /// NIDs of the management server, `address@lnet`, separated by `:` and `,`.
    pub mgs_addresses: String,
}

/// A logical volume on NVMe namespaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountDeviceLvm {
    /// What lies under the volume group.
    pub device_type: LvmDeviceType,
    /// The namespaces, one per drive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nvme_info: Vec<ClientMountNvmeInfo>,
    /// Volume group; empty, as agents derive it from labels.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub volume_group: String,
    /// Logical volume; empty, as agents derive it from labels.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub logical_volume: String,
}

/// One NVMe namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountNvmeInfo {
    /// The drive, by its subsystem NQN in spite of the name.
    pub device_serial: String,
    /// Namespace id, decimal.
    #[serde(rename = "namespaceID")]
    pub namespace_id: String,
    /// Namespace GUID; empty in practice.
    #[serde(rename = "namespaceGUID")]
    pub namespace_guid: String,
}

/// The object that made the storage, and which of its allocations is meant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountDeviceReference {
    /// The `NnfNodeStorage`, or for Lustre the `NnfStorage`.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub object_reference: ObjectReference,
    /// Index of the allocation; absent reads as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int")]
    pub data: Option<i64>,
}

impl ClientMountDeviceReference {
    /// Index of the allocation on its rabbit, not yet checked against anything.
    #[must_use]
    pub fn allocation_index(&self) -> i64 {
        self.data.unwrap_or(0)
    }
}

/// What the node's agent found; `mounts` is as long as `spec.mounts` once the agent has reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountStatus {
    /// One entry per entry of `spec.mounts`. Never null.
    #[serde(default)]
    #[schemars(!default)]
    pub mounts: Vec<ClientMountInfoStatus>,
    /// Whether every mount is ready.
    #[serde(default)]
    #[schemars(!default)]
    pub all_ready: bool,
    /// What went wrong, if anything did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}

impl ClientMount {
    /// Whether the agent reports that all mounts are in the desired state.
    #[must_use]
    pub fn has_reached_desired_state(&self) -> bool {
        let has_reached = |status: &ClientMountStatus| {
            status.has_reached(&self.spec.desired_state, self.spec.mounts.len())
        };
        self.status.as_ref().is_some_and(has_reached)
    }
}

impl ClientMountStatus {
    /// Whether the agent reports that all mounts of an object with so many mounts are in this state.
    ///
    /// Each mount may be ready while there is an `error`: then the agent could not unmount a mount that an earlier version of the
    /// object asked for. `allReady` is for people, and a site's older definition may not have it.
    #[must_use]
    pub fn has_reached(&self, state: &MountState, mounts: usize) -> bool {
        mounts > 0
            && self.mounts.len() == mounts
            && self.mounts.iter().all(|mount| mount.ready && mount.state == *state)
            && self.error.is_none()
    }

    /// Whether it says of an object with so many mounts that nothing of it is mounted on the node any more.
    ///
    /// An agent reports this only when it has unmounted everything that the object asked for, in this version or an earlier one,
    /// and the devices are free. Before anything of the object is mounted again, [`Self::retracted`] replaces the status.
    #[must_use]
    pub fn says_unmounted(&self, mounts: usize) -> bool {
        self.all_ready && self.has_reached(&MountState::Unmounted, mounts)
    }

    /// The status of an object with so many mounts that are about to be mounted: nothing is promised any more.
    #[must_use]
    pub fn retracted(mounts: usize) -> Self {
        let mount = ClientMountInfoStatus { state: MountState::Mounted, ready: false };
        Self { mounts: vec![mount; mounts], all_ready: false, error: None }
    }
}

/// How one mount is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountInfoStatus {
    /// The state that was worked towards.
    #[serde(default = "MountState::unsaid")]
    #[schemars(!default)]
    pub state: MountState,
    /// Whether that state is reached.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
}
