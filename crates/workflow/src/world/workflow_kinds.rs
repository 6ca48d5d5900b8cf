//! Kinds whose objects belong to one workflow.

use std::sync::Arc;

use api::{
    ClientMount, Computes, DirectiveBreakdown, NnfLustreMgt, NnfNodeBlockStorage, NnfNodeStorage,
    RabbitLabels, Servers, Workflow, WorkflowState, names::label,
    nnf_node_storage::NnfStorageHealth,
};
use controller::{Change, Store};

use super::{Key, Wake, WatchedKind, World, object_key, set_or_remove, wake_workflow};
use crate::{
    names::{directive_object_name, is_ours, persistent_key, system_storage_key},
    objects::mgts::EXTERNAL_NAMESPACE,
};

impl WatchedKind for Workflow {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.workflows
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let at = object_key(&**object);
        let uid = object.metadata.uid.clone().unwrap_or_default();
        if change.new.is_some() {
            world.site.workflows.insert(uid);
        } else {
            world.site.workflows.remove(&uid);
        }
        let servers: Vec<Arc<Servers>> = (0..object.spec.directives.len())
            .filter_map(|index| {
                world.servers.get(&at.0, &directive_object_name(object, index)).cloned()
            })
            .collect();
        servers.iter().for_each(|servers| world.reserve(servers, true));
        world.changed.extend(change.old.clone().zip(change.new.clone()));
        let mut wakes = vec![Wake::Key(Key::Workflow(at))];
        wakes.extend(world.update_names(change));
        if releases(change) {
            wakes.push(Wake::Failing);
        }
        wakes
    }
}

/// Returns true if a workflow releases its reservations by this change.
fn releases(change: &Change<Workflow>) -> bool {
    let is_kept = |workflow: &Option<Arc<Workflow>>| {
        workflow
            .as_ref()
            .is_some_and(|workflow| workflow.spec.desired_state != WorkflowState::Teardown)
    };
    is_kept(&change.old) && !is_kept(&change.new)
}

impl WatchedKind for Computes {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.computes
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let at = change.object().map(|object| object_key(&**object));
        let mut wakes = at.iter().flat_map(|at| world.wake_named_by(at)).collect::<Vec<_>>();
        wakes.extend(wake_workflow(at));
        wakes
    }
}

impl WatchedKind for DirectiveBreakdown {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.breakdowns
    }
}

impl WatchedKind for Servers {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.servers
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        if let Some(object) = change.object() {
            world.reserve(object, change.new.is_some());
        }
        let is_ours = |servers: &Self| {
            servers.label(label::OWNER_KIND) == Some("Workflow")
                || persistent_key(servers).is_some()
                || system_storage_key(servers).is_some()
        };
        let mut wakes = world.take_child_if(is_ours, change, |children| &mut children.servers);
        if change.new.is_none() {
            wakes.push(Wake::Failing);
        }
        wakes
    }
}

impl WatchedKind for NnfNodeBlockStorage {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.blocks
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object().cloned() else { return Vec::new() };
        let owner = object.owner().filter(|_| is_ours(&*object));
        let owner = owner.map(|owner| (owner.namespace.to_owned(), owner.name.to_owned()));
        world.site.reservations.allocate(&object_key(&*object), owner, change.new.as_deref());
        let mut wakes = world.take_own_child(change, |children| &mut children.blocks);
        // Also wake workflows that wait for capacity: the watch of the NnfNode may have delivered the new number of
        // free bytes before this deletion.
        if change.new.is_none() {
            wakes.push(Wake::Failing);
        }
        wakes
    }
}

impl WatchedKind for NnfNodeStorage {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.file_systems
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let mut wakes = world.take_own_child(change, |children| &mut children.file_systems);
        let Some(at) = change.object().map(|object| object_key(&**object)) else { return wakes };
        let health =
            change.new.as_ref().and_then(|storage| storage.status.as_ref()?.health.clone());
        let unhealthy = health.filter(|health| *health != NnfStorageHealth::Healthy);
        if world.site.unhealthy.get(&at) != unhealthy.as_ref() {
            wakes.push(Wake::Key(Key::Rabbit(at.0.clone())));
            set_or_remove(&mut world.site.unhealthy, at, unhealthy);
        }
        wakes
    }
}

impl WatchedKind for ClientMount {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.mounts
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        world.take_own_child(change, |children| &mut children.mounts)
    }
}

impl WatchedKind for NnfLustreMgt {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.mgts
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let at = object_key(&**object);
        let storages = world.site.mgts.take(&at, change.new.as_ref());
        let servers = storages.iter().filter_map(|at| world.servers.get(&at.0, &at.1));
        let mut wakes: Vec<Wake> =
            servers.flat_map(|servers| world.wake_storage(servers)).collect();
        wakes.extend(world.take_own_child(change, |children| &mut children.mgts));
        if at.0 == EXTERNAL_NAMESPACE {
            wakes.push(Wake::Key(Key::Mgt(at)));
        }
        // Wake the workflows that lack a management target: it may exist now, or a rabbit may have lost its management
        // target and have room for another.
        if change.old.is_none() || change.new.is_none() {
            wakes.push(Wake::Failing);
        }
        wakes
    }
}
