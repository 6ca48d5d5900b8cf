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

pub use self::errors::of_node;
use crate::{
    change::Change,
    names::{job_id, of_storage, reference},
    plan::{
        allocation::{Allocation, allocations},
        checks, lustre, place, proposal,
    },
    profile::lines,
    progress::{Progress, internal_error, some_of, wlm_error},
    report::is_completed,
    view::{Group, View},
};

/// Places, checks and makes the storage of a directive.
pub fn storage(view: &View<'_>, index: usize, jobdw: &Jobdw) -> Progress {
    // The engine first makes again what somebody deleted since Proposal.
    proposal::objects(view, index, jobdw).then(|| proposed_storage(view, index, jobdw))
}

/// Places, checks and makes the storage that the objects of Proposal ask for.
pub fn proposed_storage(view: &View<'_>, index: usize, jobdw: &Jobdw) -> Progress {
    let of = &view.directives[index];
    let sets = of.breakdown.as_ref().and_then(|one| one.status.as_ref()?.storage.as_ref());
    let (Some(servers), Some(profile), Some(sets)) =
        (&of.storage.servers, &of.storage.profile, sets)
    else {
        return Progress::wait("its Servers, which is gone");
    };
    if of.storage.blocks.is_empty()
        && let Err(error) = checks::space_of_all(view)
    {
        return Progress::failed(error);
    }
    if servers.spec.allocation_sets.is_empty() {
        return place::fill(view, servers, &sets.allocation_sets);
    }
    if let Err(outcome) = checks::servers(view, servers, &sets.allocation_sets, &of.storage) {
        return outcome.into();
    }
    let local = lines(profile, jobdw.file_system);
    let padding = local.and_then(|local| local.allocation_padding.parse().ok());
    let shared = local.is_some_and(|local| local.block_device_commands.shared_vg);
    let maker = Maker { view, index, jobdw, servers, padding, shared };
    if jobdw.file_system == FileSystem::Lustre {
        return lustre::setup::storage(&maker, profile);
    }
    let all = allocations(servers);
    match maker.missing(&all) {
        Ok(changes) => progress(&of.storage, &all).with(changes),
        Err(error) => Progress::failed(error),
    }
    .with(servers_status::update(&of.storage, servers, &all, view.now))
}

/// Makes the objects of a directive's storage.
#[derive(Debug)]
pub struct Maker<'a> {
    pub view: &'a View<'a>,
    pub index: usize,
    jobdw: &'a Jobdw,
    pub servers: &'a Servers,
    padding: Option<Padding>,
    shared: bool,
}

impl Maker<'_> {
    /// What is not there yet. What was there and is gone is never made again: a job must not find empty storage where its data was.
    fn missing(&self, allocations: &[Allocation]) -> Result<Vec<Change>, ResourceError> {
        let group = self.group();
        let mut changes = Vec::new();
        for one in allocations {
            let at = (one.rabbit.clone(), one.name.clone());
            if !group.blocks.contains_key(&at) {
                changes.push(Change::create(&self.block(one)));
            }
            if !group.file_systems.contains_key(&at) {
                changes.push(Change::create(&self.file_system(one)));
            }
        }
        let is_lost = !changes.is_empty() && is_completed(self.view, self.index, "Setup");
        if let Some(error) = lost(group, allocations).filter(|_| is_lost) {
            return Err(error);
        }
        Ok(changes)
    }

    /// What was made of it so far.
    pub fn group(&self) -> &Group {
        &self.view.directives[self.index].storage
    }

    pub fn metadata(&self, one: &Allocation) -> ObjectMeta {
        let mut labels = of_storage(&self.view.workflow, self.index, self.servers);
        labels.insert(label::ALLOCATION_SET.to_owned(), one.label.clone());
        ObjectMeta {
            name: Some(one.name.clone()),
            namespace: Some(one.rabbit.clone()),
            labels: Some(labels),
            ..ObjectMeta::default()
        }
    }

    pub fn block(&self, one: &Allocation) -> NnfNodeBlockStorage {
        let of = |capacity: i64| NnfNodeBlockStorageAllocationSpec {
            capacity,
            access: vec![one.rabbit.clone()],
        };
        let allocations = if self.shared {
            vec![of(one.size.saturating_mul(one.count))]
        } else {
            (0..one.count).map(|_| of(one.size)).collect()
        };
        NnfNodeBlockStorage {
            metadata: self.metadata(one),
            spec: NnfNodeBlockStorageSpec { shared_allocation: self.shared, allocations },
            status: None,
        }
    }

    pub fn file_system(&self, one: &Allocation) -> NnfNodeStorage {
        let spec = &self.view.workflow.spec;
        let size = u64::try_from(one.size).unwrap_or_default();
        let visible = self.padding.map_or(size, |padding| padding.removed_from(size));
        let visible = i64::try_from(visible).unwrap_or(one.size);
        NnfNodeStorage {
            metadata: self.metadata(one),
            spec: NnfNodeStorageSpec {
                count: one.count,
                shared_allocation: self.shared,
                capacity: visible,
                user_id: spec.user_id,
                group_id: spec.group_id,
                command_variables: self.variables(one.count),
                file_system_type: FileSystemType::from(self.jobdw.file_system.as_str()),
                // The sites' controllers write it for every kind.
                lustre_storage: LustreStorageSpec {
                    lustre_components: LustreComponents::default().into(),
                    ..LustreStorageSpec::default()
                }
                .into(),
                block_reference: reference("NnfNodeBlockStorage", &one.name, &one.rabbit).into(),
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
        let one = |(name, value): (&str, String)| CommandVariable {
            name: name.to_owned(),
            value,
            ..CommandVariable::default()
        };
        all.into_iter().map(one).collect()
    }
}

/// What was made and is gone, or on its way: somebody deleted it.
pub fn lost(group: &Group, allocations: &[Allocation]) -> Option<ResourceError> {
    let is_lost = |one: &&Allocation| {
        let at = (one.rabbit.clone(), one.name.clone());
        let block = group.blocks.get(&at).map(|block| &block.metadata);
        let file_system = group.file_systems.get(&at).map(|one| &one.metadata);
        let stays = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_none();
        !(block.is_some_and(stays) && file_system.is_some_and(stays))
    };
    if let Some(one) = allocations.iter().find(is_lost) {
        return Some(internal_error(format!(
            "storage {}/{} is gone, and its data with it, or Servers names it only since Setup: tear the workflow down",
            one.rabbit, one.name
        )));
    }
    changed(group, allocations)
}

/// A count in Servers that somebody changed after its storage was made.
fn changed(group: &Group, allocations: &[Allocation]) -> Option<ResourceError> {
    let count_made = |one: &Allocation| {
        let at = (one.rabbit.clone(), one.name.clone());
        group.file_systems.get(&at).map(|found| found.spec.count)
    };
    let mut differ = allocations.iter().filter_map(|one| Some((one, count_made(one)?)));
    let (one, made) = differ.find(|(one, made)| one.count != *made)?;
    Some(wlm_error(format!(
        "Servers asks for {} allocations of {} on {}, where {made} were made: set allocationCount back, or tear the workflow down",
        one.count, one.label, one.rabbit
    )))
}

/// How far the rabbits are.
pub fn progress(group: &Group, all: &[Allocation]) -> Progress {
    if let Some(error) = changed(group, all).or_else(|| group.error()) {
        return Progress::failed(error);
    }
    let waited = all.iter().filter(|one| !is_ready(group, one)).map(|one| one.rabbit.as_str());
    let waited: Vec<&str> = waited.collect();
    match waited.as_slice() {
        [] => Progress::default(),
        rabbits => Progress::wait(format!("storage on {}", some_of(rabbits.iter().copied()))),
    }
}

pub fn is_ready(group: &Group, one: &Allocation) -> bool {
    let at = (one.rabbit.clone(), one.name.clone());
    let block = group.blocks.get(&at).and_then(|block| block.status.as_ref());
    let file_system = group.file_systems.get(&at).and_then(|one| one.status.as_ref());
    block.is_some_and(|status| status.ready) && file_system.is_some_and(|status| status.ready)
}
