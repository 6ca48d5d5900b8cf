//! Teardown: targets go in the opposite order, and the name is erased before its management target goes.

use super::{
    mgt::{is_own, released},
    pool,
    targets::{STAGES, Stage, is_lustre, stage_of},
};
use crate::{change::Change, plan::teardown::removed, progress::Progress, view::Group};

/// Whether a storage is to be taken down in Lustre's order.
#[must_use]
pub fn is_needed(group: &Group) -> bool {
    let has_targets = group.file_systems.values().any(|one| is_lustre(one));
    has_targets || !group.mgts.is_empty() || !group.pools.is_empty()
}

/// The next of it to go.
pub fn next(group: &Group) -> Progress {
    // No target was made on these, or it is gone.
    let lonely = group.blocks.keys().filter(|at| !group.file_systems.contains_key(*at));
    let lonely: Vec<Change> = lonely.flat_map(|at| removed(group, at)).collect();
    for stage in STAGES.into_iter().rev().filter(|stage| *stage != Stage::Management) {
        let of = group.file_systems.iter().filter(|(_, one)| stage_of(one) == stage);
        let of: Vec<_> = of.map(|(at, _)| at).collect();
        if !of.is_empty() {
            let changes = of.into_iter().flat_map(|at| removed(group, at));
            return Progress::default().with(changes).with(lonely);
        }
    }
    released(group)
        .then(|| Progress::default().with(pool::release(group)))
        .then(|| management(group))
        .with(lonely)
}

/// The management target, and what stands for it.
fn management(group: &Group) -> Progress {
    let targets = group.file_systems.keys().flat_map(|at| removed(group, at));
    let own = group.mgts.values().filter(|mgt| is_own(group, mgt));
    Progress::default().with(targets).with(own.filter_map(|mgt| Change::delete(&**mgt)))
}
