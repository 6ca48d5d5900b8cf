//! `container`: containers on the rabbits of the job's computes, beside its data.
//!
//! Kubernetes runs them as Jobs, or each rabbit's agent runs them from a NodeContainers. Both restart a container that failed, and
//! end one at its deadline. The engine sets the start deadline at creation, removes it when all containers are ready, and sets the
//! end deadline in PostRun. It plans once more when a deadline is so long over that the rabbit must be
//! silent, and when the time to live of what an agent ran is over.

mod claimed;
mod ended;
mod mpi;
mod packages;
mod part;
mod ports;
mod propose;
mod run;
mod storages;
mod suspend;
mod volumes;

use std::collections::BTreeMap;

use api::{NodeContainers, WorkflowState, nnf_container_profile::NnfMpiSpec};
use containers::{Run, environment, names, objects, on_rabbit, outcome::State};
use directive::{Command, Container};
use k8s_openapi::{api::batch::v1::Job, jiff::Timestamp};

pub use self::{
    claimed::by_holder,
    ports::is_cooling,
    storages::{holds, rabbits, without_held},
};
use self::{
    ended::{also, end, silent, unprepared, with},
    part::{Part, all},
    propose::propose,
    run::Parts,
    suspend::{is_suspended, suspended, without},
};
use crate::{
    change::Change,
    plan::Driver,
    progress::{Outcome, Progress, some_of, user_error},
    view::{Containers as Objects, View},
};

/// Runs containers.
#[derive(Clone, Copy, Debug)]
pub struct Containers {
    /// The moment of the plan.
    pub now: Timestamp,
}

impl Driver for Containers {
    fn takes(&self, command: &Command) -> bool {
        matches!(command, Command::Container(_))
    }

    fn advance(
        &self,
        view: &View<'_>,
        index: usize,
        command: &Command,
        state: &WorkflowState,
    ) -> Progress {
        let Command::Container(container) = command else { return Progress::default() };
        let by_holder = |progress| claimed::by_holder(view, index, state, progress);
        match state {
            WorkflowState::Proposal => propose(view, index, container),
            WorkflowState::PreRun => by_holder(start(view, index, container, self.now)),
            WorkflowState::PostRun => by_holder(end(view, index, self.now)),
            WorkflowState::DataOut => by_holder(
                mpi_of(view, index)
                    .map_or_else(Progress::default, |mpi| mpi::kept(view, index, mpi, self.now)),
            ),
            // A workload manager may name the computes after Setup; before, nobody knows the rabbits.
            WorkflowState::Setup
            | WorkflowState::DataIn
            | WorkflowState::Teardown
            | WorkflowState::Other(_) => Progress::default(),
        }
    }
}

/// Makes the containers once their storage is mounted, and waits until all of them are ready.
fn start(view: &View<'_>, index: usize, container: &Container, now: Timestamp) -> Progress {
    let of = &view.directives[index].containers;
    if let Some(mpi) = mpi_of(view, index) {
        return mpi::start(view, index, container, mpi, now);
    }
    if is_suspended(view) {
        return suspended(of);
    }
    let parts = match Parts::of(view, index, container) {
        Ok(parts) => parts,
        Err(error) => return Progress::failed(error),
    };
    let ported = ports::taken(view, &parts, now);
    if ported.progress.outcome != Outcome::Done {
        return ported.progress;
    }
    let run = parts.run(&ported.ports, None);
    let files = of.config_map.is_none().then(|| Change::create(&objects::config_map(&run)));
    let mounted = storages::mounted(view, container, &run);
    let brought = packages::brought(of, &parts, now);
    let stopped = without(all(of).filter(|part| part.is_stopped()));
    let needed = Progress::default().with(network(of, &parts, &run)).with(files);
    let enabled = storages::enabled(view, of, &run);
    let before = needed.and(enabled).and(mounted).and(brought).and(stopped);
    before.then(|| volumes::made(of, &parts)).then(|| {
        let mut missing = Vec::new();
        let mut there = Vec::new();
        for (place, rabbit) in run.rabbits().enumerate() {
            let part = if parts.on_kubernetes() {
                of.jobs.get(&names::job(parts.workflow(), rabbit)).map(|job| Part::Job(job))
            } else {
                let at = (rabbit.to_owned(), on_rabbit::name(&run));
                of.on_rabbits.get(&at).map(|one| Part::Agent(one))
            };
            match part {
                Some(part) => there.push(part),
                None => {
                    let job = || objects::job(&run, place);
                    missing.extend(parts.create(job, || on_rabbit::containers(&run, place)));
                }
            }
        }
        if missing.is_empty() { ready(of, &there, now) } else { Progress::default().with(missing) }
    })
}

/// The names by which pods find each other, and who reaches them. Elsewhere the rabbits' agents see to it.
fn network(of: &Objects, parts: &Parts<'_>, run: &Run<'_>) -> impl Iterator<Item = Change> {
    let is_missing = |is_there: bool| parts.on_kubernetes() && !is_there;
    let service = is_missing(of.service.is_some()).then(|| Change::create(&objects::service(run)));
    let policy = is_missing(of.network_policy.is_some());
    let policy = policy.then(|| Change::create(&objects::network_policy(run)));
    service.into_iter().chain(policy)
}

/// The part for MPI of a directive's profile.
fn mpi_of<'a>(view: &'a View<'_>, index: usize) -> Option<&'a NnfMpiSpec> {
    view.directives[index].containers.profile.as_ref()?.data().mpi_spec.as_ref()
}

/// Waits until all of these containers are ready or have ended; PostRun reports how they ended.
fn ready(of: &Objects, all: &[Part<'_>], now: Timestamp) -> Progress {
    let in_state = |state| all.iter().copied().filter(move |part| part.state() == state);
    let mut late = in_state(State::TooLate);
    if let Some(first) = late.next() {
        let (rabbit, limit) = (first.rabbit(), first.deadline().unwrap_or(0));
        let what = format!("container on {rabbit} was not ready after {limit} seconds");
        return Progress::failed(user_error(also(with(what, first.reason(of)), late)));
    }
    let mut unstarted = in_state(State::Unprepared);
    if let Some(first) = unstarted.next() {
        return Progress::failed(user_error(also(unprepared(of, first), unstarted)));
    }
    if let Some(error) = silent(of, all.iter().copied(), now) {
        return Progress::failed(error);
    }
    let starting = || in_state(State::Starting);
    if starting().next().is_some() {
        let names = some_of(starting().map(|part| part.rabbit()));
        // The first that says why.
        let why = |part: Part<'_>| Some(format!("; {}: {}", part.rabbit(), part.reason(of)?));
        let why = starting().find_map(why).unwrap_or_default();
        return Progress::wait(format!("containers on {names}{why}"));
    }
    Progress::default().with(in_state(State::Ready).filter_map(|part| part.with_deadline(None)))
}

/// Removes the containers and what they were made from, and gives their ports back.
pub fn removed(view: &View<'_>, index: usize, now: Timestamp) -> Progress {
    let is_container = command(&view.workflow.spec.directives[index]).is_some();
    if !is_container {
        return Progress::default();
    }
    claimed::by_holder(view, index, &WorkflowState::Teardown, all_removed(view, index, now))
}

fn all_removed(view: &View<'_>, index: usize, now: Timestamp) -> Progress {
    let of = &view.directives[index].containers;
    let running = all(of).filter_map(Part::removed);
    let files = of.service.iter().filter_map(|one| Change::delete(&**one));
    let files = files.chain(of.network_policy.iter().filter_map(|one| Change::delete(&**one)));
    let config_maps = of.config_map.iter().chain(of.attempts.values());
    let files = files.chain(config_maps.filter_map(|one| Change::delete(&**one)));
    let changes: Vec<Change> = running.chain(files).collect();
    if !of.has_ended() {
        let rabbits = some_of(all(of).map(Part::rabbit));
        return Progress::wait(format!("end of containers on {rabbits}")).with(changes);
    }
    let left = packages::removed(of).and(volumes::removed(of));
    if left.outcome != Outcome::Done {
        return left.with(changes);
    }
    Progress::default().with(changes).with(ports::returned(view, now))
}

/// When time alone brings something about, which no watch reports: the next of the workflow's rabbits becomes silent, unless it says
/// before how its containers are, or the time to live of what an agent ran is over.
pub fn next_moment(view: &View<'_>, now: Timestamp) -> Option<Timestamp> {
    let ends = (0..view.directives.len()).filter_map(|index| {
        let of = &view.directives[index].containers;
        mpi::expires(view, of, &mpi_of(view, index)?.policy())
    });
    next_silence(view).chain(ends).filter(|at| *at > now).min()
}

fn next_silence(view: &View<'_>) -> impl Iterator<Item = Timestamp> {
    let is_awaited = matches!(view.state(), WorkflowState::PreRun | WorkflowState::PostRun);
    let parts = view.directives.iter().filter(move |_| is_awaited).map(|one| &one.containers);
    let parts = parts.flat_map(|of| all(of).chain(packages::under_way(of)));
    parts.filter_map(Part::silent_from)
}

/// How far the containers of each run are on each rabbit, one word each.
pub fn states<'a>(
    jobs: impl Iterator<Item = &'a Job>,
    on_rabbits: impl Iterator<Item = &'a NodeContainers>,
    now: Timestamp,
) -> impl Iterator<Item = &'static str> {
    let runs = on_rabbits.filter(|one| !one.spec.containers.is_empty());
    jobs.map(Part::Job).chain(runs.map(Part::Agent)).map(move |part| part.word(now))
}

/// The variables by which the job's computes find the containers.
pub fn compute_environment(view: &View<'_>) -> BTreeMap<String, String> {
    let containers = view.workflow.spec.directives.iter().enumerate();
    let mut containers = containers.filter_map(|(index, line)| {
        let parts = Parts::of(view, index, &command(line)?).ok()?;
        let ports = ports::of(view, &parts)?;
        Some(environment::compute_variables(&parts.run(&ports, None)))
    });
    containers.next().unwrap_or_default()
}

/// The directive about containers that a line is.
fn command(line: &str) -> Option<Container> {
    match Command::try_from(&line.parse::<directive::Directive>().ok()?).ok()? {
        Command::Container(container) => Some(container),
        _ => None,
    }
}
