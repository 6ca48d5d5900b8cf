//! Setup: block storage and file systems on the rabbits that Servers names.

mod errors;
pub mod servers_status;

use api::{
    NnfNodeBlockStorage, NnfNodeBlockStorageSpec, NnfNodeStorage, NnfNodeStorageSpec,
    ResourceError, Servers,
    names::label,
    nnf_node_block_storage::NnfNodeBlockStorageAllocationSpec,
    nnf_node_storage::{CommandVariable, FileSystemType, LustreComponents, LustreStorageSpec},
};
use directive::{FileSystem, Jobdw, capacity::Padding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

pub use self::errors::name_node;
use crate::{
    change::Change,
    names::{job_id, reference, storage_labels},
    plan::{
        allocation::{Allocation, allocations},
        checks, lustre, place, proposal,
    },
    profile::local_profile,
    progress::{Progress, internal_error, some_of, wlm_error},
    report::is_completed,
    view::{Group, View},
};

/// Places, checks and creates the storage of a directive.
pub fn set_up_storage(view: &View<'_>, index: usize, jobdw: &Jobdw) -> Progress {
    // First create again the objects that were deleted since Proposal.
    proposal::create_objects(view, index, jobdw)
        .then(|| set_up_proposed_storage(view, index, jobdw))
}

/// Places, checks and creates the storage that the objects of Proposal ask for.
pub fn set_up_proposed_storage(view: &View<'_>, index: usize, jobdw: &Jobdw) -> Progress {
    let directive = &view.directives[index];
    let sets = directive
        .breakdown
        .as_ref()
        .and_then(|breakdown| breakdown.status.as_ref()?.storage.as_ref());
    let (Some(servers), Some(profile), Some(sets)) =
        (&directive.storage.servers, &directive.storage.profile, sets)
    else {
        return Progress::wait("its Servers, pinned profile and DirectiveBreakdown");
    };
    if directive.storage.blocks.is_empty()
        && let Err(error) = checks::space_of_all(view)
    {
        return Progress::failed(error);
    }
    if servers.spec.allocation_sets.is_empty() {
        return place::fill(view, servers, &sets.allocation_sets);
    }
    if let Err(outcome) = checks::servers(view, servers, &sets.allocation_sets, &directive.storage)
    {
        return outcome.into();
    }
    let local = local_profile(profile, jobdw.file_system);
    let padding = local.and_then(|local| local.allocation_padding.parse().ok());
    let shared = local.is_some_and(|local| local.block_device_commands.shared_vg);
    let maker = StorageMaker { view, index, jobdw, servers, padding, shared };
    if jobdw.file_system == FileSystem::Lustre {
        return lustre::setup::make_file_system(&maker, profile);
    }
    let allocations = allocations(servers);
    match maker.create_missing(&allocations) {
        Ok(changes) => progress(&directive.storage, &allocations).with(changes),
        Err(error) => Progress::failed(error),
    }
    .with(servers_status::update(&directive.storage, servers, &allocations, view.now))
}

/// Creates the objects of a directive's storage.
#[derive(Debug)]
pub struct StorageMaker<'a> {
    pub view: &'a View<'a>,
    pub index: usize,
    jobdw: &'a Jobdw,
    pub servers: &'a Servers,
    padding: Option<Padding>,
    shared: bool,
}

impl StorageMaker<'_> {
    /// Plans the creation of missing objects. After Setup nothing is created again: a job must not find empty storage
    /// in the place of its data.
    fn create_missing(&self, allocations: &[Allocation]) -> Result<Vec<Change>, ResourceError> {
        let group = self.group();
        let mut changes = Vec::new();
        for allocation in allocations {
            let at = (allocation.rabbit.clone(), allocation.name.clone());
            if !group.blocks.contains_key(&at) {
                changes.push(Change::create(&self.block(allocation)));
            }
            if !group.file_systems.contains_key(&at) {
                changes.push(Change::create(&self.file_system(allocation)));
            }
        }
        let is_lost = !changes.is_empty() && is_completed(self.view, self.index, "Setup");
        if let Some(error) = deleted_storage_error(group, allocations).filter(|_| is_lost) {
            return Err(error);
        }
        Ok(changes)
    }

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

/// Returns an error if a block storage or file system was deleted, or an allocation count was changed.
pub fn deleted_storage_error(group: &Group, allocations: &[Allocation]) -> Option<ResourceError> {
    let is_lost = |allocation: &&Allocation| {
        let at = (allocation.rabbit.clone(), allocation.name.clone());
        let block = group.blocks.get(&at).map(|block| &block.metadata);
        let file_system = group.file_systems.get(&at).map(|storage| &storage.metadata);
        let stays = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_none();
        !(block.is_some_and(stays) && file_system.is_some_and(stays))
    };
    if let Some(allocation) = allocations.iter().find(is_lost) {
        return Some(internal_error(format!(
            "storage {}/{} does not exist: it was deleted, with its data, or added to Servers after Setup; tear the workflow down",
            allocation.rabbit, allocation.name
        )));
    }
    changed_count_error(group, allocations)
}

/// Returns an error if a count in Servers was changed after its storage was made.
fn changed_count_error(group: &Group, allocations: &[Allocation]) -> Option<ResourceError> {
    let count_made = |allocation: &Allocation| {
        let at = (allocation.rabbit.clone(), allocation.name.clone());
        group.file_systems.get(&at).map(|found| found.spec.count)
    };
    let mut differ =
        allocations.iter().filter_map(|allocation| Some((allocation, count_made(allocation)?)));
    let (allocation, made) = differ.find(|(allocation, made)| allocation.count != *made)?;
    Some(wlm_error(format!(
        "Servers asks for {} allocations of {} on {}, where {made} were made: set allocationCount back, or tear the workflow down",
        allocation.count, allocation.label, allocation.rabbit
    )))
}

/// Returns the progress of the rabbits with the allocations.
pub fn progress(group: &Group, all: &[Allocation]) -> Progress {
    if let Some(error) = changed_count_error(group, all).or_else(|| group.error()) {
        return Progress::failed(error);
    }
    let waited = all
        .iter()
        .filter(|allocation| !is_ready(group, allocation))
        .map(|allocation| allocation.rabbit.as_str());
    let waited: Vec<&str> = waited.collect();
    match waited.as_slice() {
        [] => Progress::default(),
        rabbits => Progress::wait(format!("storage on {}", some_of(rabbits.iter().copied()))),
    }
}

pub fn is_ready(group: &Group, allocation: &Allocation) -> bool {
    let at = (allocation.rabbit.clone(), allocation.name.clone());
    let block = group.blocks.get(&at).and_then(|block| block.status.as_ref());
    let file_system = group.file_systems.get(&at).and_then(|storage| storage.status.as_ref());
    block.is_some_and(|status| status.ready) && file_system.is_some_and(|status| status.ready)
}
