//! All objects of one workflow, as a plan sees them.

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

use crate::{execute::Refusal, instance::Named, site::Site};

/// One workflow.
#[derive(Debug)]
pub struct View<'a> {
    /// What all workflows share.
    pub site: &'a Site,
    /// The workflow itself.
    pub workflow: Arc<Workflow>,
    /// The job's computes.
    pub computes: Option<Arc<Computes>>,
    /// One for each directive.
    pub directives: Vec<DirectiveView>,
    /// Storage of an earlier workflow of this name.
    pub leftovers: Vec<Group>,
    /// Objects that an earlier workflow of this name left.
    pub left: Left,
    /// When it was taken.
    pub now: Timestamp,
    /// Changes that the API refuses again and again, and why.
    pub refused: Vec<Refusal>,
}

/// One directive.
#[derive(Debug, Default)]
pub struct DirectiveView {
    /// Its breakdown.
    pub breakdown: Option<Arc<DirectiveBreakdown>>,
    /// Its storage; of persistent storage with the mounts of this workflow alone.
    pub storage: Group,
    /// The persistent storage that it names.
    pub persistent: Option<Named>,
    /// Its containers.
    pub containers: Containers,
}

/// The containers of one directive.
#[derive(Debug, Default)]
pub struct Containers {
    /// The pinned profile.
    pub profile: Option<Arc<NnfContainerProfile>>,
    /// Which coordinator makes them, where several do.
    pub run: Option<Arc<ContainerRun>>,
    /// What their names resolve by.
    pub service: Option<Arc<Service>>,
    /// Who reaches the workers of MPI.
    pub network_policy: Option<Arc<NetworkPolicy>>,
    /// Their files.
    pub config_map: Option<Arc<ConfigMap>>,
    /// The files of each attempt of MPI.
    pub attempts: BTreeMap<u32, Arc<ConfigMap>>,
    /// Names of the Secrets of attempts that are known to be there: nobody but their pods may read them.
    pub keys: BTreeSet<String>,
    /// Jobs by name.
    pub jobs: BTreeMap<String, Arc<Job>>,
    /// What the agents of rabbits run, by rabbit and name.
    pub on_rabbits: BTreeMap<ObjectKey, Arc<NodeContainers>>,
    /// What the agents of rabbits fetch for them, by rabbit and name.
    pub packages: BTreeMap<ObjectKey, Arc<NodeContainers>>,
    /// Whether there is something on a rabbit that cannot be read.
    pub has_unreadable: bool,
    /// Pods by the name of their Job.
    pub pods: BTreeMap<String, Vec<Arc<Pod>>>,
    /// PersistentVolumes of raw storage by name.
    pub volumes: BTreeMap<String, Arc<PersistentVolume>>,
    /// Claims of these PersistentVolumes by name; a volume and its claim have the same.
    pub volume_claims: BTreeMap<String, Arc<PersistentVolumeClaim>>,
}

/// Objects of a vanished workflow's containers that no garbage collector deletes.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// Containers and packages that rabbits' agents still have.
    pub containers: Vec<Arc<NodeContainers>>,
    /// PersistentVolumes of raw storage.
    pub volumes: Vec<Arc<PersistentVolume>>,
}

/// The storage of one directive: everything that is named after one Servers.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Where the allocations are.
    pub servers: Option<Arc<Servers>>,
    /// The pinned profile.
    pub profile: Option<Arc<NnfStorageProfile>>,
    /// Block storage by rabbit and name.
    pub blocks: BTreeMap<ObjectKey, Arc<NnfNodeBlockStorage>>,
    /// File systems by rabbit and name.
    pub file_systems: BTreeMap<ObjectKey, Arc<NnfNodeStorage>>,
    /// Mounts by node and name.
    pub mounts: BTreeMap<ObjectKey, Arc<ClientMount>>,
    /// Lustre management targets: its own, and those that have a claim of it.
    pub mgts: BTreeMap<ObjectKey, Arc<NnfLustreMgt>>,
    /// Persistent management targets that it holds.
    pub pools: BTreeMap<ObjectKey, Arc<PersistentStorageInstance>>,
    /// Blocks, file systems, mounts and management targets that exist and cannot be read. What they ask for is not known, so nothing may be
    /// withdrawn or removed beside them.
    pub unreadable: BTreeSet<ObjectKey>,
}

impl View<'_> {
    /// The state to work for: whatever a workflow wanted, one that is deleted wants to be torn down.
    #[must_use]
    pub fn state(&self) -> WorkflowState {
        if self.is_deleted() {
            WorkflowState::Teardown
        } else {
            self.workflow.spec.desired_state.clone()
        }
    }

    /// Whether the workflow is to go.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.workflow.metadata.deletion_timestamp.is_some()
    }

    /// Namespace of the workflow.
    #[must_use]
    pub fn namespace(&self) -> String {
        self.workflow.namespace().unwrap_or_default()
    }

    /// The job's computes, in its order.
    pub fn computes(&self) -> impl Iterator<Item = &str> {
        self.computes.iter().flat_map(|computes| computes.names())
    }
}

impl Containers {
    /// Whether nothing of them runs, nor can.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.has_ended()
            && self.packages.is_empty()
            && self.volumes.is_empty()
            && self.volume_claims.is_empty()
    }

    /// Whether nothing of them runs, but packages and volumes may be there still.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.jobs.is_empty()
            && self.pods.is_empty()
            && self.on_rabbits.is_empty()
            && !self.has_unreadable
    }
}

impl Left {
    /// Whether no such object exists.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.volumes.is_empty()
    }
}

impl Group {
    /// Whether there is nothing of it on any node.
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
