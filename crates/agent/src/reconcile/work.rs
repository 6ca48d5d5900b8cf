//! The work on one object: the agent unmounts its dropped mounts, then converges its units. Before and after that, it
//! writes the object's record, which says on disk which mounts may exist.

use std::sync::Arc;

use api::ClientMount;
use storage::{
    Converger,
    desired::{Mount, MountPoint},
};

use super::{Failed, Outcome, converge, converge_except};
use crate::{
    desired::{Goal, MountUnits},
    error::Failure,
    records::{MountRecords, RecordError},
};

/// The dropped mounts of an object by version: each version with the units that unmount its mounts, or with the reason
/// why the units are unknown.
pub type DroppedUnits = Vec<(ClientMount, Result<MountUnits, Failure>)>;

/// Returns the mount points of the dropped mounts whose units are known.
pub fn mount_points_of(dropped: &DroppedUnits) -> impl Iterator<Item = &MountPoint> {
    dropped.iter().filter_map(|(_, units)| units.as_ref().ok()).flat_map(MountUnits::mount_points)
}

/// The work of one pass on an object.
#[derive(Debug)]
pub struct Work {
    /// The object's uid, which names its record.
    pub uid: String,
    /// The object; `None` if it cannot be read.
    pub object: Option<ClientMount>,
    /// The object's dropped mounts, which are unmounted first.
    pub dropped: DroppedUnits,
    /// The units to converge, or an outcome that needs no work.
    pub units: Result<Arc<MountUnits>, Outcome>,
}

/// The result of the work on an object.
#[derive(Debug)]
pub struct WorkResult {
    pub outcome: Outcome,
    /// The dropped mounts that the work has unmounted.
    pub unmounted: Vec<ClientMount>,
}

impl Work {
    /// Returns a function that creates the outcome for the case that this work panics. This outcome calls no mount
    /// ready, because after a panic the agent does not know which mounts the work has changed.
    pub fn refusal(&self) -> impl FnOnce(Failure) -> Outcome + Send + use<> {
        let (goal, count) = match &self.units {
            Ok(units) => (units.goal, units.mounts.len()),
            Err(outcome) => (outcome.goal, outcome.mounts.len()),
        };
        move |failure| Outcome::refused(goal, count, failure)
    }

    /// Does the work, then records which mounts may exist; blocks until each unit has reached its goal or has failed.
    #[must_use]
    pub fn carry_out(mut self, converger: &Converger, records: &MountRecords) -> WorkResult {
        if let Err(error) = self.record(records) {
            return WorkResult {
                outcome: self.refusal()(Failure::from(&error)),
                unmounted: Vec::new(),
            };
        }
        let remaining = Remaining::unmount(std::mem::take(&mut self.dropped), converger);
        let mut outcome = match &self.units {
            Ok(units) => converge_except(converger, units, &remaining.mounts),
            Err(outcome) => outcome.clone(),
        };
        let recorded = self.record_remaining(&remaining, &outcome, records);
        outcome.failures.extend(remaining.failures);
        match recorded {
            Ok(()) => {}
            // No mount is left, but the record could not be removed. This does no harm: the next agent process reads
            // the record and finds that its mounts are already unmounted.
            Err(error) if remaining.versions.is_empty() && is_absent(&outcome) => {
                log::warn!("{}", daemon::chain(&error));
            }
            Err(error) => outcome.failures.push(Failed::of_object(&error)),
        }
        WorkResult { outcome, unmounted: remaining.unmounted }
    }

    /// Records, after the work, which mounts of the object may still exist. If the object was refused, its current
    /// mounts were not changed, so only the dropped mounts that were unmounted are removed from the record.
    fn record_remaining(
        &self,
        remaining: &Remaining,
        outcome: &Outcome,
        records: &MountRecords,
    ) -> Result<(), RecordError> {
        let is_absent = is_absent(outcome);
        let is_refused = match &self.units {
            Ok(units) => units.are_refused(),
            Err(_) => !is_absent,
        };
        if is_refused {
            return records.forget(&self.uid, &remaining.unmounted);
        }
        let object = self.object.iter().filter(|_| !is_absent);
        records.keep(&self.uid, &remaining.versions.iter().chain(object).collect::<Vec<_>>())
    }

    /// Records, before the work, the mounts that the agent is about to make.
    fn record(&self, records: &MountRecords) -> Result<(), RecordError> {
        match (&self.units, &self.object) {
            (Ok(units), Some(object)) if units.goal == Goal::Mounted && !units.are_refused() => {
                let dropped = self.dropped.iter().map(|(version, _)| version);
                records.keep(&self.uid, &dropped.chain([object]).collect::<Vec<_>>())
            }
            _ => Ok(()),
        }
    }
}

fn is_absent(outcome: &Outcome) -> bool {
    outcome.goal == Goal::Unmounted && outcome.is_done()
}

/// An object's dropped mounts after the work.
#[derive(Debug, Default)]
struct Remaining {
    /// Versions whose dropped mounts are all unmounted.
    unmounted: Vec<ClientMount>,
    /// Versions with dropped mounts that may still be mounted.
    versions: Vec<ClientMount>,
    /// The dropped mounts of `versions`, which may still be mounted.
    mounts: Vec<Mount>,
    failures: Vec<Failed>,
}

impl Remaining {
    fn unmount(dropped: DroppedUnits, converger: &Converger) -> Self {
        let mut remaining = Self::default();
        for (version, units) in dropped {
            let units = match units {
                Ok(units) => units,
                Err(failure) => {
                    remaining.failures.push(Failed { path: None, failure });
                    remaining.versions.push(version);
                    continue;
                }
            };
            let outcome = converge(converger, &units);
            if outcome.is_done() {
                remaining.unmounted.push(version);
            } else {
                remaining.versions.push(version);
                remaining.mounts.extend(units.mounts.into_iter().flatten());
                remaining.mounts.extend(units.binds.into_iter().map(|(_, bind)| bind));
                remaining.failures.extend(outcome.failures);
            }
        }
        remaining
    }
}
