//! The parts of Setup that local file systems and Lustre share: objects to create, readiness and errors of these objects,
//! and the status of Servers.

pub mod errors;
mod maker;
pub mod servers_status;

use api::ResourceError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use self::maker::StorageMaker;
use crate::{
    objects::{allocation::Allocation, view::Group},
    progress::{Progress, internal_error, wlm_error},
};

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
    let mut waited = all
        .iter()
        .filter(|allocation| !is_ready(group, allocation))
        .map(|allocation| allocation.rabbit.as_str())
        .peekable();
    if waited.peek().is_none() {
        return Progress::default();
    }
    Progress::wait_on("storage on", waited)
}

pub fn is_ready(group: &Group, allocation: &Allocation) -> bool {
    let at = (allocation.rabbit.clone(), allocation.name.clone());
    let block = group.blocks.get(&at).and_then(|block| block.status.as_ref());
    let file_system = group.file_systems.get(&at).and_then(|storage| storage.status.as_ref());
    block.is_some_and(|status| status.ready) && file_system.is_some_and(|status| status.ready)
}
