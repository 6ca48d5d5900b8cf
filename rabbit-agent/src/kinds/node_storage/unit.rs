//! Converges the units of a NnfNodeStorage (its file systems or Lustre targets) in the order that they need.

use storage::{
    ConvergeError, Converged, Desired,
    desired::{FileSystem, LustreTarget, NamespaceId},
};

use super::report::is_syncing;
use crate::core::Context;

/// A file system or Lustre target of one allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    FileSystem(Box<FileSystem>),
    Target(Box<LustreTarget>),
}

/// Result of a unit; `None` if the pass did not reach the unit because an earlier unit failed.
pub type Outcome = Option<Result<Converged, ConvergeError>>;

impl Unit {
    pub fn namespaces(&self) -> &[NamespaceId] {
        match self {
            Self::FileSystem(fs) => &fs.volume.namespaces,
            Self::Target(target) => &target.namespaces,
        }
    }

    /// Returns the desired state of a unit to make.
    pub fn into_ready(self) -> Desired {
        match self {
            Self::FileSystem(fs) => Desired::FileSystemReady(*fs),
            Self::Target(target) => Desired::TargetReady(*target),
        }
    }

    /// Returns the desired state of a unit to tear down.
    pub fn into_torn_down(self) -> Desired {
        match self {
            Self::FileSystem(fs) => Desired::FileSystemGone(*fs),
            Self::Target(target) => Desired::TargetGone(*target),
        }
    }

    /// Returns whether the unit's hooks use a file system that the other units serve together.
    pub fn needs_the_others(&self) -> bool {
        matches!(self, Self::Target(target) if target.client.is_some())
    }
}

/// Returns the units with their places, in the order in which they are made.
pub fn in_order_to_make(units: &[Unit]) -> Vec<(usize, Desired)> {
    in_order(units, Unit::into_ready, Unit::needs_the_others)
}

/// Returns the units with their places, in the order in which they are torn down.
pub fn in_order_to_tear_down(units: &[Unit]) -> Vec<(usize, Desired)> {
    in_order(units, Unit::into_torn_down, |unit| !unit.needs_the_others())
}

fn in_order(
    units: &[Unit],
    desired: fn(Unit) -> Desired,
    is_second: fn(&Unit) -> bool,
) -> Vec<(usize, Desired)> {
    let rounds = rounds(units, is_second).into_iter().flatten();
    rounds.map(|place| (place, desired(units[place].clone()))).collect()
}

/// Returns the places of the units of each round.
fn rounds(units: &[Unit], is_second: fn(&Unit) -> bool) -> [Vec<usize>; 2] {
    let (second, first) = (0..units.len()).partition(|place| is_second(&units[*place]));
    [first, second]
}

/// Makes the units; units whose hooks need the other units come last.
pub async fn make(context: &Context, units: Vec<Unit>) -> Vec<Outcome> {
    converge_in_rounds(context, units, Unit::into_ready, Unit::needs_the_others).await
}

/// Tears the units down; units whose hooks need the other units come first.
pub async fn tear_down(context: &Context, units: Vec<Unit>) -> Vec<Outcome> {
    converge_in_rounds(context, units, Unit::into_torn_down, |unit| !unit.needs_the_others()).await
}

/// Converges the units in two rounds. The outcomes have the order of `units`.
async fn converge_in_rounds(
    context: &Context,
    units: Vec<Unit>,
    desired: fn(Unit) -> Desired,
    is_second: fn(&Unit) -> bool,
) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = units.iter().map(|_| None).collect();
    for places in rounds(&units, is_second) {
        if places.is_empty() {
            continue;
        }
        let units_of_round = places.iter().map(|place| desired(units[*place].clone())).collect();
        let results = context.converge(units_of_round).await;
        for (place, result) in places.into_iter().zip(results) {
            outcomes[place] = Some(result);
        }
        if outcomes.iter().flatten().any(blocks_next_round) {
            break;
        }
    }
    outcomes
}

/// Returns whether the next round must wait for this unit. A target whose pool only resilvers serves already, because
/// the check of the pool comes last: so the next round need not wait for it.
fn blocks_next_round(result: &Result<Converged, ConvergeError>) -> bool {
    result.as_ref().is_err_and(|error| !is_syncing(error))
}

#[cfg(test)]
mod tests {
    use storage::{Rejection, observed::Percent};

    use super::*;

    #[test]
    fn a_failed_unit_blocks_the_next_round_but_a_resilvering_pool_does_not() {
        let rejected = |why| Err(ConvergeError::Rejected(why));
        let pool = || "pool-a-ost-1".to_owned();
        let resilvered = Rejection::Resilvering { pool: pool(), percent: Percent::default() };
        let broken = Rejection::PoolBroken { pool: pool(), state: "UNAVAIL".to_owned() };
        assert!(!blocks_next_round(&rejected(resilvered)));
        assert!(blocks_next_round(&rejected(broken)));
        assert!(!blocks_next_round(&Ok(Converged::default())));
    }
}
