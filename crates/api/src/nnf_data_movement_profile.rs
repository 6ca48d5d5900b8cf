//! `NnfDataMovementProfile`: how data is copied. Its body is under `data`; it has no status.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::Nested;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// The directory beneath the destination in which a copy_out puts each allocation.
    pub enum IndexDirectories {
        /// Named after the rabbit and the index of the allocation there, such as `rabbit-1-0`.
        Rabbit = "Rabbit",
        /// Named after the compute of the allocation.
        Compute = "Compute",
        /// None if the storage has a single allocation, else as with Rabbit.
        None = "None",
    }
}

string_enum! {
    /// The copies that end only after the destination is on stable storage.
    pub enum SyncDestination {
        /// Each copy_out: Teardown destroys its source.
        CopyOut = "CopyOut",
        /// All copies.
        Always = "Always",
        /// No copy: a power failure soon after its end may lose data.
        Never = "Never",
    }
}

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

/// Body of a profile. The command lines are those of the sites' own copying program, for `mpirun` and `dcp`. Warren runs
/// only `command`, and only with `image`.
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
    /// Image with the programs of `command`. If it is set, `command` copies between file systems that all rabbits share.
    /// The sites' CRDs lack this field and the next five.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// The directory in which a copy_out puts each allocation.
    #[serde(skip_serializing_if = "is_by_rabbit")]
    pub index_directories: IndexDirectories,
    /// True if extended attributes and ACLs are copied.
    #[serde(skip_serializing_if = "is_false")]
    pub copy_xattrs: bool,
    /// True if a copy succeeds although some files could not be copied.
    #[serde(skip_serializing_if = "is_false")]
    pub allow_failed_files: bool,
    /// The copies that end only after the destination is on stable storage.
    #[serde(skip_serializing_if = "is_by_copy_out")]
    pub sync_destination: SyncDestination,
    /// Maximum bytes per second of each copy; 0 for no limit beside the rabbit's own.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0), schema_with = "schema::int")]
    pub bytes_per_second: i64,
}

fn is_by_rabbit(directories: &IndexDirectories) -> bool {
    *directories == IndexDirectories::Rabbit
}

fn is_by_copy_out(sync: &SyncDestination) -> bool {
    *sync == SyncDestination::CopyOut
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
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
            image: String::new(),
            index_directories: IndexDirectories::Rabbit,
            copy_xattrs: false,
            allow_failed_files: false,
            sync_destination: SyncDestination::CopyOut,
            bytes_per_second: 0,
        }
    }
}
