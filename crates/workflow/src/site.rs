//! What all workflows share: the system, its rabbits, the site's profiles and rules.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{
    LustreFileSystem, NnfContainerProfile, NnfNode, NnfPortManager, NnfStorageProfile,
    PersistentStorageInstance, Servers, Storage, SystemConfiguration, SystemStatus,
    names::STORAGE_LABEL_RABBIT, storage::ResourceStatus, system_status::SystemNodeStatus,
};
use containers::claim::Holder;
use controller::ObjectKey;
use directive::Ruleset;
use kube::ResourceExt;

use crate::{
    claims::Claims,
    instance::is_target,
    ledger::Ledger,
    mgts::{Mgts, has_claim},
    names::claim,
    view::Group,
};

/// How the engine is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Beneath which jobs' storage appears on nodes.
    pub mount_root: String,
    /// How a rabbit's tree of allocations is named.
    pub index_names: IndexNames,
    /// Where containers run; `None` where none do.
    pub containers: Option<Containers>,
    /// Whether rabbits are nodes of a Kubernetes cluster, whose taints count.
    pub has_nodes: bool,
    /// Which coordinator this is, where several claim the runs of containers; `None` where it is the only one.
    pub claims_as: Option<Holder>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mount_root: "/mnt/nnf".to_owned(),
            index_names: IndexNames::Node,
            containers: None,
            has_nodes: false,
            claims_as: None,
        }
    }
}

impl Settings {
    /// Whether Kubernetes runs the containers.
    #[must_use]
    pub fn has_pods(&self) -> bool {
        self.containers.as_ref().is_some_and(|one| one.namespace.is_some())
    }
}

/// Where containers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Containers {
    /// The Kubernetes namespace, of the workflows that have any and of their pods; `None` where no Kubernetes runs them but the
    /// rabbits' agents.
    pub namespace: Option<String>,
    /// The domain of the cluster.
    pub cluster_domain: String,
    /// The image of `podhelper`; no MPI runs without it.
    pub podhelper_image: Option<String>,
    /// Whether the rabbits' agents fetch packages where Kubernetes runs the containers.
    pub packages: bool,
}

/// How a rabbit's tree of allocations is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexNames {
    /// `node-<k>`, and a link with the name of the compute.
    #[default]
    Node,
    /// `<rabbit>-<k>`, as the sites' data movers expect it.
    Rabbit,
}

/// What all workflows share.
#[derive(Debug, Default)]
pub struct Site {
    /// How the engine is set up.
    pub settings: Settings,
    /// `SystemConfiguration default/default`.
    pub system: Option<Arc<SystemConfiguration>>,
    /// By compute: the rabbit that serves it. Derived from `system`.
    pub rabbit_of: BTreeMap<String, String>,
    /// Storage objects by rabbit.
    pub storages: BTreeMap<String, Arc<Storage>>,
    /// By name of a Kubernetes Node, the key of its taint that drains the rabbit.
    pub drained: BTreeMap<String, String>,
    /// NnfNodes by rabbit.
    pub nodes: BTreeMap<String, Arc<NnfNode>>,
    /// Profiles that jobs may name.
    pub profiles: BTreeMap<String, Arc<NnfStorageProfile>>,
    /// Profiles of containers that jobs may name.
    pub container_profiles: BTreeMap<String, Arc<NnfContainerProfile>>,
    /// Lustre file systems of the site that no job made; `None` while the API does not let them be listed.
    pub lustre: Option<BTreeMap<ObjectKey, Arc<LustreFileSystem>>>,
    /// Who has which ports, by rabbit.
    pub ports: BTreeMap<String, Arc<NnfPortManager>>,
    /// Uids of all workflows.
    pub workflows: BTreeSet<String>,
    /// Workflows that cannot be read and never could, with their uids: they are there, and nobody knows what they want.
    pub unreadable: BTreeMap<ObjectKey, String>,
    /// Servers that cannot be read and never could.
    pub unread_servers: BTreeSet<ObjectKey>,
    /// Persistent storage by place.
    pub persistent: BTreeMap<ObjectKey, Arc<PersistentStorageInstance>>,
    /// What the workload manager says of nodes.
    pub status: Option<Arc<SystemStatus>>,
    /// The site's rules.
    pub rules: Arc<Ruleset>,
    /// What is promised on rabbits.
    pub ledger: Ledger,
    /// Lustre management targets.
    pub mgts: Mgts,
    /// What is known of coordinators' Leases.
    pub claims: Claims,
}

impl Site {
    /// A site of which nothing is known.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Takes in which rabbit serves which computes.
    pub fn set_system(&mut self, system: Option<Arc<SystemConfiguration>>) {
        let rabbits = system.iter().flat_map(|system| &system.spec.storage_nodes);
        let rabbits = rabbits.filter(|node| node.kind == STORAGE_LABEL_RABBIT);
        let served = rabbits.flat_map(|rabbit| {
            rabbit.computes_access.iter().map(|one| (one.name.clone(), rabbit.name.clone()))
        });
        self.rabbit_of = served.collect();
        self.system = system;
    }

    /// The rabbits that the system has.
    #[must_use]
    pub fn rabbits(&self) -> BTreeSet<&str> {
        let nodes = self.system.iter().flat_map(|system| &system.spec.storage_nodes);
        let rabbits = nodes.filter(|node| node.kind == STORAGE_LABEL_RABBIT);
        rabbits.map(|node| node.name.as_str()).collect()
    }

    /// Whether there is a workflow with this uid.
    #[must_use]
    pub fn has_workflow(&self, uid: &str) -> bool {
        self.workflows.contains(uid) || self.unreadable.values().any(|one| one == uid)
    }

    /// Whether the system has a compute of this name, beneath a rabbit or outside.
    #[must_use]
    pub fn has_compute(&self, name: &str) -> bool {
        let mut outside = self.system.iter().flat_map(|system| &system.spec.external_compute_nodes);
        self.rabbit_of.contains_key(name) || outside.any(|one| one.name == name)
    }

    /// Adds the management targets that a storage has a claim on, and the persistent ones that it holds.
    pub fn claims_of(&self, servers: &Servers, group: &mut Group) {
        let (namespace, name) = (servers.namespace().unwrap_or_default(), servers.name_any());
        let claim = claim(servers);
        let at = (namespace, name);
        for mgt in self.mgts.claimed_by(&at).filter(|mgt| has_claim(mgt, &claim)) {
            let at = (mgt.namespace().unwrap_or_default(), mgt.name_any());
            group.mgts.insert(at, mgt.clone());
        }
        let held = self
            .persistent
            .iter()
            .filter(|(_, one)| is_target(one) && one.spec.consumer_references.contains(&claim));
        group.pools.extend(held.map(|(at, one)| (at.clone(), one.clone())));
    }

    /// Whether there is evidence that a node is down: its rabbit says that its link is, or the workload manager says so. Nobody
    /// waits for such a node; that nothing is known of one is no evidence.
    #[must_use]
    pub fn is_down(&self, node: &str) -> bool {
        self.why_down(node).is_some()
    }

    /// The evidence that a node is down, if there is any.
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
        cut.contains(link).then(|| format!("{rabbit} says that its link to it is {link}"))
    }
}
