//! What belongs to persistent storage, which outlives the workflow that made it and is used by others.

mod wakes;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{
    ClientMount, PersistentStorageInstance, RabbitLabels, Workflow, WorkflowState, names::label,
};
use controller::{ObjectKey, has_finalizer};
use directive::Command;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

use super::{World, groups::label_of, place};
use crate::{
    instance::{self, InstanceView, Named, is_exclusive, is_in_prerun},
    names::{GO_FINALIZER, of_instance, persistent_of},
    plan::mounts::is_unmounted,
    view::Group,
};

/// Which workflows name which persistent storage, whatever they want of it.
pub(super) type Names = BTreeMap<ObjectKey, BTreeSet<ObjectKey>>;

/// Mounts by node and name.
pub(super) type Mounts = BTreeMap<ObjectKey, Arc<ClientMount>>;

/// What the views of all users of one persistent storage have in common.
#[derive(Debug)]
pub(super) struct Known<'a> {
    at: &'a ObjectKey,
    turn: Option<ObjectKey>,
    storage: &'a Group,
}

impl Known<'_> {
    /// Whether it is this that a directive names.
    pub(super) fn is_of(&self, workflow: &Workflow, index: usize) -> bool {
        let named = instance::command(&workflow.spec.directives[index]);
        named.is_some_and(|(_, name)| name == self.at.1)
    }
}

impl World {
    /// Persistent storage with everything that is its.
    #[must_use]
    pub fn instance(&self, at: &ObjectKey) -> Option<InstanceView<'_>> {
        let object = self.persistent.get(&at.0, &at.1)?.clone();
        let (storage, leftovers) = self.storage_of_instance(&object);
        let users = self.users(at);
        let known = Known { at, turn: self.turn(&object, &storage, &users), storage: &storage };
        let mut by_workflow: BTreeMap<String, Mounts> = BTreeMap::new();
        for (place, mount) in &storage.mounts {
            let workflow = mount.label(label::WORKFLOW_UID).unwrap_or_default().to_owned();
            by_workflow.entry(workflow).or_default().insert(place.clone(), mount.clone());
        }
        let view = |(workflow, index): (Arc<Workflow>, usize)| {
            let own = by_workflow.remove(&workflow.uid().unwrap_or_default()).unwrap_or_default();
            Some((self.view_knowing(&place(&*workflow), Some((&known, own)))?, index))
        };
        let users = users.into_iter().filter_map(view).collect();
        Some(InstanceView { site: &self.site, users, object, storage, leftovers })
    }

    /// What lies on nodes for persistent storage of this name, by the uid of its Servers.
    #[must_use]
    pub fn instance_groups(&self, at: &ObjectKey) -> BTreeMap<String, Group> {
        let is_of = |metadata: &ObjectMeta| persistent_of_metadata(metadata).as_ref() == Some(at);
        let owner =
            |metadata: &ObjectMeta| label_of(metadata, label::OWNER_UID).unwrap_or_default();
        let children = self.instance_children.get(at);
        self.groups_by(children, is_of, owner, |servers| servers.uid().unwrap_or_default())
    }

    /// The storage of one, and what an earlier one of its name left.
    fn storage_of_instance(&self, object: &PersistentStorageInstance) -> (Group, Vec<Group>) {
        let (namespace, name) = place(object);
        let mut groups = self.instance_groups(&(namespace.clone(), name.clone()));
        let its = of_instance(&name);
        // An earlier version of the engine gave every Servers and profile the name of its storage.
        let servers = owned_by(self.servers.get(&namespace, &its), object)
            .or_else(|| owned_by(self.servers.get(&namespace, &name), object));
        let uid = servers.as_ref().and_then(|servers| servers.uid()).unwrap_or_default();
        let storage = Group {
            profile: owned_by(self.profiles.get(&namespace, &its), object)
                .or_else(|| owned_by(self.profiles.get(&namespace, &name), object)),
            servers,
            ..groups.remove(&uid).unwrap_or_default()
        };
        (storage, groups.into_values().collect())
    }

    /// What a directive sees of the persistent storage that it names, with the mounts of its own workflow; `None` when it names
    /// none.
    pub(super) fn named(
        &self,
        workflow: &Workflow,
        index: usize,
        known: Option<(&Known<'_>, Mounts)>,
    ) -> Option<(Named, Group)> {
        let (_, name) = instance::command(&workflow.spec.directives[index])?;
        let at = (workflow.namespace().unwrap_or_default(), name);
        let Some(object) = self.persistent.get(&at.0, &at.1).cloned() else {
            // Mounts that the storage left behind are the workflow's all the same.
            let mut left = Group::default();
            self.instance_groups(&at)
                .into_values()
                .for_each(|group| left.mounts.extend(group.mounts));
            left.mounts.retain(|_, mount| is_for(&**mount, workflow));
            return Some((Named { taken: self.taken(&at), ..Named::default() }, left));
        };
        if let Some((known, mounts)) = known {
            let turn = known.turn.clone();
            // `others` stays empty: this view is only for the storage's own plan.
            let named = Named { object: Some(object), turn, ..Named::default() };
            return Some((named, Group { mounts, ..without_mounts(known.storage) }));
        }
        let (mut storage, _) = self.storage_of_instance(&object);
        let users =
            if is_exclusive(&object) || workflow.spec.desired_state == WorkflowState::PostRun {
                self.users(&at)
            } else {
                Vec::new()
            };
        let turn = self.turn(&object, &storage, &users);
        let others = self.others(workflow, &storage, &users, turn.as_ref());
        storage.mounts.retain(|_, mount| is_for(&**mount, workflow));
        Some((Named { object: Some(object), taken: None, turn, others }, storage))
    }

    fn turn(
        &self,
        object: &PersistentStorageInstance,
        storage: &Group,
        users: &[(Arc<Workflow>, usize)],
    ) -> Option<ObjectKey> {
        let workflows = users.iter().map(|(workflow, _)| &**workflow);
        is_exclusive(object).then(|| instance::turn(&self.site, storage, workflows)).flatten()
    }

    /// Nodes that other workflows have it mounted on, or are to.
    fn others(
        &self,
        workflow: &Workflow,
        storage: &Group,
        users: &[(Arc<Workflow>, usize)],
        turn: Option<&ObjectKey>,
    ) -> BTreeSet<String> {
        let waiting = users.iter().map(|(one, _)| one);
        let waiting = waiting.filter(|one| one.uid() != workflow.uid() && is_in_prerun(one));
        let waiting = waiting.filter(|one| turn.is_none_or(|turn| *turn == place(&***one)));
        let computes = waiting.flat_map(|one| self.computes_of(one)).map(str::to_owned);
        let mounted = storage.mounts.values().filter(|mount| !is_for(&***mount, workflow));
        let mounted = mounted.filter(|mount| !is_unmounted(&self.site, mount));
        computes.chain(mounted.map(|mount| mount.spec.node.clone())).collect()
    }

    fn computes_of(&self, workflow: &Workflow) -> impl Iterator<Item = &str> {
        let (namespace, name) = place(workflow);
        self.computes.get(&namespace, &name).into_iter().flat_map(|computes| computes.names())
    }

    /// A Servers or profile of this name that belongs to something else, and is not on its way out.
    fn taken(&self, at: &ObjectKey) -> Option<String> {
        let name = of_instance(&at.1);
        let described = |kind: &str, metadata: &ObjectMeta| {
            let owner = metadata.labels.as_ref().and_then(|labels| labels.get(label::OWNER_KIND));
            let is_passing = owner.is_some_and(|kind| kind == "PersistentStorageInstance");
            (!is_passing).then(|| format!("{kind} {}/{name}", at.0))
        };
        let servers =
            self.servers.get(&at.0, &name).and_then(|one| described("Servers", one.meta()));
        let profile = || {
            self.profiles
                .get(&at.0, &name)
                .and_then(|one| described("NnfStorageProfile", one.meta()))
        };
        servers.or_else(profile)
    }

    /// Workflows that name it in a `persistentdw`, and in which directive.
    fn users(&self, at: &ObjectKey) -> Vec<(Arc<Workflow>, usize)> {
        let workflows = self.naming.get(at).into_iter().flatten();
        let workflows = workflows.filter_map(|one| self.workflows.get(&one.0, &one.1));
        let uses = |workflow: &Arc<Workflow>| {
            let index = workflow.spec.directives.iter().position(|line| {
                matches!(instance::command(line), Some((Command::Persistentdw(_), name)) if name == at.1)
            });
            index.map(|index| (workflow.clone(), index))
        };
        let workflows = workflows.filter(|one| !has_finalizer(&***one, GO_FINALIZER));
        workflows.filter_map(uses).collect()
    }
}

/// All of it but who has it mounted.
fn without_mounts(storage: &Group) -> Group {
    Group {
        servers: storage.servers.clone(),
        profile: storage.profile.clone(),
        blocks: storage.blocks.clone(),
        file_systems: storage.file_systems.clone(),
        mgts: storage.mgts.clone(),
        pools: storage.pools.clone(),
        mounts: BTreeMap::new(),
        unreadable: storage.unreadable.clone(),
    }
}

/// Whether a mount is for a workflow.
fn is_for<K: Resource>(object: &K, workflow: &Workflow) -> bool {
    object.label(label::WORKFLOW_UID) == workflow.metadata.uid.as_deref()
}

/// The object, if it goes with this persistent storage.
fn owned_by<K: Resource>(
    object: Option<&Arc<K>>,
    instance: &PersistentStorageInstance,
) -> Option<Arc<K>> {
    let is_its = |one: &&Arc<K>| {
        persistent_of(&***one).is_some()
            && one.label(label::OWNER_UID) == instance.metadata.uid.as_deref()
    };
    object.filter(is_its).cloned()
}

/// Whether an object that cannot be read belongs to persistent storage, and to which.
pub(super) fn persistent_of_metadata(metadata: &ObjectMeta) -> Option<ObjectKey> {
    let text = |key| label_of(metadata, key);
    text(label::PERSISTENT_NAMESPACE).zip(text(label::PERSISTENT_NAME))
}
