//! `persistentdw`: a workflow becomes a consumer of the storage in Setup, has the storage mounted in PreRun and for its
//! copies, and stops being a consumer once nothing of the storage is mounted. The plan of the storage makes these changes; this
//! plan only returns their progress.

use api::{
    DirectiveBreakdownStatus, PersistentStorageInstance, Servers, WorkflowState,
    directive_breakdown::{ComputeBreakdown, ComputeConstraints},
};
use directive::{
    FileSystem, Persistentdw,
    breakdown::{self, Label},
};
use kube::ResourceExt;

use crate::{
    names::instance_object_name,
    objects::{
        allocation::allocations,
        block::{self, is_deleted},
        instance::{
            NamedStorage, as_jobdw, consumer, is_allowed, is_being_destroyed, is_exclusive,
            is_made, is_mount_of, is_ours, is_target, is_usable,
        },
        view::{Group, View},
    },
    plan::{container, copies, mounts, proposal, storage, teardown},
    progress::{Outcome, Progress, user_error},
};

/// Returns the progress of a workflow's use of persistent storage in a state.
pub(super) fn advance(
    view: &View<'_>,
    index: usize,
    used: &Persistentdw,
    state: &WorkflowState,
) -> Progress {
    let directive = &view.directives[index];
    let Some(named) = directive.persistent.as_ref() else { return Progress::default() };
    if *state == WorkflowState::Teardown {
        return end_use(view, index, named);
    }
    let name = &used.name;
    let Some(object) = named.object.as_deref() else {
        return Progress::failed(user_error(format!(
            "persistent storage {name} does not exist any more, nor does its data: tear the workflow down"
        )));
    };
    if !is_ours(object) {
        return Progress::failed(user_error(format!(
            "persistent storage {name} was made by other controllers, whose storage this engine does not mount: an administrator can adopt it (`warren persistent adopt {name}`)"
        )));
    }
    if !is_made(object) {
        return Progress::wait(format!("persistent storage {name}, which is being made"));
    }
    if is_target(object) {
        return Progress::failed(user_error(format!(
            "persistent storage {name} is a Lustre management target, which no job mounts: name a file system"
        )));
    }
    match state {
        WorkflowState::Proposal => propose(view, index, used, object),
        WorkflowState::Setup => require_consumer(view, index, object).then(|| {
            directive.storage.servers.as_ref().map_or_else(Progress::default, |servers| {
                storage::progress(&directive.storage, &allocations(servers))
            })
        }),
        WorkflowState::PreRun => {
            require_consumer(view, index, object).then(|| mount(view, index, named, object))
        }
        WorkflowState::PostRun => unmount(view, index, named),
        WorkflowState::DataIn | WorkflowState::DataOut if copies::is_copied(view, index, state) => {
            require_consumer(view, index, object)
                .then(|| mount_for_copies(view, index, named, object, state))
        }
        _ => Progress::default(),
    }
}

/// Writes the breakdown, from which the workload manager reads near which rabbits the job's computes must be.
fn propose(
    view: &View<'_>,
    index: usize,
    used: &Persistentdw,
    object: &PersistentStorageInstance,
) -> Progress {
    let directive = &view.directives[index];
    let Some(servers) = &directive.storage.servers else {
        return proposal::wait_for_servers(
            view.site,
            &(view.namespace(), instance_object_name(&object.name_any())),
        );
    };
    let compute = || compute_breakdown(object, servers);
    let breakdown = proposal::write_breakdown(view, index, || DirectiveBreakdownStatus {
        compute: Some(compute()),
        requires: used.requires.clone(),
        ..DirectiveBreakdownStatus::default()
    });
    let ready = directive
        .breakdown
        .as_ref()
        .and_then(|known| known.status.as_ref())
        .is_some_and(|status| status.ready);
    let outcome = if ready { Outcome::Done } else { Outcome::Working };
    Progress::from(outcome).with(breakdown)
}

fn compute_breakdown(object: &PersistentStorageInstance, servers: &Servers) -> ComputeBreakdown {
    let (name, namespace) = (servers.name_any(), servers.namespace().unwrap_or_default());
    let label = match object.spec.fs_type.parse() {
        Ok(FileSystem::Raw) => Label::Raw,
        Ok(FileSystem::Gfs2) => Label::Gfs2,
        // All sets of a Lustre are reached over the network.
        Ok(FileSystem::Lustre) => Label::Ost,
        Ok(FileSystem::Xfs) | Err(_) => Label::Xfs,
    };
    let sets = 0..servers.spec.allocation_sets.len();
    let location = sets.map(|place| {
        proposal::compute_location(place, breakdown::access(label, false), &name, &namespace)
    });
    ComputeBreakdown { constraints: ComputeConstraints { location: location.collect() } }
}

/// Checks that the workflow is a consumer and that the storage exists.
fn require_consumer(view: &View<'_>, index: usize, object: &PersistentStorageInstance) -> Progress {
    let (directive, name) = (&view.directives[index], object.name_any());
    if !object.spec.consumer_references.contains(&consumer(&view.workflow, index)) {
        if is_being_destroyed(object) {
            return Progress::failed(user_error(format!(
                "persistent storage {name} is being destroyed"
            )));
        }
        if !is_allowed(object, &view.workflow) {
            let (owner, asking) = (object.spec.user_id, view.workflow.spec.user_id);
            return Progress::failed(user_error(format!(
                "persistent storage {name} belongs to user {owner}, and this workflow to user {asking}"
            )));
        }
        let outcome = if is_usable(object) { Outcome::Working } else { wait_until_active(&name) };
        return outcome.into();
    }
    let Some(servers) = &directive.storage.servers else {
        return proposal::wait_for_servers(
            view.site,
            &(view.namespace(), instance_object_name(&object.name_any())),
        );
    };
    storage::deleted_storage_error(&directive.storage, &allocations(servers))
        .map_or_else(Progress::default, Progress::failed)
}

fn wait_until_active(name: &str) -> Outcome {
    Outcome::Wait(format!("persistent storage {name}, which is not Active yet"))
}

/// Waits until an exclusive file system is this workflow's to mount.
fn wait_for_turn(
    view: &View<'_>,
    named: &NamedStorage,
    object: &PersistentStorageInstance,
) -> Progress {
    let own_key = (view.namespace(), view.workflow.name_any());
    if !is_exclusive(object) || named.turn.as_ref() == Some(&own_key) {
        return Progress::default();
    }
    match &named.turn {
        Some((_, other)) => Progress::wait(format!(
            "persistent storage {}, which workflow {other} has mounted: one workflow at a time mounts an XFS",
            object.name_any()
        )),
        // `turn` is set once this workflow's status has the requested state; the engine plans again then.
        None => Outcome::Working.into(),
    }
}

fn mount_for_copies(
    view: &View<'_>,
    index: usize,
    named: &NamedStorage,
    object: &PersistentStorageInstance,
    state: &WorkflowState,
) -> Progress {
    let Some(jobdw) = as_jobdw(object) else { return Progress::default() };
    wait_for_turn(view, named, object).then(|| Progress {
        changes: Vec::new(),
        ..copies::mount_for_copies(view, index, &jobdw, state)
    })
}

fn mount(
    view: &View<'_>,
    index: usize,
    named: &NamedStorage,
    object: &PersistentStorageInstance,
) -> Progress {
    let turn = wait_for_turn(view, named, object);
    if turn != Progress::default() {
        return turn;
    }
    let Some(jobdw) = as_jobdw(object) else { return Progress::default() };
    Progress { changes: Vec::new(), ..mounts::mount_clients(view, index, &jobdw).0 }
}

/// Waits until nothing of the storage is mounted for this workflow, and none of its computes has access, except
/// computes on which other workflows need the storage.
fn unmount(view: &View<'_>, index: usize, named: &NamedStorage) -> Progress {
    let storage = container::without_mounts_in_use(view, index);
    if let Some(error) = mounts::unreadable_error(storage.unreadable.iter()) {
        return Progress::failed(error);
    }
    let unmounts = mounts::unmount_all(view.site, &storage);
    // A block storage that is being deleted loses all access, whatever its access list says.
    let blocks = || storage.blocks.values().filter(|block| !is_deleted(block));
    let has_access = |node: &str| blocks().any(|block| block::has_access(block, node));
    let nodes = storage.mounts.values().map(|mount| mount.spec.node.as_str());
    let is_rabbit = |node: &str| storage.blocks.keys().any(|(rabbit, _)| rabbit == node);
    let mut nodes = nodes.filter(|node| !is_rabbit(node) && !view.site.is_down(node));
    let access = match nodes.find(|node| !named.others.contains(*node) && has_access(node)) {
        Some(node) => Progress::wait_on("withdrawal of access of", [node]),
        None => Progress::default(),
    };
    Progress { changes: Vec::new(), ..unmounts.and(access) }
}

/// Waits until the workflow has no mount and is no consumer any more.
fn end_use(view: &View<'_>, index: usize, named: &NamedStorage) -> Progress {
    let (storage, entry) = (&view.directives[index].storage, consumer(&view.workflow, index));
    let unreadable = storage.unreadable.iter().filter(|(_, name)| is_mount_of(name, &entry));
    if let Some(error) = mounts::unreadable_error(unreadable) {
        return Progress::failed(error);
    }
    if !storage.mounts.is_empty() {
        let mounts = Group { mounts: storage.mounts.clone(), ..Group::default() };
        return teardown::removal_progress(&mounts);
    }
    let is_consumer = named
        .object
        .as_ref()
        .is_some_and(|object| is_ours(object) && object.spec.consumer_references.contains(&entry));
    let outcome = if is_consumer { Outcome::Working } else { Outcome::Done };
    outcome.into()
}
