//! Brings the units of one ClientMount to their goal: all mounts in parallel, then bind mounts and index trees.

use controller::Retry;
use std::{collections::BTreeSet, sync::Arc};

use api::ClientMount;
use storage::{
    ConvergeError, Converger, Desired,
    desired::{Mount, MountPoint, MountSource},
    host::ObserveError,
    observed::Use,
};

use crate::{
    desired::{Goal, MountError, MountProblem, MountUnits, ObjectError, UnknownPath, overlap},
    error::Failure,
    records::{MountRecords, RecordError},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountOutcome {
    Ready,
    /// The agent did nothing, because it refused the object or another of its mounts.
    Withheld,
    /// The mount is not as desired; [`Outcome::failures`] says why.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The mount path, as checked or as the object has it; `None` for the whole object.
    pub path: Option<String>,
    pub failure: Failure,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub goal: Goal,
    /// One outcome per entry of `spec.mounts`.
    pub mounts: Vec<MountOutcome>,
    pub failures: Vec<Failed>,
    /// The profile or its lines that unmounting did without: no failures, but worth a line in the log.
    pub unreadable: Vec<Failed>,
}

impl Outcome {
    /// The outcome of an object with `count` mounts for which the agent did nothing.
    pub fn refused(goal: Goal, count: usize, failure: Failure) -> Self {
        let failures = vec![Failed { path: None, failure }];
        let mounts = vec![MountOutcome::Withheld; count];
        Self { goal, mounts, failures, unreadable: Vec::new() }
    }

    /// The outcome of an object that has no mounts on the node, and should have none.
    pub fn absent(count: usize) -> Self {
        let mounts = vec![MountOutcome::Ready; count];
        Self { goal: Goal::Unmounted, mounts, failures: Vec::new(), unreadable: Vec::new() }
    }

    pub fn done(&self) -> bool {
        self.failures.is_empty() && self.mounts.iter().all(|mount| *mount == MountOutcome::Ready)
    }

    /// Process ids that keep a mount in use.
    pub fn holders(&self) -> Vec<i32> {
        let failures = self.failures.iter();
        failures.flat_map(|failed| failed.failure.holders.iter().copied()).collect()
    }

    /// When to try again: the earliest that a failure asks for; `None` when time alone changes nothing.
    pub fn retry(&self) -> Option<Retry> {
        self.failures
            .iter()
            .map(|failed| failed.failure.retry)
            .filter(|retry| *retry != Retry::OnChange)
            .min()
    }
}

/// The dropped mounts of an object by version, as units of work, or why that version cannot be read.
pub type DroppedUnits = Vec<(ClientMount, Result<MountUnits, Failure>)>;

pub fn mount_points_of(dropped: &DroppedUnits) -> impl Iterator<Item = &MountPoint> {
    dropped.iter().filter_map(|(_, units)| units.as_ref().ok()).flat_map(MountUnits::mount_points)
}

#[derive(Debug)]
pub struct Work {
    pub uid: String,
    /// The object, when it can be read.
    pub object: Option<ClientMount>,
    pub dropped: DroppedUnits,
    /// The units to converge, or an outcome that needs no work.
    pub now: Result<Arc<MountUnits>, Outcome>,
}

#[derive(Debug)]
pub struct Worked {
    pub outcome: Outcome,
    pub gone: Vec<ClientMount>,
}

impl Work {
    /// Makes the outcome of work that ended in a failure, when nobody knows what it did.
    pub fn refusal(&self) -> impl FnOnce(Failure) -> Outcome + Send + use<> {
        let (goal, count) = match &self.now {
            Ok(units) => (units.goal, units.mounts.len()),
            Err(outcome) => (outcome.goal, outcome.mounts.len()),
        };
        move |failure| Outcome::refused(goal, count, failure)
    }

    /// Does the work and records what is mounted then; blocks until each unit is as desired or has failed.
    #[must_use]
    pub fn carry_out(mut self, converger: &Converger, records: &MountRecords) -> Worked {
        if let Err(error) = self.record(records) {
            return Worked { outcome: self.refusal()(Failure::from(&error)), gone: Vec::new() };
        }
        let remaining = Remaining::of(std::mem::take(&mut self.dropped), converger);
        let mut outcome = match &self.now {
            Ok(units) => converge_except(converger, units, &remaining.mounts),
            Err(outcome) => outcome.clone(),
        };
        let recorded = self.record_remaining(&remaining, &outcome, records);
        outcome.failures.extend(remaining.failures);
        match recorded {
            Ok(()) => {}
            // The record stays, and the next agent looks for mounts that are gone, which does no harm.
            Err(error) if remaining.versions.is_empty() && is_absent(&outcome) => {
                log::warn!("{}", daemon::chain(&error));
            }
            Err(error) => outcome.failures.push(of_object(&error)),
        }
        Worked { outcome, gone: remaining.gone }
    }

    /// Records, after the work, what of the object may still be mounted. An object that was refused keeps its record, without the
    /// dropped mounts that are gone.
    fn record_remaining(
        &self,
        remaining: &Remaining,
        outcome: &Outcome,
        records: &MountRecords,
    ) -> Result<(), RecordError> {
        let is_absent = is_absent(outcome);
        let is_refused = match &self.now {
            Ok(units) => units.refused(),
            Err(_) => !is_absent,
        };
        if is_refused {
            return records.forget(&self.uid, &remaining.gone);
        }
        let object = self.object.iter().filter(|_| !is_absent);
        records.keep(&self.uid, &remaining.versions.iter().chain(object).collect::<Vec<_>>())
    }

    fn record(&self, records: &MountRecords) -> Result<(), RecordError> {
        match (&self.now, &self.object) {
            (Ok(units), Some(object)) if units.goal == Goal::Mounted && !units.refused() => {
                let dropped = self.dropped.iter().map(|(version, _)| version);
                records.keep(&self.uid, &dropped.chain([object]).collect::<Vec<_>>())
            }
            _ => Ok(()),
        }
    }
}

fn is_absent(outcome: &Outcome) -> bool {
    outcome.goal == Goal::Unmounted && outcome.done()
}

/// What remains of an object's dropped mounts.
#[derive(Debug, Default)]
struct Remaining {
    gone: Vec<ClientMount>,
    versions: Vec<ClientMount>,
    /// Mounts of the other versions that may still be there.
    mounts: Vec<Mount>,
    failures: Vec<Failed>,
}

impl Remaining {
    fn of(dropped: DroppedUnits, converger: &Converger) -> Self {
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
            if outcome.done() {
                remaining.gone.push(version);
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

/// Converges the units; blocks until each is as desired or has failed. One failure does not stop the others.
pub fn converge(converger: &Converger, units: &MountUnits) -> Outcome {
    converge_except(converger, units, &[])
}

/// The same, except where dropped mounts remain; their failures are reported already.
fn converge_except(converger: &Converger, units: &MountUnits, remaining: &[Mount]) -> Outcome {
    let mut run = Run { remaining, ..Run::new(converger, units) };
    if units.refused() {
        return run.outcome;
    }
    if let Some(why @ ObjectError::ProfileForbidden(_)) = &units.profile_lost {
        run.keep_mounted(converger, why);
        return run.outcome;
    }
    match units.goal {
        Goal::Mounted => {
            run.mounts(converger);
            run.binds(converger);
            run.trees(converger);
        }
        Goal::Unmounted => {
            run.binds(converger);
            run.mounts(converger);
            run.trees(converger);
        }
    }
    run.outcome
}

/// The steps that converging would begin with, as text. Changes nothing.
pub fn plan(converger: &Converger, units: &MountUnits) -> Result<Vec<String>, Vec<Failed>> {
    let refused = Run::new(converger, units).outcome;
    if !refused.failures.is_empty() {
        return Err(refused.failures);
    }
    let (mut steps, mut failures) = (Vec::new(), Vec::new());
    for (path, unit) in in_order(units) {
        match converger.plan(&unit) {
            Ok(planned) => steps.extend(planned.iter().map(ToString::to_string)),
            // The mount that a bind mount shows is not there yet: steps before this one make it.
            Err(ConvergeError::Rejected(storage::Rejection::SourceNotMounted { .. })) => {
                steps.push(format!("show once more at {path}"));
            }
            Err(error) => {
                failures.push(Failed {
                    path: Some(path),
                    failure: Failure::of_mount(units.goal, &error),
                });
            }
        }
    }
    if failures.is_empty() { Ok(steps) } else { Err(failures) }
}

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

/// One pass over an object's units, and its outcome so far.
struct Run<'a> {
    units: &'a MountUnits,
    remaining: &'a [Mount],
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(converger: &Converger, units: &'a MountUnits) -> Self {
        let lost = units.profile_lost.iter().map(of_object);
        let mut run = Self {
            units,
            remaining: &[],
            outcome: Outcome {
                goal: units.goal,
                mounts: vec![MountOutcome::Withheld; units.mounts.len()],
                failures: Vec::new(),
                unreadable: lost.chain(units.unreadable.iter().map(of_mount)).collect(),
            },
        };
        for (index, mount) in units.mounts.iter().enumerate() {
            let Err(error) = mount else { continue };
            let failed = match units.goal {
                Goal::Mounted => Some(of_mount(error)),
                Goal::Unmounted => possibly_mounted(converger, error),
            };
            run.outcome.mounts[index] =
                if failed.is_some() { MountOutcome::Failed } else { MountOutcome::Ready };
            run.outcome.failures.extend(failed);
        }
        run
    }

    fn mounts(&mut self, converger: &Converger) {
        let valid: Vec<_> = self
            .units
            .mounts
            .iter()
            .enumerate()
            .filter_map(|(index, mount)| Some((index, mount.as_ref().ok()?)))
            .filter(|(_, mount)| !self.waits(mount))
            .collect();
        for index in self.converge_mounts(converger, &valid) {
            self.outcome.mounts[index] = MountOutcome::Ready;
        }
    }

    /// Whether a remaining dropped mount is in the way: at an overlapping path, or of the same file system.
    fn waits(&self, mount: &Mount) -> bool {
        let is_same = |other: &Mount| match (&other.source, &mount.source) {
            (MountSource::Volume { id: other, .. }, MountSource::Volume { id, .. }) => other == id,
            _ => false,
        };
        self.remaining.iter().any(|other| {
            overlap(&other.target, &mount.target)
                || self.units.goal == Goal::Mounted && is_same(other)
        })
    }

    /// Unmounts nothing, because the hooks for that are not known. A mount that is not there needs none and is done.
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
            self.outcome.failures.insert(0, of_object(why));
        }
    }

    /// Converges bind mounts, except those whose mount failed.
    fn binds(&mut self, converger: &Converger) {
        let possible: Vec<_> = self
            .units
            .binds
            .iter()
            .filter(|(shown, _)| match self.units.goal {
                Goal::Mounted => self.outcome.mounts.get(*shown) == Some(&MountOutcome::Ready),
                Goal::Unmounted => self.outcome.mounts.get(*shown) != Some(&MountOutcome::Failed),
            })
            .filter(|(_, bind)| !self.waits(bind))
            .map(|(shown, bind)| (*shown, bind))
            .collect();
        self.converge_mounts(converger, &possible);
    }

    /// Converges mounts in parallel, adds failures to the outcome, and returns the indices of those that are ready.
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
                    self.failed(
                        mount.target.to_string(),
                        Failure::of_mount(self.units.goal, &error),
                    );
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
                self.failed(tree.root.to_string(), failure);
            }
        }
    }

    fn failed(&mut self, path: String, failure: Failure) {
        self.outcome.failures.push(Failed { path: Some(path), failure });
    }
}

fn of_object<'a, E>(error: &'a E) -> Failed
where
    Failure: From<&'a E>,
{
    Failed { path: None, failure: Failure::from(error) }
}

fn of_mount(error: &MountError) -> Failed {
    Failed { path: Some(error.path.clone()), failure: Failure::from(error) }
}

/// Why an invalid mount may still be mounted. A mount that could never be made here is not there, and must not hold back its
/// object's deletion. Where only the path is not known, the agent looks at what is mounted.
fn possibly_mounted(converger: &Converger, error: &MountError) -> Option<Failed> {
    let MountProblem::UnknownPath(unknown_path) = &error.problem else { return None };
    let mut failed = of_mount(error);
    match find_possible_mount(converger, unknown_path) {
        Ok(None) => return None,
        Ok(Some((text, processes))) => {
            let more = format!("; {text}");
            failed.failure.user.push_str(&more);
            failed.failure.debug.push_str(&more);
            failed.failure.holders = processes.into();
        }
        Err(error) => {
            let error = ConvergeError::Observe(error);
            failed.failure = Failure::of_mount(Goal::Unmounted, &error);
        }
    }
    Some(failed)
}

/// A text that says where the mount may be, or which processes use its device, with those process ids; `None` when it is gone.
fn find_possible_mount(
    converger: &Converger,
    unknown_path: &UnknownPath,
) -> Result<Option<(String, Vec<i32>)>, ObserveError> {
    let observed = converger.observe(&Desired::OnlyMounts(Vec::new()))?;
    let candidates = observed.mounts.iter().filter(|(_, there)| unknown_path.may_be(there));
    let at: Vec<_> = candidates.map(|(target, _)| target.to_string()).collect();
    if !at.is_empty() {
        let text = format!("it may be what is mounted at {}", at.join(", "));
        return Ok(Some((text, Vec::new())));
    }
    // It may still be mounted in another mount namespace, where whoever unmounted it did not look.
    let Some(mount) = unknown_path.at_literal_path() else { return Ok(None) };
    Ok(match converger.observe(&Desired::Unmounted(mount))?.in_use {
        Use::HeldBy(holders) => {
            Some((format!("it is still in use, by {holders}"), holders.processes))
        }
        Use::Free | Use::MountedHere => None,
    })
}

#[cfg(test)]
mod tests;
