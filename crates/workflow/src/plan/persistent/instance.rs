//! The plan of one persistent storage: who is among its consumers, who has access, what is mounted for whom, what its status
//! says, and its end. No other plan changes these, so that no workflow takes from another what that has just been given.

use std::collections::BTreeSet;

use api::{
    NnfNodeBlockStorage, PersistentStorageInstance, PersistentStorageInstanceStatus, RabbitLabels,
    WorkflowState, names::label, nnf_node_storage::NnfStorageHealth,
    persistent_storage_instance::PersistentStorageStatusState,
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;

use crate::{
    change::Change,
    instance::{
        InstanceView, as_jobdw, consumer, is_allowed, is_entry_of, is_exclusive, is_going, is_made,
        is_mount_of, is_ours, is_target, is_usable,
    },
    names::{PERSISTENT_FINALIZER, of_instance, reference},
    plan::{
        Plan,
        allocation::allocations,
        container,
        mounts::{self, Slots},
        plan_orphan, proposal,
        setup::lost,
        teardown, without_finalizer,
    },
    progress::{Outcome, Progress, internal_error},
    view::View,
};

/// What is to be done for one persistent storage.
#[must_use]
pub fn plan_instance(view: &InstanceView<'_>) -> Plan {
    if !is_ours(&view.object) {
        return Plan::default();
    }
    let is_over = is_going(&view.object) && view.object.spec.consumer_references.is_empty();
    let mut progress = if is_over { removed(view) } else { served(view) };
    if !is_over {
        progress.changes.extend(joined(view).or_else(|| status(view)));
    }
    // Of one that is in use, nothing is removed that may be a part of it.
    if !is_made(&view.object) || is_going(&view.object) {
        let leftovers = view.leftovers.iter().map(|group| plan_orphan(view.site, group));
        progress.changes.extend(leftovers.flat_map(|plan| plan.changes));
    }
    progress.into()
}

/// Removes it from all nodes, and lets it go. One that nobody uses and that is to be destroyed is deleted first.
fn removed(view: &InstanceView<'_>) -> Progress {
    let object = &*view.object;
    if let Some(delete) = Change::delete(object) {
        return Progress::default().with([delete]);
    }
    let group = teardown::group(view.site, &view.storage);
    let left = view.leftovers.iter().map(|group| teardown::group(view.site, group));
    let progress =
        left.map(|left| Progress { changes: Vec::new(), ..left }).fold(group, Progress::and);
    if progress.outcome != Outcome::Done {
        return progress.with(status(view));
    }
    let held = teardown::release_servers(&view.storage);
    progress.with(held.or_else(|| without_finalizer(object, PERSISTENT_FINALIZER)))
}

/// The change that makes the consumers what they are to be; nothing when they are.
fn joined(view: &InstanceView<'_>) -> Option<Change> {
    let object = &*view.object;
    let mut after = object.clone();
    let references = &mut after.spec.consumer_references;
    references.retain(|entry| is_consumer(view, entry));
    for (of, index) in &view.users {
        let entry = consumer(&of.workflow, *index);
        if joins(object, of) && !references.contains(&entry) {
            references.push(entry);
        }
    }
    Change::patch(object, &after)
}

/// Whether an entry is to stay: its workflow goes on or cannot be read, or something of it may be mounted. What no workflow
/// wrote stays.
fn is_consumer(view: &InstanceView<'_>, entry: &ObjectReference) -> bool {
    if entry.kind.as_deref() != Some("Workflow") {
        return true;
    }
    let mut unreadable = view.storage.unreadable.iter();
    let goes_on = |(of, index): &(View<'_>, usize)| {
        consumer(&of.workflow, *index) == *entry && of.state() != WorkflowState::Teardown
    };
    let mut unread = view.site.unreadable.keys();
    view.users.iter().any(goes_on)
        || unread.any(|at| is_entry_of(entry, at))
        || view.storage.mounts.keys().any(|(_, name)| is_mount_of(name, entry))
        || unreadable.any(|(_, name)| is_mount_of(name, entry))
}

/// Whether a workflow is to be among the consumers.
fn joins(object: &PersistentStorageInstance, of: &View<'_>) -> bool {
    let is_begun = !matches!(
        of.state(),
        WorkflowState::Proposal | WorkflowState::Teardown | WorkflowState::Other(_)
    );
    is_begun
        && is_made(object)
        && !is_target(object)
        && is_usable(object)
        && !is_going(object)
        && is_allowed(object, &of.workflow)
}

/// Mounts it for those whose turn it is, unmounts it for the others, and gives access to exactly those that need it.
fn served(view: &InstanceView<'_>) -> Progress {
    let mut progress = Progress::default();
    let mut granted: Vec<Slots<'_>> = Vec::new();
    for (of, index) in &view.users {
        let storage = container::without_held(of, *index);
        progress = progress.and(match of.state() {
            WorkflowState::PreRun if may_mount(view, of, *index) => {
                mounted(view, of, *index, &mut granted)
            }
            WorkflowState::PostRun | WorkflowState::DataOut => {
                mounts::unmounts(view.site, &storage)
            }
            WorkflowState::Teardown => {
                teardown::mounts(view.site, storage.mounts.values().map(|one| &**one))
            }
            _ => Progress::default(),
        });
    }
    let users: BTreeSet<Option<&str>> =
        view.users.iter().map(|(of, _)| of.workflow.metadata.uid.as_deref()).collect();
    // Their workflow is gone, or does not name this storage. While it is being made, they may be a part of that.
    let strays = view.storage.mounts.values().map(|one| &**one).filter(|_| is_made(&view.object));
    let strays = strays.filter(|mount| {
        let workflow = mount.label(label::WORKFLOW_UID);
        let mut unread = view.site.unreadable.values();
        !users.contains(&workflow) && !unread.any(|one| Some(one.as_str()) == workflow)
    });
    progress.and(teardown::mounts(view.site, strays)).with(access(view, &granted))
}

/// Whether a workflow is a consumer, and nobody has mounted what only one may.
fn may_mount(view: &InstanceView<'_>, of: &View<'_>, index: usize) -> bool {
    let mine = (of.namespace(), of.workflow.name_any());
    let turn = of.directives[index].persistent.as_ref().and_then(|named| named.turn.as_ref());
    view.object.spec.consumer_references.contains(&consumer(&of.workflow, index))
        && (!is_exclusive(&view.object) || turn == Some(&mine))
}

fn mounted<'a>(
    view: &InstanceView<'_>,
    of: &'a View<'_>,
    index: usize,
    granted: &mut Vec<Slots<'a>>,
) -> Progress {
    let Some(jobdw) = as_jobdw(&view.object) else { return Progress::default() };
    let (progress, slots) = mounts::clients(of, index, &jobdw);
    let Some(slots) = slots else { return progress };
    // Whoever had an XFS before may write to it until its access is gone.
    let has_other = |block: &NnfNodeBlockStorage| {
        let rabbit = block.namespace().unwrap_or_default();
        mounts::with_access(block).any(|node| *node != rabbit && !slots.contains_key(node.as_str()))
    };
    let is_clear =
        !is_exclusive(&view.object) || !view.storage.blocks.values().any(|one| has_other(one));
    granted.push(slots);
    if is_clear { progress } else { Progress { changes: Vec::new(), ..progress } }
}

/// Gives every allocation to those that are to mount it and those that may have it mounted. While something cannot be read,
/// nobody loses it.
fn access(view: &InstanceView<'_>, granted: &[Slots<'_>]) -> Vec<Change> {
    let still = mounts::still_mounted(view.site, &view.storage);
    let is_known = view.storage.unreadable.is_empty();
    let change = |block: &NnfNodeBlockStorage| {
        mounts::access(block, |allocation| {
            let mut of: Vec<String> = Vec::new();
            let now = block.spec.allocations.get(allocation).map(|one| one.access.clone());
            let to = granted
                .iter()
                .flat_map(|slots| mounts::granted(block, allocation, &mounts::by_slot(slots)));
            let kept = mounts::kept(block, allocation, &still);
            let all = to.chain(kept).chain(now.filter(|_| !is_known).into_iter().flatten());
            all.for_each(|node| {
                if !of.contains(&node) {
                    of.push(node);
                }
            });
            of
        })
    };
    view.storage.blocks.values().filter_map(|block| change(block)).collect()
}

/// What its status says.
fn status(view: &InstanceView<'_>) -> Option<Change> {
    let object = &*view.object;
    let storage = &view.storage;
    let is_kept = is_made(object) && !is_going(object);
    let lost = || lost(storage, &allocations(storage.servers.as_ref()?)).filter(|_| is_kept);
    let missing = || {
        let at = (object.namespace().unwrap_or_default(), of_instance(&object.name_any()));
        let unknown = || internal_error("its Servers is gone: nothing can say where its data is");
        let is_missing = storage.servers.is_none() && is_kept;
        is_missing.then(|| proposal::unread_servers(view.site, &at).unwrap_or_else(unknown))
    };
    let nameless = || {
        let is_nameless = is_target(object) && is_kept && storage.mgts.is_empty();
        is_nameless.then(|| {
            internal_error("its NnfLustreMGT is gone: no file system gets a name here; destroy it and create another")
        })
    };
    let error = storage.error().or_else(lost).or_else(missing).or_else(nameless);
    let is_healthy = storage.file_systems.values().all(|one| {
        let status = one.status.as_ref();
        status.is_some_and(|status| status.health == Some(NnfStorageHealth::Healthy))
    });
    let state = if is_going(object) {
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
    let servers =
        storage.servers.as_ref().map(|one| reference("Servers", &one.name_any(), &namespace));
    after.status = Some(PersistentStorageInstanceStatus { servers, state, error });
    Change::status(object, &after)
}
