//! What to plan again when persistent storage changes, or who names it.

use std::sync::Arc;

use api::{PersistentStorageInstance, Servers, Workflow};
use controller::{Change, ObjectKey};
use k8s_openapi::api::core::v1::ObjectReference;

use crate::{
    instance::{self, is_target},
    names::{OWNER_KIND, persistent_of},
    world::{Kept, Key, Wake, World, keep, place, wake_workflow, workflow_of},
};

impl World {
    /// Takes in which persistent storage a workflow names, and says that what has to look again.
    pub(in crate::world) fn name_instances(&mut self, change: &Change<Workflow>) -> Vec<Wake> {
        let mut wakes = Vec::new();
        for (object, is_there) in [(&change.old, false), (&change.new, true)] {
            let Some(object) = object else { continue };
            let workflow = place(&**object);
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
        // Most of what a workflow's status says is nothing to its storage.
        let relevant = |one: &Option<Arc<Workflow>>| {
            one.as_ref().map(|one| {
                let status = one.status.as_ref();
                let state =
                    status.map(|status| (status.state.clone(), status.desired_state_change));
                (one.spec.desired_state.clone(), state, one.metadata.deletion_timestamp.clone())
            })
        };
        if relevant(&change.old) == relevant(&change.new) { Vec::new() } else { wakes }
    }

    /// Those that see a difference between two versions: of consumers that came or went, they alone; of the last one's end and
    /// of all else, every workflow that names it.
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
        // Whoever is to destroy it waited for the last.
        let all = if new.is_empty() { self.wake_instance(at) } else { Vec::new() };
        let differ = old.iter().filter(|one| !new.contains(one));
        let differ = differ.chain(new.iter().filter(|one| !old.contains(one)));
        let wakes = differ.flat_map(|one| self.wake_consumer(one));
        wakes.chain(all).chain([Wake::Key(Key::Persistent(at.clone()))]).collect()
    }

    /// Who put an entry among the consumers: a workflow, or the Servers of a file system that has its name on a management target.
    fn wake_consumer(&self, entry: &ObjectReference) -> Vec<Wake> {
        let Some((namespace, name)) = entry.namespace.clone().zip(entry.name.clone()) else {
            return Vec::new();
        };
        if entry.kind.as_deref() == Some(OWNER_KIND) {
            let servers = self.servers.get(&namespace, &name);
            return servers.map(|one| self.wake_storage(one)).unwrap_or_default();
        }
        let workflow = name.rsplit_once('-').map(|(workflow, _)| (namespace, workflow.to_owned()));
        wake_workflow(workflow)
    }

    /// Whoever makes or removes the storage of a Servers.
    pub(in crate::world) fn wake_storage(&self, servers: &Servers) -> Vec<Wake> {
        match persistent_of(servers) {
            Some(instance) => self.wake_instance(&instance),
            None => wake_workflow(workflow_of(servers)),
        }
    }

    /// Persistent storage itself, and every workflow that names it.
    pub(in crate::world) fn wake_instance(&self, at: &ObjectKey) -> Vec<Wake> {
        let naming = self.naming.get(at).into_iter().flatten();
        let workflows = naming.map(|workflow| Wake::Key(Key::Workflow(workflow.clone())));
        workflows.chain([Wake::Key(Key::Persistent(at.clone()))]).collect()
    }

    /// The persistent storage that a workflow names: what its computes are has changed.
    pub(in crate::world) fn wake_named_by(&self, workflow: &ObjectKey) -> Vec<Wake> {
        let Some(object) = self.workflows.get(&workflow.0, &workflow.1) else { return Vec::new() };
        let named = object.spec.directives.iter().filter_map(|line| instance::command(line));
        named.map(|(_, name)| Wake::Key(Key::Persistent((workflow.0.clone(), name)))).collect()
    }
}

impl Kept for PersistentStorageInstance {
    fn store(world: &mut World) -> &mut controller::Store<Self> {
        &mut world.persistent
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let at = place(&**object);
        keep(&mut world.site.persistent, at.clone(), change.new.clone());
        let mut wakes = world.wake_by_change(&at, change);
        // Who found no management target in a pool may find one now.
        if [&change.old, &change.new].into_iter().flatten().any(|one| is_target(one)) {
            wakes.push(Wake::Failing);
        }
        wakes
    }
}
