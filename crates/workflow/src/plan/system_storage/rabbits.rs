//! Reserves the space of a system storage on its rabbits, and creates block storage and file systems there.

use std::collections::BTreeSet;

use api::{
    NnfNodeStorage, Servers,
    names::label,
    nnf_node_storage::CommandVariable,
    servers::{ServersAllocationSet, ServersStorage},
};
use directive::capacity::Padding;
use kube::ResourceExt;

use super::{choice::Choice, presented::Presented};
use crate::{
    change::Change,
    objects::{
        allocation::{Allocation, allocations},
        system_storage::SystemStorageView,
    },
    plan::{
        checks,
        storage::{self, StorageMaker},
    },
    profile::local_profile,
    progress::{Outcome, Progress},
};

/// Label of the allocation set.
const ALLOCATION_SET: &str = "system-storage";

/// Makes the storage on the chosen rabbits.
pub(super) fn make(
    view: &SystemStorageView<'_>,
    presented: &Presented<'_>,
    servers: &Servers,
    choice: &Choice<'_>,
) -> Progress {
    let (after, outcome) = with_placement(view, presented, servers, choice);
    let reserved = Progress::from(outcome).with(Change::patch(servers, &after));
    let all = allocations(servers);
    let chosen: Vec<&Allocation> =
        all.iter().filter(|allocation| choice.rabbits.contains_key(&*allocation.rabbit)).collect();
    let local = view.profile.as_ref();
    let local = local.and_then(|profile| local_profile(profile, presented.jobdw.file_system));
    let padding: Option<Padding> = local.and_then(|local| local.allocation_padding.parse().ok());
    let Some(labelled) = &presented.group().servers else { return reserved };
    let maker = StorageMaker {
        view: &presented.view,
        index: 0,
        jobdw: &presented.jobdw,
        servers: labelled,
        padding,
        shared: local.is_some_and(|local| local.block_device_commands.shared_vg),
    };
    let created = chosen.iter().flat_map(|allocation| create_missing(&maker, allocation, choice));
    reserved.and(progress(view, &chosen).with(created))
}

/// Returns the Servers with the allocations of all rabbits that have the storage, or have space for it, and the outcome
/// for those without space.
fn with_placement(
    view: &SystemStorageView<'_>,
    presented: &Presented<'_>,
    servers: &Servers,
    choice: &Choice<'_>,
) -> (Servers, Outcome) {
    let set = |rabbits: &BTreeSet<&str>| ServersAllocationSet {
        allocation_size: view.object.spec.capacity,
        label: ALLOCATION_SET.to_owned(),
        storage: rabbits
            .iter()
            .map(|name| ServersStorage {
                name: (*name).to_owned(),
                allocation_count: choice.count(),
            })
            .collect(),
    };
    let unread = view.storage.unreadable.iter();
    let unread = unread.filter(|(rabbit, _)| choice.rabbits.contains_key(rabbit.as_str()));
    let there = view.storage.blocks.keys().chain(unread);
    let mut rabbits: BTreeSet<&str> = there.map(|(rabbit, _)| rabbit.as_str()).collect();
    let mut without_space = Progress::default();
    let without: Vec<&str> =
        choice.rabbits.keys().copied().filter(|rabbit| !rabbits.contains(rabbit)).collect();
    for rabbit in without {
        let mut alone = servers.clone();
        alone.spec.allocation_sets = vec![set(&BTreeSet::from([rabbit]))];
        match checks::space(&presented.view, &alone) {
            Ok(()) => drop(rabbits.insert(rabbit)),
            Err(outcome) => without_space = without_space.and(outcome.into()),
        }
    }
    let mut after = servers.clone();
    if let Some(labelled) = &presented.group().servers {
        after.metadata.labels.clone_from(&labelled.metadata.labels);
    }
    after.spec.allocation_sets = if rabbits.is_empty() { Vec::new() } else { vec![set(&rabbits)] };
    (after, without_space.outcome)
}

/// Creates the block storage and the file system of an allocation, unless they exist.
fn create_missing(
    maker: &StorageMaker<'_>,
    allocation: &Allocation,
    choice: &Choice<'_>,
) -> Vec<Change> {
    let group = maker.group();
    let at = (allocation.rabbit.clone(), allocation.name.clone());
    let mut changes = Vec::new();
    if group.unreadable.contains(&at) {
        return changes;
    }
    if !group.blocks.contains_key(&at) {
        let mut block = maker.block(allocation);
        let kind = maker.jobdw.file_system.as_str().to_owned();
        block.labels_mut().insert(label::FILE_SYSTEM.to_owned(), kind);
        changes.push(Change::create(&block));
    }
    if !group.file_systems.contains_key(&at) {
        let file_system = maker.file_system(allocation);
        changes.push(Change::create(&with_hosts(file_system, choice)));
    }
    changes
}

/// Sets the variables of the command lines that name computes.
fn with_hosts(mut file_system: NnfNodeStorage, choice: &Choice<'_>) -> NnfNodeStorage {
    let rabbit = file_system.namespace().unwrap_or_default();
    let variables = &mut file_system.spec.command_variables;
    let Some(indices) = &choice.indices else {
        // All computes of the chassis, and the rabbit, may have the one allocation open.
        let count = variables.iter_mut().find(|variable| variable.name == "$HOST_COUNT");
        count.into_iter().for_each(|count| count.value = (choice.hosts + 1).to_string());
        return file_system;
    };
    let computes = choice.rabbits.get(rabbit.as_str()).map(|node| &node.computes_access);
    let host_at = |index: &i64| {
        let mut computes = computes.into_iter().flatten();
        let compute = computes.find(|compute| compute.index == *index);
        compute.map(|compute| compute.name.clone()).unwrap_or_default()
    };
    variables.push(CommandVariable {
        name: "$COMPUTE_HOSTNAME".to_owned(),
        indexed: true,
        value: String::new(),
        indexed_values: indices.iter().map(host_at).collect(),
    });
    file_system
}

/// Returns the progress of the rabbits.
fn progress(view: &SystemStorageView<'_>, chosen: &[&Allocation]) -> Progress {
    let group = &view.storage;
    let is_made = |allocation: &&&Allocation| {
        let at = (allocation.rabbit.clone(), allocation.name.clone());
        let block = group.blocks.get(&at).map(|block| &block.metadata);
        let file_system = group.file_systems.get(&at).map(|storage| &storage.metadata);
        let metadata = [block, file_system].into_iter().flatten();
        storage::is_ready(group, allocation)
            && metadata.into_iter().all(|metadata| metadata.deletion_timestamp.is_none())
    };
    let waited: Vec<&str> = chosen
        .iter()
        .filter(|allocation| !is_made(allocation))
        .map(|allocation| allocation.rabbit.as_str())
        .collect();
    if waited.is_empty() {
        return Progress::default();
    }
    let is_waited = |rabbit: &String| waited.contains(&rabbit.as_str());
    match group.error_of(|object| object.namespace.as_ref().is_some_and(is_waited)) {
        Some(error) => Progress::failed(error),
        None => Progress::wait_on("storage on", waited),
    }
}
