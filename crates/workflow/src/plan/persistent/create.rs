//! `create_persistent`: one transaction. Until the storage is complete, its workflow owns it, and the storage is
//! deleted together with the workflow. One patch transfers the ownership; from then on the storage stays. Setup is done
//! only after that patch.

use api::{
    DirectiveBreakdownStatus, NnfStorageProfile, PersistentStorageInstance,
    PersistentStorageInstanceSpec, RabbitLabels,
    directive_breakdown::StorageLifetime,
    names::{annotation, finalizer, label},
    persistent_storage_instance::PersistentStorageState,
};
use directive::{
    CreatePersistent, FileSystem, Jobdw,
    breakdown::{AllocationSet, of_persistent},
    profile::StorageProfile,
};
use kube::ResourceExt;

use crate::{
    change::Change,
    names::{STANDALONE_MGT, instance_object_name, owned_metadata, persistent_metadata},
    objects::{
        instance::{NamedStorage, is_being_destroyed, is_made, is_made_by, is_usable},
        view::View,
    },
    plan::{proposal, setup},
    progress::{Outcome, Progress, user_error},
};

/// Reserves the name, and creates the objects that the workload manager fills in.
pub(super) fn propose(view: &View<'_>, index: usize, create: &CreatePersistent) -> Progress {
    let storage = view.directives[index].persistent.as_ref();
    match storage.and_then(|storage| storage.object.as_ref()) {
        None => match storage.and_then(|storage| storage.name_conflict.as_ref()) {
            Some(other) => Progress::failed(user_error(format!(
                "argument name={}: the name is taken by {other}: write another name",
                create.name
            ))),
            None => Progress::default().with([Change::create(&new_instance(view, index, create))]),
        },
        Some(object) if !is_made_by(object, &view.workflow) => {
            Progress::failed(name_taken_error(object))
        }
        Some(object) if is_being_destroyed(object) => {
            Progress::wait(format!("removal of persistent storage {}", create.name))
        }
        Some(object) => create_objects(view, index, create, object),
    }
}

/// Returns the error for a name that other storage has.
fn name_taken_error(object: &PersistentStorageInstance) -> api::ResourceError {
    let (name, owner) = (object.name_any(), object.spec.user_id);
    let state = match object.label(label::WORKFLOW_NAME) {
        Some(workflow) if !is_made(object) => format!("is being made by workflow {workflow}"),
        _ => "exists".to_owned(),
    };
    user_error(format!(
        "argument name={name}: persistent storage {name} {state} and belongs to user {owner}: write another name, or destroy that one first"
    ))
}

fn new_instance(
    view: &View<'_>,
    index: usize,
    create: &CreatePersistent,
) -> PersistentStorageInstance {
    let mut object = PersistentStorageInstance::new(
        &create.name,
        PersistentStorageInstanceSpec {
            name: create.name.clone(),
            fs_type: create.file_system.as_str().to_owned(),
            dw_directive: view.workflow.spec.directives[index].clone(),
            user_id: view.workflow.spec.user_id,
            state: PersistentStorageState::Active,
            consumer_references: Vec::new(),
        },
    );
    object.metadata = owned_metadata(&view.workflow, &create.name);
    let group = (annotation::GROUP_ID.to_owned(), view.workflow.spec.group_id.to_string());
    object.annotations_mut().extend([group]);
    object.metadata.finalizers = Some(vec![finalizer::PERSISTENT_STORAGE.to_owned()]);
    object
}

/// Creates the pinned profile, the Servers, and the directive's breakdown.
fn create_objects(
    view: &View<'_>,
    index: usize,
    create: &CreatePersistent,
    object: &PersistentStorageInstance,
) -> Progress {
    let metadata = || persistent_metadata(object, &view.workflow);
    let sets = |profile: &StorageProfile| of_persistent(create, profile);
    let lifetime = StorageLifetime::Persistent;
    // A Servers that an earlier version of the engine made has the name of the storage.
    let servers = view.directives[index].storage.servers.as_ref().map(|servers| servers.name_any());
    let servers = servers.unwrap_or_else(|| instance_object_name(&create.name));
    let status = |sets: &[AllocationSet]| DirectiveBreakdownStatus {
        storage: Some(proposal::storage_breakdown(lifetime, &servers, &view.namespace(), sets)),
        ..DirectiveBreakdownStatus::default()
    };
    proposal::create_missing(view, index, &as_jobdw(create), &metadata, sets, status)
}

/// Creates the storage, and transfers its ownership when it is complete.
pub(super) fn make(view: &View<'_>, index: usize, create: &CreatePersistent) -> Progress {
    if let Some(object) = own_instance(view, index).filter(|object| is_made(object)) {
        // The plan of the storage sets its status.
        let outcome = if is_usable(object) { Outcome::Done } else { Outcome::Working };
        return outcome.into();
    }
    let finished = propose(view, index, create)
        .then(|| setup::set_up_proposed_storage(view, index, &as_jobdw(create)));
    let profile = view.directives[index].storage.profile.as_deref();
    let transfer = || transfer_ownership(own_instance(view, index)?, profile?);
    finished.then(|| Progress::default().with(transfer()))
}

/// Returns the patch that transfers ownership: the patch removes the Workflow owner reference, and gives a management
/// target its pool label. The label with the workflow's uid stays: it names the workflow that made the storage.
fn transfer_ownership(
    object: &PersistentStorageInstance,
    profile: &NnfStorageProfile,
) -> Option<Change> {
    let mut after = object.clone();
    let mut owners = after.metadata.owner_references.take().unwrap_or_default();
    owners.retain(|owner| owner.kind != "Workflow");
    after.metadata.owner_references = Some(owners).filter(|owners| !owners.is_empty());
    let owner = [label::OWNER_KIND, label::OWNER_NAME, label::OWNER_NAMESPACE, label::OWNER_UID];
    let workflow = [label::WORKFLOW_NAME, label::WORKFLOW_NAMESPACE];
    let labels = after.labels_mut();
    owner.into_iter().chain(workflow).for_each(|key| drop(labels.remove(key)));
    let pool = &profile.data().lustre_storage.mgt_options.standalone_mgt_pool_name;
    if after.spec.fs_type == FileSystem::Lustre.as_str() && !pool.is_empty() {
        after.labels_mut().insert(STANDALONE_MGT.to_owned(), pool.clone());
    }
    Change::patch(object, &after)
}

/// Removes storage that is not complete; complete storage stays.
pub(super) fn roll_back(view: &View<'_>, index: usize) -> Progress {
    let Some(object) = own_instance(view, index).filter(|object| !is_made(object)) else {
        return Progress::default();
    };
    let storage = &view.directives[index].storage;
    let waits = match storage.error() {
        Some(error) => Progress::failed(error),
        None => Progress::wait(format!("removal of persistent storage {}", object.name_any())),
    };
    waits.with(Change::delete(object))
}

/// Returns the instance if this workflow makes it or made it.
fn own_instance<'a>(view: &'a View<'_>, index: usize) -> Option<&'a PersistentStorageInstance> {
    let NamedStorage { object, .. } = view.directives[index].persistent.as_ref()?;
    object.as_deref().filter(|object| is_made_by(object, &view.workflow))
}

/// Presents the directive as a `jobdw`, so that the planner of Setup can use it.
fn as_jobdw(create: &CreatePersistent) -> Jobdw {
    Jobdw {
        file_system: create.file_system,
        capacity: create.capacity.unwrap_or_default(),
        name: create.name.clone(),
        profile: create.profile.clone(),
        requires: Vec::new(),
    }
}
