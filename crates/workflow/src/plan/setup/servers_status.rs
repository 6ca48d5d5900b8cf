//! What the status of Servers says of the allocations.

use api::{
    Servers, ServersStatus,
    servers::{ServersStatusAllocationSet, ServersStatusStorage},
};

use k8s_openapi::jiff::Timestamp;

use super::is_ready;
use crate::{change::Change, plan::allocation::Allocation, report::micro, view::Group};

/// With at most so many allocations left, the status says at once when one of them is made.
const FEW: usize = 4;

/// The status of Servers, if it is to be written. The engine writes it when it begins, when all allocations are made, when
/// something is wrong, and when few are left, because a workload manager then wants to know on which rabbits: not once for each
/// rabbit, of which there may be hundreds.
pub fn update(
    group: &Group,
    servers: &Servers,
    all: &[Allocation],
    now: Timestamp,
) -> Option<Change> {
    let late = all.iter().filter(|one| !is_ready(group, one)).count();
    let ready = late == 0;
    let known = servers.status.clone().unwrap_or_default();
    let is_begun = !known.allocation_sets.is_empty();
    let is_quiet = is_begun && !ready && group.error().is_none();
    if is_quiet && late > FEW {
        return None;
    }
    let mut sets: Vec<ServersStatusAllocationSet> = Vec::new();
    for one in all {
        let of = match sets.iter_mut().find(|set| set.label == one.label) {
            Some(set) => set,
            None => {
                let label = one.label.clone();
                sets.push(ServersStatusAllocationSet { label, ..Default::default() });
                let Some(set) = sets.last_mut() else { continue };
                set
            }
        };
        let storage = of
            .storage
            .entry(one.rabbit.clone())
            .or_insert(ServersStatusStorage { ready: true, allocation_size: 0 });
        storage.allocation_size += group.allocated(&(one.rabbit.clone(), one.name.clone()));
        storage.ready &= is_ready(group, one);
    }
    if is_quiet && readiness(&sets).eq(readiness(&known.allocation_sets)) {
        return None;
    }
    let mut after = servers.clone();
    after.status = Some(ServersStatus {
        ready: known.ready || ready,
        allocation_sets: sets,
        error: group.error(),
        ..known.clone()
    });
    let status = after.status.as_mut().filter(|status| **status != known)?;
    status.last_update = Some(micro(now));
    Change::status(servers, &after)
}

/// Which rabbits are ready, set by set.
fn readiness(sets: &[ServersStatusAllocationSet]) -> impl Iterator<Item = (&str, bool)> {
    let all = sets.iter().flat_map(|set| &set.storage);
    all.map(|(rabbit, storage)| (rabbit.as_str(), storage.ready))
}

impl Group {
    /// Bytes that an object has on its rabbit's drives.
    fn allocated(&self, at: &controller::ObjectKey) -> i64 {
        let status = self.blocks.get(at).and_then(|block| block.status.as_ref());
        status
            .into_iter()
            .flat_map(|status| &status.allocations)
            .map(|one| one.capacity_allocated)
            .sum()
    }
}
