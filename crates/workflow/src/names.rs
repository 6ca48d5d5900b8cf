//! Names and labels of the objects that belong to a workflow.

use std::collections::BTreeMap;

use api::{
    NnfSystemStorage, PersistentStorageInstance, RabbitLabels, Servers, Workflow,
    names::{annotation, finalizer, label},
};
use controller::ObjectKey;
use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Resource, ResourceExt};

/// Finalizer of a Workflow: stays until the Workflow's objects in other namespaces are gone.
pub const WORKFLOW_FINALIZER: &str = "dataworkflowservices.github.io/workflow";
/// Finalizer of a Workflow that the Go controllers began. The engine neither unmounts nor removes the objects
/// that those controllers made.
pub const GO_FINALIZER: &str = "nnf.cray.hpe.com/nnf_workflow";
/// Value of the owner-kind label on the engine's objects.
pub const OWNER_KIND: &str = "Servers";
/// Value of the owner-kind label on objects that the Go controllers made. The NnfStorage has the name and namespace of its
/// Servers.
pub const GO_OWNER_KIND: &str = "NnfStorage";

/// Label of a PersistentStorageInstance: the pool of its Lustre management target.
pub const STANDALONE_MGT: &str = "nnf.cray.hpe.com/standalone_mgt";

/// Annotation of a Workflow: while it is `true`, no MPI container runs.
pub const SUSPENDED: &str = "nnf.cray.hpe.com/suspend-containers";

/// Returns the name of a directive's breakdown, Servers and pinned profile.
pub fn directive_object_name(workflow: &Workflow, index: usize) -> String {
    format!("{}-{index}", workflow.name_any())
}

/// Returns true if a directive is `copy_in` or `copy_out`.
pub fn is_copy(workflow: &Workflow, index: usize) -> bool {
    let line = workflow.spec.directives.get(index);
    let command = line.and_then(|line| line.split_whitespace().nth(1));
    matches!(command, Some("copy_in" | "copy_out"))
}

/// Returns the name of the Service of a directive's containers: the workflow's name or, for a copy by MPI, a name of the
/// copy, since other containers of the workflow may exist at the same time.
pub fn service_name(workflow: &Workflow, index: usize) -> String {
    let name = workflow.name_any();
    if is_copy(workflow, index) { containers::names::copy(&name, index) } else { name }
}

/// Returns the workload manager's job id in the form of a label value.
pub fn job_id(workflow: &Workflow) -> String {
    workflow.spec.job_id.to_string().replace(' ', "-")
}

/// Returns a reference to a namespaced object.
pub fn reference(kind: &str, name: &str, namespace: &str) -> ObjectReference {
    ObjectReference {
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectReference::default()
    }
}

/// Returns the metadata of an object that Kubernetes deletes together with its workflow.
pub fn owned_metadata(workflow: &Workflow, name: &str) -> ObjectMeta {
    let mut labels = workflow_labels(workflow);
    labels.extend(owner_labels("Workflow", workflow));
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: workflow.namespace(),
        labels: Some(labels),
        owner_references: Some(vec![owner_reference("Workflow", workflow)]),
        ..ObjectMeta::default()
    }
}

/// Adds the labels of a directive.
pub fn add_directive_labels(
    mut metadata: ObjectMeta,
    workflow: &Workflow,
    index: usize,
) -> ObjectMeta {
    metadata.labels.get_or_insert_default().extend(directive_labels(workflow, index));
    metadata
}

/// Returns the labels of an object in a node's namespace that belongs to a directive's storage. Labels of persistent
/// storage do not name the workflow, because the storage outlives it.
pub fn storage_labels(
    workflow: &Workflow,
    index: usize,
    servers: &Servers,
) -> BTreeMap<String, String> {
    let mut labels = match (system_storage_key(servers), persistent_key(servers)) {
        (Some(at), _) => system_storage_labels(&at).into(),
        (None, Some((namespace, name))) => persistent_labels(&namespace, &name).into(),
        (None, None) => workflow_labels(workflow),
    };
    labels.extend(owner_labels(storage_kind(servers), servers));
    labels.insert(label::OWNER_UID.to_owned(), storage_uid(servers));
    labels.extend(directive_labels(workflow, index));
    // The Servers of a system storage names its profile, which administrators wrote.
    let (name, namespace) = match servers.pinned_profile() {
        Some(profile) => (profile.name.to_owned(), profile.namespace.to_owned()),
        None => (servers.name_any(), servers.namespace().unwrap_or_default()),
    };
    labels.insert(label::PINNED_PROFILE_NAME.to_owned(), name);
    labels.insert(label::PINNED_PROFILE_NAMESPACE.to_owned(), namespace);
    labels
}

/// Returns the uid after which the volume groups and pools of a storage are named: the uid of its Servers or, for adopted
/// storage, of the NnfStorage of the Go controllers.
pub fn storage_uid(servers: &Servers) -> String {
    adopted_from(servers).map(str::to_owned).or_else(|| servers.uid()).unwrap_or_default()
}

fn adopted_from(servers: &Servers) -> Option<&str> {
    servers.annotations().get(annotation::ADOPTED_FROM).map(String::as_str)
}

/// Returns the kind of the object that the labels of a storage's objects name as their owner.
fn storage_kind(servers: &Servers) -> &'static str {
    if adopted_from(servers).is_some() { GO_OWNER_KIND } else { OWNER_KIND }
}

/// Returns the reference by which a storage asks for a file system name. The reference has the uid of the Servers, so
/// that a later Servers of the same name inherits nothing. The Go controllers wrote references without a uid.
pub fn fs_name_holder(servers: &Servers) -> ObjectReference {
    let (name, namespace) = (servers.name_any(), servers.namespace().unwrap_or_default());
    let uid = servers.uid().filter(|_| adopted_from(servers).is_none());
    ObjectReference { uid, ..reference(storage_kind(servers), &name, &namespace) }
}

/// Returns the labels of a mount. The labels name the workflow even if the storage is persistent, because the mount
/// is removed with the workflow. A mount of a system storage belongs to no workflow.
pub fn mount_labels(
    workflow: &Workflow,
    index: usize,
    servers: &Servers,
) -> BTreeMap<String, String> {
    let mut labels = storage_labels(workflow, index, servers);
    if system_storage_key(servers).is_none() {
        labels.extend(workflow_labels(workflow));
    }
    let made_by = if persistent_key(servers).is_some() { PERSISTENT_INDEX } else { index };
    labels.insert(label::TARGET_DIRECTIVE_INDEX.to_owned(), made_by.to_string());
    labels
}

/// Returns the labels of a movement of a directive.
pub fn movement_labels(workflow: &Workflow, index: usize) -> BTreeMap<String, String> {
    let mut labels = workflow_labels(workflow);
    labels.extend(owner_labels("Workflow", workflow));
    labels.extend(directive_labels(workflow, index));
    labels
}

/// Returns the name of the Servers and the pinned profile of persistent storage. This is the storage's own name, or
/// that name with a suffix if a directive of a later workflow could have the same [`directive_object_name`].
pub fn instance_object_name(name: &str) -> String {
    if may_be_a_directives(name) { format!("{name}{INSTANCE_SUFFIX}") } else { name.to_owned() }
}

/// Returns the name of the Servers of a system storage. This is the storage's own name, or that name with a suffix if a
/// directive of a later workflow could have the same [`directive_object_name`].
pub fn system_storage_object_name(name: &str) -> String {
    if may_be_a_directives(name) { format!("{name}.system") } else { name.to_owned() }
}

/// Returns true if the objects of a directive may have this name.
fn may_be_a_directives(name: &str) -> bool {
    let index = name.rsplit_once('-').map_or("", |(_, index)| index);
    !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit())
}

/// Longest value of a label, in characters.
pub const LONGEST_LABEL: usize = 63;

/// Suffix that keeps the object names of persistent storage apart from the object names of directives.
pub const INSTANCE_SUFFIX: &str = ".persistent";

/// Returns the metadata of the Servers and the pinned profile of persistent storage.
pub fn persistent_metadata(
    instance: &PersistentStorageInstance,
    workflow: &Workflow,
) -> ObjectMeta {
    let (namespace, name) = (instance.namespace().unwrap_or_default(), instance.name_any());
    let own_name = instance_object_name(&name);
    let mut labels: BTreeMap<String, String> = persistent_labels(&namespace, &name).into();
    labels.extend(owner_labels("PersistentStorageInstance", instance));
    labels.extend(directive_labels(workflow, PERSISTENT_INDEX));
    ObjectMeta {
        name: Some(own_name),
        namespace: Some(namespace),
        labels: Some(labels),
        owner_references: Some(vec![owner_reference("PersistentStorageInstance", instance)]),
        ..ObjectMeta::default()
    }
}

/// Index of the directive that made a persistent storage: a `create_persistent` is the only directive of its workflow.
const PERSISTENT_INDEX: usize = 0;

fn persistent_labels(namespace: &str, name: &str) -> [(String, String); 2] {
    [
        (label::PERSISTENT_NAMESPACE.to_owned(), namespace.to_owned()),
        (label::PERSISTENT_NAME.to_owned(), name.to_owned()),
    ]
}

/// Returns namespace and name of the persistent storage that an object belongs to. `None` for the Servers and the
/// profile of Go controllers' persistent storage, whose labels name no directive.
pub fn persistent_key<K: Resource>(object: &K) -> Option<ObjectKey> {
    object.directive_index()?;
    let part = |key| object.label(key).map(str::to_owned);
    part(label::PERSISTENT_NAMESPACE).zip(part(label::PERSISTENT_NAME))
}

/// Returns the metadata of the Servers of a system storage. `workflow` presents the storage.
pub fn system_storage_metadata(storage: &NnfSystemStorage, workflow: &Workflow) -> ObjectMeta {
    let at = (storage.namespace().unwrap_or_default(), storage.name_any());
    let mut labels: BTreeMap<String, String> = system_storage_labels(&at).into();
    labels.extend(owner_labels("NnfSystemStorage", storage));
    labels.extend(directive_labels(workflow, 0));
    let profile = &storage.spec.storage_profile;
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    labels.insert(label::PINNED_PROFILE_NAME.to_owned(), part(&profile.name));
    labels.insert(label::PINNED_PROFILE_NAMESPACE.to_owned(), part(&profile.namespace));
    ObjectMeta {
        name: Some(system_storage_object_name(&at.1)),
        namespace: Some(at.0),
        labels: Some(labels),
        owner_references: Some(vec![owner_reference("NnfSystemStorage", storage)]),
        finalizers: Some(vec![finalizer::SERVERS.to_owned()]),
        ..ObjectMeta::default()
    }
}

fn system_storage_labels((namespace, name): &ObjectKey) -> [(String, String); 2] {
    [
        (label::SYSTEM_STORAGE_NAMESPACE.to_owned(), namespace.clone()),
        (label::SYSTEM_STORAGE_NAME.to_owned(), name.clone()),
    ]
}

/// Returns namespace and name of the system storage that an object belongs to.
pub fn system_storage_key<K: Resource>(object: &K) -> Option<ObjectKey> {
    let part = |key| object.label(key).map(str::to_owned);
    part(label::SYSTEM_STORAGE_NAMESPACE).zip(part(label::SYSTEM_STORAGE_NAME))
}

/// Returns true if this engine made or adopted the object, which belongs to a storage. The engine never touches other
/// controllers' storage: of these objects only the adopted ones name their persistent storage.
pub fn is_ours<K: Resource>(object: &K) -> bool {
    object.label(label::OWNER_KIND) == Some(OWNER_KIND) || persistent_key(object).is_some()
}

/// Returns the reference that makes `owner` the controlling owner of an object.
fn owner_reference<K: Resource<DynamicType = ()>>(kind: &str, owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: kind.to_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn workflow_labels(workflow: &Workflow) -> BTreeMap<String, String> {
    BTreeMap::from([
        (label::WORKFLOW_NAME.to_owned(), workflow.name_any()),
        (label::WORKFLOW_NAMESPACE.to_owned(), workflow.namespace().unwrap_or_default()),
        (label::WORKFLOW_UID.to_owned(), workflow.uid().unwrap_or_default()),
    ])
}

fn owner_labels<K: Resource>(kind: &str, owner: &K) -> [(String, String); 4] {
    [
        (label::OWNER_KIND.to_owned(), kind.to_owned()),
        (label::OWNER_NAME.to_owned(), owner.name_any()),
        (label::OWNER_NAMESPACE.to_owned(), owner.namespace().unwrap_or_default()),
        (label::OWNER_UID.to_owned(), owner.uid().unwrap_or_default()),
    ]
}

fn directive_labels(workflow: &Workflow, index: usize) -> [(String, String); 2] {
    [
        (label::DIRECTIVE_INDEX.to_owned(), index.to_string()),
        (label::JOB_ID.to_owned(), job_id(workflow)),
    ]
}
