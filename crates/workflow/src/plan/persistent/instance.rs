//! The plan of one persistent storage: its consumers, its access and mounts, its status, and its removal. No other plan
//! changes these, so two workflows cannot undo each other's changes.

use std::collections::BTreeSet;

use api::{
    NnfNodeBlockStorage, PersistentStorageInstance, PersistentStorageInstanceStatus, RabbitLabels,
    WorkflowState,
    names::{finalizer, label},
    nnf_node_storage::NnfStorageHealth,
    persistent_storage_instance::PersistentStorageStatusState,
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;

use crate::{
    change::Change,
    names::{instance_object_name, reference},
    objects::{
        allocation::allocations,
        block::nodes_with_access,
        instance::{
            InstanceView, as_jobdw, consumer, is_allowed, is_being_destroyed, is_entry_of,
            is_exclusive, is_made, is_mount_of, is_ours, is_target, is_usable,
        },
        view::View,
    },
    plan::{
        Plan, container, copies,
        mounts::{self, Slots},
        plan_orphan, proposal,
        storage::deleted_storage_error,
        teardown, without_finalizer,
    },
    progress::{Outcome, Progress, internal_error},
};

/// Plans the changes for one persistent storage.
#[must_use]
pub fn plan_instance(view: &InstanceView<'_>) -> Plan {
    if !is_ours(&view.object) {
        return Plan::default();
    }
    let is_over =
        is_being_destroyed(&view.object) && view.object.spec.consumer_references.is_empty();
    let mut progress = if is_over { remove(view) } else { serve_users(view) };
    if !is_over {
        progress.changes.extend(update_consumers(view).or_else(|| update_status(view)));
    }
    // While the storage is in use, objects of earlier storage of the same name stay: they may be a part of it.
    if !is_made(&view.object) || is_being_destroyed(&view.object) {
        let leftovers = view.leftovers.iter().map(|group| plan_orphan(view.site, group));
        progress.changes.extend(leftovers.flat_map(|plan| plan.changes));
    }
    progress.into()
}

/// Removes the storage from all nodes, then removes the storage's finalizer. Deletes the storage first if it
/// is not deleted yet.
fn remove(view: &InstanceView<'_>) -> Progress {
    let object = &*view.object;
    if let Some(delete) = Change::delete(object) {
        return Progress::default().with([delete]);
    }
    let group = teardown::remove_group(view.site, &view.storage);
    let leftovers = view.leftovers.iter().map(|group| teardown::remove_group(view.site, group));
    let leftovers = leftovers.map(|progress| Progress { changes: Vec::new(), ..progress });
    let progress = leftovers.fold(group, Progress::and);
    if progress.outcome != Outcome::Done {
        return progress.with(update_status(view));
    }
    let held = teardown::release_servers(&view.storage);
    progress.with(held.or_else(|| without_finalizer(object, finalizer::PERSISTENT_STORAGE)))
}

/// Plans the change of the consumers; `None` when no change is needed.
fn update_consumers(view: &InstanceView<'_>) -> Option<Change> {
    let object = &*view.object;
    let mut after = object.clone();
    let references = &mut after.spec.consumer_references;
    references.retain(|entry| is_consumer(view, entry));
    for (user, index) in &view.users {
        let entry = consumer(&user.workflow, *index);
        if may_join(object, user) && !references.contains(&entry) {
            references.push(entry);
        }
    }
    Change::patch(object, &after)
}

/// Returns true if an entry of the consumers stays: its workflow continues or cannot be read, or may have something
/// mounted. Entries that do not name a workflow stay.
fn is_consumer(view: &InstanceView<'_>, entry: &ObjectReference) -> bool {
    if entry.kind.as_deref() != Some("Workflow") {
        return true;
    }
    let mut unreadable = view.storage.unreadable.iter();
    let continues = |(user, index): &(View<'_>, usize)| {
        consumer(&user.workflow, *index) == *entry && user.state() != WorkflowState::Teardown
    };
    let mut unread = view.site.unreadable.keys();
    view.users.iter().any(continues)
        || unread.any(|at| is_entry_of(entry, at))
        || view.storage.mounts.keys().any(|(_, name)| is_mount_of(name, entry))
        || unreadable.any(|(_, name)| is_mount_of(name, entry))
}

/// Returns true if a workflow has to become a consumer.
fn may_join(object: &PersistentStorageInstance, user: &View<'_>) -> bool {
    let is_begun = !matches!(
        user.state(),
        WorkflowState::Proposal | WorkflowState::Teardown | WorkflowState::Other(_)
    );
    is_begun
        && is_made(object)
        && !is_target(object)
        && is_usable(object)
        && !is_being_destroyed(object)
        && is_allowed(object, &user.workflow)
}

/// Mounts the storage for the workflows that may mount it, unmounts it for all other workflows, and gives access to
/// exactly the nodes that need it.
fn serve_users(view: &InstanceView<'_>) -> Progress {
    let mut progress = Progress::default();
    let mut granted: Vec<Slots<'_>> = Vec::new();
    for (user, index) in &view.users {
        let storage = container::without_mounts_in_use(user, *index);
        progress = progress.and(match user.state() {
            WorkflowState::PreRun if may_mount(view, user, *index) => {
                mount(view, user, *index, &mut granted)
            }
            state @ (WorkflowState::DataIn | WorkflowState::DataOut)
                if copies::is_copied(user, *index, &state) =>
            {
                mount_for_copies(view, user, *index, &state)
            }
            // A copy may run although its sides cannot be resolved now, for example while a list fails.
            WorkflowState::DataIn | WorkflowState::DataOut
                if copies::has_unfinished_movement(user) =>
            {
                Progress::default()
            }
            // After the copies of DataIn another workflow may mount the storage, until this workflow is in PreRun. If a
            // workflow held an XFS from one state to the next, two workflows could wait for each other.
            WorkflowState::DataIn | WorkflowState::PostRun | WorkflowState::DataOut => {
                mounts::unmount_all(view.site, &storage)
            }
            WorkflowState::Teardown if copies::has_movement(user) => Progress::default(),
            WorkflowState::Teardown => {
                teardown::remove_mounts(view.site, storage.mounts.values().map(|mount| &**mount))
            }
            _ => Progress::default(),
        });
    }
    let users: BTreeSet<Option<&str>> =
        view.users.iter().map(|(user, _)| user.workflow.metadata.uid.as_deref()).collect();
    // Mounts whose workflow is gone, or does not name this storage. Such mounts stay while the storage is being made:
    // a new Lustre is mounted once to change its owner.
    let strays =
        view.storage.mounts.values().map(|mount| &**mount).filter(|_| is_made(&view.object));
    let strays = strays.filter(|mount| {
        let workflow = mount.label(label::WORKFLOW_UID);
        let mut unread = view.site.unreadable.values();
        !users.contains(&workflow) && !unread.any(|uid| Some(uid.as_str()) == workflow)
    });
    progress.and(teardown::remove_mounts(view.site, strays)).with(update_access(view, &granted))
}

/// Returns true if a workflow is a consumer and, for an exclusive file system, may mount it now.
fn may_mount(view: &InstanceView<'_>, user: &View<'_>, index: usize) -> bool {
    let own_key = (user.namespace(), user.workflow.name_any());
    let turn = user.directives[index].persistent.as_ref().and_then(|named| named.turn.as_ref());
    view.object.spec.consumer_references.contains(&consumer(&user.workflow, index))
        && (!is_exclusive(&view.object) || turn == Some(&own_key))
}

/// Mounts the storage on its rabbits for the copies of a workflow.
fn mount_for_copies(
    view: &InstanceView<'_>,
    user: &View<'_>,
    index: usize,
    state: &WorkflowState,
) -> Progress {
    match as_jobdw(&view.object) {
        Some(jobdw) if may_mount(view, user, index) => {
            copies::mount_for_copies(user, index, &jobdw, state)
        }
        _ => Progress::default(),
    }
}

fn mount<'a>(
    view: &InstanceView<'_>,
    user: &'a View<'_>,
    index: usize,
    granted: &mut Vec<Slots<'a>>,
) -> Progress {
    let Some(jobdw) = as_jobdw(&view.object) else { return Progress::default() };
    let (progress, slots) = mounts::mount_clients(user, index, &jobdw);
    let Some(slots) = slots else { return progress };
    // A node that had an XFS mounted before may still write to the XFS until the node has lost its access.
    let has_other = |block: &NnfNodeBlockStorage| {
        let rabbit = block.namespace().unwrap_or_default();
        nodes_with_access(block).any(|node| *node != rabbit && !slots.contains_key(node.as_str()))
    };
    let is_clear =
        !is_exclusive(&view.object) || !view.storage.blocks.values().any(|block| has_other(block));
    granted.push(slots);
    if is_clear { progress } else { Progress { changes: Vec::new(), ..progress } }
}

/// Gives access to every allocation: to the nodes that are to mount the allocation, and to the nodes that may have it
/// mounted. While an object cannot be read, no node loses access.
fn update_access(view: &InstanceView<'_>, granted: &[Slots<'_>]) -> Vec<Change> {
    let mounted = mounts::still_mounted(view.site, &view.storage);
    let is_known = view.storage.unreadable.is_empty();
    let change = |block: &NnfNodeBlockStorage| {
        mounts::set_access(block, |allocation| {
            let mut nodes: Vec<String> = Vec::new();
            let now = block
                .spec
                .allocations
                .get(allocation)
                .map(|allocation_spec| allocation_spec.access.clone());
            let to = granted.iter().flat_map(|slots| {
                mounts::computes_granted(block, allocation, &mounts::by_slot(slots))
            });
            let mounted_on = mounts::keep_access(block, allocation, &mounted);
            let all = to.chain(mounted_on).chain(now.filter(|_| !is_known).into_iter().flatten());
            all.for_each(|node| {
                if !nodes.contains(&node) {
                    nodes.push(node);
                }
            });
            nodes
        })
    };
    view.storage.blocks.values().filter_map(|block| change(block)).collect()
}

/// Plans the change of the status; `None` when no change is needed.
fn update_status(view: &InstanceView<'_>) -> Option<Change> {
    let object = &*view.object;
    let storage = &view.storage;
    let is_kept = is_made(object) && !is_being_destroyed(object);
    let lost = || {
        deleted_storage_error(storage, &allocations(storage.servers.as_ref()?)).filter(|_| is_kept)
    };
    let missing = || {
        let at = (object.namespace().unwrap_or_default(), instance_object_name(&object.name_any()));
        let unknown =
            || internal_error("its Servers was deleted, so the location of its data is unknown");
        let is_missing = storage.servers.is_none() && is_kept;
        is_missing
            .then(|| proposal::unreadable_servers_error(view.site, &at).unwrap_or_else(unknown))
    };
    let nameless = || {
        let is_nameless = is_target(object) && is_kept && storage.mgts.is_empty();
        is_nameless.then(|| {
            internal_error("its NnfLustreMGT was deleted, so it can give out no file system name: destroy it and create another")
        })
    };
    let error = storage.error().or_else(lost).or_else(missing).or_else(nameless);
    let is_healthy = storage.file_systems.values().all(|storage| {
        let status = storage.status.as_ref();
        status.is_some_and(|status| status.health == Some(NnfStorageHealth::Healthy))
    });
    let state = if is_being_destroyed(object) {
        PersistentStorageStatusState::Destroying
    } else if !is_made(object) {
        PersistentStorageStatusState::Creating
    } else if is_healthy && error.is_none() {
        PersistentStorageStatusState::Active
    } else {
        PersistentStorageStatusState::Degraded
    };
    let mut after = object.clone();
    let namespace = object.namespace().unwrap_or_default();
    let servers = storage
        .servers
        .as_ref()
        .map(|servers| reference("Servers", &servers.name_any(), &namespace));
    after.status = Some(PersistentStorageInstanceStatus { servers, state, error });
    Change::status(object, &after)
}
