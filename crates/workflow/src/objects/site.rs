//! The system, its rabbits, and the site's profiles and rules, which all workflows share.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use api::{
    LustreFileSystem, NnfContainerProfile, NnfDataMovementProfile, NnfNode, NnfPortManager,
    NnfStorageProfile, PersistentStorageInstance, Servers, Storage, SystemConfiguration,
    SystemStatus,
    names::{STORAGE_LABEL_RABBIT, annotation},
    nnf_node_storage::NnfStorageHealth,
    storage::ResourceStatus,
    system_status::SystemNodeStatus,
};
use containers::claim::Holder;
use controller::ObjectKey;
use directive::Ruleset;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::{
    claims::Claims,
    limits::Limits,
    names::fs_name_holder,
    objects::{
        instance::is_target,
        mgts::{Mgts, has_holder},
        reservations::Reservations,
        sessions::{Contact, Sessions},
        view::Group,
    },
};

/// Configuration of the engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory beneath which nodes mount the storage of jobs.
    pub mount_root: String,
    /// Names of the directories in a rabbit's index tree, one directory for each allocation of a job.
    pub index_names: IndexNames,
    /// Directories that jobs may copy from and to although they lie on no global Lustre file system: the name of each
    /// directory, by its path. The path is absolute, and the same on all rabbits.
    pub directories: BTreeMap<String, String>,
    /// Where containers run; `None` where containers are switched off.
    pub containers: Option<Containers>,
    /// True if rabbits are nodes of a Kubernetes cluster; then the engine obeys the taints of these nodes.
    pub has_nodes: bool,
    /// This coordinator's identity, under which it claims the runs of containers; `None` if it is the only coordinator.
    pub claims_as: Option<Holder>,
    /// Time after the end of its session from which a node's agent counts as silent; `None` where nodes may have sessions
    /// with other coordinators, so that no agent counts as silent.
    pub silent_after: Option<Duration>,
    /// Limits and presets of the site.
    pub limits: Arc<Limits>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mount_root: "/mnt/nnf".to_owned(),
            index_names: IndexNames::Node,
            directories: BTreeMap::new(),
            containers: None,
            has_nodes: false,
            claims_as: None,
            silent_after: None,
            limits: Arc::default(),
        }
    }
}

impl Settings {
    /// Returns true if Kubernetes runs the containers.
    #[must_use]
    pub fn has_pods(&self) -> bool {
        self.containers.as_ref().is_some_and(|containers| containers.namespace.is_some())
    }
}

/// Where containers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Containers {
    /// Kubernetes namespace of the pods, and of the workflows that have containers; `None` where agents of rabbits
    /// run the containers without Kubernetes.
    pub namespace: Option<String>,
    /// The cluster's DNS domain.
    pub cluster_domain: String,
    /// The image of `podhelper`, which MPI pods under Kubernetes need.
    pub podhelper_image: Option<String>,
    /// True if agents of rabbits fetch job packages although Kubernetes runs the containers.
    pub packages: bool,
}

/// Names of the directories in a rabbit's index tree, one directory for each allocation of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexNames {
    /// `node-<k>`, with a link named after the compute.
    #[default]
    Node,
    /// `<rabbit>-<k>`, as the data movers of the Go controllers expect.
    Rabbit,
}

/// The system, its rabbits, and the site's profiles and rules, which all workflows share.
#[derive(Clone, Debug, Default)]
pub struct Site {
    pub settings: Settings,
    /// The object `SystemConfiguration default/default`.
    pub system: Option<Arc<SystemConfiguration>>,
    /// Rabbit by compute, derived from `system`.
    pub rabbit_of: BTreeMap<String, String>,
    pub storages: BTreeMap<String, Arc<Storage>>,
    /// Key of the taint that drains a rabbit, by name of its Kubernetes Node.
    pub drained: BTreeMap<String, String>,
    pub nodes: BTreeMap<String, Arc<NnfNode>>,
    /// Health of the file systems that are not healthy, by rabbit and name of the NnfNodeStorage. A volume group that
    /// lacks a drive degrades its file systems.
    pub unhealthy: BTreeMap<ObjectKey, NnfStorageHealth>,
    /// The sessions of nodes' agents with this coordinator.
    pub sessions: Sessions,
    /// Profiles that jobs may name.
    pub profiles: BTreeMap<String, Arc<NnfStorageProfile>>,
    /// Profiles of containers that jobs may name.
    pub container_profiles: BTreeMap<String, Arc<NnfContainerProfile>>,
    /// Profiles of copies that jobs may name; `None` while the API does not let the engine list them.
    pub movement_profiles: Option<BTreeMap<String, Arc<NnfDataMovementProfile>>>,
    /// LustreFileSystems of the site; `None` while the API does not let the engine list them.
    pub lustre: Option<BTreeMap<ObjectKey, Arc<LustreFileSystem>>>,
    /// Port allocations, by rabbit.
    pub ports: BTreeMap<String, Arc<NnfPortManager>>,
    /// Uids of all workflows.
    pub workflows: BTreeSet<String>,
    /// Workflows that were never readable, with their uids. Their directives are unknown.
    pub unreadable: BTreeMap<ObjectKey, String>,
    /// Servers that were never readable.
    pub unread_servers: BTreeSet<ObjectKey>,
    /// Persistent storage by namespace and name.
    pub persistent: BTreeMap<ObjectKey, Arc<PersistentStorageInstance>>,
    /// The workload manager's record of nodes that are down.
    pub status: Option<Arc<SystemStatus>>,
    /// The site's rules for directives.
    pub rules: Arc<Ruleset>,
    /// Bytes that are reserved on rabbits.
    pub reservations: Reservations,
    pub mgts: Mgts,
    /// The coordinators that may still act, judged by their Leases.
    pub claims: Claims,
}

impl Site {
    /// Returns a site with no objects.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Returns what is known of a node's agent.
    #[must_use]
    pub fn contact(&self, node: &str, now: Timestamp) -> Contact {
        let Some(limit) = self.settings.silent_after else { return Contact::Unknown };
        let contact = self.sessions.contact(node, self.had_session(node), limit, now);
        // An administrator removes the annotation of a rabbit whose agent no longer uses the coordinator.
        let may_be_gone = self.storages.contains_key(node) && !self.had_session(node);
        if may_be_gone && contact != Contact::Open { Contact::Unknown } else { contact }
    }

    /// Returns whether the Storage of a rabbit says that the rabbit's agent had a session with a coordinator.
    #[must_use]
    pub fn had_session(&self, rabbit: &str) -> bool {
        let storage = self.storages.get(rabbit);
        storage.is_some_and(|storage| storage.annotations().contains_key(annotation::HAD_SESSION))
    }

    /// Sets the SystemConfiguration, and derives which rabbit serves which compute.
    pub fn set_system(&mut self, system: Option<Arc<SystemConfiguration>>) {
        let rabbits = system.iter().flat_map(|system| &system.spec.storage_nodes);
        let rabbits = rabbits.filter(|node| node.kind == STORAGE_LABEL_RABBIT);
        let served = rabbits.flat_map(|rabbit| {
            rabbit.computes_access.iter().map(|compute| (compute.name.clone(), rabbit.name.clone()))
        });
        self.rabbit_of = served.collect();
        self.system = system;
    }

    /// Returns the names of the system's rabbits.
    #[must_use]
    pub fn rabbits(&self) -> BTreeSet<&str> {
        let nodes = self.system.iter().flat_map(|system| &system.spec.storage_nodes);
        let rabbits = nodes.filter(|node| node.kind == STORAGE_LABEL_RABBIT);
        rabbits.map(|node| node.name.as_str()).collect()
    }

    /// Returns true if a workflow with this uid exists.
    #[must_use]
    pub fn has_workflow(&self, uid: &str) -> bool {
        self.workflows.contains(uid) || self.unreadable.values().any(|known| known == uid)
    }

    /// Returns true if the system has a compute of this name, whether a rabbit serves the compute or not.
    #[must_use]
    pub fn has_compute(&self, name: &str) -> bool {
        let mut outside = self.system.iter().flat_map(|system| &system.spec.external_compute_nodes);
        self.rabbit_of.contains_key(name) || outside.any(|node| node.name == name)
    }

    /// Adds to `group` the management targets whose `claimList` names a Servers, and the persistent management
    /// targets that the Servers uses.
    pub fn add_mgts_of(&self, servers: &Servers, group: &mut Group) {
        let (namespace, name) = (servers.namespace().unwrap_or_default(), servers.name_any());
        let holder = fs_name_holder(servers);
        let at = (namespace, name);
        for mgt in self.mgts.of_storage(&at).filter(|mgt| has_holder(mgt, &holder)) {
            let at = (mgt.namespace().unwrap_or_default(), mgt.name_any());
            group.mgts.insert(at, mgt.clone());
        }
        let held = self.persistent.iter().filter(|(_, instance)| {
            is_target(instance) && instance.spec.consumer_references.contains(&holder)
        });
        group.pools.extend(held.map(|(at, instance)| (at.clone(), instance.clone())));
    }

    /// Returns true if evidence says that a node is down: its rabbit reports the link as down, or the workload manager
    /// says so. Plans do not wait for such a node. Missing information about a node is no evidence.
    #[must_use]
    pub fn is_down(&self, node: &str) -> bool {
        self.why_down(node).is_some()
    }

    /// Returns the evidence that a node is down, if any.
    #[must_use]
    pub fn why_down(&self, node: &str) -> Option<String> {
        let disabled = self.status.as_ref().is_some_and(|status| {
            status.spec.data.nodes.get(node) == Some(&SystemNodeStatus::Disabled)
        });
        if disabled {
            return Some("the workload manager's SystemStatus says Disabled".to_owned());
        }
        let rabbit = self.rabbit_of.get(node)?;
        let status = self.storages.get(rabbit)?.status.as_ref()?;
        let mut computes = status.access.computes.iter();
        let link = computes.find(|compute| compute.name == node)?.status.as_ref()?;
        let cut = [ResourceStatus::Offline, ResourceStatus::NotPresent, ResourceStatus::Failed];
        cut.contains(link).then(|| format!("{rabbit} reports its link to {node} as {link}"))
    }
}
