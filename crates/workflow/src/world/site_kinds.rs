//! Kinds that all workflows share.

use std::sync::Arc;

use api::{
    DWDirectiveRule, KubernetesNode, LustreFileSystem, NnfNode, NnfStorageProfile, Storage,
    SystemConfiguration, SystemStatus,
    names::{NNF_NODE, PROFILE_TEMPLATE_NAMESPACE, STORAGE_NAMESPACE, SYSTEM_CONFIGURATION},
};
use controller::{Change, Store};
use kube::ResourceExt;

use super::{Key, Wake, WatchedKind, World, object_key, set_or_remove, take_profile};
use crate::{names::persistent_key, objects::sessions::SessionChange, profile::ruleset};

impl WatchedKind for NnfStorageProfile {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.profiles
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let pinned = change
            .object()
            .filter(|object| object.namespace().as_deref() != Some(PROFILE_TEMPLATE_NAMESPACE));
        if let Some(instance) = pinned.and_then(|object| persistent_key(&**object)) {
            return world.wake_instance(&instance);
        }
        let mut wakes = world.wake_system_storages_with_profile(change.object());
        let profiles = &mut world.site.profiles;
        wakes.extend(take_profile(change, profiles, |profile| profile.data().pinned));
        wakes
    }
}

impl WatchedKind for Storage {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.storages
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let (namespace, name) = object_key(&**object);
        if namespace != STORAGE_NAMESPACE {
            return Vec::new();
        }
        set_or_remove(&mut world.site.storages, name.clone(), change.new.clone());
        // Byte counts are ignored: they change with each allocation.
        let relevant = |storage: &Option<Arc<Storage>>| {
            storage.as_ref().map(|storage| {
                let status = storage.status.clone().unwrap_or_default();
                (storage.spec.clone(), storage.labels().clone(), status.status, status.access)
            })
        };
        let mut wakes = vec![Wake::Key(Key::Rabbit(name))];
        if relevant(&change.old) != relevant(&change.new) {
            wakes.push(Wake::Waiting);
            wakes.extend(world.wake_system_storages());
        }
        wakes
    }
}

impl WatchedKind for LustreFileSystem {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.lustre
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        set_or_remove(
            world.site.lustre.get_or_insert_default(),
            object_key(&**object),
            change.new.clone(),
        );
        // The status is written by lustre-fs-operator, and the engine does not use it.
        let spec = |object: &Option<Arc<Self>>| object.as_ref().map(|object| object.spec.clone());
        if spec(&change.old) == spec(&change.new) { Vec::new() } else { vec![Wake::Waiting] }
    }

    /// Called after the first list of LustreFileSystems: from then on their set is known, even if it is empty.
    fn on_list(world: &mut World) -> Vec<Wake> {
        let is_first = world.site.lustre.is_none();
        world.site.lustre.get_or_insert_default();
        is_first.then_some(Wake::Waiting).into_iter().collect()
    }
}

impl World {
    /// Takes in that the session of a node's agent was opened or ended.
    pub fn take_session(&mut self, change: SessionChange) -> Vec<Wake> {
        let node = change.node.clone();
        self.site.sessions.record(change);
        let rabbit = self.site.nodes.contains_key(&node).then(|| Key::Rabbit(node.clone()));
        rabbit.map(Wake::Key).into_iter().chain([Wake::Awaiting(node)]).collect()
    }
}

impl WatchedKind for NnfNode {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.nodes
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let (rabbit, name) = object_key(&**object);
        if name != NNF_NODE {
            return Vec::new();
        }
        set_or_remove(&mut world.site.nodes, rabbit.clone(), change.new.clone());
        vec![Wake::Key(Key::Rabbit(rabbit)), Wake::Failing]
    }
}

/// Prefix of taint keys that drain a rabbit; `nnf rabbit drain` and the Go controllers use it.
const DRAIN_TAINT: &str = "cray.nnf.node.drain";

impl WatchedKind for KubernetesNode {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.kubernetes_nodes
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(node) = change.object().map(|object| object.name_any()) else { return Vec::new() };
        let taint = change
            .new
            .as_ref()
            .and_then(|node| node.taint_with_prefix(DRAIN_TAINT))
            .map(str::to_owned);
        if world.site.drained.get(&node) == taint.as_ref() {
            return Vec::new();
        }
        set_or_remove(&mut world.site.drained, node.clone(), taint);
        vec![Wake::Key(Key::Rabbit(node))]
    }
}

impl WatchedKind for SystemConfiguration {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.systems
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let the_one = (STORAGE_NAMESPACE.to_owned(), SYSTEM_CONFIGURATION.to_owned());
        let system_storages = world.wake_system_storages();
        if change.object().map(|object| object_key(&**object)) != Some(the_one) {
            return system_storages;
        }
        world.site.set_system(change.new.clone());
        let rabbits = world.site.rabbits().into_iter();
        let rabbits = rabbits.map(|rabbit| Wake::Key(Key::Rabbit(rabbit.to_owned())));
        rabbits.chain([Wake::Waiting]).chain(system_storages).collect()
    }
}

impl WatchedKind for SystemStatus {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.statuses
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let the_one = (STORAGE_NAMESPACE.to_owned(), SYSTEM_CONFIGURATION.to_owned());
        if change.object().map(|object| object_key(&**object)) != Some(the_one) {
            return Vec::new();
        }
        world.site.status.clone_from(&change.new);
        let mut wakes = world.wake_system_storages();
        wakes.push(Wake::Waiting);
        wakes
    }
}

impl WatchedKind for DWDirectiveRule {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.rules
    }

    fn on_change(world: &mut World, _: &Change<Self>) -> Vec<Wake> {
        let presets = world.site.settings.limits.presets.clone();
        let rules = ruleset(world.rules.iter().map(|rule| &**rule)).with_presets(presets);
        world.site.rules = Arc::new(rules);
        vec![Wake::Waiting]
    }
}
