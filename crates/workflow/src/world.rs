//! All objects that the engine acts on, as the API last sent them, and which workflow each belongs to.

mod children;
mod claims;
mod containers;
mod counts;
mod groups;
mod kinds;
mod of_site;
mod of_workflow;
mod persistent;
mod unreadable;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use api::{
    ClientMount, Computes, ContainerRun, DWDirectiveRule, DirectiveBreakdown, KubernetesNode,
    LustreFileSystem, NnfContainerProfile, NnfLustreMgt, NnfNode, NnfNodeBlockStorage,
    NnfNodeStorage, NnfPortManager, NnfStorageProfile, NodeContainers, PersistentStorageInstance,
    PersistentVolume, RabbitLabels, Servers, Storage, SystemConfiguration, SystemStatus, Workflow,
    names::STORAGE_NAMESPACE,
};
use controller::{Change, Event, Object, ObjectKey, Store, Trouble};
use directive::Ruleset;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service},
    networking::v1::NetworkPolicy,
};
use kube::ResourceExt;

pub use self::kinds::{ForEachKind, Scope};
use self::{children::Children, kinds::Kinds};
use crate::{
    execute::Refusal,
    site::{Settings, Site},
};

/// What is planned by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A workflow.
    Workflow(ObjectKey),
    /// A persistent storage.
    Persistent(ObjectKey),
    /// The Storage of a rabbit.
    Rabbit(String),
    /// A Lustre management target that no rabbit holds.
    Mgt(ObjectKey),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workflow((namespace, name)) => write!(f, "Workflow {namespace}/{name}"),
            Self::Persistent((namespace, name)) => {
                write!(f, "PersistentStorageInstance {namespace}/{name}")
            }
            Self::Mgt((namespace, name)) => write!(f, "NnfLustreMGT {namespace}/{name}"),
            Self::Rabbit(rabbit) => write!(f, "Storage {STORAGE_NAMESPACE}/{rabbit}"),
        }
    }
}

/// What is to be planned again after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// This.
    Key(Key),
    /// Every workflow that waits for something.
    Waiting,
    /// Every workflow that fails, or waits for what others hold: it may have room now.
    Failing,
}

/// All objects.
#[derive(Debug, Default)]
pub struct World {
    /// What workflows share.
    pub site: Site,
    kinds: Kinds,
    workflows: Store<Workflow>,
    computes: Store<Computes>,
    breakdowns: Store<DirectiveBreakdown>,
    servers: Store<Servers>,
    blocks: Store<NnfNodeBlockStorage>,
    file_systems: Store<NnfNodeStorage>,
    mounts: Store<ClientMount>,
    mgts: Store<NnfLustreMgt>,
    profiles: Store<NnfStorageProfile>,
    container_profiles: Store<NnfContainerProfile>,
    lustre: Store<LustreFileSystem>,
    ports: Store<NnfPortManager>,
    on_rabbits: Store<NodeContainers>,
    runs: Store<ContainerRun>,
    jobs: Store<Job>,
    pods: Store<Pod>,
    services: Store<Service>,
    network_policies: Store<NetworkPolicy>,
    config_maps: Store<ConfigMap>,
    volumes: Store<PersistentVolume>,
    volume_claims: Store<PersistentVolumeClaim>,
    storages: Store<Storage>,
    kubernetes_nodes: Store<KubernetesNode>,
    nodes: Store<NnfNode>,
    systems: Store<SystemConfiguration>,
    statuses: Store<SystemStatus>,
    persistent: Store<PersistentStorageInstance>,
    rules: Store<DWDirectiveRule>,
    children: BTreeMap<ObjectKey, Children>,
    /// By persistent storage.
    instance_children: BTreeMap<ObjectKey, Children>,
    /// By persistent storage, the workflows that name it.
    naming: persistent::Names,
    /// By kind, the newest version that its watch brought.
    seen: BTreeMap<String, u64>,
    /// How many lists the watches brought.
    lists: u64,
    /// The kinds that were listed, and the optional ones that cannot be.
    answered: BTreeSet<String>,
    /// Workflows before and after their changes, since somebody asked.
    changed: Vec<(Arc<Workflow>, Arc<Workflow>)>,
    /// By what was planned, the changes that the API refused.
    refused: BTreeMap<Key, Refused>,
}

/// Changes of one plan that the API refused.
#[derive(Debug)]
struct Refused {
    /// Which, and why.
    refusals: Vec<Refusal>,
    /// Whether it refused the same ones before. A first refusal is mostly of one who did not see yet what somebody else wrote.
    is_repeated: bool,
}

/// A kind that the engine acts on.
pub trait Kept: Object {
    /// Where it is kept.
    fn store(world: &mut World) -> &mut Store<Self>;

    /// Takes in what changed, and says what to plan again: the workflow of the object, unless the kind says otherwise.
    fn changed(_: &mut World, change: &Change<Self>) -> Vec<Wake> {
        wake_workflow(change.object().and_then(|object| workflow_of(&**object)))
    }

    /// Takes in that the watch listed all, after what changed, and says what to plan again.
    fn listed(_: &mut World) -> Vec<Wake> {
        Vec::new()
    }
}

impl World {
    /// A world of which nothing is known.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let kinds = Kinds::of(&settings);
        Self { site: Site::new(settings), kinds, ..Self::default() }
    }

    /// The site's rules; `None` before they were listed: until then nobody knows that there are none.
    #[must_use]
    pub fn rules(&self) -> Option<&Arc<Ruleset>> {
        self.rules.is_complete().then_some(&self.site.rules)
    }

    /// Takes in which changes of a plan the API refused, and says whether it refused other ones before.
    pub fn set_refused(&mut self, key: &Key, refusals: Vec<Refusal>) -> bool {
        if refusals.is_empty() {
            self.refused.remove(key);
            return false;
        }
        let is_repeated = self.refused.get(key).is_some_and(|before| before.refusals == refusals);
        self.refused.insert(key.clone(), Refused { refusals, is_repeated });
        !is_repeated
    }

    /// The changes of a workflow that the API refuses again and again.
    fn refused_again(&self, at: &ObjectKey) -> Vec<Refusal> {
        let refused = self.refused.get(&Key::Workflow(at.clone())).filter(|one| one.is_repeated);
        refused.map(|one| one.refusals.clone()).unwrap_or_default()
    }

    /// Takes in an event.
    pub fn take<K: Kept>(&mut self, event: Event<K>) -> Vec<Wake> {
        let kind = K::kind(&());
        let is_list = matches!(event, Event::Listed(_));
        match &event {
            Event::Listed(_) => {
                self.lists += 1;
                self.answered.insert(kind.into_owned());
            }
            Event::Failing(Trouble::Kind(_)) if self.kinds.is_optional(&kind) => {
                self.answered.insert(kind.into_owned());
            }
            Event::Applied(Ok(object)) | Event::Deleted(Ok(object)) => self.see(object),
            _ => {}
        }
        let before = K::store(self).unreadable().count();
        let changes = K::store(self).take(event);
        let mut wakes: Vec<Wake> =
            changes.iter().flat_map(|change| K::changed(self, change)).collect();
        wakes.extend(self.know_unreadable());
        if is_list {
            wakes.extend(K::listed(self));
        }
        // The end of an object that never could be read changes nothing else.
        if K::store(self).unreadable().count() < before {
            wakes.push(Wake::Failing);
        }
        wakes
    }

    /// Takes in what the API answered to a patch of ours, ahead of the watch.
    pub fn patched<K: Kept>(&mut self, object: K) -> Vec<Wake> {
        // What is deleted and held by nobody is gone: its end comes by the watch.
        if object.meta().deletion_timestamp.is_some() && object.finalizers().is_empty() {
            return Vec::new();
        }
        let changes = K::store(self).apply_written(object);
        changes.iter().flat_map(|change| K::changed(self, change)).collect()
    }

    /// Takes in an object that we created and that the watch has not come to yet: what it brought up to there may have been
    /// the object's end. A list since `lists` may have left the object out, because it was gone again.
    pub fn created<K: Kept>(&mut self, object: K, lists: u64) -> Vec<Wake> {
        let newest = self.seen.get(&*K::kind(&())).copied().unwrap_or_default();
        let is_ahead = version(&object).is_some_and(|version| version > newest);
        if !is_ahead || lists != self.lists {
            return Vec::new();
        }
        let changes = K::store(self).take(Event::Applied(Ok(object)));
        changes.iter().flat_map(|change| K::changed(self, change)).collect()
    }

    /// How many lists the watches brought.
    #[must_use]
    pub fn lists(&self) -> u64 {
        self.lists
    }

    /// Workflows that changed since the last call, as they were and are, whoever was first to say so: a watch or the API's answer.
    pub fn changed_workflows(&mut self) -> Vec<(Arc<Workflow>, Arc<Workflow>)> {
        std::mem::take(&mut self.changed)
    }

    fn see<K: Kept>(&mut self, object: &K) {
        let newest = self.seen.entry(K::kind(&()).into_owned()).or_default();
        *newest = version(object).unwrap_or_default().max(*newest);
    }

    /// Everything there is to plan.
    pub fn keys(&self) -> Vec<Key> {
        let workflows = self.workflows.iter().map(|one| Key::Workflow(place(&**one)));
        let orphans = self.children.keys().cloned().map(Key::Workflow);
        let rabbits = self.site.rabbits().into_iter().map(|rabbit| Key::Rabbit(rabbit.to_owned()));
        let mgts = self.site.mgts.external().cloned().map(Key::Mgt);
        let persistent = self.persistent.iter().map(|one| place(&**one));
        let persistent = persistent.chain(self.instance_children.keys().cloned());
        let persistent = persistent.map(Key::Persistent);
        let all: BTreeSet<Key> =
            workflows.chain(orphans).chain(rabbits).chain(mgts).chain(persistent).collect();
        all.into_iter().collect()
    }

    /// A Servers promises until its workflow is torn down.
    fn promise(&mut self, servers: &Servers, is_there: bool) {
        let at = place(servers);
        let workflow = workflow_of(servers);
        let torn_down =
            workflow.and_then(|of| self.workflows.get(&of.0, &of.1)).is_some_and(|one| {
                one.status
                    .as_ref()
                    .and_then(|status| status.state.as_ref())
                    .map(|state| state.as_str())
                    == Some("Teardown")
            });
        self.site.ledger.promise(&at, Some(servers).filter(|_| is_there && !torn_down));
    }
}

/// Versions are comparable as numbers (Kubernetes 1.35, KEP-5504); of others nothing is concluded.
fn version<K: Object>(object: &K) -> Option<u64> {
    object.resource_version()?.parse().ok()
}

fn place<K: Object>(object: &K) -> ObjectKey {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn workflow_of<K: Object>(object: &K) -> Option<ObjectKey> {
    let workflow = object.workflow()?;
    Some((workflow.namespace.to_owned(), workflow.name.to_owned()))
}

/// Stores the new version of an object, or removes the one that is gone.
fn keep<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, new: Option<V>) {
    match new {
        Some(new) => map.insert(key, new),
        None => map.remove(&key),
    };
}

fn wake_workflow(at: Option<ObjectKey>) -> Vec<Wake> {
    at.map(|at| Wake::Key(Key::Workflow(at))).into_iter().collect()
}
