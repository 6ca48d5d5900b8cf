//! `container`: containers on the rabbits of the job's computes, beside its data.
//!
//! Kubernetes runs them as Jobs, or each rabbit's agent runs them from a NodeContainers. Both restart a container that failed, and
//! end one at its deadline. The engine sets the start deadline at creation, removes it when all containers are ready, and sets the
//! end deadline in PostRun; it runs no timer.

mod claimed;
mod mpi;
mod packages;
mod part;
mod ports;
mod run;
mod storages;

use std::collections::BTreeMap;

use api::{
    NnfContainerProfile, NnfContainerProfileBody, NnfContainerProfileData, ResourceError,
    WorkflowState, nnf_container_profile::NnfMpiSpec,
};
use containers::{NameFault, Run, environment, names, objects, on_rabbit, outcome::State};
use directive::{Command, Container};
use k8s_openapi::jiff::Timestamp;

pub use self::{
    claimed::by_holder,
    ports::is_cooling,
    storages::{holds, rabbits, without_held},
};
use self::{
    part::{Part, all},
    run::Parts,
};
use crate::{
    change::Change,
    names::{of_directive, owned, with_directive},
    plan::Driver,
    progress::{Outcome, Progress, internal_error, some_of, user_error},
    report::is_completed,
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
                    .map_or_else(Progress::default, |mpi| mpi::kept(view, index, mpi)),
            ),
            // A workload manager may name the computes after Setup; before, nobody knows the rabbits.
            WorkflowState::Setup
            | WorkflowState::DataIn
            | WorkflowState::Teardown
            | WorkflowState::Other(_) => Progress::default(),
        }
    }
}

/// Checks the profile against this site and this workflow, and pins it.
fn propose(view: &View<'_>, index: usize, container: &Container) -> Progress {
    let of = &view.directives[index].containers;
    if of.profile.is_some() {
        return Progress::default();
    }
    let name = &container.profile;
    let Some(template) = view.site.container_profiles.get(name) else {
        return Progress::failed(user_error(format!(
            "argument profile={name}: the profile is gone"
        )));
    };
    if let Err(error) = possible(view, container, template) {
        return Progress::failed(error);
    }
    let metadata = owned(&view.workflow, &of_directive(&view.workflow, index));
    let mut data = template.data().clone();
    data.pinned = true;
    let pinned = NnfContainerProfile {
        metadata: with_directive(metadata, &view.workflow, index),
        spec: NnfContainerProfileBody { data: data.into() },
    };
    Progress::default().with([Change::create(&pinned)])
}

/// Whether a profile's containers can run here, for this workflow.
fn possible(
    view: &View<'_>,
    container: &Container,
    template: &NnfContainerProfile,
) -> Result<(), ResourceError> {
    let Some(containers) = &view.site.settings.containers else {
        return Err(user_error(
            "command container: no containers run here; leave the directive out, or the administrator starts the coordinator with --container-namespace",
        ));
    };
    let elsewhere = containers.namespace.as_ref().filter(|one| **one != view.namespace());
    if let Some(namespace) = elsewhere {
        return Err(user_error(format!(
            "command container: containers run in the Kubernetes namespace {namespace} only, and this workflow is in {}",
            view.namespace()
        )));
    }
    storages::check(container)?;
    let mut faults = containers::check::faults(template.data(), view.workflow.spec.user_id);
    if containers.namespace.is_none() {
        faults.extend(containers::check::on_rabbits(template.data()));
    } else {
        faults.extend(containers::check::on_kubernetes(template.data(), containers.packages));
    }
    if let Some(fault) = faults.first() {
        return Err(user_error(format!("argument profile={}: {fault}", container.profile)));
    }
    let has_podhelper = containers.namespace.is_none() || containers.podhelper_image.is_some();
    if template.data().mpi_spec.is_some() && !has_podhelper {
        return Err(run::no_podhelper(&container.profile));
    }
    named(view, template).map_err(|fault| user_error(fault.to_string()))
}

/// Whether the run's objects can be named, on whatever rabbits it will be.
fn named(view: &View<'_>, template: &NnfContainerProfile) -> Result<(), NameFault> {
    let name = view.workflow.metadata.name.as_deref().unwrap_or_default();
    names::check_workflow(name)?;
    let rabbits = view.site.rabbits();
    if template.data().mpi_spec.is_some() {
        return names::check_mpi(name, rabbits.len());
    }
    rabbits.into_iter().try_for_each(|rabbit| names::check_rabbit(name, rabbit))
}

/// Makes the containers once their storage is mounted, and waits until all of them are ready.
fn start(view: &View<'_>, index: usize, container: &Container, now: Timestamp) -> Progress {
    let of = &view.directives[index].containers;
    if let Some(mpi) = mpi_of(view, index) {
        return mpi::start(view, index, container, mpi, now);
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
    let has_names = of.service.is_some() || !parts.on_kubernetes();
    let files = [
        (!has_names).then(|| Change::create(&objects::service(&run))),
        of.config_map.is_none().then(|| Change::create(&objects::config_map(&run))),
    ];
    let mounted = storages::mounted(view, container, run.rabbits());
    let brought = packages::brought(of, &parts);
    let all = Progress::default().with(files.into_iter().flatten()).and(mounted).and(brought);
    all.then(|| {
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
                None => missing.extend(created(&parts, &run, place)),
            }
        }
        if missing.is_empty() { ready(of, &there) } else { Progress::default().with(missing) }
    })
}

/// Makes the containers of the rabbit at this place of a run.
fn created(parts: &Parts<'_>, run: &Run<'_>, place: usize) -> Option<Change> {
    if parts.on_kubernetes() {
        objects::job(run, place).map(|job| Change::create(&job))
    } else {
        on_rabbit::containers(run, place).map(|one| Change::create(&one))
    }
}

/// The part for MPI of a directive's profile.
fn mpi_of<'a>(view: &'a View<'_>, index: usize) -> Option<&'a NnfMpiSpec> {
    view.directives[index].containers.profile.as_ref()?.data().mpi_spec.as_ref()
}

/// Waits until all of these containers are ready or have ended; PostRun reports how they ended.
fn ready(of: &Objects, all: &[Part<'_>]) -> Progress {
    if let Some(part) = all.iter().find(|part| part.state() == State::TooLate) {
        let (rabbit, limit) = (part.rabbit(), part.deadline().unwrap_or(0));
        let what = format!("container on {rabbit} was not ready after {limit} seconds");
        return Progress::failed(user_error(with(what, part.reason(of))));
    }
    if let Some(part) = all.iter().find(|part| part.state() == State::Unprepared) {
        return Progress::failed(user_error(unprepared(of, *part)));
    }
    let starting = || all.iter().filter(|part| part.state() == State::Starting);
    if starting().next().is_some() {
        let names = some_of(starting().map(|part| part.rabbit()));
        // The first that says why.
        let why = |part: &Part<'_>| Some(format!("; {}: {}", part.rabbit(), part.reason(of)?));
        let why = starting().find_map(why).unwrap_or_default();
        return Progress::wait(format!("containers on {names}{why}"));
    }
    let running = all.iter().filter(|part| part.state() == State::Ready);
    Progress::default().with(running.filter_map(|part| part.with_deadline(None)))
}

/// Waits until all containers have ended, and reports how.
fn end(view: &View<'_>, index: usize, now: Timestamp) -> Progress {
    let of = &view.directives[index].containers;
    let Some(profile) = of.profile.as_ref().map(|profile| profile.data()) else {
        return Progress::failed(internal_error("the pinned NnfContainerProfile is gone"));
    };
    if let Some(mpi) = &profile.mpi_spec {
        return mpi::end(view, index, profile, mpi, now);
    }
    if all(of).next().is_none() && is_completed(view, index, "PreRun") {
        return Progress::failed(internal_error(
            "the containers' Jobs are gone: how they ended is not known",
        ));
    }
    let has_failed = |state| matches!(state, State::Failed | State::TooLate | State::Unprepared);
    let failed = all(of).find(|part| has_failed(part.state()));
    if let Some(part) = failed {
        return Progress::failed(user_error(why(of, part, profile)));
    }
    let running: Vec<Part<'_>> = all(of).filter(|part| !part.state().is_ended()).collect();
    awaited(&running, profile, now)
}

/// Waits for the end of these containers, and gives each the deadline of the end.
fn awaited(running: &[Part<'_>], profile: &NnfContainerProfileData, now: Timestamp) -> Progress {
    let limit = profile.post_run_timeout_seconds.unwrap_or(objects::TIMEOUT);
    if limit == 0 || running.is_empty() {
        return Progress::default();
    }
    let rabbits = some_of(running.iter().map(|part| part.rabbit()));
    let start = profile.pre_run_timeout_seconds.unwrap_or(objects::TIMEOUT);
    let changes = running.iter().filter_map(|part| {
        // Containers that were never ready still have the start deadline.
        let is_set = part.deadline().is_some_and(|seconds| seconds != start);
        let age = now.duration_since(part.started()?).as_secs().max(0);
        (!is_set).then(|| part.with_deadline(Some(age.saturating_add(limit)))).flatten()
    });
    Progress::wait(format!("containers on {rabbits} to end")).with(changes)
}

/// How containers ended that did not end well.
fn why(of: &Objects, part: Part<'_>, profile: &NnfContainerProfileData) -> String {
    let rabbit = part.rabbit();
    if part.state() == State::Unprepared {
        return unprepared(of, part);
    }
    let what = if part.state() == State::TooLate {
        let limit = profile.post_run_timeout_seconds.unwrap_or(objects::TIMEOUT);
        format!("container on {rabbit} failed to complete after {limit} seconds")
    } else {
        let attempts = profile.retry_limit.saturating_add(1);
        format!("container on {rabbit} failed to run successfully after {attempts} attempts")
    };
    with(what, part.reason(of))
}

/// Why containers were not started.
fn unprepared(of: &Objects, part: Part<'_>) -> String {
    with(format!("containers on {} were not started", part.rabbit()), part.reason(of))
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
        return Progress::wait(format!("containers on {rabbits} to end")).with(changes);
    }
    if !of.packages.is_empty() {
        return packages::removed(of).with(changes);
    }
    Progress::default().with(changes).with(ports::returned(view, now))
}

/// The variables by which the job's computes find the containers.
pub fn compute_environment(view: &View<'_>) -> BTreeMap<String, String> {
    let containers = view.workflow.spec.directives.iter().enumerate();
    let mut containers = containers.filter_map(|(index, line)| {
        let parts = Parts::of(view, index, &command(line)?).ok()?;
        let ports = ports::of(view, &parts)?;
        Some(environment::of_computes(&parts.run(&ports, None)))
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

fn with(text: String, more: Option<String>) -> String {
    match more {
        Some(more) => format!("{text}: {more}"),
        None => text,
    }
}
