//! Where targets go when nobody says so, and which rabbits may hold which targets together. Clients come over the network, so
//! any rabbit will do; those that serve the job's computes come first.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    RabbitLabels, ResourceError, Servers, directive_breakdown::StorageAllocationSet,
    servers::ServersAllocationSet,
};
use controller::ObjectKey;
use directive::{
    breakdown::{Label, Strategy},
    capacity::LUSTRE_LEAST,
    placement::{Served, Wanted, place},
};
use kube::ResourceExt;

use crate::{
    names::OWNER_KIND,
    plan::{
        allocation::mgs_rabbit,
        checks,
        place::{set, wanted},
    },
    progress::{Outcome, transient_error, wlm_error},
    view::View,
};

/// The key of targets of which a kernel runs one.
const MGT_KEY: &str = "lustre-mgt";

/// Whether a set is of Lustre targets.
#[must_use]
pub fn is_lustre(label: &str) -> bool {
    matches!(Label::from_text(label), Some(Label::Mgt | Label::Mdt | Label::MgtMdt | Label::Ost))
}

/// Places all sets.
///
/// # Errors
/// Why a set has no place.
pub fn placed(
    view: &View<'_>,
    servers: &Servers,
    sets: &[StorageAllocationSet],
) -> Result<Vec<ServersAllocationSet>, Outcome> {
    let (near, far) = rabbits(view, servers)?;
    let mut placed: BTreeMap<&str, ServersAllocationSet> = BTreeMap::new();
    let mut alone: BTreeSet<String> = BTreeSet::new();
    let mut order: Vec<&StorageAllocationSet> = sets.iter().collect();
    // Who must be alone chooses first.
    order.sort_by_key(|set| !is_alone(set));
    for one in order {
        let wanted = wanted(one)?;
        let is_free = |served: &&Served| {
            !alone.contains(&served.rabbit)
                && (!has_key(one, MGT_KEY) || mgs_on(view, servers, &served.rabbit).is_none())
                && has_labels(view, one, &served.rabbit)
        };
        let near: Vec<Served> = near.iter().filter(is_free).cloned().collect();
        let far: Vec<Served> = far.iter().filter(is_free).cloned().collect();
        let on = candidates(&wanted, near, far, !alone.is_empty() || is_alone(one));
        let of = place(&[wanted], &on, LUSTRE_LEAST).map_err(|_| no_place(view, servers, one))?;
        for found in of.into_iter().map(set) {
            if is_alone(one) {
                alone.extend(found.storage.iter().map(|storage| storage.name.clone()));
            }
            placed.insert(&one.label, found);
        }
    }
    Ok(sets.iter().filter_map(|one| placed.remove(one.label.as_str())).collect())
}

/// The rabbits that may have a target: those of the computes alone, unless targets must be apart from each other, or the computes
/// have none. Of rabbits that are far away, a set without a count takes one.
fn candidates(one: &Wanted, near: Vec<Served>, far: Vec<Served>, is_apart: bool) -> Vec<Served> {
    let is_counted = one.count.is_some() || one.strategy == Strategy::SingleServer;
    match (near.is_empty(), is_counted) {
        (false, true) if is_apart => near.into_iter().chain(far).collect(),
        (false, _) => near,
        (true, true) => far,
        (true, false) => far.into_iter().take(1).collect(),
    }
}

/// The rabbits that take storage: those of the job's computes in its order, and the others, the emptiest first.
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
        node.map_or(0, |node| view.site.ledger.space(rabbit, node, &asking).free)
    };
    let all = view.site.rabbits().into_iter();
    let mut far: Vec<(i64, &str)> = all
        .filter(|rabbit| !places.contains_key(rabbit) && serves(rabbit))
        .map(|rabbit| (-free(rabbit), rabbit))
        .collect();
    far.sort_unstable();
    near.retain(|one| serves(&one.rabbit));
    let far = far.into_iter().map(|(_, rabbit)| Served { rabbit: rabbit.to_owned(), computes: 1 });
    Ok((near, far.collect()))
}

/// Why a set has no place: it waits where a rabbit would take it but for a management target that it has.
fn no_place(view: &View<'_>, servers: &Servers, set: &StorageAllocationSet) -> Outcome {
    let all = view.site.rabbits().into_iter().filter(|rabbit| {
        let storage = view.site.storages.get(*rabbit);
        storage.is_some_and(|storage| {
            checks::serves(rabbit, storage).is_ok() && checks::lacking(storage, set).is_none()
        })
    });
    let taken = |rabbit| Some((rabbit, mgs_on(view, servers, rabbit)?));
    let mut taken = all.filter(|_| has_key(set, MGT_KEY)).filter_map(taken);
    if let Some((rabbit, whose)) = taken.next() {
        return Outcome::Queued(format!(
            "a rabbit without a management target, of which each serves one only: such as {rabbit}, when the one of {whose} goes"
        ));
    }
    Outcome::Failed(transient_error(format!(
        "no rabbit can take the {} targets: each is drained or disabled, lacks a label of the profile's storageLabels, or holds a target that it may not stand beside; it goes on when one is free",
        set.label
    )))
}

fn has_key(set: &StorageAllocationSet, key: &str) -> bool {
    set.constraints.colocation.iter().any(|one| one.key == key)
}

/// An empty key stands for every other target of the file system.
fn is_alone(set: &StorageAllocationSet) -> bool {
    has_key(set, "")
}

fn has_labels(view: &View<'_>, set: &StorageAllocationSet, rabbit: &str) -> bool {
    let storage = view.site.storages.get(rabbit);
    storage.is_some_and(|storage| checks::lacking(storage, set).is_none())
}

/// Whether targets stand together on a rabbit that may not.
///
/// # Errors
/// Which, and where.
pub fn colocation(
    view: &View<'_>,
    servers: &Servers,
    sets: &[StorageAllocationSet],
) -> Result<(), Outcome> {
    for set in sets.iter().filter(|set| is_alone(set)) {
        let of = |is_it: bool| {
            let sets = servers.spec.allocation_sets.iter();
            let sets = sets.filter(move |given| (given.label == set.label) == is_it);
            sets.flat_map(|given| &given.storage).map(|storage| storage.name.as_str())
        };
        let others: BTreeSet<&str> = of(false).collect();
        if let Some(rabbit) = of(true).find(|rabbit| others.contains(rabbit)) {
            return Err(Outcome::Failed(wlm_error(format!(
                "Servers puts other targets beside {} on {rabbit}, which the profile excludes (colocation): name a rabbit of its own for it",
                set.label
            ))));
        }
    }
    let keyed = sets.iter().any(|set| has_key(set, MGT_KEY));
    let Some(rabbit) = mgs_rabbit(servers).filter(|_| keyed) else { return Ok(()) };
    match mgs_on(view, servers, rabbit) {
        Some(whose) => Err(Outcome::Queued(format!(
            "removal of the management target of {whose} from {rabbit}, which serves one only (colocation {MGT_KEY})"
        ))),
        None => Ok(()),
    }
}

/// Whose management target a rabbit has, or has been promised to.
fn mgs_on(view: &View<'_>, servers: &Servers, rabbit: &str) -> Option<String> {
    let asking: ObjectKey = (servers.namespace().unwrap_or_default(), servers.name_any());
    let is_other = |owner: &api::names::OwnerRef<'_>| {
        owner.kind != OWNER_KIND || (owner.namespace, owner.name) != (&*asking.0, &*asking.1)
    };
    let there = view.site.mgts.on(rabbit).find_map(|mgt| {
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
        let promised = view.site.ledger.mgs_of(rabbit, &asking)?;
        Some(format!("Servers {}/{}", promised.0, promised.1))
    })
}
