//! Makes the objects of a directive's storage: block storage and file systems.

use api::{
    NnfNodeBlockStorage, NnfNodeBlockStorageSpec, NnfNodeStorage, NnfNodeStorageSpec, Servers,
    names::label,
    nnf_node_block_storage::NnfNodeBlockStorageAllocationSpec,
    nnf_node_storage::{CommandVariable, FileSystemType, LustreComponents, LustreStorageSpec},
};
use directive::{Jobdw, capacity::Padding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::{
    names::{job_id, reference, storage_labels},
    objects::{
        allocation::Allocation,
        view::{Group, View},
    },
};

/// Creates the objects of a directive's storage.
#[derive(Debug)]
pub struct StorageMaker<'a> {
    pub view: &'a View<'a>,
    pub index: usize,
    pub jobdw: &'a Jobdw,
    pub servers: &'a Servers,
    /// Bytes that the block storage has in addition to the file system.
    pub padding: Option<Padding>,
    /// True if all allocations of a rabbit are one block storage.
    pub shared: bool,
}

impl StorageMaker<'_> {
    /// Returns the existing objects of this storage.
    pub fn group(&self) -> &Group {
        &self.view.directives[self.index].storage
    }

    pub fn metadata(&self, allocation: &Allocation) -> ObjectMeta {
        let mut labels = storage_labels(&self.view.workflow, self.index, self.servers);
        labels.insert(label::ALLOCATION_SET.to_owned(), allocation.label.clone());
        ObjectMeta {
            name: Some(allocation.name.clone()),
            namespace: Some(allocation.rabbit.clone()),
            labels: Some(labels),
            ..ObjectMeta::default()
        }
    }

    pub fn block(&self, allocation: &Allocation) -> NnfNodeBlockStorage {
        let storage_of = |capacity: i64| NnfNodeBlockStorageAllocationSpec {
            capacity,
            access: vec![allocation.rabbit.clone()],
        };
        let allocations = if self.shared {
            vec![storage_of(allocation.size.saturating_mul(allocation.count))]
        } else {
            (0..allocation.count).map(|_| storage_of(allocation.size)).collect()
        };
        NnfNodeBlockStorage {
            metadata: self.metadata(allocation),
            spec: NnfNodeBlockStorageSpec { shared_allocation: self.shared, allocations },
            status: None,
        }
    }

    pub fn file_system(&self, allocation: &Allocation) -> NnfNodeStorage {
        let spec = &self.view.workflow.spec;
        let size = u64::try_from(allocation.size).unwrap_or_default();
        let visible = self.padding.map_or(size, |padding| padding.removed_from(size));
        let visible = i64::try_from(visible).unwrap_or(allocation.size);
        NnfNodeStorage {
            metadata: self.metadata(allocation),
            spec: NnfNodeStorageSpec {
                count: allocation.count,
                shared_allocation: self.shared,
                capacity: visible,
                user_id: spec.user_id,
                group_id: spec.group_id,
                command_variables: self.variables(allocation.count),
                file_system_type: FileSystemType::from(self.jobdw.file_system.as_str()),
                // The Go controllers write `lustreStorage` for every kind of file system.
                lustre_storage: LustreStorageSpec {
                    lustre_components: LustreComponents::default().into(),
                    ..LustreStorageSpec::default()
                }
                .into(),
                block_reference: reference(
                    "NnfNodeBlockStorage",
                    &allocation.name,
                    &allocation.rabbit,
                )
                .into(),
            },
            status: None,
        }
    }

    fn variables(&self, count: i64) -> Vec<CommandVariable> {
        let (workflow, spec) = (&self.view.workflow, &self.view.workflow.spec);
        let all = [
            ("$ALLOCATION_COUNT", count.to_string()),
            ("$HOST_COUNT", (count + 1).to_string()),
            ("$JOBID", job_id(workflow)),
            ("$DIRECTIVE_INDEX", self.index.to_string()),
            ("$WORKFLOW_UID", workflow.uid().unwrap_or_default()),
            ("$USERID", spec.user_id.to_string()),
            ("$GROUPID", spec.group_id.to_string()),
        ];
        let to_variable = |(name, value): (&str, String)| CommandVariable {
            name: name.to_owned(),
            value,
            ..CommandVariable::default()
        };
        all.into_iter().map(to_variable).collect()
    }
}
