//! `NodeContainers`: the containers of one directive on one rabbit, which the rabbit's agent runs without Kubernetes.
//! An object without containers lists only job packages: the agent fetches them for containers that Kubernetes or the
//! site runs on that rabbit. Only Warren has this kind; the object is in the rabbit's namespace.
//!
//! The workflow engine writes the spec, the rabbit's agent writes the status. Files and keys are in a separate
//! ConfigMap and Secret, because all rabbits of a run have the same files and keys.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{MicroTime, ResourceError, package::Package, schema, string_enum::string_enum};

mod logs;

string_enum! {
    /// Progress of the containers on one rabbit.
    pub enum NodeContainersState {
        /// Not all containers run yet.
        Starting = "Starting",
        /// All containers run or have ended without error; without containers: all job packages are in place.
        Ready = "Ready",
        /// All containers ended without error.
        Succeeded = "Succeeded",
        /// A container of the last attempt ended with an error, and no container runs any more.
        Failed = "Failed",
        /// The containers exceeded their deadline, and no container runs any more.
        TooLate = "TooLate",
        /// A job package could not be fetched, and no container was started.
        Unprepared = "Unprepared",
        /// The containers were stopped on request, and no container runs any more.
        Suspended = "Suspended",
    }
}

string_enum! {
    /// Time at which an image is pulled.
    pub enum ImagePullPolicy {
        /// Before each start of the container.
        Always = "Always",
        /// Before a start, if the rabbit does not have the image.
        IfNotPresent = "IfNotPresent",
        /// Never: without the image on the rabbit the container fails.
        Never = "Never",
    }
}

/// Containers that the rabbit's agent shall run.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "warren.nnf.cray.hpe.com",
    version = "v1alpha1",
    kind = "NodeContainers",
    plural = "nodecontainers",
    namespaced,
    status = "NodeContainersStatus",
    derive = "PartialEq",
    doc = "The containers of one directive on one rabbit, which its agent runs",
    printcolumn(name = "STATE", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "ATTEMPT", type_ = "integer", json_path = ".status.attempt"),
    printcolumn(name = "ERROR", type_ = "string", json_path = ".status.error.severity"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainersSpec {
    /// User id (UID) that the containers run as.
    #[serde(rename = "userID")]
    #[schemars(range(min = 1))]
    pub user_id: i64,
    /// Group id (GID) that the containers run as.
    #[serde(rename = "groupID")]
    #[schemars(range(min = 0))]
    pub group_id: i64,
    /// Host name of the containers.
    #[schemars(length(min = 1, max = 63))]
    pub hostname: String,
    /// Names by which the containers of a run find each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<NodeContainersHosts>,
    /// Containers that run to their end, one after the other, before the others start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<NodeContainer>,
    /// Containers to run; empty where the agent only fetches job packages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<NodeContainer>,
    /// True if the containers see each other's processes.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub share_process_namespace: bool,
    /// Seconds between SIGTERM and SIGKILL when the containers are stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub termination_grace_period_seconds: Option<i64>,
    /// Directories of the job's storage on the rabbit, mounted in the containers at the same paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storages: Vec<String>,
    /// Mount points of the site's own Lustre file systems on the rabbit, mounted in the containers at the same paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub global_lustre: Vec<String>,
    /// Directories of the site on the rabbit, mounted in the containers at the same paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<String>,
    /// Names of directories that the containers of one attempt share. They are empty when the attempt begins and are
    /// deleted after its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub empty_dirs: Vec<String>,
    /// Job packages: files that are on the rabbit before any container starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<Package>,
    /// ConfigMap with the files beneath `/nnf/config`, the same on all rabbits of a run. `passwd`, `group` and `hosts`
    /// are beneath `/etc` too, `hostfile` and `discover_hosts.sh` beneath `/etc/mpi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<NodeContainersSource>,
    /// Number of times that failed containers are started again.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub retry_limit: i64,
    /// Seconds from `status.startTime` until the containers are stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub active_deadline_seconds: Option<i64>,
    /// Private network of the run, in which the containers on all of its rabbits reach each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NodeContainersNetwork>,
    /// Secret whose keys the containers find beneath `/nnf/keys`. If it is named, the containers also find `podhelper`,
    /// which uses the keys, beneath `/nnf/bin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<NodeContainersSource>,
    /// True to stop the containers. Their logs stay.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub suspend: bool,
}

/// Private network between the pods of a run; the agents of its rabbits create it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainersNetwork {
    /// UDP port that carries the network, the same on every rabbit of the run.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i64,
    /// Index of this pod among the pods of the run, from 0.
    #[schemars(range(min = 0))]
    pub place: i64,
    /// Names of the rabbits, one for each pod of the run, in the order of the pods.
    #[schemars(length(min = 1))]
    pub rabbits: Vec<String>,
}

/// Reference to a ConfigMap or a Secret, which the agent reads once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainersSource {
    /// Namespace of the ConfigMap or Secret.
    pub namespace: String,
    /// Name of the ConfigMap or Secret.
    pub name: String,
}

/// Host names of the run's rabbits inside the containers: `<rabbit>.<domain>` for each domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainersHosts {
    /// Names of the run's rabbits.
    pub rabbits: Vec<String>,
    /// Domains to append to a rabbit's name, after a dot.
    pub domains: Vec<String>,
}

/// Specification of one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainer {
    /// Name, unique among the containers of the object.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Image reference in podman's format.
    #[schemars(length(min = 1, max = 253))]
    pub image: String,
    /// Time at which the image is pulled: Always, IfNotPresent or Never.
    pub image_pull_policy: ImagePullPolicy,
    /// Program that replaces the image's entry point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment variables, in the order in which they are set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<NodeContainerVariable>,
    /// Mount points of the directories in `emptyDirs`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<NodeContainerMount>,
    /// Working directory of the program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub working_dir: String,
    /// Ports of the rabbit on which the container listens; they have the same numbers inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::ints")]
    pub ports: Vec<i64>,
    /// CPU limit, in thousandths of a processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub cpu_millis: Option<i64>,
    /// Memory limit, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub memory_bytes: Option<i64>,
}

/// Mount of a directory of `emptyDirs` in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainerMount {
    /// Name of the directory in `emptyDirs`.
    pub name: String,
    /// Absolute path of the mount point in the container.
    pub mount_path: String,
    /// True if the container may only read the directory.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub read_only: bool,
}

/// An environment variable of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeContainerVariable {
    /// Name of the variable.
    pub name: String,
    /// Value of the variable.
    pub value: String,
}

/// State of the containers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainersStatus {
    /// Progress: Starting, Ready, Succeeded, Failed, TooLate, Unprepared or Suspended.
    #[serde(default = "NodeContainersState::absent")]
    #[schemars(!default)]
    pub state: NodeContainersState,
    /// Number of the last attempt, from 1.
    #[serde(default)]
    #[schemars(!default)]
    pub attempt: i64,
    /// Time at which the agent began to work on the containers, by the agent's clock; deadlines count from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub start_time: Option<Time>,
    /// Time at which the agent saw that the last attempt of the containers had ended, by the agent's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub end_time: Option<Time>,
    /// True once the containers have exceeded their deadline: the agent stops them and makes no further attempt.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub deadline_exceeded: bool,
    /// Object that the containers wait for; or the last failure: container, exit code or signal, and the last
    /// lines of its log.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Last lines of the logs of ended containers, and of running containers at the last request for logs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<NodeContainersLog>,
    /// Time of the last request for logs that `logs` answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs_answered: Option<MicroTime>,
    /// Paths of the job packages on the rabbit; only without containers, and once all job packages are in place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<PackagePath>,
    /// Fault that keeps the agent from running the containers; absent without fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}

impl Default for NodeContainersStatus {
    fn default() -> Self {
        Self {
            state: NodeContainersState::Starting,
            attempt: 0,
            start_time: None,
            end_time: None,
            deadline_exceeded: false,
            message: String::new(),
            logs: Vec::new(),
            logs_answered: None,
            packages: Vec::new(),
            error: None,
        }
    }
}

/// Path of a job package on a rabbit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PackagePath {
    /// Name of the job package.
    #[serde(default)]
    #[schemars(!default)]
    pub name: String,
    /// Path of the file, or of the directory with the content of the archive.
    #[serde(default)]
    #[schemars(!default)]
    pub path: String,
}

/// Last lines of the log of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainersLog {
    /// Number of the attempt, from 1.
    #[serde(default)]
    #[schemars(!default)]
    pub attempt: i64,
    /// Name of the container.
    #[serde(default)]
    #[schemars(!default)]
    pub container: String,
    /// Whole lines of the log.
    #[serde(default)]
    #[schemars(!default)]
    pub text: String,
}
