//! What a NnfNodeStorage asks for, each to be converged by itself; and in which order.

use storage::{
    ConvergeError, Converged, Desired,
    desired::{FileSystem, LustreTarget, NamespaceId},
};

use super::report::is_syncing;
use crate::pass::Context;

/// One allocation's file system, or Lustre target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// XFS, GFS2 or raw.
    FileSystem(Box<FileSystem>),
    /// A Lustre target.
    Target(Box<LustreTarget>),
}

/// What became of a unit; `None` when its turn did not come, because one before it failed.
pub type Outcome = Option<Result<Converged, ConvergeError>>;

impl Unit {
    /// What it lies on.
    #[must_use]
    pub fn namespaces(&self) -> &[NamespaceId] {
        match self {
            Self::FileSystem(fs) => &fs.volume.namespaces,
            Self::Target(target) => &target.namespaces,
        }
    }

    /// What it is when it is made.
    #[must_use]
    pub fn ready(self) -> Desired {
        match self {
            Self::FileSystem(fs) => Desired::FileSystemReady(*fs),
            Self::Target(target) => Desired::TargetReady(*target),
        }
    }

    /// What it is when it is torn down.
    #[must_use]
    pub fn gone(self) -> Desired {
        match self {
            Self::FileSystem(fs) => Desired::FileSystemGone(*fs),
            Self::Target(target) => Desired::TargetGone(*target),
        }
    }

    /// Whether its hooks see a file system that the others serve.
    #[must_use]
    pub fn needs_the_others(&self) -> bool {
        matches!(self, Self::Target(target) if target.client.is_some())
    }
}

/// Makes them: what needs the others is last.
pub async fn make(context: &Context, units: Vec<Unit>) -> Vec<Outcome> {
    in_turns(context, units, Unit::ready, Unit::needs_the_others).await
}

/// Tears them down: what needs the others is first.
pub async fn tear_down(context: &Context, units: Vec<Unit>) -> Vec<Outcome> {
    in_turns(context, units, Unit::gone, |unit| !unit.needs_the_others()).await
}

/// Outcomes in the order of the units.
async fn in_turns(
    context: &Context,
    units: Vec<Unit>,
    desired: fn(Unit) -> Desired,
    is_second: fn(&Unit) -> bool,
) -> Vec<Outcome> {
    let seconds: Vec<_> = units.iter().map(is_second).collect();
    let mut outcomes: Vec<Outcome> = units.iter().map(|_| None).collect();
    for turn in [false, true] {
        let places = (0..units.len()).filter(|place| seconds[*place] == turn);
        let places: Vec<_> = places.collect();
        if places.is_empty() {
            continue;
        }
        let wanted = places.iter().map(|place| desired(units[*place].clone())).collect();
        let results = context.converge(wanted).await;
        for (place, result) in places.into_iter().zip(results) {
            outcomes[place] = Some(result);
        }
        if outcomes.iter().flatten().any(keeps_the_others_waiting) {
            break;
        }
    }
    outcomes
}

/// What is being made whole serves meanwhile: that is found in its way only after everything else was done.
fn keeps_the_others_waiting(result: &Result<Converged, ConvergeError>) -> bool {
    result.as_ref().is_err_and(|error| !is_syncing(error))
}

#[cfg(test)]
mod tests {
    use storage::{Rejection, observed::Percent};

    use super::*;

    #[test]
    fn a_pool_that_is_resilvered_keeps_nobody_waiting_and_one_that_failed_does() {
        let of = |why| Err(ConvergeError::Rejected(why));
        let pool = || "pool-a-ost-1".to_owned();
        let resilvered = Rejection::Resilvering { pool: pool(), percent: Percent::default() };
        let broken = Rejection::PoolBroken { pool: pool(), state: "UNAVAIL".to_owned() };
        assert!(!keeps_the_others_waiting(&of(resilvered)));
        assert!(keeps_the_others_waiting(&of(broken)));
        assert!(!keeps_the_others_waiting(&Ok(Converged::default())));
    }
}
