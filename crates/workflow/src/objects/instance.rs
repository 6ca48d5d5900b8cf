//! Persistent storage and all objects that belong to it, as the planner sees them.

use std::{collections::BTreeSet, sync::Arc};

use api::{
    ClientMount, PersistentStorageInstance, RabbitLabels, Workflow, WorkflowState,
    names::label,
    persistent_storage_instance::{PersistentStorageState, PersistentStorageStatusState},
};
use controller::ObjectKey;
use directive::{Command, FileSystem, Jobdw};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;

use crate::{
    names::{STANDALONE_MGT, directive_object_name, reference},
    objects::{
        copy::names_persistent,
        mount::is_unmounted,
        site::Site,
        view::{Group, View},
    },
};

/// One persistent storage, with the mounts of all workflows that use it.
#[derive(Debug)]
pub struct InstanceView<'a> {
    /// System, rabbits, profiles and rules, which all workflows share.
    pub site: &'a Site,
    pub object: Arc<PersistentStorageInstance>,
    /// Objects of the storage on nodes.
    pub storage: Group,
    /// Objects that earlier persistent storage of the same name left behind on nodes.
    pub leftovers: Vec<Group>,
    /// Workflows that name the storage in a `persistentdw`, each with the index of that directive.
    pub users: Vec<(View<'a>, usize)>,
}

/// The persistent storage that a directive names.
#[derive(Debug, Default)]
pub struct NamedStorage {
    /// The instance; `None` when the storage does not exist.
    pub object: Option<Arc<PersistentStorageInstance>>,
    /// A Servers or profile, as text, that belongs to no persistent storage but has the name that an object of this
    /// storage needs.
    pub name_conflict: Option<String>,
    /// For a file system that only one workflow mounts at a time: the workflow that may mount it.
    pub turn: Option<ObjectKey>,
    /// Nodes on which other workflows have the storage mounted, or want to mount it.
    pub others: BTreeSet<String>,
}

/// Parses a directive about persistent storage; returns its command and the name of the storage.
pub fn command(line: &str) -> Option<(Command, String)> {
    let command = Command::read(line)?;
    let name = match &command {
        Command::CreatePersistent(create) => create.name.clone(),
        Command::DestroyPersistent(destroy) => destroy.name.clone(),
        Command::Persistentdw(used) => used.name.clone(),
        Command::Jobdw(_) | Command::CopyIn(_) | Command::CopyOut(_) | Command::Container(_) => {
            return None;
        }
    };
    Some((command, name))
}

/// Returns true if this engine made the storage. The engine knows neither objects nor consumers
/// of other controllers' storage.
#[must_use]
pub fn is_ours(object: &PersistentStorageInstance) -> bool {
    object.label(label::WORKFLOW_UID).is_some()
}

/// Returns true if the storage is complete and stays when its workflow is deleted. Incomplete storage
/// belongs to its workflow.
#[must_use]
pub fn is_made(object: &PersistentStorageInstance) -> bool {
    object.owner_references().iter().all(|owner| owner.kind != "Workflow")
}

/// Returns true if this workflow makes or made the storage.
#[must_use]
pub fn is_made_by(object: &PersistentStorageInstance, workflow: &Workflow) -> bool {
    object.label(label::WORKFLOW_UID) == workflow.metadata.uid.as_deref()
}

/// Returns true if the storage is being deleted, or is to be destroyed.
#[must_use]
pub fn is_being_destroyed(object: &PersistentStorageInstance) -> bool {
    object.metadata.deletion_timestamp.is_some()
        || object.spec.state == PersistentStorageState::Destroying
}

/// Returns true if the status of the storage says that workflows may use it.
#[must_use]
pub fn is_usable(object: &PersistentStorageInstance) -> bool {
    let state = object.status.as_ref().map(|status| &status.state);
    matches!(
        state,
        Some(PersistentStorageStatusState::Active | PersistentStorageStatusState::Degraded)
    )
}

/// Returns true if a workflow's user may use the storage. If the user may not use it, Proposal reports the error.
#[must_use]
pub fn is_allowed(object: &PersistentStorageInstance, workflow: &Workflow) -> bool {
    is_public(object) || object.spec.user_id == workflow.spec.user_id
}

/// Annotation of persistent storage that every user may use.
const IGNORE_UID: &str = "dataworkflowservices.github.io/ignore-uid";

/// Returns true if every user may use the storage.
#[must_use]
pub fn is_public(object: &PersistentStorageInstance) -> bool {
    let ignored = object.annotations().get(IGNORE_UID);
    ignored.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Presents the persistent storage as a `jobdw` directive, so that the mount planner can use it.
pub fn as_jobdw(object: &PersistentStorageInstance) -> Option<Jobdw> {
    Some(Jobdw {
        file_system: object.spec.fs_type.parse().ok()?,
        capacity: 0,
        name: object.name_any(),
        profile: None,
        requires: Vec::new(),
    })
}

/// Returns true if the storage is a Lustre management target in a pool: it gives names to file systems, and is
/// no file system itself.
#[must_use]
pub fn is_target(object: &PersistentStorageInstance) -> bool {
    object.labels().contains_key(STANDALONE_MGT)
}

/// Returns true if only one workflow may mount the storage at a time: two nodes must not mount one XFS.
#[must_use]
pub fn is_exclusive(object: &PersistentStorageInstance) -> bool {
    object.spec.fs_type == FileSystem::Xfs.as_str()
}

/// Returns the entry of a workflow's directive in `spec.consumerReferences`.
pub fn consumer(workflow: &Workflow, index: usize) -> ObjectReference {
    let namespace = workflow.namespace().unwrap_or_default();
    reference("Workflow", &directive_object_name(workflow, index), &namespace)
}

/// Returns true if an entry of `spec.consumerReferences` names this workflow, with any of its directives.
pub fn is_entry_of(entry: &ObjectReference, (namespace, name): &ObjectKey) -> bool {
    let name_and_index =
        entry.name.as_ref().and_then(|name_and_index| name_and_index.rsplit_once('-'));
    entry.namespace.as_ref() == Some(namespace)
        && name_and_index.is_some_and(|(entry_name, _)| entry_name == name)
}

/// Returns true if a mount's name says that the mount is for this consumer.
pub fn is_mount_of(mount: &str, entry: &ObjectReference) -> bool {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    mount.starts_with(&format!("{}-{}-", part(&entry.namespace), part(&entry.name)))
}

/// Returns the consumers as text: workflows with the index of their directive, Lustre file systems by their Servers.
pub fn consumers(object: &PersistentStorageInstance) -> Vec<String> {
    let to_text = |consumer: &ObjectReference| {
        let name = consumer.name.clone()?;
        Some(match consumer.kind.as_deref() {
            Some(kind) if kind != "Workflow" => format!("{kind} {name}"),
            _ => name,
        })
    };
    object.spec.consumer_references.iter().filter_map(to_text).collect()
}

/// Returns the workflow that may mount an exclusive file system: the workflow that has it mounted, else the first
/// workflow that reached PreRun, or the state in which it copies the file system. The order is the same for all storage,
/// so that no two workflows wait for each other.
pub fn workflow_with_turn<'a>(
    site: &Site,
    (object, storage): (&PersistentStorageInstance, &Group),
    users: impl Iterator<Item = &'a Workflow>,
) -> Option<ObjectKey> {
    let mut mounted = storage.mounts.values().filter(|mount| !is_unmounted(site, mount));
    if let Some(workflow) = mounted.find_map(|mount| workflow_of(mount)) {
        return Some(workflow);
    }
    let name = object.name_any();
    let waits = |workflow: &&Workflow| {
        let (desired, status) = (&workflow.spec.desired_state, workflow.status.as_ref());
        let has_begun = status.is_some_and(|status| status.state.as_ref() == Some(desired));
        let copies = || {
            workflow.metadata.deletion_timestamp.is_none()
                && status.is_some_and(|status| !status.ready)
                && names_persistent(workflow, &name, desired)
        };
        has_begun && (is_in_prerun(workflow) || copies())
    };
    let since = |workflow: &Workflow| {
        let requested = workflow.status.as_ref().and_then(|status| status.desired_state_change);
        (requested.map(|requested| requested.0), workflow.uid())
    };
    let first = users.filter(waits).min_by_key(|workflow| since(workflow))?;
    Some((first.namespace().unwrap_or_default(), first.name_any()))
}

/// Returns true if the workflow wants its storage mounted.
pub fn is_in_prerun(workflow: &Workflow) -> bool {
    workflow.metadata.deletion_timestamp.is_none()
        && workflow.spec.desired_state == WorkflowState::PreRun
}

/// Returns the workflow that a mount belongs to.
pub fn workflow_of(mount: &ClientMount) -> Option<ObjectKey> {
    let workflow = mount.workflow()?;
    Some((workflow.namespace.to_owned(), workflow.name.to_owned()))
}
