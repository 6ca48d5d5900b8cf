//! Setup: places the storage of a directive, and creates block storage and file systems on the rabbits that Servers names.

use api::ResourceError;
use directive::{FileSystem, Jobdw};

use crate::{
    change::Change,
    objects::{
        allocation::{Allocation, allocations},
        view::View,
    },
    plan::{
        checks, limits, lustre, place, proposal,
        storage::{self, StorageMaker, deleted_storage_error, servers_status},
    },
    profile::local_profile,
    progress::Progress,
    report::is_completed,
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
        && let Err(error) = limits::check_placed(view).and_then(|()| checks::space_of_all(view))
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
    match create_missing(&maker, &allocations) {
        Ok(changes) => storage::progress(&directive.storage, &allocations).with(changes),
        Err(error) => Progress::failed(error),
    }
    .with(servers_status::update(&directive.storage, servers, &allocations, view.now))
}

/// Plans the creation of missing objects. After Setup nothing is created again: a job must not find empty storage
/// in the place of its data.
fn create_missing(
    maker: &StorageMaker<'_>,
    allocations: &[Allocation],
) -> Result<Vec<Change>, ResourceError> {
    let group = maker.group();
    let mut changes = Vec::new();
    for allocation in allocations {
        let at = (allocation.rabbit.clone(), allocation.name.clone());
        if !group.blocks.contains_key(&at) {
            changes.push(Change::create(&maker.block(allocation)));
        }
        if !group.file_systems.contains_key(&at) {
            changes.push(Change::create(&maker.file_system(allocation)));
        }
    }
    let is_lost = !changes.is_empty() && is_completed(maker.view, maker.index, "Setup");
    if let Some(error) = deleted_storage_error(group, allocations).filter(|_| is_lost) {
        return Err(error);
    }
    Ok(changes)
}
