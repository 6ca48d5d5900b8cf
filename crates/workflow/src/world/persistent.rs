//! Objects of persistent storage, which outlives the workflow that made it and is used by other workflows.

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

use super::{World, groups::label_of, object_key};
use crate::{
    names::{GO_FINALIZER, instance_object_name, persistent_key, storage_uid},
    objects::{
        instance::{self, InstanceView, NamedStorage, is_exclusive, is_in_prerun},
        mount::is_unmounted,
        view::Group,
    },
};

/// Workflows that name a persistent storage in any directive, by persistent storage.
pub(super) type Names = BTreeMap<ObjectKey, BTreeSet<ObjectKey>>;

/// Mounts by node and name.
pub(super) type Mounts = BTreeMap<ObjectKey, Arc<ClientMount>>;

/// The part of a persistent storage that is the same in the views of all its users.
#[derive(Debug)]
pub(super) struct Known<'a> {
    at: &'a ObjectKey,
    turn: Option<ObjectKey>,
    storage: &'a Group,
}

impl Known<'_> {
    /// Returns true if a directive names this persistent storage.
    pub(super) fn is_of(&self, workflow: &Workflow, index: usize) -> bool {
        let command = instance::command(&workflow.spec.directives[index]);
        command.is_some_and(|(_, name)| name == self.at.1)
    }
}

impl World {
    /// Returns persistent storage with all of its objects.
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
            Some((self.view_knowing(&object_key(&*workflow), Some((&known, own)))?, index))
        };
        let users = users.into_iter().filter_map(view).collect();
        Some(InstanceView { site: &self.site, users, object, storage, leftovers })
    }

    /// Returns true if there may be persistent storage of this name: its object or its Servers cannot be read.
    #[must_use]
    pub fn may_have_unread(&self, at @ (namespace, name): &ObjectKey) -> bool {
        let is_it = |metadata: &ObjectMeta| {
            metadata.namespace.as_ref() == Some(namespace) && metadata.name.as_ref() == Some(name)
        };
        let own_name = (namespace.clone(), instance_object_name(name));
        self.persistent.unreadable().any(is_it)
            || [at, &own_name].into_iter().any(|at| self.site.unread_servers.contains(at))
    }

    /// Returns the objects on nodes for persistent storage of this name, by the uid of its Servers.
    #[must_use]
    pub fn instance_groups(&self, at: &ObjectKey) -> BTreeMap<String, Group> {
        let is_of = |metadata: &ObjectMeta| persistent_of_metadata(metadata).as_ref() == Some(at);
        let owner =
            |metadata: &ObjectMeta| label_of(metadata, label::OWNER_UID).unwrap_or_default();
        let children = self.instance_children.get(at);
        self.groups_by(children, is_of, owner, storage_uid)
    }

    /// Returns the objects of a PersistentStorageInstance, and the objects that earlier instances of
    /// its name left behind.
    pub(super) fn storage_of_instance(
        &self,
        object: &PersistentStorageInstance,
    ) -> (Group, Vec<Group>) {
        let (namespace, name) = object_key(object);
        let mut groups = self.instance_groups(&(namespace.clone(), name.clone()));
        let own_name = instance_object_name(&name);
        // An earlier version of the engine gave every Servers and profile the name of its storage.
        let servers = owned_by(self.servers.get(&namespace, &own_name), object)
            .or_else(|| owned_by(self.servers.get(&namespace, &name), object));
        let uid = servers.as_deref().map(storage_uid).unwrap_or_default();
        let storage = Group {
            profile: owned_by(self.profiles.get(&namespace, &own_name), object)
                .or_else(|| owned_by(self.profiles.get(&namespace, &name), object)),
            servers,
            ..groups.remove(&uid).unwrap_or_default()
        };
        (storage, groups.into_values().collect())
    }

    /// Returns the persistent storage that a directive names, with the mounts of the directive's workflow;
    /// `None` for other directives.
    pub(super) fn named_storage(
        &self,
        workflow: &Workflow,
        index: usize,
        known: Option<(&Known<'_>, Mounts)>,
    ) -> Option<(NamedStorage, Group)> {
        let (_, name) = instance::command(&workflow.spec.directives[index])?;
        let at = (workflow.namespace().unwrap_or_default(), name);
        let Some(object) = self.persistent.get(&at.0, &at.1).cloned() else {
            // The storage is gone: its remaining mounts still belong to the workflow.
            let mut remaining = Group::default();
            self.instance_groups(&at)
                .into_values()
                .for_each(|group| remaining.mounts.extend(group.mounts));
            remaining.mounts.retain(|_, mount| is_for(&**mount, workflow));
            return Some((
                NamedStorage { name_conflict: self.name_conflict(&at), ..NamedStorage::default() },
                remaining,
            ));
        };
        if let Some((known, mounts)) = known {
            let turn = known.turn.clone();
            // `others` stays empty: only the plan of the storage uses this view, and that plan does not read `others`.
            let storage = NamedStorage { object: Some(object), turn, ..NamedStorage::default() };
            return Some((storage, Group { mounts, ..without_mounts(known.storage) }));
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
        Some((NamedStorage { object: Some(object), name_conflict: None, turn, others }, storage))
    }

    fn turn(
        &self,
        object: &PersistentStorageInstance,
        storage: &Group,
        users: &[(Arc<Workflow>, usize)],
    ) -> Option<ObjectKey> {
        let workflows = users.iter().map(|(workflow, _)| &**workflow);
        is_exclusive(object)
            .then(|| instance::workflow_with_turn(&self.site, (object, storage), workflows))
            .flatten()
    }

    /// Returns the nodes on which other workflows have the storage mounted, or want it mounted.
    fn others(
        &self,
        workflow: &Workflow,
        storage: &Group,
        users: &[(Arc<Workflow>, usize)],
        turn: Option<&ObjectKey>,
    ) -> BTreeSet<String> {
        let waiting = users.iter().map(|(user, _)| user);
        let waiting = waiting.filter(|user| user.uid() != workflow.uid() && is_in_prerun(user));
        let waiting = waiting.filter(|user| turn.is_none_or(|turn| *turn == object_key(&***user)));
        let computes = waiting.flat_map(|user| self.computes_of(user)).map(str::to_owned);
        let mounted = storage.mounts.values().filter(|mount| !is_for(&***mount, workflow));
        let mounted = mounted.filter(|mount| !is_unmounted(&self.site, mount));
        computes.chain(mounted.map(|mount| mount.spec.node.clone())).collect()
    }

    fn computes_of(&self, workflow: &Workflow) -> impl Iterator<Item = &str> {
        let (namespace, name) = object_key(workflow);
        self.computes.get(&namespace, &name).into_iter().flat_map(|computes| computes.names())
    }

    /// Returns, as text, a Servers or profile that belongs to no persistent storage but has the name that the objects
    /// of this storage need.
    fn name_conflict(&self, at: &ObjectKey) -> Option<String> {
        let name = instance_object_name(&at.1);
        let describe = |kind: &str, metadata: &ObjectMeta| {
            let owner = metadata.labels.as_ref().and_then(|labels| labels.get(label::OWNER_KIND));
            let is_passing = owner.is_some_and(|kind| kind == "PersistentStorageInstance");
            (!is_passing).then(|| format!("{kind} {}/{name}", at.0))
        };
        let servers =
            self.servers.get(&at.0, &name).and_then(|servers| describe("Servers", servers.meta()));
        let profile = || {
            self.profiles
                .get(&at.0, &name)
                .and_then(|profile| describe("NnfStorageProfile", profile.meta()))
        };
        servers.or_else(profile)
    }

    /// Returns the workflows that name a persistent storage in a `persistentdw`, and the index of that directive.
    fn users(&self, at: &ObjectKey) -> Vec<(Arc<Workflow>, usize)> {
        let workflows = self.naming.get(at).into_iter().flatten();
        let workflows =
            workflows.filter_map(|(namespace, name)| self.workflows.get(namespace, name));
        let uses = |workflow: &Arc<Workflow>| {
            let index = workflow.spec.directives.iter().position(|line| {
                matches!(instance::command(line), Some((Command::Persistentdw(_), name)) if name == at.1)
            });
            index.map(|index| (workflow.clone(), index))
        };
        let workflows = workflows.filter(|workflow| !has_finalizer(&***workflow, GO_FINALIZER));
        workflows.filter_map(uses).collect()
    }
}

/// Returns a copy without the mounts.
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

/// Returns true if an object carries the labels of this workflow.
fn is_for<K: Resource>(object: &K, workflow: &Workflow) -> bool {
    object.label(label::WORKFLOW_UID) == workflow.metadata.uid.as_deref()
}

/// Returns the object if it belongs to this persistent storage. The Go controllers name the owner of an adopted profile by
/// its owner reference only.
fn owned_by<K: Resource>(
    object: Option<&Arc<K>>,
    instance: &PersistentStorageInstance,
) -> Option<Arc<K>> {
    let uid = instance.metadata.uid.as_ref();
    let is_its = |found: &&Arc<K>| {
        persistent_key(&***found).is_some()
            && (found.label(label::OWNER_UID) == instance.metadata.uid.as_deref()
                || found.owner_references().iter().any(|owner| Some(&owner.uid) == uid))
    };
    object.filter(is_its).cloned()
}

/// Returns the persistent storage that an unreadable object belongs to, if any.
pub(super) fn persistent_of_metadata(metadata: &ObjectMeta) -> Option<ObjectKey> {
    let text = |key| label_of(metadata, key);
    text(label::PERSISTENT_NAMESPACE).zip(text(label::PERSISTENT_NAME))
}
