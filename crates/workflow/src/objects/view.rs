//! All objects of one workflow, as the planner sees them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{
    ClientMount, Computes, ContainerRun, DirectiveBreakdown, NnfContainerProfile, NnfDataMovement,
    NnfDataMovementProfile, NnfLustreMgt, NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile,
    NodeContainers, PersistentStorageInstance, PersistentVolume, Servers, Workflow, WorkflowState,
};
use controller::ObjectKey;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service},
    networking::v1::NetworkPolicy,
};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::{
    execute::Refusal,
    limits::Used,
    objects::{instance::NamedStorage, site::Site},
};

/// All objects of one workflow, and the objects that it shares with other workflows.
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
    /// Other storage of the workflow's user and project, for the site's limits.
    pub used: Used,
}

/// The objects of one directive.
#[derive(Debug, Default)]
pub struct DirectiveView {
    pub breakdown: Option<Arc<DirectiveBreakdown>>,
    /// Objects of the directive's storage. For persistent storage, only the mounts of this workflow.
    pub storage: Group,
    /// The persistent storage that the directive names.
    pub persistent: Option<NamedStorage>,
    /// Objects of the directive's containers.
    pub containers: Containers,
    /// Objects of the directive's copies.
    pub copies: Copies,
}

/// The objects of one directive's copies.
#[derive(Debug, Default)]
pub struct Copies {
    /// The pinned profile.
    pub profile: Option<Arc<NnfDataMovementProfile>>,
    /// Movements by rabbit and name.
    pub movements: BTreeMap<ObjectKey, Arc<NnfDataMovement>>,
    /// True if a movement cannot be read.
    pub has_unreadable: bool,
}

/// The objects of one directive's containers.
#[derive(Debug, Default)]
pub struct Containers {
    /// The pinned profile, which containers are created from.
    pub profile: Option<Arc<NnfContainerProfile>>,
    /// The ContainerRun, which names the coordinator that starts the containers; `None` if there
    /// is only one coordinator.
    pub run: Option<Arc<ContainerRun>>,
    /// The headless Service by which the pods' names resolve.
    pub service: Option<Arc<Service>>,
    /// The NetworkPolicy that restricts which pods reach the workers of MPI.
    pub network_policy: Option<Arc<NetworkPolicy>>,
    /// Files that the containers mount.
    pub config_map: Option<Arc<ConfigMap>>,
    /// The ConfigMap of each MPI attempt, by the number of the attempt.
    pub attempts: BTreeMap<u32, Arc<ConfigMap>>,
    /// Names of the existing Secrets, one Secret for each MPI attempt. The engine has only names: it must not read
    /// the keys that the Secrets hold.
    pub keys: BTreeSet<String>,
    pub jobs: BTreeMap<String, Arc<Job>>,
    /// Containers that the agents of rabbits run, by rabbit and name.
    pub on_rabbits: BTreeMap<ObjectKey, Arc<NodeContainers>>,
    /// Job packages that the agents of rabbits fetch, by rabbit and name.
    pub packages: BTreeMap<ObjectKey, Arc<NodeContainers>>,
    /// True if a NodeContainers of the directive cannot be read.
    pub has_unreadable: bool,
    /// Pods by the name of their Job.
    pub pods: BTreeMap<String, Vec<Arc<Pod>>>,
    /// PersistentVolumes of raw storage by name.
    pub volumes: BTreeMap<String, Arc<PersistentVolume>>,
    /// PersistentVolumeClaims of these volumes by name; a PersistentVolumeClaim has the name of its volume.
    pub volume_claims: BTreeMap<String, Arc<PersistentVolumeClaim>>,
}

/// Objects of a vanished workflow's containers that Kubernetes' garbage collector does not delete.
#[derive(Clone, Debug, Default)]
pub struct Orphans {
    /// Containers and job packages that agents of rabbits still have.
    pub containers: Vec<Arc<NodeContainers>>,
    /// PersistentVolumes of raw storage.
    pub volumes: Vec<Arc<PersistentVolume>>,
    /// Copies that agents of rabbits still have.
    pub movements: Vec<Arc<NnfDataMovement>>,
}

/// The storage of one directive: a Servers, and all objects that are named after this Servers.
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
    /// Lustre management targets: the storage's own target, and the targets whose `claimList`
    /// names the storage's Servers.
    pub mgts: BTreeMap<ObjectKey, Arc<NnfLustreMgt>>,
    /// Persistent management targets whose consumers include the storage's Servers.
    pub pools: BTreeMap<ObjectKey, Arc<PersistentStorageInstance>>,
    /// Block storages, file systems, mounts and management targets that exist and cannot be read. They may be in use,
    /// so the engine withdraws no access to this storage and removes nothing of it.
    pub unreadable: BTreeSet<ObjectKey>,
}

impl View<'_> {
    /// Returns the state that the plan works towards: Teardown for a deleted workflow, else
    /// the workflow's desired state.
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

    /// Returns the names of the job's computes, in the order of Computes.
    pub fn computes(&self) -> impl Iterator<Item = &str> {
        self.computes.iter().flat_map(|computes| computes.names())
    }
}

impl Containers {
    /// Returns true if no container runs, and no volume and no job package is left.
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
        self.containers.is_empty() && self.volumes.is_empty() && self.movements.is_empty()
    }
}

impl Group {
    /// Returns true if nothing of the storage is left on any node.
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
