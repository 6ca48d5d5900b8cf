//! Kinds whose objects belong to one workflow.

use std::sync::Arc;

use api::{
    ClientMount, Computes, DirectiveBreakdown, NnfLustreMgt, NnfNodeBlockStorage, NnfNodeStorage,
    RabbitLabels, Servers, Workflow, WorkflowState, names::label,
};
use controller::{Change, Store};

use super::{Kept, Key, Wake, World, place, wake_workflow};
use crate::{
    mgts::EXTERNAL_NAMESPACE,
    names::{is_ours, of_directive, persistent_of},
};

impl Kept for Workflow {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.workflows
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let at = place(&**object);
        let uid = object.metadata.uid.clone().unwrap_or_default();
        if change.new.is_some() {
            world.site.workflows.insert(uid);
        } else {
            world.site.workflows.remove(&uid);
        }
        let servers: Vec<Arc<Servers>> = (0..object.spec.directives.len())
            .filter_map(|index| world.servers.get(&at.0, &of_directive(object, index)).cloned())
            .collect();
        servers.iter().for_each(|servers| world.promise(servers, true));
        world.changed.extend(change.old.clone().zip(change.new.clone()));
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
        let owner = object.owner().filter(|_| is_ours(&*object));
        let owner = owner.map(|owner| (owner.namespace.to_owned(), owner.name.to_owned()));
        world.site.ledger.allocate(&place(&*object), owner, change.new.as_deref());
        let mut wakes = world.own_child(change, |children| &mut children.blocks);
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
        world.own_child(change, |children| &mut children.file_systems)
    }
}

impl Kept for ClientMount {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.mounts
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        world.own_child(change, |children| &mut children.mounts)
    }
}

impl Kept for NnfLustreMgt {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.mgts
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let at = place(&**object);
        let claimed = world.site.mgts.take(&at, change.new.as_ref());
        let servers = claimed.iter().filter_map(|of| world.servers.get(&of.0, &of.1));
        let mut wakes: Vec<Wake> =
            servers.flat_map(|servers| world.wake_storage(servers)).collect();
        wakes.extend(world.own_child(change, |children| &mut children.mgts));
        if at.0 == EXTERNAL_NAMESPACE {
            wakes.push(Wake::Key(Key::Mgt(at)));
        }
        // One that was missing may be there, and a rabbit may be free of the one that it had.
        if change.old.is_none() || change.new.is_none() {
            wakes.push(Wake::Failing);
        }
        wakes
    }
}
