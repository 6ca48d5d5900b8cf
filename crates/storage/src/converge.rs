//! Observes, plans, executes and observes again until no steps are left.

mod preparation;
mod rounds;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    error::Error as _,
    mem::take,
    sync::Arc,
    thread,
};

use log::warn;
use parking_lot::Mutex;
use thiserror::Error;

pub use self::rounds::{NotConverging, Rounds};

use self::preparation::Preparation;
use crate::{
    Desired, Host, Observed, Panicked, Rejection, Step, caught,
    desired::{Allocation, AllocationId, NamespaceId},
    execute::{ExecuteError, execute, execute_each, execute_per_drive},
    host::{ObserveError, StepError},
    observed::{Namespace, NamespaceOwner},
    plan,
    plan::first_steps,
};

/// Maximum number of rounds (observe, plan, execute) before the converger gives up. A new allocation needs up to
/// four: the first creates its namespaces, the second attaches them or zeroes some, the third attaches these, the fourth
/// finds no more steps.
const ROUNDS: usize = 6;

/// Maximum number of times that a unit observes again because another unit changed the node between the observation and
/// the step. Allocations made in parallel all choose the drive with the most free bytes, so an allocation may lose this
/// race once on each drive.
const MAX_LOST_RACES: usize = 64;

/// Maximum number of groups of units ([`Desired::group`]) that one call of [`Converger::converge_all`] converges at the
/// same time. Each group needs a thread, which may block in the kernel.
const SIDE_BY_SIDE: usize = 16;

/// The outcome of a convergence: the steps taken (none when the unit already was as desired) and the last observation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Converged {
    pub steps: Vec<Step>,
    pub observed: crate::Observed,
}

/// Why a unit is not as desired.
#[derive(Debug, Error)]
pub enum ConvergeError {
    #[error("observe the node")]
    Observe(#[source] ObserveError),
    /// The plan was rejected; the steps of earlier rounds stay done.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// A step failed; the steps before it stay done.
    #[error(transparent)]
    Step(#[from] ExecuteError),
    #[error(transparent)]
    NotConverging(#[from] NotConverging),
    /// The thread that worked on the unit panicked. Steps taken before the panic stay done, and other units continue.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

/// Brings one node to the desired state.
#[derive(Debug)]
pub struct Converger {
    host: Arc<dyn Host>,
    groups: Arc<Mutex<HashMap<String, Arc<Mutex<()>>>>>,
}

/// The progress of one call of [`Converger::converge`].
#[derive(Debug, Default)]
struct Progress {
    done: Vec<Step>,
    preparation: Preparation,
    /// Whether the allocation is new: the first observation found no namespace of the allocation, and the
    /// status of the allocation's object names none.
    is_new: Option<bool>,
}

impl Progress {
    /// Returns whether this call created part of a new allocation that cannot be completed. Namespaces that existed
    /// before this call may hold data and stay.
    fn must_be_released(&self, error: &ConvergeError) -> bool {
        let creates =
            |step: &Step| matches!(step, Step::CreateNamespace { .. } | Step::ZeroNamespace { .. });
        let in_vain = match error {
            ConvergeError::Rejected(_) | ConvergeError::NotConverging(_) => {
                self.done.iter().any(creates)
            }
            ConvergeError::Step(failed) => creates(&failed.step),
            ConvergeError::Observe(_) | ConvergeError::Panicked(_) => false,
        };
        in_vain && self.is_new == Some(true)
    }
}

fn is_new(desired: &Desired, observed: &Observed) -> bool {
    let Desired::Allocated(Allocation { id, reported, .. }) = desired else { return false };
    let is_its = |namespace: &Namespace| match &namespace.owner {
        NamespaceOwner::Ours(owner) | NamespaceOwner::Replaced(owner) => owner == id,
        NamespaceOwner::Partial(_) | NamespaceOwner::Unknown | NamespaceOwner::Foreign(_) => false,
    };
    reported.is_empty() && !observed.namespaces.iter().any(is_its)
}

impl Converger {
    /// Creates a converger for `host`. Use only one converger per node, because only units of the same converger wait
    /// for each other.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self { host, groups: Arc::default() }
    }

    /// Returns all namespaces that the node reaches.
    ///
    /// # Errors
    /// As [`Host::reached_namespaces`].
    pub fn reached_namespaces(&self) -> Result<BTreeSet<NamespaceId>, ObserveError> {
        self.host.reached_namespaces()
    }

    /// Returns a converger for the same node with another [`Host`]: `before` receives this converger's [`Host`] and
    /// returns the new one, for example a wrapper around the old one. Units of the same [`Desired::group`] still run
    /// one after another, even when one runs on this converger and another on the new one.
    #[must_use]
    pub fn with_host(&self, before: impl FnOnce(Arc<dyn Host>) -> Arc<dyn Host>) -> Self {
        Self { host: before(Arc::clone(&self.host)), groups: Arc::clone(&self.groups) }
    }

    /// Observes, plans and executes until no steps are left.
    ///
    /// Blocks while another unit of the same [`Desired::group`] converges.
    ///
    /// # Errors
    /// See [`ConvergeError`]. The steps taken stay done, and the next call continues after them.
    pub fn converge(&self, desired: &Desired) -> Result<Converged, ConvergeError> {
        let group = self.group(&desired.group());
        let result = {
            let _turn = group.lock();
            caught(|| self.converge_alone(desired)).unwrap_or_else(|panicked| Err(panicked.into()))
        };
        drop(group);
        self.forget_idle_groups();
        result
    }

    /// Converges every unit. Units of the same [`Desired::group`] run one after another in the order given; units of
    /// different groups run in parallel. Returns the results in the order of `desired`.
    pub fn converge_all(&self, desired: &[Desired]) -> Vec<Result<Converged, ConvergeError>> {
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, unit) in desired.iter().enumerate() {
            groups.entry(unit.group()).or_default().push(index);
        }
        let threads = groups.len().min(SIDE_BY_SIDE);
        let queue: Mutex<VecDeque<Vec<usize>>> = Mutex::new(groups.into_values().collect());
        let results = Mutex::new(BTreeMap::new());
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(indices) = next(&queue) {
                        for index in indices {
                            let result = self.converge(&desired[index]);
                            results.lock().insert(index, result);
                        }
                    }
                });
            }
        });
        results.into_inner().into_values().collect()
    }

    /// Returns the steps that [`Converger::converge`] would take before it observes again. If drives are not ready, these
    /// are the steps that make them ready; the steps after them depend on what they achieve.
    pub fn plan(&self, desired: &Desired) -> Result<Vec<Step>, ConvergeError> {
        let observed = self.observe(desired).map_err(ConvergeError::Observe)?;
        Ok(caught(|| first_steps(desired, &observed))??)
    }

    /// Observes the part of the node that `desired` concerns.
    pub fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        caught(|| self.host.observe(desired)).unwrap_or_else(|panicked| Err(panicked.into()))
    }

    fn converge_alone(&self, desired: &Desired) -> Result<Converged, ConvergeError> {
        let mut progress = Progress::default();
        let outcome = self.until_no_steps(desired, &mut progress);
        if let (Err(error), Desired::Allocated(allocation)) = (&outcome, desired)
            && progress.must_be_released(error)
        {
            self.release(allocation.id);
        }
        outcome
    }

    fn until_no_steps(
        &self,
        desired: &Desired,
        progress: &mut Progress,
    ) -> Result<Converged, ConvergeError> {
        let (mut rounds, mut lost_races) = (Rounds::new(desired.unit(), ROUNDS), 0);
        loop {
            let mut observed = self.host.observe(desired).map_err(ConvergeError::Observe)?;
            let Progress { done, preparation, .. } = &mut *progress;
            preparation.leave_out(desired, &mut observed);
            if preparation.take(&*self.host, desired, &observed, done) {
                continue;
            }
            progress.is_new.get_or_insert_with(|| is_new(desired, &observed));
            let steps = plan(desired, &observed)?;
            if !rounds.begin(&steps)? {
                return Ok(Converged { steps: take(&mut progress.done), observed });
            }
            match executor(desired)(&*self.host, steps, &mut progress.done) {
                // Another unit changed the node between this unit's observation and its step, for example took the
                // drive's free bytes: observe again. Such a lost race does not count as a round.
                Err(ExecuteError { source: StepError::Changed(_), .. })
                    if lost_races < MAX_LOST_RACES =>
                {
                    lost_races += 1;
                    rounds.take_back();
                }
                other => other.map_err(classify)?,
            }
        }
    }

    /// Releases the namespaces that this call created for an allocation that cannot be completed. A namespace whose
    /// release fails stays recorded for the allocation; the next call uses or releases it.
    fn release(&self, id: AllocationId) {
        let released = self.until_no_steps(&Desired::Released(id), &mut Progress::default());
        if let Err(error) = released {
            let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
            warn!("the namespaces created for allocation {id} cannot be released: {error}{cause}");
        }
    }

    fn group(&self, name: &str) -> Arc<Mutex<()>> {
        Arc::clone(self.groups.lock().entry(name.to_owned()).or_default())
    }

    /// Drops the locks of the groups ([`Desired::group`]) in which no unit runs: each job brings new groups, and the
    /// daemon runs for years.
    fn forget_idle_groups(&self) {
        self.groups.lock().retain(|_, group| Arc::strong_count(group) > 1);
    }
}

type Executor = fn(&dyn Host, Vec<Step>, &mut Vec<Step>) -> Result<(), ExecuteError>;

/// Returns the function that executes the steps of a unit. In some units the failure of a step on one drive, mount or
/// volume must not hold up the steps on the others.
fn executor(desired: &Desired) -> Executor {
    match desired {
        Desired::OnlyMounts(_) | Desired::OnlyVolumes(_) | Desired::Withdrawn { .. } => {
            execute_each
        }
        Desired::Released(_) => execute_per_drive,
        _ => execute,
    }
}

/// Turns two errors of steps into rejections: a drive refused a namespace for lack of room, or a device is too small
/// for its file system. The planner could not reject these earlier, because no observation shows them.
fn classify(error: ExecuteError) -> ConvergeError {
    if let Some(refused) = error.room_refused() {
        return Rejection::DriveRefused(refused.clone()).into();
    }
    match error {
        ExecuteError { source: StepError::TooSmall(refused), .. } => {
            Rejection::TooSmall(refused).into()
        }
        other => other.into(),
    }
}

fn next<T>(queue: &Mutex<VecDeque<T>>) -> Option<T> {
    queue.lock().pop_front()
}
