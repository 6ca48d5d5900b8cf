//! `NodeContainers`: the containers of one directive on one rabbit whose agent runs them, where no Kubernetes does; or packages alone,
//! which its agent fetches for containers that somebody runs there. Warren's own kind. Its object lies in the rabbit's namespace.
//!
//! The workflow engine writes the spec; the rabbit's agent writes the status. Files and keys are in objects of their own: all rabbits of
//! a run have the same.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{MicroTime, ResourceError, package::Package, schema, string_enum::string_enum};

mod logs;

string_enum! {
    /// How far the containers on a rabbit are.
    pub enum NodeContainersState {
        /// Not all of them run.
        Starting = "Starting",
        /// All of them run, or ended well; where there are none, all packages are in place.
        Ready = "Ready",
        /// All of them ended well.
        Succeeded = "Succeeded",
        /// One ended otherwise in the last attempt, and none runs any more.
        Failed = "Failed",
        /// They took longer than they may, and none runs any more.
        TooLate = "TooLate",
        /// A package of theirs cannot be had, and none was started.
        Unprepared = "Unprepared",
        /// They were to end, and none runs any more.
        Suspended = "Suspended",
    }
}

string_enum! {
    /// When an image is fetched.
    pub enum ImagePullPolicy {
        /// Before each start.
        Always = "Always",
        /// When the rabbit does not have it.
        IfNotPresent = "IfNotPresent",
        /// Never: the rabbit has it, or the container fails.
        Never = "Never",
    }
}

/// What is to run.
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
    /// Whom the containers run as.
    #[serde(rename = "userID")]
    #[schemars(range(min = 1))]
    pub user_id: i64,
    /// The group that they run as.
    #[serde(rename = "groupID")]
    #[schemars(range(min = 0))]
    pub group_id: i64,
    /// The name of their host.
    #[schemars(length(min = 1, max = 63))]
    pub hostname: String,
    /// Names by which the containers find each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<NodeContainersHosts>,
    /// Containers that end before the others start, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<NodeContainer>,
    /// The containers; none where the agent fetches packages only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<NodeContainer>,
    /// Whether the containers see each other's processes.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub share_process_namespace: bool,
    /// Seconds between the signal to end and the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub termination_grace_period_seconds: Option<i64>,
    /// Directories that the containers see where they are on the rabbit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storages: Vec<String>,
    /// Where the rabbit has the site's own Lustre file systems mounted that the containers see there too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub global_lustre: Vec<String>,
    /// Names of directories that the containers of an attempt share. They are empty when it begins, and go once it has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub empty_dirs: Vec<String>,
    /// Files that are on the rabbit before any container starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<Package>,
    /// The ConfigMap with the files beneath `/nnf/config`, the same on all rabbits of a run. `passwd`, `group` and `hosts` are
    /// beneath `/etc` too, `hostfile` and `discover_hosts.sh` beneath `/etc/mpi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<NodeContainersSource>,
    /// How often containers that failed are started again.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub retry_limit: i64,
    /// Seconds from the start, after which they are ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub active_deadline_seconds: Option<i64>,
    /// A network of their run alone, in which the containers on all of its rabbits reach each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NodeContainersNetwork>,
    /// The Secret whose keys the containers find beneath `/nnf/keys`, and `podhelper`, which uses them, beneath `/nnf/bin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<NodeContainersSource>,
    /// Whether they are to end. Their logs stay.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub suspend: bool,
}

/// A network that the agents of a run's rabbits make between its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainersNetwork {
    /// The UDP port of every rabbit of the run that carries it.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i64,
    /// The place of this pod among the run's, from 0.
    #[schemars(range(min = 0))]
    pub place: i64,
    /// The rabbit of each pod of the run, in their order.
    #[schemars(length(min = 1))]
    pub rabbits: Vec<String>,
}

/// A ConfigMap or a Secret, which the agent reads once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainersSource {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The rabbits of a run by the names that containers know them by: `<rabbit>.<domain>` for each domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainersHosts {
    /// The rabbits.
    pub rabbits: Vec<String>,
    /// What follows a rabbit's name and a dot.
    pub domains: Vec<String>,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainer {
    /// Its name.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Its image, as podman reads it.
    #[schemars(length(min = 1, max = 253))]
    pub image: String,
    /// When the image is fetched.
    pub image_pull_policy: ImagePullPolicy,
    /// The program, in the place of the image's entry point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The program's arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables, in the order in which they are set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<NodeContainerVariable>,
    /// Where it sees the directories that the containers share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<NodeContainerMount>,
    /// Where the program starts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub working_dir: String,
    /// Ports that the rabbit has open for it, under the same numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::ints")]
    pub ports: Vec<i64>,
    /// Thousandths of a processor that it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub cpu_millis: Option<i64>,
    /// Bytes of memory that it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub memory_bytes: Option<i64>,
}

/// A directory of `emptyDirs` in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainerMount {
    /// Its name.
    pub name: String,
    /// Where the container sees it.
    pub mount_path: String,
    /// Whether the container only reads it.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub read_only: bool,
}

/// A variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeContainerVariable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// How far they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainersStatus {
    /// How far.
    #[serde(default = "NodeContainersState::unsaid")]
    #[schemars(!default)]
    pub state: NodeContainersState,
    /// Number of the last attempt, from 1.
    #[serde(default)]
    #[schemars(!default)]
    pub attempt: i64,
    /// When the agent took them up, on its own clock: deadlines count from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub start_time: Option<Time>,
    /// When the agent saw that they had ended for good, on its own clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub end_time: Option<Time>,
    /// Whether they took longer than they may: no attempt follows, and what runs is ended.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub deadline_exceeded: bool,
    /// What they wait for, or how the last attempt that failed did: container, exit code or signal, the last lines of its log.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The ends of the logs of containers that ended, and of those that ran when somebody last asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<NodeContainersLog>,
    /// The moment of the last question for logs that `logs` answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs_answered: Option<MicroTime>,
    /// Where the packages are on the rabbit, once all are in place and no containers stand beside them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<PackagePath>,
    /// Why the agent cannot carry them out.
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

/// Where a package is on a rabbit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PackagePath {
    /// The package.
    #[serde(default)]
    #[schemars(!default)]
    pub name: String,
    /// A file, or a directory with what is in the archive.
    #[serde(default)]
    #[schemars(!default)]
    pub path: String,
}

/// The end of the log of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainersLog {
    /// The attempt.
    #[serde(default)]
    #[schemars(!default)]
    pub attempt: i64,
    /// The container.
    #[serde(default)]
    #[schemars(!default)]
    pub container: String,
    /// Whole lines.
    #[serde(default)]
    #[schemars(!default)]
    pub text: String,
}
