//! `persistentdw`: a workflow becomes a consumer in Setup, has the storage mounted in PreRun, and is none any more once nothing
//! of it is mounted. The storage's own plan does it; this one says how far it is.

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
    instance::{
        Named, as_jobdw, consumer, is_allowed, is_exclusive, is_going, is_made, is_mount_of,
        is_ours, is_target, is_usable,
    },
    names::of_instance,
    plan::{allocation::allocations, container, mounts, proposal, setup, teardown},
    progress::{Outcome, Progress, user_error},
    view::{Group, View},
};

/// How far a use of persistent storage is in a state.
pub(super) fn advance(
    view: &View<'_>,
    index: usize,
    used: &Persistentdw,
    state: &WorkflowState,
) -> Progress {
    let of = &view.directives[index];
    let Some(named) = of.persistent.as_ref() else { return Progress::default() };
    if *state == WorkflowState::Teardown {
        return left(view, index, named);
    }
    let name = &used.name;
    let Some(object) = named.object.as_deref() else {
        return Progress::failed(user_error(format!(
            "persistent storage {name} is gone, and its data with it: tear the workflow down"
        )));
    };
    if !is_ours(object) {
        return Progress::failed(user_error(format!(
            "persistent storage {name} was made by other controllers, whose storage this engine does not mount"
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
        WorkflowState::Setup => joined(view, index, object).then(|| {
            of.storage.servers.as_ref().map_or_else(Progress::default, |servers| {
                setup::progress(&of.storage, &allocations(servers))
            })
        }),
        WorkflowState::PreRun => {
            joined(view, index, object).then(|| mounted(view, index, named, object))
        }
        WorkflowState::PostRun => unmounted(view, index, named),
        _ => Progress::default(),
    }
}

/// Says where the computes have to be: by the rabbits that hold it.
fn propose(
    view: &View<'_>,
    index: usize,
    used: &Persistentdw,
    object: &PersistentStorageInstance,
) -> Progress {
    let of = &view.directives[index];
    let Some(servers) = &of.storage.servers else {
        return proposal::without_servers(
            view.site,
            &(view.namespace(), of_instance(&object.name_any())),
        );
    };
    let compute = || compute(object, servers);
    let breakdown = proposal::breakdown(view, index, || DirectiveBreakdownStatus {
        compute: Some(compute()),
        requires: used.requires.clone(),
        ..DirectiveBreakdownStatus::default()
    });
    let ready =
        of.breakdown.as_ref().and_then(|one| one.status.as_ref()).is_some_and(|one| one.ready);
    let outcome = if ready { Outcome::Done } else { Outcome::Working };
    Progress { changes: Vec::new(), outcome }.with(breakdown)
}

fn compute(object: &PersistentStorageInstance, servers: &Servers) -> ComputeBreakdown {
    let (name, namespace) = (servers.name_any(), servers.namespace().unwrap_or_default());
    let label = match object.spec.fs_type.parse() {
        Ok(FileSystem::Raw) => Label::Raw,
        Ok(FileSystem::Gfs2) => Label::Gfs2,
        // Every set of a Lustre is reached over the network.
        Ok(FileSystem::Lustre) => Label::Ost,
        Ok(FileSystem::Xfs) | Err(_) => Label::Xfs,
    };
    let sets = 0..servers.spec.allocation_sets.len();
    let location = sets
        .map(|place| proposal::location(place, breakdown::access(label, false), &name, &namespace));
    ComputeBreakdown { constraints: ComputeConstraints { location: location.collect() } }
}

/// Whether the workflow is among the consumers, and the storage is there.
fn joined(view: &View<'_>, index: usize, object: &PersistentStorageInstance) -> Progress {
    let (of, name) = (&view.directives[index], object.name_any());
    if !object.spec.consumer_references.contains(&consumer(&view.workflow, index)) {
        if is_going(object) {
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
        let outcome = if is_usable(object) { Outcome::Working } else { waits(&name) };
        return Progress { changes: Vec::new(), outcome };
    }
    let Some(servers) = &of.storage.servers else {
        return proposal::without_servers(
            view.site,
            &(view.namespace(), of_instance(&object.name_any())),
        );
    };
    setup::lost(&of.storage, &allocations(servers)).map_or_else(Progress::default, Progress::failed)
}

fn waits(name: &str) -> Outcome {
    Outcome::Wait(format!("persistent storage {name}, which is not Active yet"))
}

fn mounted(
    view: &View<'_>,
    index: usize,
    named: &Named,
    object: &PersistentStorageInstance,
) -> Progress {
    let mine = (view.namespace(), view.workflow.name_any());
    if is_exclusive(object) && named.turn.as_ref() != Some(&mine) {
        return match &named.turn {
            Some((_, other)) => Progress::wait(format!(
                "persistent storage {}, which workflow {other} has mounted: one workflow at a time mounts an XFS",
                object.name_any()
            )),
            // Its turn comes with its status.
            None => Progress { changes: Vec::new(), outcome: Outcome::Working },
        };
    }
    let Some(jobdw) = as_jobdw(object) else { return Progress::default() };
    Progress { changes: Vec::new(), ..mounts::clients(view, index, &jobdw).0 }
}

/// Whether nothing is mounted, and no compute of this workflow has access that nobody else needs.
fn unmounted(view: &View<'_>, index: usize, named: &Named) -> Progress {
    let storage = container::without_held(view, index);
    if let Some(error) = mounts::unreadable(storage.unreadable.iter()) {
        return Progress::failed(error);
    }
    let unmounts = mounts::unmounts(view.site, &storage);
    // Who deletes a block storage takes all access away, and asks no list.
    let blocks = || storage.blocks.values().filter(|block| !mounts::is_going(block));
    let has_access = |node: &str| blocks().any(|block| mounts::has_access(block, node));
    let nodes = storage.mounts.values().map(|mount| mount.spec.node.as_str());
    let is_rabbit = |node: &str| storage.blocks.keys().any(|(rabbit, _)| rabbit == node);
    let mut nodes = nodes.filter(|node| !is_rabbit(node) && !view.site.is_down(node));
    let access = match nodes.find(|node| !named.others.contains(*node) && has_access(node)) {
        Some(node) => Progress::wait(format!("withdrawal of access of {node}")),
        None => Progress::default(),
    };
    Progress { changes: Vec::new(), ..unmounts.and(access) }
}

/// Whether the workflow has no mount and is no consumer any more.
fn left(view: &View<'_>, index: usize, named: &Named) -> Progress {
    let (storage, entry) = (&view.directives[index].storage, consumer(&view.workflow, index));
    let unreadable = storage.unreadable.iter().filter(|(_, name)| is_mount_of(name, &entry));
    if let Some(error) = mounts::unreadable(unreadable) {
        return Progress::failed(error);
    }
    if !storage.mounts.is_empty() {
        let mounts = Group { mounts: storage.mounts.clone(), ..Group::default() };
        return teardown::progress(&mounts);
    }
    let is_consumer = named
        .object
        .as_ref()
        .is_some_and(|object| is_ours(object) && object.spec.consumer_references.contains(&entry));
    let outcome = if is_consumer { Outcome::Working } else { Outcome::Done };
    Progress { changes: Vec::new(), outcome }
}
