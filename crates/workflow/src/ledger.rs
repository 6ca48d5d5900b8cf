//! Bytes on each rabbit: what is promised to storage, and what is free. Pure.
//!
//! * An NnfNode says what its drives have free and what is allocated on them.
//! * A Servers that names the rabbit is a promise. It counts from the moment it is written until its storage is gone.
//! * Where an allocation was made, the larger of promise and allocation counts, never both.
//! * An NnfNodeBlockStorage counts as made as soon as the API is asked to create it.
//! * If two promises do not both fit and nothing of either is made, the older Servers wins: else each would wait for the other.
//! * A Servers that cannot be read may promise any bytes of any rabbit: younger ones wait until it can be read.

use std::collections::{BTreeMap, BTreeSet};

use api::{NnfNode, NnfNodeBlockStorage, Servers};
use controller::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::plan::allocation::{bytes_of, mgs_rabbit};

/// What is promised on rabbits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    /// By Servers.
    promised: BTreeMap<ObjectKey, Promise>,
    /// The Servers that name a rabbit.
    on: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// By rabbit, by name of the NnfNodeBlockStorage: its Servers, if this engine made it, and bytes.
    allocated: BTreeMap<String, BTreeMap<String, (Option<ObjectKey>, i64)>>,
    /// By rabbit and name of the NnfNodeBlockStorage that the API is asked to create: its Servers.
    in_flight: BTreeMap<ObjectKey, ObjectKey>,
    /// Servers of which nobody knows what they promise, and when they were created.
    unreadable: BTreeMap<ObjectKey, Option<Time>>,
}

/// What a Servers names.
#[derive(Clone, Debug, Default, PartialEq)]
struct Promise {
    /// When it was created.
    since: Option<Time>,
    /// Bytes by rabbit.
    bytes: BTreeMap<String, i64>,
    /// The rabbit with its Lustre management server.
    mgs: Option<String>,
}

/// How much a rabbit has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All that jobs may have.
    pub total: i64,
    /// Neither promised nor allocated.
    pub free: i64,
}

impl Ledger {
    /// Takes in a Servers; one whose storage is gone for good promises nothing.
    pub fn promise(&mut self, place: &ObjectKey, servers: Option<&Servers>) {
        let mut of: BTreeMap<String, i64> = BTreeMap::new();
        for set in servers.iter().flat_map(|servers| &servers.spec.allocation_sets) {
            for storage in &set.storage {
                let bytes = bytes_of(set).saturating_mul(storage.allocation_count);
                let sum = of.entry(storage.name.clone()).or_default();
                *sum = sum.saturating_add(bytes);
            }
        }
        let before = self.promised.remove(place).unwrap_or_default();
        for rabbit in before.bytes.keys() {
            self.on.entry(rabbit.clone()).or_default().remove(place);
        }
        for rabbit in of.keys() {
            self.on.entry(rabbit.clone()).or_default().insert(place.clone());
        }
        if !of.is_empty() {
            let since = servers.and_then(|servers| servers.metadata.creation_timestamp.clone());
            let mgs = servers.and_then(mgs_rabbit).map(str::to_owned);
            self.promised.insert(place.clone(), Promise { since, bytes: of, mgs });
        }
    }

    /// Whose management server a rabbit is promised to before `asking`: that of an older Servers, or one that is being made.
    #[must_use]
    pub fn mgs_of(&self, rabbit: &str, asking: &ObjectKey) -> Option<&ObjectKey> {
        let mine = self.promised.get(asking).map(|promise| (&promise.since, asking));
        let owners = self.allocated.get(rabbit).into_iter().flat_map(BTreeMap::values);
        let owners = owners.filter_map(|(owner, _)| owner.as_ref());
        let owners: Vec<&ObjectKey> = owners.chain(self.in_flight_on(rabbit)).collect();
        let others = self.promised.iter().filter(|(place, promise)| {
            let is_first = mine.is_none_or(|mine| (&promise.since, *place) < mine);
            *place != asking && (is_first || owners.contains(place))
        });
        let mut on = others.filter(|(_, promise)| promise.mgs.as_deref() == Some(rabbit));
        on.next().map(|(place, _)| place)
    }

    /// Takes in all Servers of which nobody knows what they promise, and says whether they are others than before.
    pub fn set_unreadable(&mut self, unreadable: BTreeMap<ObjectKey, Option<Time>>) -> bool {
        std::mem::replace(&mut self.unreadable, unreadable) != self.unreadable
    }

    /// The Servers of which nobody knows what it promises before `asking`: an older one, or one that is being made.
    #[must_use]
    pub fn blocking_unreadable(&self, asking: &ObjectKey) -> Option<&ObjectKey> {
        if self.unreadable.is_empty() {
            return None;
        }
        let mine = self.promised.get(asking).map(|promise| (&promise.since, asking));
        let owners = self.allocated.values().flat_map(BTreeMap::values);
        let owners = owners.filter_map(|(owner, _)| owner.as_ref()).chain(self.in_flight.values());
        let owners: BTreeSet<&ObjectKey> = owners.collect();
        let is_before = |(place, since): &(&ObjectKey, &Option<Time>)| {
            let is_first = mine.is_none_or(|mine| (*since, *place) < mine);
            *place != asking && (is_first || owners.contains(place))
        };
        self.unreadable.iter().find(is_before).map(|(place, _)| place)
    }

    /// The API is asked to create an object.
    pub fn begin(&mut self, at: ObjectKey, owner: ObjectKey) {
        self.in_flight.insert(at, owner);
    }

    /// It has answered.
    pub fn end(&mut self, at: &ObjectKey) {
        self.in_flight.remove(at);
    }

    fn in_flight_on(&self, rabbit: &str) -> impl Iterator<Item = &ObjectKey> {
        let from = self.in_flight.range((rabbit.to_owned(), String::new())..);
        from.take_while(move |((on, _), _)| on == rabbit).map(|(_, owner)| owner)
    }

    /// Takes in what was allocated by an object.
    pub fn allocate(
        &mut self,
        (rabbit, name): &ObjectKey,
        owner: Option<ObjectKey>,
        block: Option<&NnfNodeBlockStorage>,
    ) {
        let of = self.allocated.entry(rabbit.clone()).or_default();
        let status = block.and_then(|block| block.status.as_ref());
        let bytes = status.into_iter().flat_map(|status| &status.allocations);
        let bytes = bytes.fold(0_i64, |sum, one| sum.saturating_add(one.capacity_allocated));
        if block.is_some() {
            of.insert(name.clone(), (owner, bytes));
        } else {
            of.remove(name);
        }
    }

    /// Bytes that all jobs together may have on a rabbit.
    #[must_use]
    pub fn total(node: &NnfNode) -> i64 {
        let status = node.status.as_ref();
        status.map_or(0, |one| one.capacity.saturating_add(one.capacity_allocated))
    }

    /// What a rabbit has, not counting what is promised to `asking`.
    #[must_use]
    pub fn space(&self, rabbit: &str, node: &NnfNode, asking: &ObjectKey) -> Space {
        let reported = node.status.clone().unwrap_or_default();
        let total = Self::total(node);
        let empty = BTreeMap::new();
        let allocated = self.allocated.get(rabbit).unwrap_or(&empty);
        let known: i64 = allocated.values().map(|(_, bytes)| bytes).sum();
        let foreign = reported.capacity_allocated.saturating_sub(known).max(0);
        let mut by_owner: BTreeMap<&ObjectKey, i64> = BTreeMap::new();
        let mut others: i64 = 0;
        for (owner, bytes) in allocated.values() {
            match owner {
                Some(owner) => *by_owner.entry(owner).or_default() += bytes,
                None => others = others.saturating_add(*bytes),
            }
        }
        for owner in self.in_flight_on(rabbit) {
            by_owner.entry(owner).or_default();
        }
        let mut taken = foreign.saturating_add(others);
        let mine = self.promised.get(asking).map(|promise| (&promise.since, asking));
        let here = self.on.get(rabbit).into_iter().flatten().filter(|place| *place != asking);
        for (place, Promise { since, bytes: of, .. }) in
            here.filter_map(|place| Some((place, self.promised.get(place)?)))
        {
            let own = by_owner.remove(place);
            if own.is_none() && mine.is_some_and(|mine| mine < (since, place)) {
                continue;
            }
            let promised = of.get(rabbit).copied().unwrap_or_default();
            taken = taken.saturating_add(promised.max(own.unwrap_or_default()));
        }
        by_owner.remove(asking);
        let unpromised: i64 = by_owner.values().sum();
        Space { total, free: total.saturating_sub(taken.saturating_add(unpromised)) }
    }
}

#[cfg(test)]
mod tests;
