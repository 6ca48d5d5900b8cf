//! Writes the status of Servers.

use api::{
    Servers, ServersStatus,
    servers::{ServersStatusAllocationSet, ServersStatusStorage},
};

use k8s_openapi::jiff::Timestamp;

use super::is_ready;
use crate::{
    change::Change,
    objects::{allocation::Allocation, view::Group},
    report::micro_time,
};

/// When at most this many allocations are missing, the status is written after each further allocation.
const FEW: usize = 4;

/// Plans the status of Servers if it has to be written: at the beginning, when all allocations are made, on errors, and
/// when at most [`FEW`] allocations are missing, because a workload manager then wants to know which rabbits are not
/// ready yet. There may be hundreds of rabbits, so the status is not written after each rabbit.
pub fn update(
    group: &Group,
    servers: &Servers,
    all: &[Allocation],
    now: Timestamp,
) -> Option<Change> {
    let late = all.iter().filter(|allocation| !is_ready(group, allocation)).count();
    let ready = late == 0;
    let known = servers.status.clone().unwrap_or_default();
    let is_begun = !known.allocation_sets.is_empty();
    let is_quiet = is_begun && !ready && group.error().is_none();
    if is_quiet && late > FEW {
        return None;
    }
    let mut sets: Vec<ServersStatusAllocationSet> = Vec::new();
    for allocation in all {
        let set = match sets.iter_mut().find(|set| set.label == allocation.label) {
            Some(set) => set,
            None => {
                let label = allocation.label.clone();
                sets.push(ServersStatusAllocationSet { label, ..Default::default() });
                let Some(new_set) = sets.last_mut() else { continue };
                new_set
            }
        };
        let storage = set
            .storage
            .entry(allocation.rabbit.clone())
            .or_insert(ServersStatusStorage { ready: true, allocation_size: 0 });
        storage.allocation_size +=
            group.allocated_bytes(&(allocation.rabbit.clone(), allocation.name.clone()));
        storage.ready &= is_ready(group, allocation);
    }
    if is_quiet && readiness_by_label(&sets).eq(readiness_by_label(&known.allocation_sets)) {
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
    status.last_update = Some(micro_time(now));
    Change::status(servers, &after)
}

/// Returns, for each rabbit of each label, whether the rabbit is ready.
fn readiness_by_label(sets: &[ServersStatusAllocationSet]) -> impl Iterator<Item = (&str, bool)> {
    let all = sets.iter().flat_map(|set| &set.storage);
    all.map(|(rabbit, storage)| (rabbit.as_str(), storage.ready))
}

impl Group {
    /// Returns the bytes that a block storage has allocated on its rabbit's drives.
    fn allocated_bytes(&self, at: &controller::ObjectKey) -> i64 {
        let status = self.blocks.get(at).and_then(|block| block.status.as_ref());
        status
            .into_iter()
            .flat_map(|status| &status.allocations)
            .map(|allocation| allocation.capacity_allocated)
            .sum()
    }
}
