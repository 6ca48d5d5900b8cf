//! Changes to this node.

use std::{collections::BTreeMap, fmt};

use api::node_containers::{NodeContainer, NodeContainersHosts, NodeContainersSource};
use containers::JobPackage;
use storage::desired::ObjectUid;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Writes the files that containers find in their configuration.
    WriteFiles(Box<Files>),
    /// Writes the keys that containers find, for their user alone.
    WriteKeys(Box<Keys>),
    /// Removes the keys.
    RemoveKeys(ObjectUid),
    /// Makes the directories that the containers of an attempt share.
    MakeVolumes(Box<Volumes>),
    /// Removes them with what is in them.
    RemoveVolumes(PodName),
    /// Makes the pod of an attempt.
    MakePod(Pod),
    /// Makes a container in it, and fetches its image.
    Make(Box<Container>),
    /// Puts a pod into the network of its run.
    Connect(Box<Network>),
    /// Starts a container.
    Start(Name),
    /// Ends what runs of an attempt, and keeps its logs.
    Stop(Attempt),
    /// Removes an attempt with its logs.
    Remove(Attempt),
    /// Removes files, keys and shared directories.
    RemoveFiles(ObjectUid),
}

impl Step {
    /// Whether something that runs, or may run next, comes of it.
    pub(super) fn starts(&self) -> bool {
        matches!(self, Self::MakePod(_) | Self::Make(_) | Self::Start(_))
    }
}

/// The pod of an attempt. Its name on the node follows from the object's uid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodName {
    pub uid: ObjectUid,
    pub attempt: i64,
}

/// An attempt, and the seconds between the signal to end and the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    pub pod: PodName,
    pub grace: i64,
}

/// The files of the configuration, by name.
pub type ConfigFiles = BTreeMap<String, String>;

/// Files that all may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    pub uid: ObjectUid,
    /// Where they come from.
    pub of: NodeContainersSource,
    /// None when that is not there.
    pub files: Option<ConfigFiles>,
}

/// The files of keys, by name. Nothing tells what is in them.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyFiles(pub BTreeMap<String, String>);

impl fmt::Debug for KeyFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Keys, and who may read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    pub uid: ObjectUid,
    pub user: i64,
    pub group: i64,
    /// Where they come from.
    pub of: NodeContainersSource,
    /// None when that is not there.
    pub files: Option<KeyFiles>,
}

/// Directories that the containers of an attempt share, and whose they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volumes {
    pub pod: PodName,
    pub user: i64,
    pub group: i64,
    pub names: Vec<String>,
}

/// The place of a pod in the network of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    pub pod: PodName,
    pub port: u16,
    pub place: u32,
    /// The rabbit of each pod.
    pub rabbits: Vec<String>,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub name: PodName,
    pub hostname: String,
    pub hosts: Option<NodeContainersHosts>,
    pub ports: Vec<u16>,
    /// Whether the run has a network of its own.
    pub has_network: bool,
    pub shares_processes: bool,
    /// Bytes that its containers may use together, where each has a limit.
    pub memory: Option<i64>,
}

/// A container's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub pod: PodName,
    pub container: String,
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    pub name: Name,
    pub user: i64,
    pub group: i64,
    pub storages: Vec<String>,
    pub global_lustre: Vec<String>,
    pub packages: Vec<JobPackage>,
    /// Whether it has keys, and the program that uses them.
    pub has_keys: bool,
    /// Seconds that are left to fetch its image.
    pub within: Option<i64>,
    pub what: NodeContainer,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "warren-{}-{}", self.uid, self.attempt)
    }
}

impl fmt::Display for Name {
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
                write!(f, "make container {} of {}", container.name, container.what.image)
            }
            Self::Start(name) => write!(f, "start container {name}"),
            Self::Stop(attempt) => write!(f, "stop pod {}", attempt.pod),
            Self::Remove(attempt) => write!(f, "remove pod {}", attempt.pod),
            Self::RemoveFiles(uid) => write!(f, "remove files of containers {uid}"),
        }
    }
}
