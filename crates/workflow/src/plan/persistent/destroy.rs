//! `destroy_persistent`: the owner destroys persistent storage that no workflow uses. One patch of the storage's
//! object decides this: after the patch no workflow becomes a consumer.

use api::{
    PersistentStorageInstance, ResourceError, persistent_storage_instance::PersistentStorageState,
};
use kube::ResourceExt;

use crate::{
    change::Change,
    objects::{
        instance::{consumers, is_being_destroyed, is_made, is_ours},
        view::View,
    },
    progress::{Progress, some_of, user_error},
    report::is_completed,
};

/// Fails unless the workflow's user owns the storage and Warren made it.
pub(super) fn propose(view: &View<'_>, index: usize) -> Progress {
    let Some(object) = named_instance(view, index) else { return Progress::default() };
    refusal(view, object).map_or_else(Progress::default, Progress::failed)
}

/// Sets the state Destroying, and waits for the removal. A workflow that is deleted, or failed
/// in Proposal, destroys nothing.
pub(super) fn destroy(view: &View<'_>, index: usize) -> Progress {
    let Some(object) = named_instance(view, index) else { return Progress::default() };
    if view.is_deleted() || !is_completed(view, index, "Proposal") {
        return Progress::default();
    }
    if let Some(error) = refusal(view, object) {
        return Progress::failed(error);
    }
    let name = object.name_any();
    if !is_made(object) {
        return Progress::wait(format!("persistent storage {name}, which is being made"));
    }
    if is_being_destroyed(object) {
        let error = view.directives[index].storage.error();
        let waits = || Progress::wait(format!("removal of persistent storage {name}"));
        return error.map_or_else(waits, Progress::failed);
    }
    let consumers = consumers(object);
    if !consumers.is_empty() {
        return Progress::failed(user_error(format!(
            "persistent storage {name} is used by {}: end them first, or delete this workflow to keep it",
            some_of(consumers.iter().map(String::as_str))
        )));
    }
    let mut after = object.clone();
    after.spec.state = PersistentStorageState::Destroying;
    Progress::default().with(Change::patch(object, &after))
}

fn named_instance<'a>(view: &'a View<'_>, index: usize) -> Option<&'a PersistentStorageInstance> {
    view.directives[index].persistent.as_ref()?.object.as_deref()
}

fn refusal(view: &View<'_>, object: &PersistentStorageInstance) -> Option<ResourceError> {
    let (name, owner) = (object.name_any(), object.spec.user_id);
    let asking = view.workflow.spec.user_id;
    if owner != asking {
        return Some(user_error(format!(
            "persistent storage {name} belongs to user {owner}, and this workflow to user {asking}: its owner may destroy it"
        )));
    }
    (!is_ours(object)).then(|| {
        user_error(format!(
            "persistent storage {name} was made by other controllers: destroy it with them, or let an administrator adopt it first (`warren persistent adopt {name}`)"
        ))
    })
}
