//! `NnfContainerProfile`: the containers that jobs may run on their rabbits. Its body is under `data`; it has no
//! status.
//!
//! Volumes, probes and sources of environment variables have no schema in this CRD: with their schemas the CRD would
//! exceed the largest request that an API server accepts. Kubernetes checks these fields when the pods are created.

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
    /// Access mode of a volume of a global Lustre.
    pub enum PvcMode {
        /// A single node reads and writes.
        ReadWriteOnce = "ReadWriteOnce",
        /// All nodes read.
        ReadOnlyMany = "ReadOnlyMany",
        /// All nodes read and write.
        ReadWriteMany = "ReadWriteMany",
        /// A single pod reads and writes.
        ReadWriteOncePod = "ReadWriteOncePod",
    }
}

string_enum! {
    /// MPI implementation that provides `mpirun`.
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
    /// Pods that the engine removes after the launcher has ended.
    pub enum CleanPodPolicy {
        /// No pod is removed.
        None = "None",
        /// Workers that still run are stopped.
        Running = "Running",
        /// All workers are removed, and later the launcher.
        All = "All",
    }
}

/// Fields of the object beside `metadata`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nnf.cray.hpe.com",
    version = "v1alpha11",
    kind = "NnfContainerProfile",
    namespaced,
    no_spec,
    derive = "PartialEq",
    doc = "The containers that a workflow runs on its rabbits"
)]
pub struct NnfContainerProfileBody {
    /// Body of the profile.
    #[serde(default)]
    #[schemars(!default)]
    pub data: Nested<NnfContainerProfileData>,
}

impl NnfContainerProfile {
    /// Returns the profile's body.
    #[must_use]
    pub fn data(&self) -> &NnfContainerProfileData {
        &self.spec.data
    }
}

/// Body of a profile. It has either `spec` or `mpiSpec`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = require_retries)]
pub struct NnfContainerProfileData {
    /// True for the copy that belongs to one workflow.
    pub pinned: bool,
    /// True to create containers. With false the workflow only gets the paths of its storage.
    #[schemars(default = "default_create_container")]
    pub create_container: bool,
    /// Storage that the containers use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storages: Vec<NnfContainerProfileStorage>,
    /// Job packages: files that are on each rabbit before the containers start. Only Warren's CRD has this field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<Package>,
    /// Seconds from the request for PreRun until all containers must be ready; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = 300))]
    pub pre_run_timeout_seconds: Option<i64>,
    /// Seconds from the request for PostRun until all containers must have ended; 0 to wait for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = 300))]
    pub post_run_timeout_seconds: Option<i64>,
    /// Number of times that failed containers are started again.
    #[schemars(range(min = 0), schema_with = "retries")]
    pub retry_limit: i64,
    /// User id (UID) of the only user that may use the profile; absent: any user.
    #[serde(rename = "userID", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub user_id: Option<i64>,
    /// Group id (GID) of the only group that may use the profile; absent: any group.
    #[serde(rename = "groupID", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub group_id: Option<i64>,
    /// Number of the rabbit's ports that each container gets.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    #[schemars(range(min = 0), schema_with = "schema::int32")]
    pub num_ports: i64,
    /// Pod that runs on each rabbit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<NnfPodSpec>,
    /// Pods of an MPI run: a launcher, and a worker on each rabbit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mpi_spec: Option<NnfMpiSpec>,
}

fn default_create_container() -> bool {
    true
}

fn retries(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "integer", "format": "int32", "minimum": 0, "default": 6 })
}

fn require_retries(profile: &mut schemars::Schema) {
    schema::require(profile, &["retryLimit"]);
}

impl NnfContainerProfileData {
    /// Returns the pod whose containers get ports: the pod of each rabbit, or the MPI launcher.
    #[must_use]
    pub fn pod_with_ports(&self) -> Option<&NnfPodSpec> {
        self.spec.as_ref().or_else(|| self.mpi_spec.as_ref().map(|mpi| &mpi.launcher))
    }
}

impl NnfMpiSpec {
    /// Returns the run policy, or the default policy.
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

/// Storage that the containers of a profile use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = require_optional)]
pub struct NnfContainerProfileStorage {
    /// Argument of the directive that names the storage, and environment variable with its path:
    /// `DW_JOB_…`, `DW_PERSISTENT_…` or `DW_GLOBAL_…`.
    pub name: String,
    /// True if a directive may leave the storage out.
    #[serde(default)]
    pub optional: bool,
    /// Access mode of the volume; only for `DW_GLOBAL_…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_mode: Option<PvcMode>,
}

fn require_optional(storage: &mut schemars::Schema) {
    schema::require(storage, &["optional"]);
}

/// Pods of an MPI run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfMpiSpec {
    /// Pod in which `mpirun` runs.
    pub launcher: NnfPodSpec,
    /// Pod in which the ranks run.
    pub worker: NnfPodSpec,
    /// True if the launcher serves copy requests of the job.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub copy_offload: bool,
    /// Number of ranks on each worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub slots_per_worker: Option<i64>,
    /// MPI implementation that provides `mpirun`; by default OpenMPI. Only Warren's CRD has this field and those below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi_implementation: Option<MpiImplementation>,
    /// True to run ranks in the launcher's pod too.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub run_launcher_as_worker: bool,
    /// Rules for the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_policy: Option<NnfMpiRunPolicy>,
    /// Event that starts the launcher; only `WaitForWorkersReady` is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launcher_creation_policy: Option<String>,
}

/// Rules for the end of an MPI run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfMpiRunPolicy {
    /// Pods that are removed after the launcher has ended; by default Running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_pod_policy: Option<CleanPodPolicy>,
    /// Seconds from the launcher's end until all pods and their logs are removed; they stay at least until PostRun has
    /// reported the launcher's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), schema_with = "schema::int32")]
    pub ttl_seconds_after_finished: Option<i64>,
    /// Rejected: the workload manager limits the job's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// Rejected: set `retryLimit` of the profile instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i64>,
    /// Rejected: set the annotation `nnf.cray.hpe.com/suspend-containers` of the Workflow instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Rejected: no other controller manages the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
}

/// Specification of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfPodSpec {
    /// Containers of the pod, at least one.
    #[schemars(length(min = 1))]
    pub containers: Vec<NnfContainer>,
    /// Containers that must end before the others start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<NnfContainer>,
    /// Volumes in addition to those of the storages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub volumes: Vec<Volume>,
    /// Seconds between SIGTERM and SIGKILL when the pod is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// True if the containers see each other's processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_process_namespace: Option<bool>,
    /// Secrets with the credentials of the image registries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// True if the pod gets a token for the Kubernetes API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automount_service_account_token: Option<bool>,
    /// PriorityClass of the pod for the Kubernetes scheduler. Only Warren's CRD has this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
}

/// Specification of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfContainer {
    /// Name, unique among the containers of the pod.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Image reference, passed to the container runtime unchanged.
    #[schemars(length(min = 1, max = 253))]
    pub image: String,
    /// Program that replaces the image's entry point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment variables of the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub env: Vec<EnvVar>,
    /// Sources of environment variables: ConfigMaps and Secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub env_from: Vec<EnvFromSource>,
    /// Mount points of volumes in the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub volume_mounts: Vec<VolumeMount>,
    /// Working directory of the program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub working_dir: String,
    /// On an init container, `Always` makes it a sidecar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// Liveness probe: a container that fails it is restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub liveness_probe: Option<Probe>,
    /// Readiness probe: the container counts as ready while it succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub readiness_probe: Option<Probe>,
    /// Startup probe: the other probes begin after it has succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub startup_probe: Option<Probe>,
    /// Path of the file with the program's termination message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub termination_message_path: String,
    /// Source of the termination message: `File`, or `FallbackToLogsOnError` for the log if the file is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_message_policy: Option<String>,
    /// When the image is pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Always", "Never", "IfNotPresent"]))]
    pub image_pull_policy: Option<String>,
    /// Resources of the container: requests and limits. Only Warren's CRD has this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub resources: Option<ResourceRequirements>,
}
