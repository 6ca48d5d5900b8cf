//! Where a workload manager puts allocations when it knows only how many of its computes each rabbit serves: what Flux writes
//! into Servers.

use thiserror::Error;

use crate::breakdown::Strategy;

/// What is to be placed: a part of an allocation set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Such as `xfs` or `ost`.
    pub label: String,
    pub strategy: Strategy,
    /// Bytes: of each allocation with [`Strategy::PerCompute`], else of all together.
    pub minimum_capacity: u64,
    /// How many allocations there are, if the set says so.
    pub count: Option<u32>,
}

/// A rabbit, and how many of the job's computes it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    pub rabbit: String,
    pub computes: u32,
}

/// An allocation set of Servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedSet {
    pub label: String,
    /// Bytes of each allocation.
    pub allocation_size: u64,
    pub storage: Vec<Placed>,
}

/// Allocations on one rabbit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub rabbit: String,
    pub count: u32,
}

/// Nothing can be placed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no rabbit serves a compute of the job; name computes that SystemConfiguration lists beneath a rabbit"
)]
pub struct NoRabbits;

/// Places each set on the rabbits that serve the job. No allocation is smaller than `least`.
///
/// # Errors
/// When there is no rabbit.
pub fn place(
    wanted: &[Wanted],
    served: &[Served],
    least: u64,
) -> Result<Vec<PlacedSet>, NoRabbits> {
    let served: Vec<&Served> = served.iter().filter(|served| served.computes > 0).collect();
    if served.is_empty() {
        return Err(NoRabbits);
    }
    Ok(wanted.iter().map(|wanted| placed(wanted, &served, least)).collect())
}

fn placed(wanted: &Wanted, served: &[&Served], least: u64) -> PlacedSet {
    let capacity = u128::from(wanted.minimum_capacity);
    let (size, storage) = match (wanted.strategy, wanted.count) {
        (Strategy::PerCompute, _) => (capacity, shares(served, 1)),
        (Strategy::SingleServer, _) => (capacity, counted(served, 1)),
        (Strategy::AcrossServers, Some(count)) => {
            let count = count.max(1);
            (capacity.div_ceil(u128::from(count)), counted(served, count))
        }
        (Strategy::AcrossServers, None) => {
            let divisor =
                served.iter().map(|served| served.computes).fold(0, greatest_common_divisor);
            let computes: u128 = served.iter().map(|served| u128::from(served.computes)).sum();
            ((capacity * u128::from(divisor)).div_ceil(computes), shares(served, divisor))
        }
    };
    // No share exceeds the whole.
    let allocation_size = u64::try_from(size).unwrap_or(wanted.minimum_capacity).max(least);
    PlacedSet { label: wanted.label.clone(), allocation_size, storage }
}

/// Each rabbit its computes, divided.
fn shares(served: &[&Served], divisor: u32) -> Vec<Placed> {
    let share = |served: &&Served| Placed {
        rabbit: served.rabbit.clone(),
        count: served.computes / divisor,
    };
    served.iter().map(share).collect()
}

/// One each for the rabbits with most computes, from the first again until all are placed.
fn counted(served: &[&Served], count: u32) -> Vec<Placed> {
    let mut order = served.to_vec();
    order.sort_by_key(|served| std::cmp::Reverse(served.computes));
    let rabbits = u32::try_from(order.len()).unwrap_or(u32::MAX);
    let (each, more) = (count / rabbits, count % rabbits);
    let counts = (0..rabbits).map(|index| each + u32::from(index < more));
    let placed = order.into_iter().zip(counts).filter(|(_, count)| *count > 0);
    placed.map(|(served, count)| Placed { rabbit: served.rabbit.clone(), count }).collect()
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests;
