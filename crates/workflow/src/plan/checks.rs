//! Checks that a workload manager filled Servers as the breakdown asks, and that the rabbits have the capacity.

use std::collections::BTreeMap;

use api::{
    ResourceError, Servers, Storage,
    directive_breakdown::{AllocationStrategy, StorageAllocationSet},
    servers::ServersAllocationSet,
    storage::{ResourceStatus, StorageState},
};
use controller::ObjectKey;
use kube::ResourceExt;

use crate::{
    objects::{
        allocation::bytes_of,
        reservations::Reservations,
        view::{Group, View},
    },
    plan::{lustre, place},
    progress::{Outcome, transient_error, wlm_error},
};

type Checked = Result<(), ResourceError>;

/// Checks a Servers against its breakdown, the job and the system. Once the storage of the Servers is being made, the
/// free capacity is not checked any more.
///
/// # Errors
/// The field that is wrong, its value, and the remedy.
pub fn servers(
    view: &View<'_>,
    servers: &Servers,
    sets: &[StorageAllocationSet],
    group: &Group,
) -> Result<(), Outcome> {
    let filled = &servers.spec.allocation_sets;
    if filled.len() != sets.len() {
        return Err(Outcome::Failed(wlm_error(format!(
            "Servers has {} allocationSets and the breakdown {}: give each label one",
            filled.len(),
            sets.len()
        ))));
    }
    for wanted in sets {
        let mut with_label = filled.iter().filter(|set| set.label == wanted.label);
        let (Some(set), None) = (with_label.next(), with_label.next()) else {
            return Err(Outcome::Failed(wlm_error(format!(
                "Servers must have one allocation set with label {:?}: correct spec.allocationSets[].label",
                wanted.label
            ))));
        };
        check_shape(wanted, set)?;
        check_computes(view, wanted, set)?;
        check_rabbits(view, wanted, set)?;
    }
    if !group.blocks.is_empty() {
        return Ok(());
    }
    lustre::place::check_colocation(view, servers, sets)?;
    space(view, servers)
}

/// Largest `allocationCount`: no rabbit has so many computes, or room for so many allocations.
const MOST: i64 = 4096;

/// Checks each `allocationCount` of a set against 1 to [`MOST`].
///
/// # Errors
/// The first count outside that range.
pub fn counts(set: &ServersAllocationSet) -> Checked {
    let is_bad = |count: i64| !(1..=MOST).contains(&count);
    match set.storage.iter().find(|storage| is_bad(storage.allocation_count)) {
        Some(bad) => Err(wlm_error(format!(
            "Servers asks for {} allocations of {} on {}: ask for 1 to {MOST} (allocationCount)",
            bad.allocation_count, set.label, bad.name
        ))),
        None => Ok(()),
    }
}

/// Returns the minimum capacity of a set in bytes: of each allocation or of all together, as its strategy says.
///
/// # Errors
/// When `minimumCapacity` is not positive.
pub fn minimum(set: &StorageAllocationSet) -> Result<u64, ResourceError> {
    let bytes = u64::try_from(set.minimum_capacity).ok().filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| {
        wlm_error(format!(
            "the DirectiveBreakdown's minimumCapacity of {} is {}: delete the DirectiveBreakdown; the engine creates it again",
            set.label, set.minimum_capacity
        ))
    })
}

/// Checks sizes and counts.
fn check_shape(wanted: &StorageAllocationSet, set: &ServersAllocationSet) -> Checked {
    counts(set)?;
    let (label, minimum) = (&wanted.label, minimum(wanted)?);
    let count: i64 = set.storage.iter().map(|storage| storage.allocation_count).sum();
    let is_each = wanted.allocation_strategy == AllocationStrategy::PerCompute;
    let bytes =
        if is_each { set.allocation_size } else { set.allocation_size.saturating_mul(count) };
    if u64::try_from(bytes).unwrap_or_default() < minimum {
        let field =
            if is_each { "allocationSize" } else { "allocationSize times all allocationCounts" };
        return Err(wlm_error(format!(
            "Servers gives {label} too little: {field} is {bytes} bytes, and {minimum} are needed"
        )));
    }
    let exact = match wanted.allocation_strategy {
        AllocationStrategy::SingleServer => Some(1),
        AllocationStrategy::AcrossServers => {
            Some(wanted.constraints.count).filter(|count| *count > 0)
        }
        AllocationStrategy::PerCompute
        | AllocationStrategy::PerServer
        | AllocationStrategy::Other(_) => None,
    };
    match exact.filter(|exact| *exact != count) {
        Some(exact) => Err(wlm_error(format!(
            "Servers asks for {count} allocations of {label}, and the breakdown for {exact}: correct allocationCount"
        ))),
        None => Ok(()),
    }
}

/// Checks that each of the job's computes has an allocation, once the computes are known.
fn check_computes(
    view: &View<'_>,
    wanted: &StorageAllocationSet,
    set: &ServersAllocationSet,
) -> Checked {
    if wanted.allocation_strategy != AllocationStrategy::PerCompute {
        return Ok(());
    }
    let mut needed: BTreeMap<&str, i64> = BTreeMap::new();
    for compute in view.computes() {
        if let Some(rabbit) = view.site.rabbit_of.get(compute) {
            *needed.entry(rabbit).or_default() += 1;
        }
    }
    for (rabbit, needed) in needed {
        let on_rabbit = set.storage.iter().filter(|storage| storage.name == rabbit);
        let count: i64 = on_rabbit.map(|storage| storage.allocation_count).sum();
        if count < needed {
            return Err(wlm_error(format!(
                "Servers asks for {count} allocations of {} on {rabbit}, which serves {needed} of the job's computes: ask for one for each",
                wanted.label
            )));
        }
    }
    Ok(())
}

/// Checks that the rabbits exist, have the labels that the breakdown asks for, and take new storage.
fn check_rabbits(
    view: &View<'_>,
    wanted: &StorageAllocationSet,
    set: &ServersAllocationSet,
) -> Checked {
    for named in &set.storage {
        let Some(storage) = view.site.storages.get(&named.name) else {
            return Err(wlm_error(format!(
                "Servers names {}, and there is no Storage default/{}: name rabbits of this system",
                named.name, named.name
            )));
        };
        if let Some(label) = missing_label(storage, wanted) {
            return Err(wlm_error(format!(
                "Servers names {}, whose Storage lacks the label {label}: name a rabbit that has it",
                named.name
            )));
        }
        serves(&named.name, storage)?;
    }
    Ok(())
}

/// Returns the first label that the set asks for and the rabbit's Storage lacks.
pub fn missing_label<'a>(
    storage: &Storage,
    wanted: &'a StorageAllocationSet,
) -> Option<&'a String> {
    let labels = storage.labels();
    wanted.constraints.labels.iter().find(|label| {
        label
            .split_once('=')
            .is_none_or(|(key, value)| labels.get(key).is_none_or(|has| has != value))
    })
}

/// Checks that a rabbit takes new storage.
///
/// # Errors
/// When the rabbit is disabled, or its status is neither Ready nor Degraded.
pub fn serves(rabbit: &str, storage: &Storage) -> Checked {
    enabled(rabbit, storage)?;
    match storage.status.as_ref().and_then(|status| status.status.clone()) {
        Some(ResourceStatus::Ready | ResourceStatus::Degraded) => Ok(()),
        other => {
            let condition =
                other.map_or_else(|| "not known".to_owned(), |status| status.to_string());
            Err(transient_error(format!(
                "{rabbit} takes no new storage (Storage default/{rabbit} is {condition}): read its agent's log, or place the storage elsewhere"
            )))
        }
    }
}

/// Checks that an administrator lets jobs use a rabbit.
///
/// # Errors
/// When the rabbit is disabled.
pub fn enabled(rabbit: &str, storage: &Storage) -> Checked {
    if storage.spec.state != StorageState::Disabled {
        return Ok(());
    }
    Err(transient_error(format!(
        "{rabbit} is disabled by an administrator (Storage default/{rabbit}, spec.state): enable it, or place the job elsewhere"
    )))
}

/// Checks that the rabbits have the bytes that a Servers asks for, not counting bytes that other Servers have reserved.
///
/// # Errors
/// Failed with the rabbit and the missing bytes; Queued when other jobs hold the bytes.
pub fn space(view: &View<'_>, servers: &Servers) -> Result<(), Outcome> {
    let asking: ObjectKey = (servers.namespace().unwrap_or_default(), servers.name_any());
    if let Some((namespace, name)) = view.site.reservations.blocking_unreadable(&asking) {
        return Err(Outcome::Failed(transient_error(format!(
            "Servers {namespace}/{name} cannot be read, so its reservations on rabbits are unknown: correct it, or tear its workflow down; until then no new storage is placed"
        ))));
    }
    for (rabbit, needed) in demand([servers]) {
        let Some(node) = view.site.nodes.get(&rabbit) else {
            return Err(Outcome::Failed(transient_error(format!(
                "{rabbit} has not reported its free capacity (no NnfNode {rabbit}/nnf-nlc): start its rabbit-agent"
            ))));
        };
        let space = view.site.reservations.space(&rabbit, node, &asking);
        if needed > space.total {
            return Err(Outcome::Failed(wlm_error(format!(
                "{rabbit}: insufficient capacity available: {needed} bytes are requested, and its drives have {} in all",
                space.total
            ))));
        }
        // The message omits the free byte count: it changes with every allocation, and each change would rewrite the
        // status of every waiting workflow.
        if needed > space.free {
            return Err(Outcome::Queued(format!(
                "capacity on {rabbit}: {needed} bytes are requested, and fewer are free; the workflow continues when other jobs release theirs"
            )));
        }
    }
    Ok(())
}

/// Returns the bytes that these Servers ask for, by rabbit.
fn demand<'a>(all: impl IntoIterator<Item = &'a Servers>) -> BTreeMap<String, i64> {
    let mut needed: BTreeMap<String, i64> = BTreeMap::new();
    for set in all.into_iter().flat_map(|servers| &servers.spec.allocation_sets) {
        for part in &set.storage {
            let sum = needed.entry(part.name.clone()).or_default();
            *sum = sum.saturating_add(bytes_of(set).saturating_mul(part.allocation_count));
        }
    }
    needed
}

/// Checks that the rabbits have the bytes that all directives of the workflow ask for together. Without this check,
/// each directive would wait for the other directives to release their bytes.
///
/// # Errors
/// When all drives of a rabbit together have fewer bytes than the directives ask for there.
pub fn space_of_all(view: &View<'_>) -> Checked {
    let filled = view.directives.iter().enumerate().filter_map(|(index, directive)| {
        let servers = directive.storage.servers.as_ref()?;
        match place::fill_if_empty(view, index) {
            Some(placed) => placed.ok(),
            None => Some(Servers::clone(servers)),
        }
    });
    let all: Vec<Servers> = filled.collect();
    if all.len() < 2 {
        return Ok(());
    }
    for (rabbit, needed) in demand(&all) {
        let Some(total) = view.site.nodes.get(&rabbit).map(|node| Reservations::total(node)) else {
            continue;
        };
        if needed > total {
            return Err(wlm_error(format!(
                "{rabbit}: insufficient capacity available: the directives of this workflow ask for {needed} bytes together, and its drives have {total} in all"
            )));
        }
    }
    Ok(())
}
