//! `ClientMount`: the mounts that one node, compute or rabbit, shall have for one job.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// State of a mount.
    pub enum MountState {
        /// The file system is mounted.
        Mounted = "mounted",
        /// The file system is not mounted.
        Unmounted = "unmounted",
    }
}

string_enum! {
    /// Type of the mounted file system.
    pub enum FileSystemKind {
        /// A Lustre file system, mounted as a client.
        Lustre = "lustre",
        /// XFS on one logical volume.
        Xfs = "xfs",
        /// GFS2 on one logical volume, shared through the lock manager.
        Gfs2 = "gfs2",
        /// No file system: the raw device.
        Raw = "none",
    }
}

string_enum! {
    /// Type of the mount point.
    pub enum TargetType {
        /// A file, for a raw device.
        File = "file",
        /// A directory, for a file system.
        Directory = "directory",
    }
}

string_enum! {
    /// Means by which a node finds the device of a mount.
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
    /// Devices under a logical volume.
    pub enum LvmDeviceType {
        /// NVMe namespaces of one rabbit.
        Nvme = "nvme",
    }
}

/// Mounts that one node shall have.
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
    /// Name of the node that mounts; equal to the object's namespace.
    pub node: String,
    /// State that all mounts of this object shall reach: `mounted` or `unmounted`.
    pub desired_state: MountState,
    /// The mounts, in the order of `status.mounts`.
    #[schemars(length(min = 1))]
    pub mounts: Vec<ClientMountInfo>,
}

/// One mount on the node.
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
    /// True to set the owner and group of the mount's root to `userID` and `groupID`.
    pub set_permissions: bool,
    /// Mount options. Agents ignore this field: the profile's command lines have the options.
    pub options: String,
    /// Device to mount, and the means by which the node finds it.
    pub device: ClientMountDevice,
    /// Type of the file system; `none` for a raw device.
    #[serde(rename = "type")]
    pub kind: FileSystemKind,
    /// Type of the mount point. Agents ignore this field: the profile's command lines decide.
    pub target_type: TargetType,
    /// Compute node that the allocation belongs to; absent if several nodes share the allocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<String>,
}

/// Device to mount, and the means by which the node finds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountDevice {
    /// Member below that describes the device: `lustre`, `lvm` or `reference` (deviceReference).
    #[serde(rename = "type")]
    pub kind: DeviceType,
    /// Lustre file system, with type `lustre`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lustre: Option<ClientMountDeviceLustre>,
    /// Logical volume, with type `lvm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lvm: Option<ClientMountDeviceLvm>,
    /// Object that created the storage, with type `reference`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_reference: Option<ClientMountDeviceReference>,
}

/// Address of a Lustre file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountDeviceLustre {
    /// Name of the file system (fsname).
    pub file_system_name: String,
    /// NIDs of the management server, `address@lnet`, separated by `:` and `,`.
    pub mgs_addresses: String,
}

/// A logical volume on NVMe namespaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountDeviceLvm {
    /// Devices under the volume group: `nvme`.
    pub device_type: LvmDeviceType,
    /// NVMe namespaces, one for each drive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nvme_info: Vec<ClientMountNvmeInfo>,
    /// Name of the volume group; left empty, as agents derive it from labels.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub volume_group: String,
    /// Name of the logical volume; left empty, as agents derive it from labels.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub logical_volume: String,
}

/// One NVMe namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountNvmeInfo {
    /// NQN of the drive's NVMe subsystem, in spite of the field's name.
    pub device_serial: String,
    /// NVMe namespace id, as decimal text.
    #[serde(rename = "namespaceID")]
    pub namespace_id: String,
    /// NVMe namespace GUID; left empty.
    #[serde(rename = "namespaceGUID")]
    pub namespace_guid: String,
}

/// Reference to one allocation of the object that created the storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountDeviceReference {
    /// Reference to the `NnfNodeStorage`, or for Lustre to the `NnfStorage`.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub object_reference: ObjectReference,
    /// Index of the allocation; absent reads as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int")]
    pub data: Option<i64>,
}

impl ClientMountDeviceReference {
    /// Returns the index of the allocation on its rabbit, without a check of its range.
    #[must_use]
    pub fn allocation_index(&self) -> i64 {
        self.data.unwrap_or(0)
    }
}

/// State of the mounts as the node's agent reports it; `mounts` is as long as `spec.mounts` once
/// the agent has reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountStatus {
    /// State of the mounts, one entry for each entry of `spec.mounts`. Never null.
    #[serde(default)]
    #[schemars(!default)]
    pub mounts: Vec<ClientMountInfoStatus>,
    /// True once every mount is ready.
    #[serde(default)]
    #[schemars(!default)]
    pub all_ready: bool,
    /// Fault that keeps a mount from its desired state; absent without fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}

impl ClientMount {
    /// Returns whether the agent reports that all mounts are in the desired state.
    #[must_use]
    pub fn has_reached_desired_state(&self) -> bool {
        let has_reached = |status: &ClientMountStatus| {
            status.has_reached(&self.spec.desired_state, self.spec.mounts.len())
        };
        self.status.as_ref().is_some_and(has_reached)
    }
}

impl ClientMountStatus {
    /// Returns whether the agent reports that all `mounts` mounts of the object are in this state.
    ///
    /// Each mount may be ready while there is an `error`: then the agent could not unmount a mount that an earlier
    /// version of the object asked for. This function does not read `allReady`, which is for people; a site's older CRD
    /// may not have that field.
    #[must_use]
    pub fn has_reached(&self, state: &MountState, mounts: usize) -> bool {
        mounts > 0
            && self.mounts.len() == mounts
            && self.mounts.iter().all(|mount| mount.ready && mount.state == *state)
            && self.error.is_none()
    }

    /// Returns whether this status of an object with `mounts` mounts states that none of them is mounted on
    /// the node any more.
    ///
    /// An agent reports this only when it has unmounted all mounts that the object asked for, in this version or an
    /// earlier one, and the devices are free. Before any of the object's mounts is mounted again,
    /// [`Self::for_mounting`] replaces the status.
    #[must_use]
    pub fn says_unmounted(&self, mounts: usize) -> bool {
        self.all_ready && self.has_reached(&MountState::Unmounted, mounts)
    }

    /// Returns the status to write before the `mounts` mounts of an object are mounted: it withdraws an earlier report
    /// that they are unmounted.
    #[must_use]
    pub fn for_mounting(mounts: usize) -> Self {
        let mount = ClientMountInfoStatus { state: MountState::Mounted, ready: false };
        Self { mounts: vec![mount; mounts], all_ready: false, error: None }
    }
}

/// State of one mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientMountInfoStatus {
    /// State that the agent worked towards: `mounted` or `unmounted`.
    #[serde(default = "MountState::absent")]
    #[schemars(!default)]
    pub state: MountState,
    /// True once the mount is in that state.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
}
