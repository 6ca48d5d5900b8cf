//! Kinds that all workflows share.

use std::sync::Arc;

use api::{
    DWDirectiveRule, KubernetesNode, LustreFileSystem, NnfNode, NnfStorageProfile, Storage,
    SystemConfiguration, SystemStatus,
    names::{NNF_NODE, PROFILE_TEMPLATE_NAMESPACE, STORAGE_NAMESPACE, SYSTEM_CONFIGURATION},
};
use controller::{Change, Store};
use kube::ResourceExt;

use super::{Kept, Key, Wake, World, keep, place, wake_workflow, workflow_of};
use crate::{names::persistent_of, profile::ruleset};

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
        keep(&mut world.site.profiles, name, template);
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
        keep(&mut world.site.storages, name.clone(), change.new.clone());
        // Byte counts are ignored: they change with each allocation.
        let relevant = |one: &Option<Arc<Storage>>| {
            one.as_ref().map(|one| {
                let status = one.status.clone().unwrap_or_default();
                (one.spec.clone(), one.labels().clone(), status.status, status.access)
            })
        };
        let mut wakes = vec![Wake::Key(Key::Rabbit(name))];
        if relevant(&change.old) != relevant(&change.new) {
            wakes.push(Wake::Waiting);
        }
        wakes
    }
}

impl Kept for LustreFileSystem {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.lustre
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        keep(world.site.lustre.get_or_insert_default(), place(&**object), change.new.clone());
        // Its controller writes the status, and nobody here reads it.
        let spec = |one: &Option<Arc<Self>>| one.as_ref().map(|one| one.spec.clone());
        if spec(&change.old) == spec(&change.new) { Vec::new() } else { vec![Wake::Waiting] }
    }

    /// From now on it is known which there are, also when there is none.
    fn listed(world: &mut World) -> Vec<Wake> {
        let is_first = world.site.lustre.is_none();
        world.site.lustre.get_or_insert_default();
        is_first.then_some(Wake::Waiting).into_iter().collect()
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
        keep(&mut world.site.nodes, rabbit.clone(), change.new.clone());
        vec![Wake::Key(Key::Rabbit(rabbit)), Wake::Failing]
    }
}

/// Keys of taints that drain a rabbit begin so, as the sites' `nnf rabbit drain` and their controllers have it.
const DRAIN_TAINT: &str = "cray.nnf.node.drain";

impl Kept for KubernetesNode {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.kubernetes_nodes
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(node) = change.object().map(|object| object.name_any()) else { return Vec::new() };
        let taint = change
            .new
            .as_ref()
            .and_then(|node| node.taint_with_prefix(DRAIN_TAINT))
            .map(str::to_owned);
        if world.site.drained.get(&node) == taint.as_ref() {
            return Vec::new();
        }
        keep(&mut world.site.drained, node.clone(), taint);
        vec![Wake::Key(Key::Rabbit(node))]
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
