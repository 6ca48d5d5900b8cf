//! Labels, finalizers and fixed object names that Rabbit software agrees on.

use kube::{Resource, ResourceExt};

/// API group of Data Workflow Services.
pub const DWS_GROUP: &str = "dataworkflowservices.github.io";
/// API group of near-node flash.
pub const NNF_GROUP: &str = "nnf.cray.hpe.com";

/// Name of the `NnfNode`, one in each rabbit's namespace.
pub const NNF_NODE: &str = "nnf-nlc";
/// Name and namespace of the single `SystemConfiguration`.
pub const SYSTEM_CONFIGURATION: &str = "default";
/// Name of the `NnfPortManager` in each rabbit's namespace.
pub const NNF_PORT_MANAGER: &str = "nnf-port-manager";
/// Namespace of the `Storage` objects.
pub const STORAGE_NAMESPACE: &str = "default";
/// Namespace of the profile templates, from which workflows pin their copies.
pub const PROFILE_TEMPLATE_NAMESPACE: &str = "nnf-system";

/// Finalizers. The agent that sets a finalizer also removes it, after it has cleaned up.
pub mod finalizer {
    /// On a `ClientMount`: held until all of its mounts are unmounted.
    pub const CLIENT_MOUNT: &str = "nnf.cray.hpe.com/nnf_clientmount";
    /// On a `NnfNodeStorage` and on the `NnfNodeBlockStorage` of the same name: held until the
    /// file systems are deleted.
    pub const NNF_NODE_STORAGE: &str = "nnf.cray.hpe.com/nnf_node_storage";
    /// On a `NnfNodeBlockStorage`: held until its namespaces are deleted.
    pub const NNF_NODE_BLOCK_STORAGE: &str = "nnf.cray.hpe.com/nnf_node_block_storage";
    /// On a `PersistentStorageInstance`: held until nothing of the storage is left on any node.
    pub const PERSISTENT_STORAGE: &str = "nnf.cray.hpe.com/persistentStorage";
    /// On a `Servers`: held until its volumes are gone, because they may be named after its uid.
    pub const SERVERS: &str = "nnf.cray.hpe.com/nnf-servers";
    /// On a `NnfStorage`, a kind of the Go controllers: held until its storage is gone from all rabbits.
    pub const NNF_STORAGE: &str = "nnf.cray.hpe.com/nnf_storage";
    /// On a `NnfSystemStorage`: held until nothing of the storage is left on any node.
    pub const NNF_SYSTEM_STORAGE: &str = "nnf.cray.hpe.com/nnf_system_storage";
    /// On a `NnfLustreMGT`: held until its file system names are erased.
    pub const NNF_LUSTRE_MGT: &str = "nnf.cray.hpe.com/nnf_lustre_mgt";
    /// On a `NodeContainers`: held until the rabbit has neither containers nor files of the object.
    pub const NODE_CONTAINERS: &str = "warren.nnf.cray.hpe.com/node_containers";
}

/// Keys of annotations that Warren sets.
pub mod annotation {
    /// On a disabled rabbit's `Storage`: why; flux-coral2 writes it too.
    pub const DISABLE_REASON: &str = "disable_reason";
    /// On a disabled rabbit's `Storage`: when, in local time; flux-coral2 writes it too, without a zone.
    pub const DISABLE_DATE: &str = "disable_date";
    /// On a disabled rabbit's `Storage`: the user who disabled it.
    pub const DISABLED_BY: &str = "warren.nnf.cray.hpe.com/disabled-by";
    /// On a rabbit's `Storage`: the rabbit's agent had a session with a coordinator. Without a session it then counts as
    /// silent.
    pub const HAD_SESSION: &str = "warren.nnf.cray.hpe.com/had-session";
    /// On the `Servers` of adopted persistent storage: the uid of the `NnfStorage` with which the Go controllers made it.
    /// Its volume groups are named after that uid.
    pub const ADOPTED_FROM: &str = "warren.nnf.cray.hpe.com/adopted-from";
    /// On each object of adopted persistent storage: the keys of the labels that the adoption added, with commas.
    pub const ADOPTED_LABELS: &str = "warren.nnf.cray.hpe.com/adopted-labels";
    /// On a `PersistentStorageInstance`: the gid of the Workflow that created it, whose project it counts for.
    pub const GROUP_ID: &str = "warren.nnf.cray.hpe.com/group-id";
    /// On a `NodeContainers`: time of the last request for the logs of its containers, also of those that still run
    /// (RFC 3339).
    pub const LOGS_ASKED: &str = "warren.nnf.cray.hpe.com/logs-asked";
    /// On a `NnfDataMovement`: maximum bytes per second, as a decimal number.
    pub const BYTES_PER_SECOND: &str = "warren.nnf.cray.hpe.com/bytes-per-second";
}

/// Labels and the finalizer of a `NnfDataMovement`.
pub mod movement {
    /// `copy_in` or `copy_out`.
    pub const INITIATOR: &str = "dm.cray.hpe.com/initiator";
    /// Directory of this movement beneath the destination, such as `rabbit-1-0`; absent for none.
    pub const INDEX_DIRECTORY: &str = "warren.nnf.cray.hpe.com/index-directory";
    /// The part of the source that this movement copies, such as `0-of-4`, when several rabbits copy one source.
    pub const SHARE: &str = "warren.nnf.cray.hpe.com/share";
    /// On a movement that MPI carries out, instead of the rabbit's agent: name of its containers' Service.
    pub const MPI_RUN: &str = "warren.nnf.cray.hpe.com/mpi-run";
    /// Stays until the copying process has ended and its temporary files are gone.
    pub const FINALIZER: &str = "warren.nnf.cray.hpe.com/data_movement";
}

/// Keys of labels on Rabbit objects.
pub mod label {
    /// Name of the workflow an object serves.
    pub const WORKFLOW_NAME: &str = "dataworkflowservices.github.io/workflow.name";
    /// Namespace of the workflow an object serves.
    pub const WORKFLOW_NAMESPACE: &str = "dataworkflowservices.github.io/workflow.namespace";
    /// UID of the workflow an object serves.
    pub const WORKFLOW_UID: &str = "dataworkflowservices.github.io/workflow.uid";
    /// Kind of the owner: the object that made the labelled object.
    pub const OWNER_KIND: &str = "dataworkflowservices.github.io/owner.kind";
    /// Name of the owner.
    pub const OWNER_NAME: &str = "dataworkflowservices.github.io/owner.name";
    /// Namespace of the owner.
    pub const OWNER_NAMESPACE: &str = "dataworkflowservices.github.io/owner.namespace";
    /// UID of the owner; volume groups are named after this UID.
    pub const OWNER_UID: &str = "dataworkflowservices.github.io/owner.uid";
    /// On a `Storage`: the type of its storage.
    pub const STORAGE: &str = "dataworkflowservices.github.io/storage";
    /// Index of the `#DW` directive within the workflow, decimal.
    pub const DIRECTIVE_INDEX: &str = "nnf.cray.hpe.com/directive_index";
    /// Job id of the workload manager.
    pub const JOB_ID: &str = "nnf.cray.hpe.com/job_id";
    /// Name of the pinned profile whose command lines apply.
    pub const PINNED_PROFILE_NAME: &str = "nnf.cray.hpe.com/pinned_storage_profile_name";
    /// Namespace of the pinned profile whose command lines apply.
    pub const PINNED_PROFILE_NAMESPACE: &str = "nnf.cray.hpe.com/pinned_storage_profile_namespace";
    /// On all objects of a workflow's containers, and of the containers of a copy by MPI: the name of their Service.
    pub const CONTAINER: &str = "nnf.cray.hpe.com/container";
    /// On all objects of an MPI attempt: the number of the attempt, from 1.
    pub const ATTEMPT: &str = "nnf.cray.hpe.com/attempt";
    /// On a Job or pod of an MPI run: `launcher` or `worker`.
    pub const ROLE: &str = "nnf.cray.hpe.com/role";
    /// On a pod: the Job that owns the pod (Kubernetes' "Well-Known Labels").
    pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";
    /// Name of the pinned profile of the containers.
    pub const PINNED_CONTAINER_PROFILE_NAME: &str =
        "nnf.cray.hpe.com/pinned_container_profile_name";
    /// Namespace of the pinned profile of the containers.
    pub const PINNED_CONTAINER_PROFILE_NAMESPACE: &str =
        "nnf.cray.hpe.com/pinned_container_profile_namespace";
    /// On a `ClientMount`: directive index of the storage it mounts.
    pub const TARGET_DIRECTIVE_INDEX: &str = "nnf.cray.hpe.com/target_directive_index";
    /// On a `ClientMount`: UID of the `NnfStorage` it mounts.
    pub const TARGET_OWNER_UID: &str = "nnf.cray.hpe.com/target_owner_uid";
    /// On a rabbit's `ClientMount`: the workflow state in which the `ClientMount` is deleted.
    pub const TEARDOWN_STATE: &str = "nnf.cray.hpe.com/teardown_state";
    /// Name of the `PersistentStorageInstance` an object belongs to.
    pub const PERSISTENT_NAME: &str = "dataworkflowservices.github.io/persistentstorage.name";
    /// Namespace of the `PersistentStorageInstance` an object belongs to.
    pub const PERSISTENT_NAMESPACE: &str =
        "dataworkflowservices.github.io/persistentstorage.namespace";
    /// Name of the `NnfSystemStorage` an object belongs to.
    pub const SYSTEM_STORAGE_NAME: &str = "warren.nnf.cray.hpe.com/systemstorage.name";
    /// Namespace of the `NnfSystemStorage` an object belongs to.
    pub const SYSTEM_STORAGE_NAMESPACE: &str = "warren.nnf.cray.hpe.com/systemstorage.namespace";
    /// On a `NnfNodeBlockStorage` of an `NnfSystemStorage`: its type of storage, which the allocation set does not name.
    pub const FILE_SYSTEM: &str = "warren.nnf.cray.hpe.com/file-system";
    /// Name of the allocation set, within the `NnfStorage`, that an object belongs to.
    pub const ALLOCATION_SET: &str = "nnf.cray.hpe.com/allocationset";
    /// `"true"` on the `NnfNodeStorage` that holds OST 0.
    pub const ALLOCATION_SET_OST0: &str = "nnf.cray.hpe.com/allocationset_ost0";
}

/// The value of [`label::STORAGE`] on a rabbit's `Storage`.
pub const STORAGE_LABEL_RABBIT: &str = "Rabbit";

/// Reference to a workflow, read from an object's labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowRef<'a> {
    /// Name of the workflow.
    pub name: &'a str,
    /// Namespace of the workflow.
    pub namespace: &'a str,
    /// UID of the workflow.
    pub uid: &'a str,
}

/// Reference to the owner of an object, which made the object; read from the object's labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerRef<'a> {
    /// Kind of the owner.
    pub kind: &'a str,
    /// Name of the owner.
    pub name: &'a str,
    /// Namespace of the owner.
    pub namespace: &'a str,
    /// UID of the owner.
    pub uid: &'a str,
}

/// Reference to a pinned `NnfStorageProfile`, read from an object's labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileRef<'a> {
    /// Name of the profile.
    pub name: &'a str,
    /// Namespace of the profile.
    pub namespace: &'a str,
}

/// Reads the labels that central controllers put on objects. The result is `None` if a label of a group, such as owner
/// kind, name, namespace and UID, is missing.
pub trait RabbitLabels {
    /// Returns the value of one label; `None` also for an empty value.
    fn label(&self, key: &str) -> Option<&str>;

    /// Returns the workflow that this object serves.
    fn workflow(&self) -> Option<WorkflowRef<'_>> {
        Some(WorkflowRef {
            name: self.label(label::WORKFLOW_NAME)?,
            namespace: self.label(label::WORKFLOW_NAMESPACE)?,
            uid: self.label(label::WORKFLOW_UID)?,
        })
    }

    /// Returns the owner: the object that made this object.
    fn owner(&self) -> Option<OwnerRef<'_>> {
        Some(OwnerRef {
            kind: self.label(label::OWNER_KIND)?,
            name: self.label(label::OWNER_NAME)?,
            namespace: self.label(label::OWNER_NAMESPACE)?,
            uid: self.label(label::OWNER_UID)?,
        })
    }

    /// Returns the profile whose command lines apply.
    fn pinned_profile(&self) -> Option<ProfileRef<'_>> {
        Some(ProfileRef {
            name: self.label(label::PINNED_PROFILE_NAME)?,
            namespace: self.label(label::PINNED_PROFILE_NAMESPACE)?,
        })
    }

    /// Returns the job id of the workload manager.
    fn job_id(&self) -> Option<&str> {
        self.label(label::JOB_ID)
    }

    /// Returns the index of the directive as text, because it is only used in names.
    fn directive_index(&self) -> Option<&str> {
        self.label(label::DIRECTIVE_INDEX)
    }
}

impl<K: Resource> RabbitLabels for K {
    fn label(&self, key: &str) -> Option<&str> {
        self.labels().get(key).map(String::as_str).filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn labelled(labels: &[(&str, &str)]) -> ConfigMap {
        let mut object = ConfigMap::default();
        object
            .labels_mut()
            .extend(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        object
    }

    #[test]
    fn a_pinned_profile_needs_both_labels() {
        let name = (label::PINNED_PROFILE_NAME, "fluxjob-7-0");
        assert_eq!(labelled(&[name]).pinned_profile(), None);
        assert_eq!(labelled(&[name, (label::PINNED_PROFILE_NAMESPACE, "")]).pinned_profile(), None);
        assert_eq!(
            labelled(&[name, (label::PINNED_PROFILE_NAMESPACE, "default")]).pinned_profile(),
            Some(ProfileRef { name: "fluxjob-7-0", namespace: "default" })
        );
    }
}
