//! Teardown: removes targets in reverse order; the name is erased before its management target is removed.

use super::{
    mgt::{is_own, release_name},
    pool,
    targets::{STAGES, Stage, is_lustre, stage_of},
};
use crate::{
    change::Change, objects::view::Group, plan::teardown::remove_allocation, progress::Progress,
};

/// Returns true if a storage has Lustre targets or uses a management target, so that it must be
/// removed in Lustre's order.
#[must_use]
pub fn is_needed(group: &Group) -> bool {
    let has_targets = group.file_systems.values().any(|storage| is_lustre(storage));
    has_targets || !group.mgts.is_empty() || !group.pools.is_empty()
}

/// Removes the last stage that still exists.
pub fn remove_next(group: &Group) -> Progress {
    // Block storage without a target: the target was never made, or is gone.
    let unused = group.blocks.keys().filter(|at| !group.file_systems.contains_key(*at));
    let unused: Vec<Change> = unused.flat_map(|at| remove_allocation(group, at)).collect();
    for stage in STAGES.into_iter().rev().filter(|stage| *stage != Stage::Management) {
        let in_stage = group.file_systems.iter().filter(|(_, storage)| stage_of(storage) == stage);
        let in_stage: Vec<_> = in_stage.map(|(at, _)| at).collect();
        if !in_stage.is_empty() {
            let changes = in_stage.into_iter().flat_map(|at| remove_allocation(group, at));
            return Progress::default().with(changes).with(unused);
        }
    }
    release_name(group)
        .then(|| Progress::default().with(pool::release(group)))
        .then(|| remove_management(group))
        .with(unused)
}

/// Removes the management target and its NnfLustreMGT.
fn remove_management(group: &Group) -> Progress {
    let targets = group.file_systems.keys().flat_map(|at| remove_allocation(group, at));
    let own = group.mgts.values().filter(|mgt| is_own(group, mgt));
    Progress::default().with(targets).with(own.filter_map(|mgt| Change::delete(&**mgt)))
}
