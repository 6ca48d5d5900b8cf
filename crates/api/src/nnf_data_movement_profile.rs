//! `NnfDataMovementProfile`: how data is copied. Its body is under `data`; it has no status.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::Nested;
use crate::schema;

/// Fields of the object beside `metadata`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nnf.cray.hpe.com",
    version = "v1alpha11",
    kind = "NnfDataMovementProfile",
    namespaced,
    no_spec,
    derive = "PartialEq",
    doc = "How data is copied",
    printcolumn = r#"{"name":"DEFAULT","type":"boolean","jsonPath":".data.default","description":"True if this is the default instance"}"#,
    printcolumn = r#"{"name":"SLOTS","type":"integer","jsonPath":".data.slots","description":"Number of MPI slots"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct NnfDataMovementProfileBody {
    /// Body of the profile.
    #[serde(default)]
    #[schemars(!default)]
    pub data: Nested<NnfDataMovementProfileData>,
}

impl NnfDataMovementProfile {
    /// Returns the profile's body.
    #[must_use]
    pub fn data(&self) -> &NnfDataMovementProfileData {
        &self.spec.data
    }
}

/// Body of a profile. The command lines are those of the sites' own copying program, for `mpirun` and `dcp`; Warren's
/// copier uses none of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfDataMovementProfileData {
    /// True if directives that name no profile get this one.
    pub default: bool,
    /// True for the copy that belongs to one workflow.
    pub pinned: bool,
    /// Number of MPI slots on each host.
    #[schemars(schema_with = "schema::int")]
    pub slots: i64,
    /// Largest number of MPI slots on each host; 0 for no limit.
    #[schemars(schema_with = "schema::int")]
    pub max_slots: i64,
    /// Command line that copies.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// True if the command's output is logged.
    pub log_stdout: bool,
    /// True if the command's output is kept in `status.message`.
    pub store_stdout: bool,
    /// Seconds between two updates of the progress; 0 for none.
    #[schemars(range(min = 0), schema_with = "schema::int")]
    pub progress_interval_seconds: i64,
    /// True if missing directories of the destination are made.
    pub create_dest_dir: bool,
    /// Command line that reads the status of a path.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stat_command: String,
    /// Command line that makes a directory.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mkdir_command: String,
    /// Command line that changes the user.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub setpriv_command: String,
}

impl Default for NnfDataMovementProfileData {
    fn default() -> Self {
        Self {
            default: false,
            pinned: false,
            slots: 8,
            max_slots: 0,
            command: String::new(),
            log_stdout: false,
            store_stdout: false,
            progress_interval_seconds: 5,
            create_dest_dir: true,
            stat_command: String::new(),
            mkdir_command: String::new(),
            setpriv_command: String::new(),
        }
    }
}
