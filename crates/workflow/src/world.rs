//! All objects that the engine acts on, as the API last sent them, and which workflow each belongs to.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use api::{
    ClientMount, Computes, DWDirectiveRule, DirectiveBreakdown, NnfNode, NnfNodeBlockStorage,
    NnfNodeStorage, NnfStorageProfile, PersistentStorageInstance, RabbitLabels, Servers, Storage,
    SystemConfiguration, SystemStatus, Workflow, WorkflowState,
    names::{NNF_NODE, PROFILE_TEMPLATE_NAMESPACE, STORAGE_NAMESPACE, SYSTEM_CONFIGURATION, label},
};
use controller::{Change, Event, Object, ObjectKey, Store};
use kube::ResourceExt;

use crate::{
    names::{is_ours, of_directive, persistent_of},
    profile::ruleset,
    site::{Settings, Site},
    view::{DirectiveView, Group, View},
};

mod persistent;

/// What is planned by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A workflow.
    Workflow(ObjectKey),
    /// A persistent storage.
    Persistent(ObjectKey),
    /// The Storage of a rabbit.
    Rabbit(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workflow((namespace, name)) => write!(f, "Workflow {namespace}/{name}"),
            Self::Persistent((namespace, name)) => {
                write!(f, "PersistentStorageInstance {namespace}/{name}")
            }
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
    /// Every workflow that fails: it may have room now.
    Failing,
}

/// All objects.
#[derive(Debug, Default)]
pub struct World {
    /// What workflows share.
    pub site: Site,
    workflows: Store<Workflow>,
    computes: Store<Computes>,
    breakdowns: Store<DirectiveBreakdown>,
    servers: Store<Servers>,
    blocks: Store<NnfNodeBlockStorage>,
    file_systems: Store<NnfNodeStorage>,
    mounts: Store<ClientMount>,
    profiles: Store<NnfStorageProfile>,
    storages: Store<Storage>,
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
}

/// What a workflow has outside of its fixed names.
#[derive(Debug, Default)]
struct Children {
    servers: BTreeSet<ObjectKey>,
    blocks: BTreeSet<ObjectKey>,
    file_systems: BTreeSet<ObjectKey>,
    mounts: BTreeSet<ObjectKey>,
}

impl Children {
    fn is_empty(&self) -> bool {
        self.servers.is_empty()
            && self.blocks.is_empty()
            && self.file_systems.is_empty()
            && self.mounts.is_empty()
    }
}

/// A kind that the engine acts on.
pub trait Kept: Object {
    /// Where it is kept.
    fn store(world: &mut World) -> &mut Store<Self>;

    /// Takes in what changed, and says what to plan again.
    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake>;
}

impl World {
    /// A world of which nothing is known.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { site: Site::new(settings), ..Self::default() }
    }

    /// Whether every kind was listed to its end: nothing may be concluded before.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.workflows.is_complete()
            && self.computes.is_complete()
            && self.breakdowns.is_complete()
            && self.servers.is_complete()
            && self.blocks.is_complete()
            && self.file_systems.is_complete()
            && self.mounts.is_complete()
            && self.profiles.is_complete()
            && self.storages.is_complete()
            && self.nodes.is_complete()
            && self.systems.is_complete()
            && self.statuses.is_complete()
            && self.persistent.is_complete()
            && self.rules.is_complete()
    }

    /// Takes in an event.
    pub fn take<K: Kept>(&mut self, event: Event<K>) -> Vec<Wake> {
        match &event {
            Event::Listed(_) => self.lists += 1,
            Event::Applied(Ok(object)) | Event::Deleted(Ok(object)) => self.see(object),
            _ => {}
        }
        let before = K::store(self).unreadable().count();
        let changes = K::store(self).take(event);
        let mut wakes: Vec<Wake> =
            changes.iter().flat_map(|change| K::changed(self, change)).collect();
        // The end of an object that never could be read changes nothing else.
        if K::store(self).unreadable().count() < before {
            wakes.push(Wake::Failing);
        }
        wakes
    }

    /// Takes in what the API answered to a patch of ours, ahead of the watch.
    pub fn patched<K: Kept>(&mut self, object: K) -> Vec<Wake> {
        let changes = K::store(self).wrote(object);
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

    fn see<K: Kept>(&mut self, object: &K) {
        let newest = self.seen.entry(K::kind(&()).into_owned()).or_default();
        *newest = version(object).unwrap_or_default().max(*newest);
    }

    /// Everything there is to plan.
    pub fn keys(&self) -> Vec<Key> {
        let workflows = self.workflows.iter().map(|one| Key::Workflow(place(&**one)));
        let orphans = self.children.keys().cloned().map(Key::Workflow);
        let rabbits = self.site.rabbits().into_iter().map(|rabbit| Key::Rabbit(rabbit.to_owned()));
        let persistent = self.persistent.iter().map(|one| place(&**one));
        let persistent = persistent.chain(self.instance_children.keys().cloned());
        let persistent = persistent.map(Key::Persistent);
        let all: BTreeSet<Key> =
            workflows.chain(orphans).chain(rabbits).chain(persistent).collect();
        all.into_iter().collect()
    }

    /// A workflow with everything that is its.
    #[must_use]
    pub fn view(&self, at: &ObjectKey) -> Option<View<'_>> {
        self.view_knowing(at, None)
    }

    /// The same, from what is known of a persistent storage that it names.
    fn view_knowing(
        &self,
        (namespace, name): &ObjectKey,
        mut known: Option<(&persistent::Known<'_>, persistent::Mounts)>,
    ) -> Option<View<'_>> {
        let workflow = self.workflows.get(namespace, name)?.clone();
        let uid = workflow.uid().unwrap_or_default();
        let mut groups = self.groups(&(namespace.clone(), name.clone()));
        let directive = |index: usize| {
            let of = of_directive(&workflow, index);
            let known = known.take_if(|(known, _)| known.is_of(&workflow, index));
            if let Some((named, storage)) = self.named(&workflow, index, known) {
                let breakdown = own(self.breakdowns.get(namespace, &of), &uid);
                return DirectiveView { breakdown, storage, persistent: Some(named) };
            }
            let mut storage = groups.remove(&(uid.clone(), index.to_string())).unwrap_or_default();
            storage.servers = own(self.servers.get(namespace, &of), &uid);
            storage.profile = own(self.profiles.get(namespace, &of), &uid);
            let breakdown = own(self.breakdowns.get(namespace, &of), &uid);
            DirectiveView { breakdown, storage, persistent: None }
        };
        let directives = (0..workflow.spec.directives.len()).map(directive).collect();
        Some(View {
            site: &self.site,
            computes: own(self.computes.get(namespace, name), &uid),
            directives,
            leftovers: groups.into_values().collect(),
            workflow,
        })
    }

    /// The storage that names a workflow, by the workflow's uid and by directive.
    #[must_use]
    pub fn groups(&self, workflow: &ObjectKey) -> BTreeMap<(String, String), Group> {
        let mut groups: BTreeMap<(String, String), Group> = BTreeMap::new();
        let unreadable = self.blocks.unreadable().chain(self.file_systems.unreadable());
        for metadata in unreadable.chain(self.mounts.unreadable()) {
            let text = |key| metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
            let of = text(label::WORKFLOW_NAMESPACE).zip(text(label::WORKFLOW_NAME));
            if of.as_ref() != Some(workflow)
                || persistent::persistent_of_metadata(metadata).is_some()
            {
                continue;
            }
            let storage = [label::WORKFLOW_UID, label::DIRECTIVE_INDEX].map(text);
            let [uid, index] = storage.map(Option::unwrap_or_default);
            let at =
                [&metadata.namespace, &metadata.name].map(|one| one.clone().unwrap_or_default());
            groups.entry((uid, index)).or_default().unreadable.insert(at.into());
        }
        let Some(children) = self.children.get(workflow) else { return groups };
        for at in &children.blocks {
            if let Some(block) = self.blocks.get(&at.0, &at.1) {
                let group = groups.entry(storage_of(&**block)).or_default();
                group.blocks.insert(at.clone(), block.clone());
            }
        }
        for at in &children.file_systems {
            if let Some(one) = self.file_systems.get(&at.0, &at.1) {
                let group = groups.entry(storage_of(&**one)).or_default();
                group.file_systems.insert(at.clone(), one.clone());
            }
        }
        for at in &children.mounts {
            if let Some(one) = self.mounts.get(&at.0, &at.1) {
                let group = groups.entry(storage_of(&**one)).or_default();
                group.mounts.insert(at.clone(), one.clone());
            }
        }
        for at in &children.servers {
            if let Some(one) = self.servers.get(&at.0, &at.1) {
                groups.entry(storage_of(&**one)).or_default().servers = Some(one.clone());
            }
        }
        groups
    }

    fn child<K: Object>(
        &mut self,
        change: &Change<K>,
        set: fn(&mut Children) -> &mut BTreeSet<ObjectKey>,
    ) -> Vec<Wake> {
        let mut wakes = Vec::new();
        for (object, is_there) in [(&change.old, false), (&change.new, true)] {
            let Some(object) = object else { continue };
            let instance = persistent_of(&**object);
            let Some(whose) = instance.clone().or_else(|| workflow_of(&**object)) else { continue };
            let all =
                if instance.is_some() { &mut self.instance_children } else { &mut self.children };
            let children = all.entry(whose.clone()).or_default();
            if is_there {
                set(children).insert(place(&**object));
            } else {
                set(children).remove(&place(&**object));
            }
            if children.is_empty() {
                all.remove(&whose);
            }
            match instance {
                // A mount concerns its own workflow alone.
                Some(instance) if K::kind(&()) == "ClientMount" => {
                    let workflow = workflow_of(&**object).map(Key::Workflow);
                    let keys = workflow.into_iter().chain([Key::Persistent(instance)]);
                    wakes.extend(keys.map(Wake::Key));
                }
                Some(instance) => wakes.extend(self.wake_instance(&instance)),
                None => wakes.push(Wake::Key(Key::Workflow(whose))),
            }
        }
        wakes
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

/// The object, if it belongs to the workflow of this uid.
fn own<K: Object>(object: Option<&Arc<K>>, uid: &str) -> Option<Arc<K>> {
    object.filter(|one| one.label(label::WORKFLOW_UID) == Some(uid)).cloned()
}

fn storage_of<K: Object>(object: &K) -> (String, String) {
    let text = |key| object.label(key).unwrap_or_default().to_owned();
    (text(label::WORKFLOW_UID), text(label::DIRECTIVE_INDEX))
}

fn workflow_of<K: Object>(object: &K) -> Option<ObjectKey> {
    let workflow = object.workflow()?;
    Some((workflow.namespace.to_owned(), workflow.name.to_owned()))
}

fn wake_workflow(at: Option<ObjectKey>) -> Vec<Wake> {
    at.map(|at| Wake::Key(Key::Workflow(at))).into_iter().collect()
}

impl Kept for Workflow {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.workflows
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let at = place(&**object);
        let servers: Vec<Arc<Servers>> = (0..object.spec.directives.len())
            .filter_map(|index| world.servers.get(&at.0, &of_directive(object, index)).cloned())
            .collect();
        servers.iter().for_each(|servers| world.promise(servers, true));
        let mut wakes = vec![Wake::Key(Key::Workflow(at))];
        wakes.extend(world.name_instances(change));
        if gives_back(change) {
            wakes.push(Wake::Failing);
        }
        wakes
    }
}

/// Whether a workflow that goes gives back what was promised to it.
fn gives_back(change: &Change<Workflow>) -> bool {
    let is_kept = |workflow: &Option<Arc<Workflow>>| {
        workflow.as_ref().is_some_and(|one| one.spec.desired_state != WorkflowState::Teardown)
    };
    is_kept(&change.old) && !is_kept(&change.new)
}

impl Kept for Computes {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.computes
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let at = change.object().map(|object| place(&**object));
        let mut wakes = at.iter().flat_map(|at| world.wake_named_by(at)).collect::<Vec<_>>();
        wakes.extend(wake_workflow(at));
        wakes
    }
}

impl Kept for DirectiveBreakdown {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.breakdowns
    }

    fn changed(_: &mut World, change: &Change<Self>) -> Vec<Wake> {
        wake_workflow(change.object().and_then(|object| workflow_of(&**object)))
    }
}

impl Kept for Servers {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.servers
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        if let Some(object) = change.object() {
            world.promise(object, change.new.is_some());
        }
        let is_ours = change.object().is_some_and(|one| {
            one.label(label::OWNER_KIND) == Some("Workflow") || persistent_of(&**one).is_some()
        });
        let mut wakes = if is_ours {
            world.child(change, |children| &mut children.servers)
        } else {
            Vec::new()
        };
        if change.new.is_none() {
            wakes.push(Wake::Failing);
        }
        wakes
    }
}

impl Kept for NnfNodeBlockStorage {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.blocks
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object().cloned() else { return Vec::new() };
        let ours = is_ours(&*object);
        let owner = object.owner().filter(|_| ours);
        let owner = owner.map(|owner| (owner.namespace.to_owned(), owner.name.to_owned()));
        world.site.ledger.allocate(&place(&*object), owner, change.new.as_deref());
        let mut wakes =
            if ours { world.child(change, |children| &mut children.blocks) } else { Vec::new() };
        // Who waits for bytes hears of the NnfNode's count by another watch, which may be ahead of this one.
        if change.new.is_none() {
            wakes.push(Wake::Failing);
        }
        wakes
    }
}

impl Kept for NnfNodeStorage {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.file_systems
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        if change.object().is_some_and(|one| is_ours(&**one)) {
            world.child(change, |children| &mut children.file_systems)
        } else {
            Vec::new()
        }
    }
}

impl Kept for ClientMount {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.mounts
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        if change.object().is_some_and(|one| is_ours(&**one)) {
            world.child(change, |children| &mut children.mounts)
        } else {
            Vec::new()
        }
    }
}

impl Kept for NnfStorageProfile {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.profiles
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let (namespace, name) = place(&**object);
        if namespace != PROFILE_TEMPLATE_NAMESPACE {
            return match persistent_of(&**object) {
                Some(instance) => world.wake_instance(&instance),
                None => wake_workflow(workflow_of(&**object)),
            };
        }
        let template = change.new.clone().filter(|profile| !profile.data().pinned);
        match template {
            Some(template) => world.site.profiles.insert(name, template),
            None => world.site.profiles.remove(&name),
        };
        vec![Wake::Waiting]
    }
}

impl Kept for Storage {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.storages
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let (namespace, name) = place(&**object);
        if namespace != STORAGE_NAMESPACE {
            return Vec::new();
        }
        match change.new.clone() {
            Some(new) => world.site.storages.insert(name.clone(), new),
            None => world.site.storages.remove(&name),
        };
        // Bytes change with every allocation of anybody: by those nobody goes.
        let told = |one: &Option<Arc<Storage>>| {
            one.as_ref().map(|one| {
                let status = one.status.clone().unwrap_or_default();
                (one.spec.clone(), one.labels().clone(), status.status, status.access)
            })
        };
        let mut wakes = vec![Wake::Key(Key::Rabbit(name))];
        if told(&change.old) != told(&change.new) {
            wakes.push(Wake::Waiting);
        }
        wakes
    }
}

impl Kept for NnfNode {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.nodes
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let (rabbit, name) = place(&**object);
        if name != NNF_NODE {
            return Vec::new();
        }
        match change.new.clone() {
            Some(new) => world.site.nodes.insert(rabbit.clone(), new),
            None => world.site.nodes.remove(&rabbit),
        };
        vec![Wake::Key(Key::Rabbit(rabbit)), Wake::Failing]
    }
}

impl Kept for SystemConfiguration {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.systems
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let the_one = (STORAGE_NAMESPACE.to_owned(), SYSTEM_CONFIGURATION.to_owned());
        if change.object().map(|object| place(&**object)) != Some(the_one) {
            return Vec::new();
        }
        world.site.set_system(change.new.clone());
        let rabbits = world.site.rabbits().into_iter();
        let rabbits = rabbits.map(|rabbit| Wake::Key(Key::Rabbit(rabbit.to_owned())));
        rabbits.chain([Wake::Waiting]).collect()
    }
}

impl Kept for SystemStatus {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.statuses
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let the_one = (STORAGE_NAMESPACE.to_owned(), SYSTEM_CONFIGURATION.to_owned());
        if change.object().map(|object| place(&**object)) != Some(the_one) {
            return Vec::new();
        }
        world.site.status.clone_from(&change.new);
        vec![Wake::Waiting]
    }
}

impl Kept for DWDirectiveRule {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.rules
    }

    fn changed(world: &mut World, _: &Change<Self>) -> Vec<Wake> {
        world.site.rules = Arc::new(ruleset(world.rules.iter().map(|rule| &**rule)));
        vec![Wake::Waiting]
    }
}
