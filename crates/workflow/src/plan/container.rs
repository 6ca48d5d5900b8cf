//! `container`: runs containers on the rabbits of the job's computes, where the job's data is.
//!
//! Kubernetes runs the containers as Jobs, or each rabbit's agent runs them from a NodeContainers. Both restart a
//! container that failed, and end a container at its deadline. The engine sets the start deadline at creation,
//! removes it when all containers are ready, and sets the end deadline in PostRun. The engine also plans at two times
//! that no watch reports: when a deadline has passed for so long that the rabbit counts as silent, and when the time
//! to live of containers that an agent ran has passed.

mod claimed;
mod copy;
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

use api::{WorkflowState, nnf_container_profile::NnfMpiSpec};
use containers::{Run, environment, names, objects, on_rabbit, outcome::State};
use directive::{Command, Container};
use k8s_openapi::jiff::Timestamp;

pub use self::{
    claimed::by_holder,
    copy::{CopyState, advance_copy, check_copy, next_log_request},
    ports::is_cooling,
    storages::{containers_may_use, rabbits_using, without_mounts_in_use},
};
use self::{
    ended::{also_on, not_started_text, silence_error, wait_for_all, with_reason},
    propose::propose,
    run::Parts,
    suspend::{is_suspended, remove_suspended, suspend},
};
use crate::{
    change::Change,
    names::is_copy,
    objects::{
        part::{Part, all_parts},
        view::{Containers as Objects, View},
    },
    plan::Driver,
    progress::{Outcome, Progress, some_of, user_error},
};

/// Plans directives with the command `container`.
#[derive(Clone, Copy, Debug)]
pub struct Containers {
    /// Time of the plan.
    pub now: Timestamp,
}

impl Driver for Containers {
    fn handles(&self, command: &Command) -> bool {
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
            WorkflowState::PostRun => by_holder(wait_for_all(view, index, self.now)),
            WorkflowState::DataOut => by_holder(
                mpi_of(view, index)
                    .map_or_else(Progress::default, |mpi| mpi::keep(view, index, mpi, self.now)),
            ),
            // A workload manager may name the computes after Setup; before that the rabbits are unknown.
            WorkflowState::Setup
            | WorkflowState::DataIn
            | WorkflowState::Teardown
            | WorkflowState::Other(_) => Progress::default(),
        }
    }
}

/// Creates the containers once their storage is mounted, and waits until all of them are ready.
fn start(view: &View<'_>, index: usize, container: &Container, now: Timestamp) -> Progress {
    let existing = &view.directives[index].containers;
    if let Some(mpi) = mpi_of(view, index) {
        return mpi::start(view, index, container, mpi, now);
    }
    if is_suspended(view) {
        return suspend(existing);
    }
    let parts = match Parts::new(view, index, container) {
        Ok(parts) => parts,
        Err(error) => return Progress::failed(error),
    };
    let ported = ports::take(view, &parts, now);
    if ported.progress.outcome != Outcome::Done {
        return ported.progress;
    }
    let run = parts.run(&ported.ports, None);
    let files = existing.config_map.is_none().then(|| Change::create(&objects::config_map(&run)));
    let mounted = storages::wait_for_mounts(view, container, &run);
    let brought = packages::bring(existing, &parts, now);
    let stopped = remove_suspended(all_parts(existing).filter(|part| part.is_stopped()));
    let needed = Progress::default().with(create_network(existing, &parts, &run)).with(files);
    let enabled = storages::check_enabled(view, existing, &run);
    let before = needed.and(enabled).and(mounted).and(brought).and(stopped);
    before.then(|| volumes::create(existing, &parts)).then(|| {
        let mut missing = Vec::new();
        let mut there = Vec::new();
        for (place, rabbit) in run.rabbits().enumerate() {
            let part = if parts.on_kubernetes() {
                existing.jobs.get(&names::job(parts.service(), rabbit)).map(|job| Part::Job(job))
            } else {
                let at = (rabbit.to_owned(), on_rabbit::name(&run));
                existing.on_rabbits.get(&at).map(|containers| Part::Agent(containers))
            };
            match part {
                Some(part) => there.push(part),
                None => {
                    let job = || objects::job(&run, place);
                    missing.extend(parts.create(job, || on_rabbit::containers(&run, place)));
                }
            }
        }
        if missing.is_empty() {
            wait_until_ready(existing, &there, now)
        } else {
            Progress::default().with(missing)
        }
    })
}

/// Creates the Service by which pods find each other, and the NetworkPolicy that limits access to the pods. Without
/// Kubernetes the agents of rabbits provide both.
fn create_network(
    existing: &Objects,
    parts: &Parts<'_>,
    run: &Run<'_>,
) -> impl Iterator<Item = Change> {
    let is_missing = |is_there: bool| parts.on_kubernetes() && !is_there;
    let service =
        is_missing(existing.service.is_some()).then(|| Change::create(&objects::service(run)));
    let policy = is_missing(existing.network_policy.is_some());
    let policy = policy.then(|| Change::create(&objects::network_policy(run)));
    service.into_iter().chain(policy)
}

/// Returns the MPI part of a directive's container profile.
fn mpi_of<'a>(view: &'a View<'_>, index: usize) -> Option<&'a NnfMpiSpec> {
    view.directives[index].containers.profile.as_ref()?.data().mpi_spec.as_ref()
}

/// Waits until all of these containers are ready or have ended; PostRun reports how they ended.
fn wait_until_ready(existing: &Objects, all: &[Part<'_>], now: Timestamp) -> Progress {
    let in_state = |state| all.iter().copied().filter(move |part| part.state() == state);
    let mut late = in_state(State::TooLate);
    if let Some(first) = late.next() {
        let (rabbit, limit) = (first.rabbit(), first.deadline().unwrap_or(0));
        let what = format!("container on {rabbit} was not ready after {limit} seconds");
        return Progress::failed(user_error(also_on(
            with_reason(what, first.reason(existing)),
            late,
        )));
    }
    let mut unstarted = in_state(State::Unprepared);
    if let Some(first) = unstarted.next() {
        return Progress::failed(user_error(also_on(not_started_text(existing, first), unstarted)));
    }
    if let Some(error) = silence_error(existing, all.iter().copied(), now) {
        return Progress::failed(error);
    }
    let starting = || in_state(State::Starting);
    if starting().next().is_some() {
        let names = some_of(starting().map(|part| part.rabbit()));
        // The message has only the first known reason.
        let why = |part: Part<'_>| Some(format!("; {}: {}", part.rabbit(), part.reason(existing)?));
        let why = starting().find_map(why).unwrap_or_default();
        return Progress::wait(format!("containers on {names}{why}"))
            .awaiting(starting().map(Part::rabbit));
    }
    Progress::default().with(in_state(State::Ready).filter_map(|part| part.with_deadline(None)))
}

/// Removes a directive's containers and the objects they were created from, and releases their ports.
pub fn remove_containers(view: &View<'_>, index: usize, now: Timestamp) -> Progress {
    let is_container = parse_container(&view.workflow.spec.directives[index]).is_some();
    if !is_container && !is_copy(&view.workflow, index) {
        return Progress::default();
    }
    claimed::by_holder(view, index, &WorkflowState::Teardown, remove_all(view, index, now))
}

fn remove_all(view: &View<'_>, index: usize, now: Timestamp) -> Progress {
    let existing = &view.directives[index].containers;
    let running = all_parts(existing).filter_map(Part::remove);
    let files = existing.service.iter().filter_map(|object| Change::delete(&**object));
    let files =
        files.chain(existing.network_policy.iter().filter_map(|object| Change::delete(&**object)));
    let config_maps = existing.config_map.iter().chain(existing.attempts.values());
    let files = files.chain(config_maps.filter_map(|object| Change::delete(&**object)));
    let changes: Vec<Change> = running.chain(files).collect();
    if !existing.has_ended() {
        let rabbits: Vec<&str> = all_parts(existing).map(Part::rabbit).collect();
        return Progress::wait_on("end of containers on", rabbits).with(changes);
    }
    let rest = packages::remove(existing).and(volumes::remove(existing));
    if rest.outcome != Outcome::Done {
        return rest.with(changes);
    }
    Progress::default().with(changes).with(ports::release(view, index, now))
}

/// Returns the next time at which the plan changes without an event: a rabbit of the workflow becomes silent because it
/// has not reported its containers, or the time to live of containers that an agent ran has passed.
pub fn next_moment(view: &View<'_>, now: Timestamp) -> Option<Timestamp> {
    let ends = (0..view.directives.len())
        .filter_map(|index| mpi::expires(view, index, &mpi_of(view, index)?.policy()));
    next_silence(view).chain(ends).filter(|at| *at > now).min()
}

fn next_silence(view: &View<'_>) -> impl Iterator<Item = Timestamp> {
    let is_awaited = |index| match view.state() {
        WorkflowState::PreRun | WorkflowState::PostRun => !is_copy(&view.workflow, index),
        WorkflowState::DataIn | WorkflowState::DataOut => is_copy(&view.workflow, index),
        _ => false,
    };
    let directives = view.directives.iter().enumerate();
    let parts = directives
        .filter(move |(index, _)| is_awaited(*index))
        .map(|(_, directive)| &directive.containers);
    let parts = parts.flat_map(|existing| all_parts(existing).chain(packages::under_way(existing)));
    parts.filter_map(Part::silent_from)
}

/// Returns the variables by which the job's computes find the containers.
pub fn compute_environment(view: &View<'_>) -> BTreeMap<String, String> {
    let containers = view.workflow.spec.directives.iter().enumerate();
    let mut containers = containers.filter_map(|(index, line)| {
        let parts = Parts::new(view, index, &parse_container(line)?).ok()?;
        let ports = ports::ports_of(view, &parts)?;
        Some(environment::compute_variables(&parts.run(&ports, None)))
    });
    containers.next().unwrap_or_default()
}

/// Parses a `container` directive; `None` for other directives.
fn parse_container(line: &str) -> Option<Container> {
    match Command::read(line)? {
        Command::Container(container) => Some(container),
        _ => None,
    }
}
