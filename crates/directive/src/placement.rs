//! Places allocations on rabbits as Flux does. Flux writes the placement into a Servers, and knows only how many of the
//! job's computes each rabbit serves.

use thiserror::Error;

use crate::breakdown::Strategy;

/// An allocation set to place, reduced to the fields that placement needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Label of the set, such as `xfs` or `ost`.
    pub label: String,
    pub strategy: Strategy,
    /// Bytes of each allocation with [`Strategy::PerCompute`]; with any other strategy, bytes
    /// of all allocations together.
    pub minimum_capacity: u64,
    /// Number of allocations, if the set prescribes it.
    pub count: Option<u32>,
}

/// A rabbit, and the number of the job's computes that it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    pub rabbit: String,
    pub computes: u32,
}

/// An allocation set of a Servers object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedSet {
    pub label: String,
    /// Size of each allocation, in bytes.
    pub allocation_size: u64,
    pub storage: Vec<Placed>,
}

/// Number of allocations on one rabbit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub rabbit: String,
    pub count: u32,
}

/// Error: no rabbit serves the job.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no rabbit serves a compute of the job; name computes that SystemConfiguration lists beneath a rabbit"
)]
pub struct NoRabbits;

/// Places each set on the rabbits that serve the job. No allocation is smaller than `least` bytes.
///
/// # Errors
/// When no rabbit serves the job.
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
        (Strategy::PerCompute, _) => (capacity, by_computes(served, 1)),
        (Strategy::SingleServer, _) => (capacity, by_count(served, 1)),
        (Strategy::AcrossServers, Some(count)) => {
            let count = count.max(1);
            (capacity.div_ceil(u128::from(count)), by_count(served, count))
        }
        (Strategy::AcrossServers, None) => {
            let divisor =
                served.iter().map(|served| served.computes).fold(0, greatest_common_divisor);
            let computes: u128 = served.iter().map(|served| u128::from(served.computes)).sum();
            ((capacity * u128::from(divisor)).div_ceil(computes), by_computes(served, divisor))
        }
    };
    // No allocation is larger than the whole set.
    let allocation_size = u64::try_from(size).unwrap_or(wanted.minimum_capacity).max(least);
    PlacedSet { label: wanted.label.clone(), allocation_size, storage }
}

/// Places on each rabbit as many allocations as the number of its computes divided by `divisor`.
fn by_computes(served: &[&Served], divisor: u32) -> Vec<Placed> {
    let share = |served: &&Served| Placed {
        rabbit: served.rabbit.clone(),
        count: served.computes / divisor,
    };
    served.iter().map(share).collect()
}

/// Spreads `count` allocations evenly over the rabbits. If some are left over, the rabbits that serve most computes
/// get one more each.
fn by_count(served: &[&Served], count: u32) -> Vec<Placed> {
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
