//! Wakes the keys that depend on persistent storage, and persistent storage that depends on workflows.

use std::sync::Arc;

use api::{PersistentStorageInstance, Servers, Workflow};
use controller::{Change, ObjectKey};
use k8s_openapi::api::core::v1::ObjectReference;

use crate::{
    names::{GO_OWNER_KIND, OWNER_KIND, persistent_key},
    objects::instance::{self, is_target},
    world::{Key, Wake, WatchedKind, World, object_key, set_or_remove, wake_workflow, workflow_of},
};

impl World {
    /// Records which persistent storage a workflow names, and wakes the storage.
    pub(in crate::world) fn update_names(&mut self, change: &Change<Workflow>) -> Vec<Wake> {
        let mut wakes = Vec::new();
        for (object, is_there) in [(&change.old, false), (&change.new, true)] {
            let Some(object) = object else { continue };
            let workflow = object_key(&**object);
            for line in &object.spec.directives {
                let Some((_, name)) = instance::command(line) else { continue };
                let at = (workflow.0.clone(), name);
                let naming = self.naming.entry(at.clone()).or_default();
                if is_there {
                    naming.insert(workflow.clone());
                } else {
                    naming.remove(&workflow);
                }
                if naming.is_empty() {
                    self.naming.remove(&at);
                }
                wakes.push(Wake::Key(Key::Persistent(at)));
            }
        }
        // Only the state in a workflow's status matters to the storage.
        let relevant = |workflow: &Option<Arc<Workflow>>| {
            workflow.as_ref().map(|workflow| {
                let status = workflow.status.as_ref();
                let state =
                    status.map(|status| (status.state.clone(), status.desired_state_change));
                (
                    workflow.spec.desired_state.clone(),
                    state,
                    workflow.metadata.deletion_timestamp.clone(),
                )
            })
        };
        if relevant(&change.old) == relevant(&change.new) { Vec::new() } else { wakes }
    }

    /// Wakes the workflows that a change of the storage concerns. If only the consumers changed, wakes the
    /// consumers that came or went. If the last consumer left, or another field changed, wakes all workflows that
    /// name the storage.
    fn wake_by_change(
        &self,
        at: &ObjectKey,
        change: &Change<PersistentStorageInstance>,
    ) -> Vec<Wake> {
        let (Some(old), Some(new)) = (&change.old, &change.new) else {
            return self.wake_instance(at);
        };
        let rest = |object: &PersistentStorageInstance| {
            let mut rest = object.clone();
            rest.spec.consumer_references.clear();
            (
                rest.metadata.resource_version,
                rest.metadata.managed_fields,
                rest.metadata.generation,
            ) = (None, None, None);
            rest
        };
        if rest(old) != rest(new) {
            return self.wake_instance(at);
        }
        let (old, new) = (&old.spec.consumer_references, &new.spec.consumer_references);
        // A `destroy_persistent` waits for the last consumer to leave.
        let all = if new.is_empty() { self.wake_instance(at) } else { Vec::new() };
        let differ = old.iter().filter(|entry| !new.contains(entry));
        let differ = differ.chain(new.iter().filter(|entry| !old.contains(entry)));
        let wakes = differ.flat_map(|entry| self.wake_consumer(entry));
        wakes.chain(all).chain([Wake::Key(Key::Persistent(at.clone()))]).collect()
    }

    /// Wakes the owner of a consumer entry: a workflow, or the Servers of a Lustre that has its name from
    /// a persistent management target.
    fn wake_consumer(&self, entry: &ObjectReference) -> Vec<Wake> {
        let Some((namespace, name)) = entry.namespace.clone().zip(entry.name.clone()) else {
            return Vec::new();
        };
        if matches!(entry.kind.as_deref(), Some(OWNER_KIND | GO_OWNER_KIND)) {
            let servers = self.servers.get(&namespace, &name);
            return servers.map(|servers| self.wake_storage(servers)).unwrap_or_default();
        }
        let workflow = name.rsplit_once('-').map(|(workflow, _)| (namespace, workflow.to_owned()));
        wake_workflow(workflow)
    }

    /// Wakes the key that plans the storage of a Servers.
    pub(in crate::world) fn wake_storage(&self, servers: &Servers) -> Vec<Wake> {
        match persistent_key(servers) {
            Some(instance) => self.wake_instance(&instance),
            None => wake_workflow(workflow_of(servers)),
        }
    }

    /// Wakes persistent storage and every workflow that names it.
    pub(in crate::world) fn wake_instance(&self, at: &ObjectKey) -> Vec<Wake> {
        let naming = self.naming.get(at).into_iter().flatten();
        let workflows = naming.map(|workflow| Wake::Key(Key::Workflow(workflow.clone())));
        workflows.chain([Wake::Key(Key::Persistent(at.clone()))]).collect()
    }

    /// Wakes the persistent storage that a workflow names, after the workflow's computes or containers changed.
    pub(in crate::world) fn wake_named_by(&self, workflow: &ObjectKey) -> Vec<Wake> {
        let Some(object) = self.workflows.get(&workflow.0, &workflow.1) else { return Vec::new() };
        let commands = object.spec.directives.iter().filter_map(|line| instance::command(line));
        commands.map(|(_, name)| Wake::Key(Key::Persistent((workflow.0.clone(), name)))).collect()
    }
}

impl WatchedKind for PersistentStorageInstance {
    fn store(world: &mut World) -> &mut controller::Store<Self> {
        &mut world.persistent
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let at = object_key(&**object);
        set_or_remove(&mut world.site.persistent, at.clone(), change.new.clone());
        let mut wakes = world.wake_by_change(&at, change);
        // A Lustre that found no usable management target in a pool may find one now, and a user whom the site allows no
        // more persistent storage has one less.
        let both = [&change.old, &change.new];
        if change.new.is_none() || both.into_iter().flatten().any(|object| is_target(object)) {
            wakes.push(Wake::Failing);
        }
        wakes
    }
}
