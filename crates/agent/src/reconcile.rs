//! Brings the units of one ClientMount to their goal: all mounts side by side, then what shows them.

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
    desired::{Goal, MountError, MountProblem, MountUnits, ObjectError, Untold, overlap},
    error::Failure,
    records::{MountRecords, RecordError},
};

/// What became of one mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountOutcome {
    /// It is as desired.
    Ready,
    /// Nothing is wrong with it, but another mount of the object, or the object, was refused.
    Withheld,
    /// It is not as desired; why is in [`Outcome::failures`].
    Failed,
}

/// A failure and the mount path it is about; none when it is about the whole object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The mount path, as checked or as the object spells it.
    pub path: Option<String>,
    /// What went wrong there.
    pub failure: Failure,
}

/// What became of one ClientMount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Where it was to be brought.
    pub goal: Goal,
    /// One per entry of `spec.mounts`.
    pub mounts: Vec<MountOutcome>,
    /// Every failure, each told by itself.
    pub failures: Vec<Failed>,
    /// What unmounting does without, the profile or lines of it: no failure, and not to be kept quiet.
    pub unreadable: Vec<Failed>,
}

impl Outcome {
    /// The outcome of an object with `count` mounts for which nothing was done.
    #[must_use]
    pub fn refused(goal: Goal, count: usize, failure: Failure) -> Self {
        let failures = vec![Failed { path: None, failure }];
        let mounts = vec![MountOutcome::Withheld; count];
        Self { goal, mounts, failures, unreadable: Vec::new() }
    }

    /// The outcome of an object of which nothing is on the node, and nothing should be.
    #[must_use]
    pub fn absent(count: usize) -> Self {
        let mounts = vec![MountOutcome::Ready; count];
        Self { goal: Goal::Unmounted, mounts, failures: Vec::new(), unreadable: Vec::new() }
    }

    /// Whether everything is as desired.
    #[must_use]
    pub fn done(&self) -> bool {
        self.failures.is_empty() && self.mounts.iter().all(|mount| *mount == MountOutcome::Ready)
    }

    /// Processes of which each keeps something from its goal.
    #[must_use]
    pub fn holders(&self) -> Vec<i32> {
        let failures = self.failures.iter();
        failures.flat_map(|failed| failed.failure.holders.iter().copied()).collect()
    }

    /// When to try again: as soon as the most hopeful failure asks for.
    #[must_use]
    pub fn retry(&self) -> Option<Retry> {
        self.failures
            .iter()
            .map(|failed| failed.failure.retry)
            .filter(|retry| *retry != Retry::OnChange)
            .min()
    }
}

/// What an object asked for earlier and is to leave, version by version, or why that cannot be told.
pub type Earlier = Vec<(ClientMount, Result<MountUnits, Failure>)>;

/// Every mount point of what an object asked for earlier.
pub fn mount_points_of(former: &Earlier) -> impl Iterator<Item = &MountPoint> {
    former.iter().filter_map(|(_, units)| units.as_ref().ok()).flat_map(MountUnits::mount_points)
}

/// What is to be done for one object.
#[derive(Debug)]
pub struct Work {
    /// Its `metadata.uid`.
    pub uid: String,
    /// The object, when it can be read.
    pub object: Option<ClientMount>,
    /// What it asked for earlier and asks for no more, to be unmounted first.
    pub former: Earlier,
    /// Units to converge, or an outcome that is known already.
    pub now: Result<Arc<MountUnits>, Outcome>,
}

/// What became of [`Work`].
#[derive(Debug)]
pub struct Worked {
    /// What became of the object.
    pub outcome: Outcome,
    /// Of what it asked for earlier, that of which nothing is left.
    pub gone: Vec<ClientMount>,
}

impl Work {
    /// What becomes of the object when the work on it ends in this failure, and nothing is known of what was done.
    pub fn refusal(&self) -> impl FnOnce(Failure) -> Outcome + Send + use<> {
        let (goal, count) = match &self.now {
            Ok(units) => (units.goal, units.mounts.len()),
            Err(outcome) => (outcome.goal, outcome.mounts.len()),
        };
        move |failure| Outcome::refused(goal, count, failure)
    }

    /// Does it, and records what the node then has mounted; blocks until each unit is as desired or has failed.
    #[must_use]
    pub fn carry_out(mut self, converger: &Converger, records: &MountRecords) -> Worked {
        if let Err(error) = self.record(records) {
            return Worked { outcome: self.refusal()(Failure::from(&error)), gone: Vec::new() };
        }
        let left = Left::of(std::mem::take(&mut self.former), converger);
        let mut outcome = match &self.now {
            Ok(units) => converge_beside(converger, units, &left.mounts),
            Err(outcome) => outcome.clone(),
        };
        let recorded = self.record_left(&left, &outcome, records);
        outcome.failures.extend(left.failures);
        match recorded {
            Ok(()) => {}
            // The next agent looks for it once more, which does no harm: that nothing is left is no failure.
            Err(error) if left.versions.is_empty() && is_absent(&outcome) => {
                log::warn!("{}", daemon::chain(&error));
            }
            Err(error) => outcome.failures.push(whole(&error)),
        }
        Worked { outcome, gone: left.gone }
    }

    /// Records, once nothing more is done for the object, what of it may be mounted. An object that was refused has what it had,
    /// but for what is gone of that.
    fn record_left(
        &self,
        left: &Left,
        outcome: &Outcome,
        records: &MountRecords,
    ) -> Result<(), RecordError> {
        let is_absent = is_absent(outcome);
        let is_refused = match &self.now {
            Ok(units) => units.refused(),
            Err(_) => !is_absent,
        };
        if is_refused {
            return records.forget(&self.uid, &left.gone);
        }
        let object = self.object.iter().filter(|_| !is_absent);
        records.keep(&self.uid, &left.versions.iter().chain(object).collect::<Vec<_>>())
    }

    /// Before anything is mounted.
    fn record(&self, records: &MountRecords) -> Result<(), RecordError> {
        match (&self.now, &self.object) {
            (Ok(units), Some(object)) if units.goal == Goal::Mounted && !units.refused() => {
                let former = self.former.iter().map(|(version, _)| version);
                records.keep(&self.uid, &former.chain([object]).collect::<Vec<_>>())
            }
            _ => Ok(()),
        }
    }
}

fn is_absent(outcome: &Outcome) -> bool {
    outcome.goal == Goal::Unmounted && outcome.done()
}

/// What became of what an object asked for earlier.
#[derive(Debug, Default)]
struct Left {
    /// Versions of which nothing is left.
    gone: Vec<ClientMount>,
    /// The others.
    versions: Vec<ClientMount>,
    /// What may still be mounted of those.
    mounts: Vec<Mount>,
    failures: Vec<Failed>,
}

impl Left {
    fn of(former: Earlier, converger: &Converger) -> Self {
        let mut left = Self::default();
        for (version, units) in former {
            let units = match units {
                Ok(units) => units,
                Err(failure) => {
                    left.failures.push(Failed { path: None, failure });
                    left.versions.push(version);
                    continue;
                }
            };
            let outcome = converge(converger, &units);
            if outcome.done() {
                left.gone.push(version);
            } else {
                left.versions.push(version);
                left.mounts.extend(units.mounts.into_iter().flatten());
                left.mounts.extend(units.binds.into_iter().map(|(_, bind)| bind));
                left.failures.extend(outcome.failures);
            }
        }
        left
    }
}

/// Converges the units; blocks until each is as desired or has failed. One failure does not stop the others.
#[must_use]
pub fn converge(converger: &Converger, units: &MountUnits) -> Outcome {
    converge_beside(converger, units, &[])
}

/// The same, but where mounts that were to go first stay: their failure is told already.
fn converge_beside(converger: &Converger, units: &MountUnits, staying: &[Mount]) -> Outcome {
    let mut run = Run { staying, ..Run::new(converger, units) };
    if units.refused() {
        return run.outcome;
    }
    if let Some(why @ ObjectError::ProfileUnread(_)) = &units.profile_lost {
        run.leave(converger, why);
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

/// The steps that converging would begin with, as text; nothing is changed.
///
/// # Errors
/// Every reason for which something would be refused.
pub fn plan(converger: &Converger, units: &MountUnits) -> Result<Vec<String>, Vec<Failed>> {
    let refused = Run::new(converger, units).outcome;
    if !refused.failures.is_empty() {
        return Err(refused.failures);
    }
    let (mut steps, mut failures) = (Vec::new(), Vec::new());
    for (path, unit) in in_order(units) {
        match converger.plan(&unit) {
            Ok(planned) => steps.extend(planned.iter().map(ToString::to_string)),
            // What a bind is to show is not there yet: it comes with the steps before.
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

/// One pass over an object's units, and what became of them so far.
struct Run<'a> {
    units: &'a MountUnits,
    staying: &'a [Mount],
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(converger: &Converger, units: &'a MountUnits) -> Self {
        let lost = units.profile_lost.iter().map(whole);
        let mut run = Self {
            units,
            staying: &[],
            outcome: Outcome {
                goal: units.goal,
                mounts: vec![MountOutcome::Withheld; units.mounts.len()],
                failures: Vec::new(),
                unreadable: lost.chain(units.unreadable.iter().map(told)).collect(),
            },
        };
        for (place, mount) in units.mounts.iter().enumerate() {
            let Err(error) = mount else { continue };
            let failed = match units.goal {
                Goal::Mounted => Some(told(error)),
                Goal::Unmounted => left(converger, error),
            };
            run.outcome.mounts[place] =
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
            .filter_map(|(place, mount)| Some((place, mount.as_ref().ok()?)))
            .filter(|(_, mount)| !self.waits(mount))
            .collect();
        for place in self.all(converger, &valid) {
            self.outcome.mounts[place] = MountOutcome::Ready;
        }
    }

    /// Whether a mount that stays is in the way: at its path, or, as its device is to go first, of its file system.
    fn waits(&self, mount: &Mount) -> bool {
        let is_same = |other: &Mount| match (&other.source, &mount.source) {
            (MountSource::Volume { id: other, .. }, MountSource::Volume { id, .. }) => other == id,
            _ => false,
        };
        self.staying.iter().any(|other| {
            overlap(&other.target, &mount.target)
                || self.units.goal == Goal::Mounted && is_same(other)
        })
    }

    /// Takes nothing down, as the hooks of that are not known; what is not there needs none.
    fn leave(&mut self, converger: &Converger, why: &ObjectError) {
        let nothing_to_do = |unit: &Desired| {
            let steps = converger.plan(unit);
            steps.is_ok_and(|steps| steps.is_empty())
        };
        for (place, mount) in self.units.mounts.iter().enumerate() {
            let Ok(mount) = mount else { continue };
            self.outcome.mounts[place] = if nothing_to_do(&self.units.unit(mount)) {
                MountOutcome::Ready
            } else {
                MountOutcome::Failed
            };
        }
        self.outcome.unreadable.clear();
        let there = in_order(self.units).iter().any(|(_, unit)| !nothing_to_do(unit));
        if there || !self.outcome.failures.is_empty() {
            self.outcome.failures.insert(0, whole(why));
        }
    }

    /// Binds of mounts that are not there are left out: so is what they would show.
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
        self.all(converger, &possible);
    }

    /// Converges mounts side by side, records what failed, and returns the places of those that are ready.
    fn all(&mut self, converger: &Converger, mounts: &[(usize, &Mount)]) -> BTreeSet<usize> {
        let desired: Vec<_> = mounts.iter().map(|(_, mount)| self.units.unit(mount)).collect();
        let mut ready = BTreeSet::new();
        for ((place, mount), result) in mounts.iter().zip(converger.converge_all(&desired)) {
            match result {
                Ok(_) => drop(ready.insert(*place)),
                Err(error) => {
                    self.outcome.mounts[*place] = MountOutcome::Failed;
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

fn whole<'a, E>(error: &'a E) -> Failed
where
    Failure: From<&'a E>,
{
    Failed { path: None, failure: Failure::from(error) }
}

fn told(error: &MountError) -> Failed {
    Failed { path: Some(error.path.clone()), failure: Failure::from(error) }
}

/// What keeps a mount that cannot be worked on from being called unmounted. What cannot be a mount here was never mounted,
/// and must not keep its object from going; but where the path alone is lost, what is mounted tells.
fn left(converger: &Converger, error: &MountError) -> Option<Failed> {
    let MountProblem::Untold(untold) = &error.problem else { return None };
    let mut failed = told(error);
    match whereabouts(converger, untold) {
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

/// Where it may be mounted, or which processes keep its device in use, in words too.
fn whereabouts(
    converger: &Converger,
    untold: &Untold,
) -> Result<Option<(String, Vec<i32>)>, ObserveError> {
    let observed = converger.observe(&Desired::OnlyMounts(Vec::new()))?;
    let candidates = observed.mounts.iter().filter(|(_, there)| untold.may_be(there));
    let at: Vec<_> = candidates.map(|(target, _)| target.to_string()).collect();
    if !at.is_empty() {
        let text = format!("it may be what is mounted at {}", at.join(", "));
        return Ok(Some((text, Vec::new())));
    }
    // Whoever removed it did not see that it lives on in another mount namespace.
    let Some(mount) = untold.as_spelled() else { return Ok(None) };
    Ok(match converger.observe(&Desired::Unmounted(mount))?.in_use {
        Use::HeldBy(holders) => {
            Some((format!("it is still in use, by {holders}"), holders.processes))
        }
        Use::Free | Use::MountedHere => None,
    })
}

#[cfg(test)]
mod tests;
