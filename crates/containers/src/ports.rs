//! Ports of rabbits: which a run gets, and when they are free again.
//!
//! Each rabbit has its own record of who has which, in an NnfPortManager; ports of different rabbits do not concern each other.
//! A run has the same numbers on all of its rabbits: a compute is told of one list, whichever rabbit it asks.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    SystemConfigurationSpec,
    nnf_port_manager::{NnfPortManagerAllocation, NnfPortManagerAllocationStatus},
};
use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::{SignedDuration, Timestamp},
};
use thiserror::Error;

/// Why there are no ports.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PortFault {
    #[error(
        "SystemConfiguration default/default, ports: {0:?} is no port; the administrator writes a number, or START-END, of 1 to 65535"
    )]
    Unreadable(String),
    #[error(
        "SystemConfiguration default/default lists {listed} ports, and the profile asks for {wanted}: the administrator adds some to ports"
    )]
    TooFew { listed: usize, wanted: usize },
    #[error("{wanted} ports that are free on all rabbits of this job at once; {free} are")]
    Taken { free: usize, wanted: usize },
}

/// What rabbits' records say, by rabbit.
pub type Records<'a> = BTreeMap<&'a str, &'a [NnfPortManagerAllocation]>;

/// The ports that the site gives to jobs, in its order.
///
/// # Errors
/// The first that is none.
pub fn listed(system: &SystemConfigurationSpec) -> Result<Vec<u16>, PortFault> {
    let mut all = Vec::new();
    for given in &system.ports {
        let text = given.to_string();
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        let port = |text: &str| text.trim().parse().ok().filter(|port: &u16| *port > 0);
        let range = port(first).zip(port(last)).filter(|(first, last)| first <= last);
        let (first, last) = range.ok_or_else(|| PortFault::Unreadable(text.clone()))?;
        all.extend(first..=last);
    }
    Ok(all)
}

/// The ports for a requester: those that it has, as far as it has them or may have them on every rabbit, and then the first free.
///
/// # Errors
/// When there are not enough.
pub fn choose(
    listed: &[u16],
    records: &Records<'_>,
    requester: &ObjectReference,
    wanted: usize,
    is_free: impl Fn(&NnfPortManagerAllocation) -> bool,
) -> Result<Vec<u16>, PortFault> {
    let is_mine = |one: &&NnfPortManagerAllocation| is_of(one, requester);
    let all = || records.values().copied().flatten();
    let mine: BTreeSet<u16> = all().filter(is_mine).flat_map(numbers).collect();
    let taken = all().filter(|one| !is_of(one, requester) && !is_free(one));
    let taken: BTreeSet<u16> = taken.flat_map(numbers).collect();
    let free: Vec<u16> = listed.iter().copied().filter(|port| !taken.contains(port)).collect();
    if free.len() < wanted {
        let (listed, free) = (listed.len(), free.len());
        return Err(if listed < wanted {
            PortFault::TooFew { listed, wanted }
        } else {
            PortFault::Taken { free, wanted }
        });
    }
    let (had, new): (Vec<u16>, Vec<u16>) = free.into_iter().partition(|port| mine.contains(port));
    let mut chosen: Vec<u16> = had.into_iter().chain(new).take(wanted).collect();
    chosen.sort_unstable();
    Ok(chosen)
}

/// Whether an entry's ports may be given away: it cooled down, or its workflow is gone.
#[must_use]
pub fn is_free(
    entry: &NnfPortManagerAllocation,
    cooldown: SignedDuration,
    now: Timestamp,
    is_alive: impl Fn(&ObjectReference) -> bool,
) -> bool {
    match (&entry.status, &entry.time_unallocated) {
        (NnfPortManagerAllocationStatus::InUse, _) => {
            !entry.requester.given().is_some_and(is_alive)
        }
        (_, Some(Time(since))) => now.duration_since(*since) >= cooldown,
        (_, None) => true,
    }
}

/// A record in which a requester has exactly these ports, without the entries that are free.
#[must_use]
pub fn with(
    record: &[NnfPortManagerAllocation],
    requester: &ObjectReference,
    ports: &[u16],
    is_free: impl Fn(&NnfPortManagerAllocation) -> bool,
) -> Vec<NnfPortManagerAllocation> {
    let others = record.iter().filter(|one| !is_of(one, requester) && !is_free(one)).cloned();
    let mine = NnfPortManagerAllocation {
        requester: requester.clone().into(),
        ports: ports.iter().copied().map(i64::from).collect(),
        status: NnfPortManagerAllocationStatus::InUse,
        time_unallocated: None,
    };
    others.chain([mine]).collect()
}

/// A record in which a requester has none any more: its ports cool down from now on.
#[must_use]
pub fn without(
    record: &[NnfPortManagerAllocation],
    requester: &ObjectReference,
    cooldown: SignedDuration,
    now: Timestamp,
) -> Vec<NnfPortManagerAllocation> {
    let one = |one: &NnfPortManagerAllocation| {
        let is_mine = is_of(one, requester) && one.status == NnfPortManagerAllocationStatus::InUse;
        if !is_mine {
            return Some(one.clone());
        }
        let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
        (!cooldown.is_zero()).then(|| NnfPortManagerAllocation {
            status: NnfPortManagerAllocationStatus::Cooldown,
            time_unallocated: Some(Time(whole)),
            ..one.clone()
        })
    };
    record.iter().filter_map(one).collect()
}

/// Returns the port numbers of an entry, without integers that are no port: those take no port away.
#[must_use]
pub fn numbers(entry: &NnfPortManagerAllocation) -> Vec<u16> {
    entry.ports.iter().filter_map(|port| u16::try_from(*port).ok()).collect()
}

/// Whether an entry is a requester's: its uid says so, since the name comes again.
#[must_use]
pub fn is_of(entry: &NnfPortManagerAllocation, requester: &ObjectReference) -> bool {
    entry.status == NnfPortManagerAllocationStatus::InUse && entry.requester.uid == requester.uid
}

#[cfg(test)]
mod tests;
