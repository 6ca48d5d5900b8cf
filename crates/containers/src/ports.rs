//! Ports of rabbits: decides which ports a run gets, and when these ports are free again.
//!
//! Each rabbit has a record of its ports, an NnfPortManager, independently of other rabbits. An entry of the record
//! says which workflow (the requester) has which ports, or which released ports still cool down. A run has the same
//! ports on all of its rabbits: a compute gets a single list of ports, whichever rabbit it connects to.

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

/// Why a run gets no ports.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PortFault {
    #[error(
        "SystemConfiguration default/default, ports: {0:?} is not a port; ask the administrator to write a number or START-END, from 1 to 65535"
    )]
    Unreadable(String),
    #[error(
        "SystemConfiguration default/default lists {listed} ports, and the profile requests {wanted}: ask the administrator to add ports"
    )]
    TooFew { listed: usize, wanted: usize },
    /// The text is a reason to wait: "pending" stands before it.
    #[error(
        "{wanted} ports that are free on all rabbits of this job at once; there are only {free} such ports now"
    )]
    Taken { free: usize, wanted: usize },
}

/// The allocations in the rabbits' NnfPortManagers, by rabbit.
pub type Records<'a> = BTreeMap<&'a str, &'a [NnfPortManagerAllocation]>;

/// Returns the ports that the site gives to jobs, in the site's order.
///
/// # Errors
/// An error for the first entry that is neither a port nor a range of ports.
pub fn site_ports(system: &SystemConfigurationSpec) -> Result<Vec<u16>, PortFault> {
    let mut ports = Vec::new();
    for entry in &system.ports {
        let text = entry.to_string();
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        let port = |text: &str| text.trim().parse().ok().filter(|port: &u16| *port > 0);
        let range = port(first).zip(port(last)).filter(|(first, last)| first <= last);
        let (first, last) = range.ok_or_else(|| PortFault::Unreadable(text.clone()))?;
        ports.extend(first..=last);
    }
    Ok(ports)
}

/// Chooses ports for a requester. Prefers the ports that the requester has on any of the rabbits and may have on all of
/// them; then takes the first free ports.
///
/// # Errors
/// An error if too few ports are free.
pub fn choose(
    listed: &[u16],
    records: &Records<'_>,
    requester: &ObjectReference,
    wanted: usize,
    is_free: impl Fn(&NnfPortManagerAllocation) -> bool,
) -> Result<Vec<u16>, PortFault> {
    let is_mine = |entry: &&NnfPortManagerAllocation| is_of(entry, requester);
    let entries = || records.values().copied().flatten();
    let own_ports: BTreeSet<u16> = entries().filter(is_mine).flat_map(numbers).collect();
    let taken = entries().filter(|entry| !is_of(entry, requester) && !is_free(entry));
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
    let (had, new): (Vec<u16>, Vec<u16>) =
        free.into_iter().partition(|port| own_ports.contains(port));
    let mut chosen: Vec<u16> = had.into_iter().chain(new).take(wanted).collect();
    chosen.sort_unstable();
    Ok(chosen)
}

/// Returns whether the ports of an entry may be given to another requester: the cool-down after the release of the
/// ports is over, or their workflow is gone.
#[must_use]
pub fn is_free(
    entry: &NnfPortManagerAllocation,
    cooldown: SignedDuration,
    now: Timestamp,
    is_alive: impl Fn(&ObjectReference) -> bool,
) -> bool {
    match (&entry.status, &entry.time_unallocated) {
        (NnfPortManagerAllocationStatus::InUse, _) => {
            !entry.requester.non_default().is_some_and(is_alive)
        }
        (_, Some(Time(since))) => now.duration_since(*since) >= cooldown,
        (_, None) => true,
    }
}

/// Returns the record after an assignment: the requester has exactly these ports, and entries whose ports
/// are free are removed.
#[must_use]
pub fn assign(
    record: &[NnfPortManagerAllocation],
    requester: &ObjectReference,
    ports: &[u16],
    is_free: impl Fn(&NnfPortManagerAllocation) -> bool,
) -> Vec<NnfPortManagerAllocation> {
    let others = record.iter().filter(|entry| !is_of(entry, requester) && !is_free(entry)).cloned();
    let own_entry = NnfPortManagerAllocation {
        requester: requester.clone().into(),
        ports: ports.iter().copied().map(i64::from).collect(),
        status: NnfPortManagerAllocationStatus::InUse,
        time_unallocated: None,
    };
    others.chain([own_entry]).collect()
}

/// Returns the record after a release: the requester has no ports any more, and its former ports cool down from now on.
#[must_use]
pub fn release(
    record: &[NnfPortManagerAllocation],
    requester: &ObjectReference,
    cooldown: SignedDuration,
    now: Timestamp,
) -> Vec<NnfPortManagerAllocation> {
    let release = |entry: &NnfPortManagerAllocation| {
        let is_mine =
            is_of(entry, requester) && entry.status == NnfPortManagerAllocationStatus::InUse;
        if !is_mine {
            return Some(entry.clone());
        }
        let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
        (!cooldown.is_zero()).then(|| NnfPortManagerAllocation {
            status: NnfPortManagerAllocationStatus::Cooldown,
            time_unallocated: Some(Time(whole)),
            ..entry.clone()
        })
    };
    record.iter().filter_map(release).collect()
}

/// Returns the port numbers of an entry. Leaves out integers that are no port number, because they reserve no port.
#[must_use]
pub fn numbers(entry: &NnfPortManagerAllocation) -> Vec<u16> {
    entry.ports.iter().filter_map(|port| u16::try_from(*port).ok()).collect()
}

/// Returns whether a requester uses the ports of an entry. Compares uids, because a later workflow may have the same
/// name, and the fields of the workflow: each copy by MPI has its own ports.
#[must_use]
pub fn is_of(entry: &NnfPortManagerAllocation, requester: &ObjectReference) -> bool {
    entry.status == NnfPortManagerAllocationStatus::InUse
        && entry.requester.uid == requester.uid
        && entry.requester.field_path == requester.field_path
}

#[cfg(test)]
mod tests;
