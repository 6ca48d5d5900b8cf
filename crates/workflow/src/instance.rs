//! Persistent storage and everything that belongs to it, as plans see it.

use std::{collections::BTreeSet, sync::Arc};

use api::{
    ClientMount, PersistentStorageInstance, RabbitLabels, Workflow, WorkflowState,
    names::label,
    persistent_storage_instance::{PersistentStorageState, PersistentStorageStatusState},
};
use controller::ObjectKey;
use directive::{Command, Directive, FileSystem, Jobdw};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;

use crate::{
    names::{STANDALONE_MGT, of_directive, reference},
    plan::mounts::is_unmounted,
    site::Site,
    view::{Group, View},
};

/// One persistent storage, with the mounts of all workflows that use it.
#[derive(Debug)]
pub struct InstanceView<'a> {
    /// What all workflows share.
    pub site: &'a Site,
    /// The object itself.
    pub object: Arc<PersistentStorageInstance>,
    /// What it has on nodes.
    pub storage: Group,
    /// Storage of an earlier one of this name.
    pub leftovers: Vec<Group>,
    /// Workflows that name it in a `persistentdw`, and in which directive.
    pub users: Vec<(View<'a>, usize)>,
}

/// What a directive sees of the persistent storage that it names.
#[derive(Debug, Default)]
pub struct Named {
    /// The object; `None` when there is none.
    pub object: Option<Arc<PersistentStorageInstance>>,
    /// An object that has its name and belongs to something else.
    pub taken: Option<String>,
    /// Of a file system that one workflow mounts at a time: the one that may.
    pub turn: Option<ObjectKey>,
    /// Nodes that other workflows have it mounted on, or are to.
    pub others: BTreeSet<String>,
}

/// The directive about persistent storage that a line is, and the name in it.
pub fn command(line: &str) -> Option<(Command, String)> {
    let command = Command::try_from(&line.parse::<Directive>().ok()?).ok()?;
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

/// Whether this engine made it: of others', it knows neither the storage nor the consumers.
#[must_use]
pub fn is_ours(object: &PersistentStorageInstance) -> bool {
    object.label(label::WORKFLOW_UID).is_some()
}

/// Whether it was made to its end, and stays when its workflow goes. Until then it belongs to that workflow.
#[must_use]
pub fn is_made(object: &PersistentStorageInstance) -> bool {
    object.owner_references().iter().all(|owner| owner.kind != "Workflow")
}

/// Whether this workflow makes it, or made it.
#[must_use]
pub fn is_of(object: &PersistentStorageInstance, workflow: &Workflow) -> bool {
    object.label(label::WORKFLOW_UID) == workflow.metadata.uid.as_deref()
}

/// Whether it is to go.
#[must_use]
pub fn is_going(object: &PersistentStorageInstance) -> bool {
    object.metadata.deletion_timestamp.is_some()
        || object.spec.state == PersistentStorageState::Destroying
}

/// Whether its status says that it may be used.
#[must_use]
pub fn is_usable(object: &PersistentStorageInstance) -> bool {
    let state = object.status.as_ref().map(|status| &status.state);
    matches!(
        state,
        Some(PersistentStorageStatusState::Active | PersistentStorageStatusState::Degraded)
    )
}

/// Whether a workflow's user may use it, or the reason why not is told in Proposal.
#[must_use]
pub fn is_allowed(object: &PersistentStorageInstance, workflow: &Workflow) -> bool {
    is_public(object) || object.spec.user_id == workflow.spec.user_id
}

/// On persistent storage that every user may use.
const IGNORE_UID: &str = "dataworkflowservices.github.io/ignore-uid";

/// Whether every user may use it.
#[must_use]
pub fn is_public(object: &PersistentStorageInstance) -> bool {
    let ignored = object.annotations().get(IGNORE_UID);
    ignored.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// It as storage of a job: what a mount needs to know.
pub fn as_jobdw(object: &PersistentStorageInstance) -> Option<Jobdw> {
    Some(Jobdw {
        file_system: object.spec.fs_type.parse().ok()?,
        capacity: 0,
        name: object.name_any(),
        profile: None,
        requires: Vec::new(),
    })
}

/// Whether it is a Lustre management target in a pool, which gives names to file systems and is none.
#[must_use]
pub fn is_target(object: &PersistentStorageInstance) -> bool {
    object.labels().contains_key(STANDALONE_MGT)
}

/// Whether one workflow mounts it at a time: no two nodes may have one XFS mounted.
#[must_use]
pub fn is_exclusive(object: &PersistentStorageInstance) -> bool {
    object.spec.fs_type == FileSystem::Xfs.as_str()
}

/// The entry of a workflow's directive among the consumers.
pub fn consumer(workflow: &Workflow, index: usize) -> ObjectReference {
    let namespace = workflow.namespace().unwrap_or_default();
    reference("Workflow", &of_directive(workflow, index), &namespace)
}

/// Whether an entry among the consumers is of this workflow, whichever of its directives it is for.
pub fn is_entry_of(entry: &ObjectReference, (namespace, name): &ObjectKey) -> bool {
    let of = entry.name.as_ref().and_then(|of| of.rsplit_once('-'));
    entry.namespace.as_ref() == Some(namespace) && of.is_some_and(|(of, _)| of == name)
}

/// Whether a mount's name says that it is for this consumer.
pub fn is_mount_of(mount: &str, entry: &ObjectReference) -> bool {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    mount.starts_with(&format!("{}-{}-", part(&entry.namespace), part(&entry.name)))
}

/// The consumers: workflows by their directives, Lustre file systems by their Servers.
pub fn consumers(object: &PersistentStorageInstance) -> Vec<String> {
    let shown = |one: &ObjectReference| {
        let name = one.name.clone()?;
        Some(match one.kind.as_deref() {
            Some(kind) if kind != "Workflow" => format!("{kind} {name}"),
            _ => name,
        })
    };
    object.spec.consumer_references.iter().filter_map(shown).collect()
}

/// Whose turn it is to mount an exclusive file system: the workflow that has it mounted, else the one that was first in PreRun. All
/// storages use the same order, so that no two workflows wait for each other.
pub fn turn<'a>(
    site: &Site,
    storage: &Group,
    users: impl Iterator<Item = &'a Workflow>,
) -> Option<ObjectKey> {
    let mut mounted = storage.mounts.values().filter(|mount| !is_unmounted(site, mount));
    if let Some(workflow) = mounted.find_map(|mount| workflow_of(mount)) {
        return Some(workflow);
    }
    let waits = |one: &&Workflow| {
        let state = one.status.as_ref().and_then(|status| status.state.as_ref());
        is_in_prerun(one) && state == Some(&WorkflowState::PreRun)
    };
    let since = |one: &Workflow| {
        let asked = one.status.as_ref().and_then(|status| status.desired_state_change);
        (asked.map(|asked| asked.0), one.uid())
    };
    let first = users.filter(waits).min_by_key(|one| since(one))?;
    Some((first.namespace().unwrap_or_default(), first.name_any()))
}

/// Whether a workflow is to have its storage mounted.
pub fn is_in_prerun(workflow: &Workflow) -> bool {
    workflow.metadata.deletion_timestamp.is_none()
        && workflow.spec.desired_state == WorkflowState::PreRun
}

/// The workflow that a mount is for.
pub fn workflow_of(mount: &ClientMount) -> Option<ObjectKey> {
    let workflow = mount.workflow()?;
    Some((workflow.namespace.to_owned(), workflow.name.to_owned()))
}
