//! Converges the units of work of one ClientMount, that is, brings them to their goal: first all mounts in parallel,
//! then bind mounts and index trees.

mod outcome;
mod unknown_path;
mod work;

use std::{collections::BTreeSet, fmt};

use storage::{
    ConvergeError, Converger, Desired, Step,
    desired::{Mount, MountSource},
};

use crate::{
    desired::{Goal, MountUnits, ObjectError, overlap},
    error::Failure,
};
pub use outcome::{Failed, MountOutcome, Outcome};
use unknown_path::possibly_mounted;
pub use work::{DroppedUnits, Work, WorkResult, mount_points_of};

/// Converges the units; blocks until each unit has reached its goal or has failed. The failure of one unit does
/// not stop the others.
pub fn converge(converger: &Converger, units: &MountUnits) -> Outcome {
    converge_except(converger, units, &[])
}

/// Converges the units, except for mounts that a dropped mount in `remaining` blocks. Adds no failure for a blocked
/// mount: the caller reports why the dropped mount could not be unmounted.
fn converge_except(converger: &Converger, units: &MountUnits, remaining: &[Mount]) -> Outcome {
    let mut pass = Pass { remaining, ..Pass::new(converger, units) };
    if units.are_refused() {
        return pass.outcome;
    }
    if let Some(why @ ObjectError::ProfileForbidden(_)) = &units.profile_lost {
        pass.keep_mounted(converger, why);
        return pass.outcome;
    }
    match units.goal {
        Goal::Mounted => {
            pass.mounts(converger);
            pass.binds(converger);
            pass.trees(converger);
        }
        Goal::Unmounted => {
            pass.binds(converger);
            pass.mounts(converger);
            pass.trees(converger);
        }
    }
    pass.outcome
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlannedStep {
    Now(Step),
    /// A bind mount at this path, whose source an earlier step of the plan mounts.
    Bind(String),
}

impl fmt::Display for PlannedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(step) => step.fmt(f),
            Self::Bind(path) => write!(f, "bind mount at {path}"),
        }
    }
}

/// Returns the first steps that converging the units would take. Changes nothing.
pub fn plan(converger: &Converger, units: &MountUnits) -> Result<Vec<PlannedStep>, Vec<Failed>> {
    let refused = Pass::new(converger, units).outcome;
    if !refused.failures.is_empty() {
        return Err(refused.failures);
    }
    let (mut steps, mut failures) = (Vec::new(), Vec::new());
    for (path, unit) in in_order(units) {
        match converger.plan(&unit) {
            Ok(planned) => steps.extend(planned.into_iter().map(PlannedStep::Now)),
            // Not a failure: an earlier step of this plan mounts the source of the bind mount, but steps are not
            // executed here.
            Err(ConvergeError::Rejected(storage::Rejection::SourceNotMounted { .. })) => {
                steps.push(PlannedStep::Bind(path));
            }
            Err(error) => {
                let failure = Failure::of_mount(units.goal, &error);
                failures.push(Failed { path: Some(path), failure });
            }
        }
    }
    if failures.is_empty() { Ok(steps) } else { Err(failures) }
}

/// Returns the texts of failures for operators, in one line.
pub fn operator_text(failures: &[Failed]) -> String {
    let texts: Vec<_> = failures.iter().map(|failed| failed.failure.debug.as_str()).collect();
    texts.join("; ")
}

/// Returns all units in the order in which they converge, each with its path.
fn in_order(units: &MountUnits) -> Vec<(String, Desired)> {
    let unit = |mount: &Mount| (mount.target.to_string(), units.unit(mount));
    let mounts: Vec<_> = units.mounts.iter().flatten().map(unit).collect();
    let binds: Vec<_> = units.binds.iter().map(|(_, bind)| unit(bind)).collect();
    let trees = units.trees.iter().map(|tree| (tree.root.to_string(), tree_unit(units.goal, tree)));
    let (first, second) = match units.goal {
        Goal::Mounted => (mounts, binds),
        Goal::Unmounted => (binds, mounts),
    };
    first.into_iter().chain(second).chain(trees).collect()
}

fn tree_unit(goal: Goal, tree: &storage::desired::IndexTree) -> Desired {
    match goal {
        Goal::Mounted => Desired::IndexTree(tree.clone()),
        Goal::Unmounted => Desired::NoIndexTree(tree.clone()),
    }
}

/// One pass over an object's units, and the outcome of the pass so far.
struct Pass<'a> {
    units: &'a MountUnits,
    /// Dropped mounts that are not unmounted yet.
    remaining: &'a [Mount],
    outcome: Outcome,
}

impl<'a> Pass<'a> {
    fn new(converger: &Converger, units: &'a MountUnits) -> Self {
        let lost = units.profile_lost.iter().map(Failed::of_object);
        let mut pass = Self {
            units,
            remaining: &[],
            outcome: Outcome {
                goal: units.goal,
                mounts: vec![MountOutcome::Withheld; units.mounts.len()],
                failures: Vec::new(),
                unreadable: lost.chain(units.unreadable.iter().map(Failed::of_mount)).collect(),
            },
        };
        for (index, mount) in units.mounts.iter().enumerate() {
            let Err(error) = mount else { continue };
            let failed = match units.goal {
                Goal::Mounted => Some(Failed::of_mount(error)),
                Goal::Unmounted => possibly_mounted(converger, error),
            };
            pass.outcome.mounts[index] =
                if failed.is_some() { MountOutcome::Failed } else { MountOutcome::Ready };
            pass.outcome.failures.extend(failed);
        }
        pass
    }

    fn mounts(&mut self, converger: &Converger) {
        let valid: Vec<_> = self
            .units
            .mounts
            .iter()
            .enumerate()
            .filter_map(|(index, mount)| Some((index, mount.as_ref().ok()?)))
            .filter(|(_, mount)| !self.is_blocked(mount))
            .collect();
        for index in self.converge_mounts(converger, &valid) {
            self.outcome.mounts[index] = MountOutcome::Ready;
        }
    }

    /// Returns whether a dropped mount that is not unmounted yet blocks this mount: it has an overlapping path, or
    /// the same file system.
    fn is_blocked(&self, mount: &Mount) -> bool {
        let is_same = |other: &Mount| match (&other.source, &mount.source) {
            (MountSource::Volume { id: other, .. }, MountSource::Volume { id, .. }) => other == id,
            _ => false,
        };
        self.remaining.iter().any(|other| {
            overlap(&other.target, &mount.target)
                || self.units.goal == Goal::Mounted && is_same(other)
        })
    }

    /// Unmounts nothing, because the hooks for unmounting are not known. Reports a failure for each mount that still
    /// exists; a mount that is already unmounted is done.
    fn keep_mounted(&mut self, converger: &Converger, why: &ObjectError) {
        let nothing_to_do = |unit: &Desired| {
            let steps = converger.plan(unit);
            steps.is_ok_and(|steps| steps.is_empty())
        };
        for (index, mount) in self.units.mounts.iter().enumerate() {
            let Ok(mount) = mount else { continue };
            self.outcome.mounts[index] = if nothing_to_do(&self.units.unit(mount)) {
                MountOutcome::Ready
            } else {
                MountOutcome::Failed
            };
        }
        self.outcome.unreadable.clear();
        let is_anything_mounted = in_order(self.units).iter().any(|(_, unit)| !nothing_to_do(unit));
        if is_anything_mounted || !self.outcome.failures.is_empty() {
            self.outcome.failures.insert(0, Failed::of_object(why));
        }
    }

    /// Converges bind mounts, except for those whose source failed.
    fn binds(&mut self, converger: &Converger) {
        let possible: Vec<_> = self
            .units
            .binds
            .iter()
            .filter(|(source, _)| match self.units.goal {
                Goal::Mounted => self.outcome.mounts.get(*source) == Some(&MountOutcome::Ready),
                Goal::Unmounted => self.outcome.mounts.get(*source) != Some(&MountOutcome::Failed),
            })
            .filter(|(_, bind)| !self.is_blocked(bind))
            .map(|(source, bind)| (*source, bind))
            .collect();
        self.converge_mounts(converger, &possible);
    }

    /// Converges mounts in parallel, adds failures to the outcome, and returns the indices of the
    /// mounts that are ready.
    fn converge_mounts(
        &mut self,
        converger: &Converger,
        mounts: &[(usize, &Mount)],
    ) -> BTreeSet<usize> {
        let desired: Vec<_> = mounts.iter().map(|(_, mount)| self.units.unit(mount)).collect();
        let mut ready = BTreeSet::new();
        for ((index, mount), result) in mounts.iter().zip(converger.converge_all(&desired)) {
            match result {
                Ok(_) => drop(ready.insert(*index)),
                Err(error) => {
                    self.outcome.mounts[*index] = MountOutcome::Failed;
                    let failure = Failure::of_mount(self.units.goal, &error);
                    self.add_failure(mount.target.to_string(), failure);
                }
            }
        }
        ready
    }

    fn trees(&mut self, converger: &Converger) {
        let desired: Vec<_> =
            self.units.trees.iter().map(|tree| tree_unit(self.units.goal, tree)).collect();
        for (tree, result) in self.units.trees.iter().zip(converger.converge_all(&desired)) {
            if let Err(error) = result {
                let mut failure = Failure::of_convergence(&error);
                failure.debug = format!("unable to show index tree: {}", failure.debug);
                self.add_failure(tree.root.to_string(), failure);
            }
        }
    }

    fn add_failure(&mut self, path: String, failure: Failure) {
        self.outcome.failures.push(Failed { path: Some(path), failure });
    }
}

#[cfg(test)]
mod tests;
