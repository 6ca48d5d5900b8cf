//! Names and labels of the objects that belong to a workflow.

use std::collections::BTreeMap;

use api::{
    PersistentStorageInstance, RabbitLabels, Servers, Workflow,
    names::{DWS_GROUP, label},
};
use controller::ObjectKey;
use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Resource, ResourceExt};

/// On a Workflow: until everything of it outside of its namespace is gone.
pub const WORKFLOW_FINALIZER: &str = "dataworkflowservices.github.io/workflow";
/// On a Workflow that the Go controllers began. What they made for it this engine neither unmounts nor removes.
pub const GO_FINALIZER: &str = "nnf.cray.hpe.com/nnf_workflow";
/// On a PersistentStorageInstance: until nothing of it is on any node.
pub const PERSISTENT_FINALIZER: &str = "nnf.cray.hpe.com/persistentStorage";
/// On a Servers: volumes are named after its uid, so it outlives them.
pub const SERVERS_FINALIZER: &str = "nnf.cray.hpe.com/nnf-servers";
/// The owner that objects of this engine name in their labels. Other controllers name an NnfStorage.
pub const OWNER_KIND: &str = "Servers";

/// On a PersistentStorageInstance: the pool that its Lustre management target is in.
pub const STANDALONE_MGT: &str = "nnf.cray.hpe.com/standalone_mgt";

/// On a Workflow: while it is `true`, no container of MPI runs.
pub const SUSPENDED: &str = "nnf.cray.hpe.com/suspend-containers";

/// Name of what belongs to a directive: its breakdown, its Servers, its pinned profile.
pub fn of_directive(workflow: &Workflow, index: usize) -> String {
    format!("{}-{index}", workflow.name_any())
}

/// The workload manager's job, as a label may hold it.
pub fn job_id(workflow: &Workflow) -> String {
    workflow.spec.job_id.to_string().replace(' ', "-")
}

/// A reference to an object beside the workflow.
pub fn reference(kind: &str, name: &str, namespace: &str) -> ObjectReference {
    ObjectReference {
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectReference::default()
    }
}

/// Metadata of an object that goes with its workflow.
pub fn owned(workflow: &Workflow, name: &str) -> ObjectMeta {
    let mut labels = of_workflow(workflow);
    labels.extend(owner_labels("Workflow", workflow));
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: workflow.namespace(),
        labels: Some(labels),
        owner_references: Some(vec![owner("Workflow", workflow)]),
        ..ObjectMeta::default()
    }
}

/// Adds which directive an object is for.
pub fn with_directive(mut metadata: ObjectMeta, workflow: &Workflow, index: usize) -> ObjectMeta {
    metadata.labels.get_or_insert_default().extend(of_directive_labels(workflow, index));
    metadata
}

/// Labels of what lies in a node's namespace, and belongs to the storage of a directive. What belongs to persistent storage does
/// not name the workflow: it outlives it.
pub fn of_storage(
    workflow: &Workflow,
    index: usize,
    servers: &Servers,
) -> BTreeMap<String, String> {
    let mut labels = match persistent_of(servers) {
        Some((namespace, name)) => persistent_labels(&namespace, &name).into(),
        None => of_workflow(workflow),
    };
    labels.extend(owner_labels(OWNER_KIND, servers));
    labels.extend(of_directive_labels(workflow, index));
    let (name, namespace) = (servers.name_any(), servers.namespace().unwrap_or_default());
    labels.insert(label::PINNED_PROFILE_NAME.to_owned(), name);
    labels.insert(label::PINNED_PROFILE_NAMESPACE.to_owned(), namespace);
    labels
}

/// What a storage is known by where it asks for something. With its uid: one of the same name inherits nothing.
pub fn claim(servers: &Servers) -> ObjectReference {
    let (name, namespace) = (servers.name_any(), servers.namespace().unwrap_or_default());
    ObjectReference { uid: servers.uid(), ..reference(OWNER_KIND, &name, &namespace) }
}

/// Labels of a mount, which goes with its workflow whatever it shows.
pub fn of_mount(workflow: &Workflow, index: usize, servers: &Servers) -> BTreeMap<String, String> {
    let mut labels = of_storage(workflow, index, servers);
    labels.extend(of_workflow(workflow));
    let made_by = if persistent_of(servers).is_some() { PERSISTENT_INDEX } else { index };
    labels.insert(label::TARGET_DIRECTIVE_INDEX.to_owned(), made_by.to_string());
    labels
}

/// Name of the Servers and the pinned profile of persistent storage: its own, unless that could be [`of_directive`] of a workflow
/// whose job another user has yet to submit.
pub fn of_instance(name: &str) -> String {
    let index = name.rsplit_once('-').map_or("", |(_, index)| index);
    let is_a_directives = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
    if is_a_directives { format!("{name}{INSTANCE_SUFFIX}") } else { name.to_owned() }
}

/// Characters of a name that labels of other objects hold.
pub const LONGEST_LABEL: usize = 63;

/// No name of a directive's storage ends so.
pub const INSTANCE_SUFFIX: &str = ".persistent";

/// Metadata of the Servers and the pinned profile of persistent storage.
pub fn of_persistent(instance: &PersistentStorageInstance, workflow: &Workflow) -> ObjectMeta {
    let (namespace, name) = (instance.namespace().unwrap_or_default(), instance.name_any());
    let own_name = of_instance(&name);
    let mut labels: BTreeMap<String, String> = persistent_labels(&namespace, &name).into();
    labels.extend(owner_labels("PersistentStorageInstance", instance));
    labels.extend(of_directive_labels(workflow, PERSISTENT_INDEX));
    ObjectMeta {
        name: Some(own_name),
        namespace: Some(namespace),
        labels: Some(labels),
        owner_references: Some(vec![owner("PersistentStorageInstance", instance)]),
        ..ObjectMeta::default()
    }
}

/// The directive that made persistent storage stands alone in its workflow.
const PERSISTENT_INDEX: usize = 0;

fn persistent_labels(namespace: &str, name: &str) -> [(String, String); 2] {
    [
        (label::PERSISTENT_NAMESPACE.to_owned(), namespace.to_owned()),
        (label::PERSISTENT_NAME.to_owned(), name.to_owned()),
    ]
}

/// Namespace and name of the persistent storage that an object belongs to. Of those that other controllers made, the Servers and
/// the profile name no directive.
pub fn persistent_of<K: Resource>(object: &K) -> Option<ObjectKey> {
    object.directive_index()?;
    let part = |key| object.label(key).map(str::to_owned);
    part(label::PERSISTENT_NAMESPACE).zip(part(label::PERSISTENT_NAME))
}

/// Whether an object was made by this engine: no other controller's storage is ever touched.
pub fn is_ours<K: Resource>(object: &K) -> bool {
    object.label(label::OWNER_KIND) == Some(OWNER_KIND)
}

/// The controller's reference to an owner.
fn owner<K: Resource>(kind: &str, owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: format!("{DWS_GROUP}/v1alpha7"),
        kind: kind.to_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn of_workflow(workflow: &Workflow) -> BTreeMap<String, String> {
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

fn of_directive_labels(workflow: &Workflow, index: usize) -> [(String, String); 2] {
    [
        (label::DIRECTIVE_INDEX.to_owned(), index.to_string()),
        (label::JOB_ID.to_owned(), job_id(workflow)),
    ]
}
