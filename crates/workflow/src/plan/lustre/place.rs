//! Places Lustre targets when no workload manager does, and checks which targets share a rabbit. Clients reach targets
//! over the network, so any rabbit will do; rabbits that serve the job's computes come first.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    RabbitLabels, ResourceError, Servers, directive_breakdown::StorageAllocationSet,
    servers::ServersAllocationSet,
};
use controller::ObjectKey;
use directive::{
    breakdown::Strategy,
    capacity::LUSTRE_LEAST,
    placement::{Served, Wanted, place},
};
use kube::ResourceExt;

use crate::{
    names::OWNER_KIND,
    objects::{allocation::mgs_rabbit, view::View},
    plan::{
        checks,
        place::{to_servers_set, to_wanted},
    },
    progress::{Outcome, transient_error, wlm_error},
};

/// `colocation` key of management targets: a kernel runs only one management server.
const MGT_KEY: &str = "lustre-mgt";

/// Places all sets of a Lustre file system.
///
/// # Errors
/// The reason why a set cannot be placed.
pub fn place_sets(
    view: &View<'_>,
    servers: &Servers,
    sets: &[StorageAllocationSet],
) -> Result<Vec<ServersAllocationSet>, Outcome> {
    let (near, far) = rabbits(view, servers)?;
    let mut placed: BTreeMap<&str, ServersAllocationSet> = BTreeMap::new();
    let mut alone: BTreeSet<String> = BTreeSet::new();
    let mut order: Vec<&StorageAllocationSet> = sets.iter().collect();
    // Sets that must be alone on their rabbits choose first.
    order.sort_by_key(|set| !is_alone(set));
    for set in order {
        let wanted = to_wanted(set)?;
        let is_free = |served: &&Served| {
            !alone.contains(&served.rabbit)
                && (!has_key(set, MGT_KEY) || mgs_on(view, servers, &served.rabbit).is_none())
                && has_labels(view, set, &served.rabbit)
        };
        let near: Vec<Served> = near.iter().filter(is_free).cloned().collect();
        let far: Vec<Served> = far.iter().filter(is_free).cloned().collect();
        let on = candidates(&wanted, near, far, !alone.is_empty() || is_alone(set));
        let placed_sets =
            place(&[wanted], &on, LUSTRE_LEAST).map_err(|_| no_place_error(view, servers, set))?;
        for found in placed_sets.into_iter().map(to_servers_set) {
            if is_alone(set) {
                alone.extend(found.storage.iter().map(|storage| storage.name.clone()));
            }
            placed.insert(&set.label, found);
        }
    }
    Ok(sets.iter().filter_map(|set| placed.remove(set.label.as_str())).collect())
}

/// Returns the rabbits that a set may use: the rabbits that serve the job's computes (`near`) and, if the number of the
/// set's targets is given and they must be apart, also the other rabbits (`far`). Without any rabbit in `near`, returns
/// all of `far` if the number of targets is given, else only the first of `far`.
fn candidates(wanted: &Wanted, near: Vec<Served>, far: Vec<Served>, is_apart: bool) -> Vec<Served> {
    let is_counted = wanted.count.is_some() || wanted.strategy == Strategy::SingleServer;
    match (near.is_empty(), is_counted) {
        (false, true) if is_apart => near.into_iter().chain(far).collect(),
        (false, _) => near,
        (true, true) => far,
        (true, false) => far.into_iter().take(1).collect(),
    }
}

/// Returns the rabbits that take new storage: first the rabbits of the job's computes in the job's order, then all
/// other rabbits, emptiest first.
fn rabbits(
    view: &View<'_>,
    servers: &Servers,
) -> Result<(Vec<Served>, Vec<Served>), ResourceError> {
    let mut near: Vec<Served> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for compute in view.computes() {
        if !view.site.has_compute(compute) {
            return Err(wlm_error(format!(
                "Computes names {compute}, which the system does not have: name computes that SystemConfiguration default/default lists"
            )));
        }
        let Some(rabbit) = view.site.rabbit_of.get(compute) else { continue };
        let place = *places.entry(rabbit).or_insert_with(|| {
            near.push(Served { rabbit: rabbit.clone(), computes: 0 });
            near.len() - 1
        });
        near[place].computes += 1;
    }
    let serves = |rabbit: &str| {
        let storage = view.site.storages.get(rabbit);
        storage.is_some_and(|storage| checks::serves(rabbit, storage).is_ok())
    };
    let asking: ObjectKey = (servers.namespace().unwrap_or_default(), servers.name_any());
    let free = |rabbit: &str| {
        let node = view.site.nodes.get(rabbit);
        node.map_or(0, |node| view.site.reservations.space(rabbit, node, &asking).free)
    };
    let all = view.site.rabbits().into_iter();
    let mut far: Vec<(i64, &str)> = all
        .filter(|rabbit| !places.contains_key(rabbit) && serves(rabbit))
        .map(|rabbit| (-free(rabbit), rabbit))
        .collect();
    far.sort_unstable();
    near.retain(|served| serves(&served.rabbit));
    let far = far.into_iter().map(|(_, rabbit)| Served { rabbit: rabbit.to_owned(), computes: 1 });
    Ok((near, far.collect()))
}

/// Returns why a set has no place. The outcome is Queued if a rabbit would take the set once the rabbit's
/// management target is removed.
fn no_place_error(view: &View<'_>, servers: &Servers, set: &StorageAllocationSet) -> Outcome {
    let all = view.site.rabbits().into_iter().filter(|rabbit| {
        let storage = view.site.storages.get(*rabbit);
        storage.is_some_and(|storage| {
            checks::serves(rabbit, storage).is_ok() && checks::missing_label(storage, set).is_none()
        })
    });
    let taken = |rabbit| Some((rabbit, mgs_on(view, servers, rabbit)?));
    let mut taken = all.filter(|_| has_key(set, MGT_KEY)).filter_map(taken);
    if let Some((rabbit, whose)) = taken.next() {
        return Outcome::Queued(format!(
            "a rabbit without a management target, because a rabbit serves only one: for example {rabbit}, once the target of {whose} is removed"
        ));
    }
    Outcome::Failed(transient_error(format!(
        "no rabbit can take the {} targets: each is drained or disabled, lacks a label of the profile's storageLabels, or holds a target that must not share a rabbit with it; the workflow continues when a rabbit is free",
        set.label
    )))
}

fn has_key(set: &StorageAllocationSet, key: &str) -> bool {
    set.constraints.colocation.iter().any(|entry| entry.key == key)
}

/// Returns true if the targets must not share a rabbit with another target of the file system. An empty `colocation`
/// key asks for this.
fn is_alone(set: &StorageAllocationSet) -> bool {
    has_key(set, "")
}

fn has_labels(view: &View<'_>, set: &StorageAllocationSet, rabbit: &str) -> bool {
    let storage = view.site.storages.get(rabbit);
    storage.is_some_and(|storage| checks::missing_label(storage, set).is_none())
}

/// Checks that targets that must be apart are on different rabbits.
///
/// # Errors
/// The set and the rabbit.
pub fn check_colocation(
    view: &View<'_>,
    servers: &Servers,
    sets: &[StorageAllocationSet],
) -> Result<(), Outcome> {
    for set in sets.iter().filter(|set| is_alone(set)) {
        let rabbits_of = |is_this: bool| {
            let sets = servers.spec.allocation_sets.iter();
            let sets = sets.filter(move |given| (given.label == set.label) == is_this);
            sets.flat_map(|given| &given.storage).map(|storage| storage.name.as_str())
        };
        let others: BTreeSet<&str> = rabbits_of(false).collect();
        if let Some(rabbit) = rabbits_of(true).find(|rabbit| others.contains(rabbit)) {
            return Err(Outcome::Failed(wlm_error(format!(
                "Servers puts other targets beside {} on {rabbit}, which the profile excludes (colocation): name another rabbit for it",
                set.label
            ))));
        }
    }
    let keyed = sets.iter().any(|set| has_key(set, MGT_KEY));
    let Some(rabbit) = mgs_rabbit(servers).filter(|_| keyed) else { return Ok(()) };
    match mgs_on(view, servers, rabbit) {
        Some(whose) => Err(Outcome::Queued(format!(
            "removal of the management target of {whose} from {rabbit}, which serves only one (colocation {MGT_KEY})"
        ))),
        None => Ok(()),
    }
}

/// Returns the owner of the management target that a rabbit has, or is reserved for.
fn mgs_on(view: &View<'_>, servers: &Servers, rabbit: &str) -> Option<String> {
    let asking: ObjectKey = (servers.namespace().unwrap_or_default(), servers.name_any());
    let is_other = |owner: &api::names::OwnerRef<'_>| {
        owner.kind != OWNER_KIND || (owner.namespace, owner.name) != (&*asking.0, &*asking.1)
    };
    let there = view.site.mgts.on_rabbit(rabbit).find_map(|mgt| {
        let owner = mgt.owner();
        match owner {
            Some(owner) if !is_other(&owner) => None,
            _ => Some(mgt.workflow().map_or_else(
                || format!("NnfLustreMGT {rabbit}/{}", mgt.name_any()),
                |workflow| format!("workflow {}/{}", workflow.namespace, workflow.name),
            )),
        }
    });
    there.or_else(|| {
        let holder = view.site.reservations.mgs_of(rabbit, &asking)?;
        Some(format!("Servers {}/{}", holder.0, holder.1))
    })
}
