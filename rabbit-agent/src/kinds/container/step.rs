//! Defines the steps that change the pods and files of an object.

use std::{collections::BTreeMap, fmt};

use api::node_containers::{NodeContainer, NodeContainersHosts, NodeContainersSource};
use containers::JobPackage;
use storage::desired::ObjectUid;

/// A change on the rabbit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Writes the configuration files.
    WriteFiles(Box<Files>),
    /// Writes the MPI keys, for the containers' user only.
    WriteKeys(Box<Keys>),
    /// Removes the MPI keys.
    RemoveKeys(ObjectUid),
    /// Creates the directories that the containers of an attempt share.
    MakeVolumes(Box<Volumes>),
    /// Removes the shared directories of an attempt with their content.
    RemoveVolumes(PodName),
    /// Creates the pod of an attempt.
    MakePod(Pod),
    /// Creates a container in its pod; podman fetches the image.
    Make(Box<Container>),
    /// Connects a pod to the MPI network of its run.
    Connect(Box<Network>),
    Start(ContainerName),
    /// Stops a pod and keeps its logs.
    Stop(Attempt),
    /// Removes a pod with its logs.
    Remove(Attempt),
    /// Removes files, keys and shared directories of an object.
    RemoveFiles(ObjectUid),
}

impl Step {
    /// Returns whether the step starts a container or prepares the start of one.
    pub(super) fn starts(&self) -> bool {
        matches!(self, Self::MakePod(_) | Self::Make(_) | Self::Start(_))
    }
}

/// Identifies the pod of an attempt; podman's name for this pod is `warren-UID-ATTEMPT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodName {
    pub uid: ObjectUid,
    pub attempt: i64,
}

/// A pod to stop or remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    pub pod: PodName,
    pub grace: i64,
}

/// Text of the configuration files, by file name.
pub type ConfigFiles = BTreeMap<String, String>;

/// Configuration files to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    pub uid: ObjectUid,
    /// The ConfigMap from which the files come.
    pub source: NodeContainersSource,
    /// `None` if the ConfigMap does not exist.
    pub files: Option<ConfigFiles>,
}

/// Text of the key files, by file name. `Debug` hides the text.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyFiles(pub BTreeMap<String, String>);

impl fmt::Debug for KeyFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// MPI keys to write, and the owner of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    pub uid: ObjectUid,
    pub user: i64,
    pub group: i64,
    /// The Secret from which the files come.
    pub source: NodeContainersSource,
    /// `None` if the Secret does not exist.
    pub files: Option<KeyFiles>,
}

/// Shared directories of an attempt, to be created, and their owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volumes {
    pub pod: PodName,
    pub user: i64,
    pub group: i64,
    pub names: Vec<String>,
}

/// A pod's place in the MPI network of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    pub pod: PodName,
    /// UDP port of the tunnels on all rabbits.
    pub port: u16,
    /// Index of this pod in `rabbits`.
    pub place: u32,
    /// Names of the rabbits, one for each pod of the run.
    pub rabbits: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub name: PodName,
    pub hostname: String,
    pub hosts: Option<NodeContainersHosts>,
    pub ports: Vec<u16>,
    /// Whether the run has an MPI network.
    pub has_network: bool,
    pub shares_processes: bool,
    /// Sum of the memory limits of the pod's containers in bytes; `None` if any container has no limit.
    pub memory: Option<i64>,
}

/// Identifies a container by its pod and by its name in the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerName {
    pub pod: PodName,
    pub container: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    pub name: ContainerName,
    pub user: i64,
    pub group: i64,
    pub storages: Vec<String>,
    pub global_lustre: Vec<String>,
    pub directories: Vec<String>,
    pub packages: Vec<JobPackage>,
    /// Whether the container gets the MPI keys and podhelper.
    pub has_keys: bool,
    /// Seconds until the deadline, within which podman must fetch the container's image.
    pub pull_seconds: Option<i64>,
    pub spec: NodeContainer,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "warren-{}-{}", self.uid, self.attempt)
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pod, self.container)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteFiles(files) => write!(f, "write files of containers {}", files.uid),
            Self::WriteKeys(keys) => write!(f, "write keys of containers {}", keys.uid),
            Self::RemoveKeys(uid) => write!(f, "remove keys of containers {uid}"),
            Self::MakeVolumes(volumes) => write!(f, "make directories of pod {}", volumes.pod),
            Self::RemoveVolumes(pod) => write!(f, "remove directories of pod {pod}"),
            Self::Connect(network) => write!(f, "connect pod {}", network.pod),
            Self::MakePod(pod) => write!(f, "make pod {}", pod.name),
            Self::Make(container) => {
                write!(f, "make container {} of {}", container.name, container.spec.image)
            }
            Self::Start(name) => write!(f, "start container {name}"),
            Self::Stop(attempt) => write!(f, "stop pod {}", attempt.pod),
            Self::Remove(attempt) => write!(f, "remove pod {}", attempt.pod),
            Self::RemoveFiles(uid) => write!(f, "remove files of containers {uid}"),
        }
    }
}
