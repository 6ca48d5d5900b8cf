//! `NnfContainerProfile`: what containers beside a job's storage run. Its body is under `data`; it has no status.
//!
//! What Kubernetes itself checks when the pods are made (volumes, probes, sources of variables) has no schema here: with it the
//! CRD would be larger than a client may send.

use k8s_openapi::api::core::v1::{
    EnvFromSource, EnvVar, LocalObjectReference, Probe, ResourceRequirements, Volume, VolumeMount,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::Nested;
use crate::package::Package;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// How nodes may use the volume of a global Lustre.
    pub enum PvcMode {
        /// One node reads and writes.
        ReadWriteOnce = "ReadWriteOnce",
        /// All nodes read.
        ReadOnlyMany = "ReadOnlyMany",
        /// All nodes read and write.
        ReadWriteMany = "ReadWriteMany",
        /// One pod reads and writes.
        ReadWriteOncePod = "ReadWriteOncePod",
    }
}

string_enum! {
    /// Whose mpirun a launcher runs.
    pub enum MpiImplementation {
        /// Open MPI.
        OpenMpi = "OpenMPI",
        /// Intel MPI.
        Intel = "Intel",
        /// MPICH.
        Mpich = "MPICH",
    }
}

string_enum! {
    /// What goes once a launcher has ended.
    pub enum CleanPodPolicy {
        /// Nothing.
        None = "None",
        /// Workers that run.
        Running = "Running",
        /// All workers, and later the launcher.
        All = "All",
    }
}

/// What stands beside `metadata`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nnf.cray.hpe.com",
    version = "v1alpha11",
    kind = "NnfContainerProfile",
    namespaced,
    no_spec,
    derive = "PartialEq",
    doc = "What the containers of a workflow run on its rabbits"
)]
pub struct NnfContainerProfileBody {
    /// The profile.
    #[serde(default)]
    #[schemars(!default)]
    pub data: Nested<NnfContainerProfileData>,
}

impl NnfContainerProfile {
    /// The profile itself.
    #[must_use]
    pub fn data(&self) -> &NnfContainerProfileData {
        &self.spec.data
    }
}

/// A profile. It has either `spec` or `mpiSpec`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = require_retries)]
pub struct NnfContainerProfileData {
    /// Whether this copy belongs to a workflow.
    pub pinned: bool,
    /// Whether containers are made. Without, a workflow only learns where its storage is.
    #[schemars(default = "yes")]
    pub create_container: bool,
    /// The storage that the containers use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storages: Vec<NnfContainerProfileStorage>,
    /// Files that are on each rabbit before the containers start. Only Warren's CRD has this field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<Package>,
    /// Seconds until all containers must be ready, from when PreRun is asked for; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = 300))]
    pub pre_run_timeout_seconds: Option<i64>,
    /// Seconds until all containers must have ended, from when PostRun is asked for; 0 to wait for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = 300))]
    pub post_run_timeout_seconds: Option<i64>,
    /// How often a container that failed is started again.
    #[schemars(range(min = 0), schema_with = "retries")]
    pub retry_limit: i64,
    /// The one user that may use the profile.
    #[serde(rename = "userID", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub user_id: Option<i64>,
    /// The one group that may use the profile.
    #[serde(rename = "groupID", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub group_id: Option<i64>,
    /// Ports of the rabbit for each container.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    #[schemars(range(min = 0), schema_with = "schema::int32")]
    pub num_ports: i64,
    /// One pod on each rabbit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<NnfPodSpec>,
    /// MPI: a launcher, and a worker on each rabbit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mpi_spec: Option<NnfMpiSpec>,
}

fn yes() -> bool {
    true
}

fn retries(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "integer", "format": "int32", "minimum": 0, "default": 6 })
}

fn require_retries(profile: &mut schemars::Schema) {
    schema::require(profile, &["retryLimit"]);
}

impl NnfContainerProfileData {
    /// The pod whose containers get ports: that of each rabbit, or the launcher's.
    #[must_use]
    pub fn main(&self) -> Option<&NnfPodSpec> {
        self.spec.as_ref().or_else(|| self.mpi_spec.as_ref().map(|mpi| &mpi.launcher))
    }
}

impl NnfMpiSpec {
    /// How the pods end.
    #[must_use]
    pub fn policy(&self) -> NnfMpiRunPolicy {
        self.run_policy.clone().unwrap_or_default()
    }
}

impl Default for NnfContainerProfileData {
    fn default() -> Self {
        Self {
            pinned: false,
            create_container: true,
            storages: Vec::new(),
            packages: Vec::new(),
            pre_run_timeout_seconds: None,
            post_run_timeout_seconds: None,
            retry_limit: 6,
            user_id: None,
            group_id: None,
            num_ports: 0,
            spec: None,
            mpi_spec: None,
        }
    }
}

/// Storage that a profile provides for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = require_optional)]
pub struct NnfContainerProfileStorage {
    /// The argument of the directive that names it, and the variable with its path: `DW_JOB_…`, `DW_PERSISTENT_…` or `DW_GLOBAL_…`.
    pub name: String,
    /// Whether a directive may leave it out.
    #[serde(default)]
    pub optional: bool,
    /// For `DW_GLOBAL_…` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_mode: Option<PvcMode>,
}

fn require_optional(storage: &mut schemars::Schema) {
    schema::require(storage, &["optional"]);
}

/// The pods of MPI.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfMpiSpec {
    /// Where `mpirun` runs.
    pub launcher: NnfPodSpec,
    /// Where the ranks run.
    pub worker: NnfPodSpec,
    /// Whether the launcher serves copies that the job asks for.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub copy_offload: bool,
    /// Ranks on each worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub slots_per_worker: Option<i64>,
    /// Whose mpirun it is; Open MPI's when nothing is said. Only Warren's CRD has this field and those below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi_implementation: Option<MpiImplementation>,
    /// Whether ranks run beside `mpirun` too.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub run_launcher_as_worker: bool,
    /// How the pods end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_policy: Option<NnfMpiRunPolicy>,
    /// When the launcher starts: once every worker answers, and no other value is carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launcher_creation_policy: Option<String>,
}

/// How the pods of MPI end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfMpiRunPolicy {
    /// What goes once the launcher has ended; `Running` when nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_pod_policy: Option<CleanPodPolicy>,
    /// Seconds from the launcher's end until all pods go with their logs, but not before PostRun told how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), schema_with = "schema::int32")]
    pub ttl_seconds_after_finished: Option<i64>,
    /// Refused: a job's own limit is its workload manager's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// Refused: `retryLimit` says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i64>,
    /// Refused: an annotation of the Workflow suspends its containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Refused: nobody else manages the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfPodSpec {
    /// At least one.
    #[schemars(length(min = 1))]
    pub containers: Vec<NnfContainer>,
    /// Containers that end before the others start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<NnfContainer>,
    /// Volumes beside those of the storages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub volumes: Vec<Volume>,
    /// Seconds between the signal to end and the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// Whether the containers see each other's processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_process_namespace: Option<bool>,
    /// Secrets for pulling images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Whether the pod gets a token for the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automount_service_account_token: Option<bool>,
    /// Which pods the scheduler prefers to it. Only Warren's CRD has this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfContainer {
    /// Its name among the containers of the pod.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Its image, used as it stands here.
    #[schemars(length(min = 1, max = 253))]
    pub image: String,
    /// The program, in the place of the image's entry point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The program's arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub env: Vec<EnvVar>,
    /// Sources of variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub env_from: Vec<EnvFromSource>,
    /// Where volumes are mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub volume_mounts: Vec<VolumeMount>,
    /// Where the program starts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub working_dir: String,
    /// `Always` on an init container makes a sidecar of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// Whether it lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub liveness_probe: Option<Probe>,
    /// Whether it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub readiness_probe: Option<Probe>,
    /// Whether it has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub startup_probe: Option<Probe>,
    /// The file with the program's last words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub termination_message_path: String,
    /// Where the program's last words are from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_message_policy: Option<String>,
    /// When the image is pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Always", "Never", "IfNotPresent"]))]
    pub image_pull_policy: Option<String>,
    /// What it may use. Only Warren's CRD has this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub resources: Option<ResourceRequirements>,
}
