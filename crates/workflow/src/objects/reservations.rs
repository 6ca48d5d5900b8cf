//! Bytes of each rabbit: how many are reserved for storage, and how many are free. Pure.
//!
//! * An NnfNode reports how many bytes of its drives are free and how many are allocated.
//! * A Servers that names the rabbit reserves bytes of it from the moment when the Servers is written until its
//!   workflow is in Teardown, or the Servers is gone.
//! * While both a reservation and an allocation exist for the same storage, the larger of the two is in use, not the
//!   sum.
//! * The bytes of an NnfNodeBlockStorage count as allocated as soon as the engine sends its creation to the API.
//! * If only one of two reservations fits, and storage of neither is being made, the older Servers gets the bytes.
//!   Without this rule, each Servers would wait for the other.
//! * A Servers that cannot be read may reserve any bytes of any rabbit: younger Servers wait until it can be read.

use std::collections::{BTreeMap, BTreeSet};

use api::{NnfNode, NnfNodeBlockStorage, Servers};
use controller::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::objects::allocation::{bytes_of, mgs_rabbit};

/// Bytes that are reserved and allocated on rabbits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reservations {
    /// Reservations by key of the Servers.
    reserved: BTreeMap<ObjectKey, Reservation>,
    /// Servers by the rabbits that they name.
    on: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// Allocated bytes by rabbit and name of the NnfNodeBlockStorage, each with the Servers of the NnfNodeBlockStorage;
    /// `None` if another controller made the NnfNodeBlockStorage.
    allocated: BTreeMap<String, BTreeMap<String, (Option<ObjectKey>, i64)>>,
    /// Servers by rabbit and name of the NnfNodeBlockStorage whose creation was sent to the API and
    /// is not answered yet.
    in_flight: BTreeMap<ObjectKey, ObjectKey>,
    /// Unreadable Servers, which may reserve any number of bytes, with their creation times.
    unreadable: BTreeMap<ObjectKey, Option<Time>>,
}

/// The reservation of a Servers.
#[derive(Clone, Debug, Default, PartialEq)]
struct Reservation {
    /// Creation time of the Servers.
    since: Option<Time>,
    /// Reserved bytes by rabbit.
    bytes: BTreeMap<String, i64>,
    /// The rabbit on which the Servers places its Lustre management server.
    mgs: Option<String>,
}

/// Capacity of a rabbit in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that all jobs together may have.
    pub total: i64,
    /// Bytes that are neither reserved nor allocated.
    pub free: i64,
}

/// Bytes of one Servers on all rabbits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    reserved: i64,
    allocated: i64,
    /// True if block storage of the Servers exists, or its creation was sent to the API.
    pub is_made: bool,
}

impl Held {
    /// Returns the bytes that count as used: the larger of reservation and allocation.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.reserved.max(self.allocated)).unwrap_or_default()
    }

    /// Returns the used bytes, and whether storage is made.
    #[must_use]
    pub fn bytes_and_made(&self) -> (u64, bool) {
        (self.bytes(), self.is_made)
    }
}

impl Reservations {
    /// Returns the bytes of each Servers that has some, by key of the Servers.
    #[must_use]
    pub fn held(&self) -> BTreeMap<&ObjectKey, Held> {
        let mut held: BTreeMap<&ObjectKey, Held> = BTreeMap::new();
        for (at, reservation) in &self.reserved {
            let bytes = reservation.bytes.values().copied().fold(0, i64::saturating_add);
            held.entry(at).or_default().reserved = bytes;
        }
        for (owner, bytes) in self.allocated.values().flat_map(BTreeMap::values) {
            let Some(owner) = owner else { continue };
            let held = held.entry(owner).or_default();
            held.allocated = held.allocated.saturating_add(*bytes);
            held.is_made = true;
        }
        for owner in self.in_flight.values() {
            held.entry(owner).or_default().is_made = true;
        }
        held
    }

    /// Sets the reservation of a Servers; `None` removes it.
    pub fn reserve(&mut self, place: &ObjectKey, servers: Option<&Servers>) {
        let mut bytes: BTreeMap<String, i64> = BTreeMap::new();
        for set in servers.iter().flat_map(|servers| &servers.spec.allocation_sets) {
            for storage in &set.storage {
                let size = bytes_of(set).saturating_mul(storage.allocation_count);
                let sum = bytes.entry(storage.name.clone()).or_default();
                *sum = sum.saturating_add(size);
            }
        }
        let before = self.reserved.remove(place).unwrap_or_default();
        for rabbit in before.bytes.keys() {
            self.on.entry(rabbit.clone()).or_default().remove(place);
        }
        for rabbit in bytes.keys() {
            self.on.entry(rabbit.clone()).or_default().insert(place.clone());
        }
        if !bytes.is_empty() {
            let since = servers.and_then(|servers| servers.metadata.creation_timestamp.clone());
            let mgs = servers.and_then(mgs_rabbit).map(str::to_owned);
            self.reserved.insert(place.clone(), Reservation { since, bytes, mgs });
        }
    }

    /// Returns the Servers whose Lustre management server gets this rabbit before the management server of `asking`:
    /// an older Servers, or a Servers whose storage is being made.
    #[must_use]
    pub fn mgs_of(&self, rabbit: &str, asking: &ObjectKey) -> Option<&ObjectKey> {
        let own_rank = self.reserved.get(asking).map(|reservation| (&reservation.since, asking));
        let owners = self.allocated.get(rabbit).into_iter().flat_map(BTreeMap::values);
        let owners = owners.filter_map(|(owner, _)| owner.as_ref());
        let owners: Vec<&ObjectKey> = owners.chain(self.in_flight_on(rabbit)).collect();
        let others = self.reserved.iter().filter(|(place, reservation)| {
            let is_first = own_rank.is_none_or(|own_rank| (&reservation.since, *place) < own_rank);
            *place != asking && (is_first || owners.contains(place))
        });
        let mut on = others.filter(|(_, reservation)| reservation.mgs.as_deref() == Some(rabbit));
        on.next().map(|(place, _)| place)
    }

    /// Sets the unreadable Servers, and returns true if they changed.
    pub fn set_unreadable(&mut self, unreadable: BTreeMap<ObjectKey, Option<Time>>) -> bool {
        std::mem::replace(&mut self.unreadable, unreadable) != self.unreadable
    }

    /// Returns an unreadable Servers that comes before `asking`: an older Servers, or a Servers whose
    /// storage is being made.
    #[must_use]
    pub fn blocking_unreadable(&self, asking: &ObjectKey) -> Option<&ObjectKey> {
        if self.unreadable.is_empty() {
            return None;
        }
        let own_rank = self.reserved.get(asking).map(|reservation| (&reservation.since, asking));
        let owners = self.allocated.values().flat_map(BTreeMap::values);
        let owners = owners.filter_map(|(owner, _)| owner.as_ref()).chain(self.in_flight.values());
        let owners: BTreeSet<&ObjectKey> = owners.collect();
        let is_before = |(place, since): &(&ObjectKey, &Option<Time>)| {
            let is_first = own_rank.is_none_or(|own_rank| (*since, *place) < own_rank);
            *place != asking && (is_first || owners.contains(place))
        };
        self.unreadable.iter().find(is_before).map(|(place, _)| place)
    }

    /// Records that the engine sends the creation of an object to the API.
    pub fn begin_creation(&mut self, at: ObjectKey, owner: ObjectKey) {
        self.in_flight.insert(at, owner);
    }

    /// Records that the API has answered the creation.
    pub fn end_creation(&mut self, at: &ObjectKey) {
        self.in_flight.remove(at);
    }

    fn in_flight_on(&self, rabbit: &str) -> impl Iterator<Item = &ObjectKey> {
        let from = self.in_flight.range((rabbit.to_owned(), String::new())..);
        from.take_while(move |((on, _), _)| on == rabbit).map(|(_, owner)| owner)
    }

    /// Records the bytes that an NnfNodeBlockStorage has allocated; forgets the object if `block` is `None`.
    pub fn allocate(
        &mut self,
        (rabbit, name): &ObjectKey,
        owner: Option<ObjectKey>,
        block: Option<&NnfNodeBlockStorage>,
    ) {
        let by_name = self.allocated.entry(rabbit.clone()).or_default();
        let status = block.and_then(|block| block.status.as_ref());
        let bytes = status.into_iter().flat_map(|status| &status.allocations);
        let bytes =
            bytes.fold(0_i64, |sum, allocation| sum.saturating_add(allocation.capacity_allocated));
        if block.is_some() {
            by_name.insert(name.clone(), (owner, bytes));
        } else {
            by_name.remove(name);
        }
    }

    /// Returns the bytes that all jobs together may have on a rabbit.
    #[must_use]
    pub fn total(node: &NnfNode) -> i64 {
        let status = node.status.as_ref();
        status.map_or(0, |status| status.capacity.saturating_add(status.capacity_allocated))
    }

    /// Returns the capacity of a rabbit, as if `asking` had reserved nothing.
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
        let own_rank = self.reserved.get(asking).map(|reservation| (&reservation.since, asking));
        let on_rabbit = self.on.get(rabbit).into_iter().flatten().filter(|place| *place != asking);
        for (place, Reservation { since, bytes: by_rabbit, .. }) in
            on_rabbit.filter_map(|place| Some((place, self.reserved.get(place)?)))
        {
            let own = by_owner.remove(place);
            if own.is_none() && own_rank.is_some_and(|own_rank| own_rank < (since, place)) {
                continue;
            }
            let size = by_rabbit.get(rabbit).copied().unwrap_or_default();
            taken = taken.saturating_add(size.max(own.unwrap_or_default()));
        }
        by_owner.remove(asking);
        let unreserved: i64 = by_owner.values().sum();
        Space { total, free: total.saturating_sub(taken.saturating_add(unreserved)) }
    }
}

#[cfg(test)]
mod tests;
