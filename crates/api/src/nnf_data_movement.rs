//! `NnfDataMovement`: one copy of a job's data on one rabbit. The object is in the rabbit's Kubernetes namespace.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::micro_time::MicroTime;
use crate::names::movement::MPI_RUN;
use crate::nested::Nested;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// Progress of a movement.
    pub enum DataMovementState {
        /// The agent has queued the movement, or prepares it.
        Starting = "Starting",
        /// Data is being copied.
        Running = "Running",
        /// The movement has ended; `status` has the result.
        Finished = "Finished",
    }
}

string_enum! {
    /// Result of a movement.
    pub enum DataMovementVerdict {
        /// Everything was copied.
        Success = "Success",
        /// Something was not copied.
        Failed = "Failed",
        /// The request cannot be carried out.
        Invalid = "Invalid",
        /// The movement was cancelled.
        Cancelled = "Cancelled",
    }
}

/// What to copy, where to, and as whom.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nnf.cray.hpe.com",
    version = "v1alpha11",
    kind = "NnfDataMovement",
    namespaced,
    status = "NnfDataMovementStatus",
    derive = "PartialEq",
    doc = "A copy of a job's data on a rabbit",
    printcolumn = r#"{"name":"STATE","type":"string","jsonPath":".status.state","description":"Current state"}"#,
    printcolumn = r#"{"name":"STATUS","type":"string","jsonPath":".status.status","description":"Status of current state"}"#,
    printcolumn = r#"{"name":"ERROR","type":"string","jsonPath":".status.error.severity","description":"Severity of the error"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct NnfDataMovementSpec {
    /// Place from which the data is copied.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    pub source: Nested<DataMovementPlace>,
    /// Place to which the data is copied.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    pub destination: Nested<DataMovementPlace>,
    /// User ID (decimal) of the copying process.
    #[serde(default)]
    #[schemars(!default, schema_with = "schema::int32")]
    pub user_id: i64,
    /// Group ID (decimal) of the copying process.
    #[serde(default)]
    #[schemars(!default, schema_with = "schema::int32")]
    pub group_id: i64,
    /// True to cancel the movement, before it starts or while it runs.
    #[serde(default)]
    pub cancel: bool,
    /// The pinned NnfDataMovementProfile.
    #[serde(default, skip_serializing_if = "is_empty_reference")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub profile_reference: ObjectReference,
}

fn is_empty_reference(reference: &ObjectReference) -> bool {
    *reference == ObjectReference::default()
}

/// One side of a copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DataMovementPlace {
    /// Absolute path on the rabbit. A trailing `/` means the contents of a directory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The storage that holds the path: an NnfStorage, a Servers, or a LustreFileSystem.
    #[serde(default, skip_serializing_if = "is_empty_reference")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub storage_reference: ObjectReference,
}

impl NnfDataMovement {
    /// Returns whether Warren's engine made the movement: one side is the storage of a Servers object.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        let sides = [&self.spec.source, &self.spec.destination];
        sides.iter().any(|side| side.storage_reference.kind.as_deref() == Some("Servers"))
    }

    /// Returns whether containers of MPI carry out the movement, instead of the rabbit's agent.
    #[must_use]
    pub fn is_by_mpi(&self) -> bool {
        self.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(MPI_RUN))
    }

    /// Returns whether the movement has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let state = self.status.as_ref().and_then(|status| status.state.as_ref());
        state == Some(&DataMovementState::Finished)
    }

    /// Returns whether the movement has ended and copied everything.
    #[must_use]
    pub fn has_succeeded(&self) -> bool {
        let verdict = self.status.as_ref().and_then(|status| status.status.as_ref());
        self.is_finished() && verdict == Some(&DataMovementVerdict::Success)
    }

    /// Returns the percentage of the data that is copied, if it is known.
    #[must_use]
    pub fn progress(&self) -> Option<i64> {
        self.status.as_ref()?.command_status.progress
    }
}

/// Progress of a movement, and its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfDataMovementStatus {
    /// State of the movement; absent until an agent takes it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<DataMovementState>,
    /// Result of the movement; absent until the movement has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DataMovementVerdict>,
    /// What a person should know: why the movement waits, or how it ended.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Time at which the copying began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<MicroTime>,
    /// Time at which the movement ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<MicroTime>,
    /// Number of times that the copying continued after its agent or rabbit stopped.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(schema_with = "schema::int")]
    pub restarts: i64,
    /// Progress and statistics.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    pub command_status: Nested<DataMovementProgress>,
    /// Error of the movement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<crate::ResourceError>,
    /// The first files that were not copied. The sites' CRDs lack this field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<DataMovementFailure>,
}

/// A file or directory that was not copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DataMovementFailure {
    /// Path in the source. Bytes that are not UTF-8 are replaced.
    #[serde(default)]
    #[schemars(!default)]
    pub path: String,
    /// The operation that failed, such as `open`.
    #[serde(default)]
    #[schemars(!default)]
    pub action: String,
    /// Number of the error (errno(3)), when a system call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub errno: Option<i32>,
    /// Reason of the failure.
    #[serde(default)]
    #[schemars(!default)]
    pub error: String,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Progress and statistics of a movement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DataMovementProgress {
    /// The copying program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// Time since the copying began, such as `1m3s`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub elapsed_time: String,
    /// Percentage of the data that is copied, 0 to 100; absent while the total is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub progress: Option<i64>,
    /// Last progress in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_message: String,
    /// Time at which `lastMessage` was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message_time: Option<MicroTime>,
    /// Seconds that the copying took, with a fraction.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub seconds: String,
    /// Number of directories, files and links that were copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub items: Option<i64>,
    /// Number of directories that were copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub directories: Option<i64>,
    /// Number of files that were copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub files: Option<i64>,
    /// Number of symbolic links, further hard links and special files that were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub links: Option<i64>,
    /// Data that was copied, such as `1.2 GiB`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub data: String,
    /// Mean rate, such as `800 MiB/s`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rate: String,
    /// Bytes of data that were copied, holes not counted. The sites' CRDs lack this field and the next two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int")]
    pub bytes: Option<i64>,
    /// Bytes of data of the source, holes not counted; absent until they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int")]
    pub total_bytes: Option<i64>,
    /// Mean rate in bytes per second; absent until it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int")]
    pub bytes_per_second: Option<i64>,
}
