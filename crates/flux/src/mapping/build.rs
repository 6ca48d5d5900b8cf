//! Builds the mapping from API objects.

use std::collections::BTreeMap;

use api::{Servers, Storage, SystemConfiguration, system_configuration::StorageNode};
use directive::hostlist;
use thiserror::Error;

use super::{Mapping, Rabbit};

/// Prefix of the names of objects that Flux's jobs make. Flux subtracts their bytes itself.
const OF_FLUX: &str = "fluxjob-";

/// Error: the objects contradict each other.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum MappingError {
    #[error(
        "Storage {rabbit} has the compute {compute}, which SystemConfiguration default lists under {listed}; correct computesAccess"
    )]
    OtherRabbit { rabbit: String, compute: String, listed: String },
    #[error(
        "Storage {rabbit} has the compute {compute}, which SystemConfiguration default does not list; add it to computesAccess"
    )]
    UnlistedCompute { rabbit: String, compute: String },
    #[error(
        "SystemConfiguration default lists the compute {compute} under {first} and under {second}; correct computesAccess"
    )]
    TwoRabbits { compute: String, first: String, second: String },
}

/// API objects from which the mapping follows.
#[derive(Clone, Copy, Debug)]
pub struct Objects<'a> {
    pub system: &'a SystemConfiguration,
    /// In the order of their names.
    pub storages: &'a [Storage],
    /// Servers of all namespaces. With no Servers, bytes outside of Flux's jobs count as free.
    pub servers: &'a [Servers],
}

/// A mapping, and what it does not know for certain.
#[derive(Debug, PartialEq, Eq)]
pub struct Built {
    pub mapping: Mapping,
    /// Rabbits without a capacity of their own, each as a sentence.
    pub guesses: Vec<String>,
}

impl Built {
    /// Builds the mapping.
    ///
    /// The capacity of a rabbit is the sum of its drives, as in flux-coral2 after 0.36; without drives it is
    /// `status.capacity`, as in 0.36. In a live Storage `status.capacity` is the free capacity: it changes with each job, and
    /// Flux would subtract allocations twice (flux-coral2 issue 496). A rabbit without a capacity gets the largest
    /// capacity seen, as in flux-coral2.
    ///
    /// # Errors
    /// When a Storage has a compute that `SystemConfiguration` lists elsewhere or not at all, or two rabbits have a compute.
    pub fn new(objects: Objects<'_>) -> Result<Self, MappingError> {
        let nodes = &objects.system.spec.storage_nodes;
        let computes = rabbits_of_computes(nodes)?;
        let (known, largest) = capacities(objects.storages, &computes)?;
        let external = external_bytes(objects.servers);
        let mut guesses = Vec::new();
        let mut rabbits = BTreeMap::new();
        for node in nodes {
            let capacity = known.get(&node.name).copied();
            guesses.extend(guess(&node.name, capacity, largest));
            let taken = external.get(&node.name).copied().unwrap_or_default();
            let capacity = capacity.unwrap_or(largest).saturating_sub(taken).max(0);
            let hosts = node.computes_access.iter().map(|access| access.name.as_str());
            let hostlist = hostlist::compress(&hostlist::sort_unique(hosts.collect()));
            rabbits.insert(node.name.clone(), Rabbit { capacity, hostlist });
        }
        let mapping = Mapping { computes, rabbits: rabbits.into_iter().collect() };
        Ok(Self { mapping, guesses })
    }
}

/// Returns the rabbit of each compute.
fn rabbits_of_computes(nodes: &[StorageNode]) -> Result<BTreeMap<String, String>, MappingError> {
    let mut computes: BTreeMap<String, String> = BTreeMap::new();
    for node in nodes {
        for access in &node.computes_access {
            let (compute, rabbit) = (access.name.clone(), node.name.clone());
            match computes.insert(compute.clone(), rabbit.clone()) {
                Some(first) if first != rabbit => {
                    return Err(MappingError::TwoRabbits { compute, first, second: rabbit });
                }
                _ => {}
            }
        }
    }
    Ok(computes)
}

/// Returns the bytes of each rabbit whose Storage names computes, and the largest of all. A rabbit that reports 0 bytes
/// gets the largest number of bytes of the rabbits before it.
fn capacities(
    storages: &[Storage],
    computes: &BTreeMap<String, String>,
) -> Result<(BTreeMap<String, i64>, i64), MappingError> {
    let (mut known, mut largest) = (BTreeMap::new(), 0);
    for storage in storages {
        let rabbit = storage.metadata.name.clone().unwrap_or_default();
        let reached = storage.status.iter().flat_map(|status| &status.access.computes);
        let mut names = reached.map(|compute| compute.name.as_str()).peekable();
        if names.peek().is_none() {
            continue;
        }
        names.try_for_each(|compute| check_listed(&rabbit, compute, computes))?;
        let capacity = total_bytes(storage);
        largest = largest.max(capacity);
        known.insert(rabbit, if capacity == 0 { largest } else { capacity });
    }
    Ok((known, largest))
}

fn check_listed(
    rabbit: &str,
    compute: &str,
    computes: &BTreeMap<String, String>,
) -> Result<(), MappingError> {
    let (rabbit, compute) = (rabbit.to_owned(), compute.to_owned());
    match computes.get(&compute) {
        Some(listed) if *listed == rabbit => Ok(()),
        Some(listed) => {
            Err(MappingError::OtherRabbit { rabbit, compute, listed: listed.to_owned() })
        }
        None => Err(MappingError::UnlistedCompute { rabbit, compute }),
    }
}

/// Returns the bytes of all drives of a rabbit; without drives, `status.capacity`.
fn total_bytes(storage: &Storage) -> i64 {
    let Some(status) = &storage.status else { return 0 };
    let drives = status.devices.iter().map(|drive| drive.capacity);
    match drives.fold(0, i64::saturating_add) {
        0 => status.capacity,
        total => total,
    }
}

/// Returns the bytes of each rabbit that others than Flux's jobs have allocated.
fn external_bytes(servers: &[Servers]) -> BTreeMap<String, i64> {
    let is_external = |servers: &&Servers| {
        !servers.metadata.name.as_deref().unwrap_or_default().starts_with(OF_FLUX)
    };
    let mut external: BTreeMap<String, i64> = BTreeMap::new();
    for set in servers.iter().filter(is_external).flat_map(|servers| &servers.spec.allocation_sets)
    {
        for storage in &set.storage {
            let bytes = set.allocation_size.saturating_mul(storage.allocation_count);
            let total = external.entry(storage.name.clone()).or_default();
            *total = total.saturating_add(bytes);
        }
    }
    external
}

fn guess(rabbit: &str, capacity: Option<i64>, largest: i64) -> Option<String> {
    match capacity {
        None => Some(format!(
            "{rabbit}: no Storage has its computes, so its capacity is not known; the mapping has the largest of all rabbits, {largest} bytes"
        )),
        Some(0) => {
            Some(format!("{rabbit}: its Storage has no capacity, so the mapping has 0 bytes"))
        }
        Some(_) => None,
    }
}
