//! All objects of one workflow, as the planner sees them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{
    ClientMount, Computes, ContainerRun, DirectiveBreakdown, NnfContainerProfile, NnfLustreMgt,
    NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile, NodeContainers,
    PersistentStorageInstance, PersistentVolume, Servers, Workflow, WorkflowState,
};
use controller::ObjectKey;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service},
    networking::v1::NetworkPolicy,
};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::{execute::Refusal, instance::NamedStorage, site::Site};

/// All objects of one workflow, and what it shares with others.
#[derive(Debug)]
pub struct View<'a> {
    /// System, rabbits, profiles and rules, which all workflows share.
    pub site: &'a Site,
    pub workflow: Arc<Workflow>,
    pub computes: Option<Arc<Computes>>,
    /// One entry for each directive.
    pub directives: Vec<DirectiveView>,
    /// Storage of an earlier workflow of this name.
    pub leftovers: Vec<Group>,
    /// Objects that an earlier workflow of this name left behind.
    pub orphans: Orphans,
    /// Time of the plan.
    pub now: Timestamp,
    /// Changes that the API refused in two plans in a row, and why.
    pub refused: Vec<Refusal>,
}

/// The objects of one directive.
#[derive(Debug, Default)]
pub struct DirectiveView {
    pub breakdown: Option<Arc<DirectiveBreakdown>>,
    /// Objects of its storage. For persistent storage, only the mounts of this workflow.
    pub storage: Group,
    /// The persistent storage that the directive names.
    pub persistent: Option<NamedStorage>,
    /// Objects of its containers.
    pub containers: Containers,
}

/// The objects of one directive's containers.
#[derive(Debug, Default)]
pub struct Containers {
    /// The pinned profile, which containers are created from.
    pub profile: Option<Arc<NnfContainerProfile>>,
    /// Where several coordinators exist, the ContainerRun: its claim names the one that starts the containers.
    pub run: Option<Arc<ContainerRun>>,
    /// The headless Service by which the pods' names resolve.
    pub service: Option<Arc<Service>>,
    /// Restricts which pods reach the workers of MPI.
    pub network_policy: Option<Arc<NetworkPolicy>>,
    /// Files that the containers mount.
    pub config_map: Option<Arc<ConfigMap>>,
    /// The files of each attempt of MPI.
    pub attempts: BTreeMap<u32, Arc<ConfigMap>>,
    /// Names of the Secrets of attempts that exist. Only the names: nothing but the attempts' pods may read the keys.
    pub keys: BTreeSet<String>,
    pub jobs: BTreeMap<String, Arc<Job>>,
    /// Containers that the agents of rabbits run, by rabbit and name.
    pub on_rabbits: BTreeMap<ObjectKey, Arc<NodeContainers>>,
    /// Job packages that the agents of rabbits fetch, by rabbit and name.
    pub packages: BTreeMap<ObjectKey, Arc<NodeContainers>>,
    /// True if an object of a rabbit's agent cannot be read.
    pub has_unreadable: bool,
    /// Pods by the name of their Job.
    pub pods: BTreeMap<String, Vec<Arc<Pod>>>,
    /// PersistentVolumes of raw storage by name.
    pub volumes: BTreeMap<String, Arc<PersistentVolume>>,
    /// PersistentVolumeClaims of these volumes by name; a volume and its claim have the same name.
    pub volume_claims: BTreeMap<String, Arc<PersistentVolumeClaim>>,
}

/// Objects of a vanished workflow's containers that Kubernetes' garbage collector does not delete.
#[derive(Clone, Debug, Default)]
pub struct Orphans {
    /// Containers and job packages that agents of rabbits still have.
    pub containers: Vec<Arc<NodeContainers>>,
    /// PersistentVolumes of raw storage.
    pub volumes: Vec<Arc<PersistentVolume>>,
}

/// The storage of one directive: everything that is named after one Servers.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The Servers, which says where the allocations are.
    pub servers: Option<Arc<Servers>>,
    /// The pinned profile, which storage is made with.
    pub profile: Option<Arc<NnfStorageProfile>>,
    /// Block storage by rabbit and name.
    pub blocks: BTreeMap<ObjectKey, Arc<NnfNodeBlockStorage>>,
    /// File systems by rabbit and name.
    pub file_systems: BTreeMap<ObjectKey, Arc<NnfNodeStorage>>,
    /// Mounts by node and name.
    pub mounts: BTreeMap<ObjectKey, Arc<ClientMount>>,
    /// Lustre management targets: its own, and those whose `claimList` names its Servers.
    pub mgts: BTreeMap<ObjectKey, Arc<NnfLustreMgt>>,
    /// Persistent management targets whose consumers include its Servers.
    pub pools: BTreeMap<ObjectKey, Arc<PersistentStorageInstance>>,
    /// Blocks, file systems, mounts and management targets that exist and cannot be read. They may ask for anything, so
    /// no access may be withdrawn and nothing removed beside them.
    pub unreadable: BTreeSet<ObjectKey>,
}

impl View<'_> {
    /// The state to work for: Teardown for a deleted workflow, else its desired state.
    #[must_use]
    pub fn state(&self) -> WorkflowState {
        if self.is_deleted() {
            WorkflowState::Teardown
        } else {
            self.workflow.spec.desired_state.clone()
        }
    }

    /// Returns true if the workflow is being deleted.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.workflow.metadata.deletion_timestamp.is_some()
    }

    #[must_use]
    pub fn namespace(&self) -> String {
        self.workflow.namespace().unwrap_or_default()
    }

    /// Names of the job's computes, in the order of Computes.
    pub fn computes(&self) -> impl Iterator<Item = &str> {
        self.computes.iter().flat_map(|computes| computes.names())
    }
}

impl Containers {
    /// Returns true if no object of the containers exists that runs, or holds a volume or a job package.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.has_ended()
            && self.packages.is_empty()
            && self.volumes.is_empty()
            && self.volume_claims.is_empty()
    }

    /// Returns true if no container runs. Job packages and volumes may still exist.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.jobs.is_empty()
            && self.pods.is_empty()
            && self.on_rabbits.is_empty()
            && !self.has_unreadable
    }
}

impl Orphans {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.volumes.is_empty()
    }
}

impl Group {
    /// Returns true if no node holds anything of it.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.blocks.is_empty()
            && self.file_systems.is_empty()
            && self.mounts.is_empty()
            && self.mgts.is_empty()
            && self.pools.is_empty()
            && self.unreadable.is_empty()
    }
}
