//! `container`: containers on the rabbits of the job's computes, beside its data.
//!
//! A Job does what a Job does: it starts a container again that failed, and ends one at its deadline. The deadline of the start
//! stands in the Job from the beginning, is taken out once all containers are ready, and that of the end put in in PostRun: so
//! nobody counts seconds here.

mod mpi;
mod ports;
mod run;
mod storages;

use std::collections::BTreeMap;

use api::{
    NnfContainerProfile, NnfContainerProfileBody, NnfContainerProfileData, ResourceError,
    WorkflowState, nnf_container_profile::NnfMpiSpec,
};
use containers::{
    NameFault, environment, names, objects,
    outcome::{State, rabbit_of, state, told},
};
use directive::{Command, Container};
use k8s_openapi::{api::batch::v1::Job, jiff::Timestamp};

use self::run::Parts;
pub use self::{
    ports::is_cooling,
    storages::{holds, rabbits, without_held},
};
use crate::{
    change::Change,
    names::{of_directive, owned, with_directive},
    plan::Driver,
    progress::{Outcome, Progress, internal, some_of, user},
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
        match state {
            WorkflowState::Proposal => propose(view, index, container),
            WorkflowState::PreRun => start(view, index, container, self.now),
            WorkflowState::PostRun => end(view, index, self.now),
            WorkflowState::DataOut => mpi_of(view, index)
                .map_or_else(Progress::default, |mpi| mpi::kept(view, index, mpi)),
            // A workload manager may name the computes after Setup; before, nobody knows the rabbits.
            WorkflowState::Setup
            | WorkflowState::DataIn
            | WorkflowState::Teardown
            | WorkflowState::Other(_) => Progress::default(),
        }
    }
}

/// Checks what the directive's own words do not say, and pins the profile.
fn propose(view: &View<'_>, index: usize, container: &Container) -> Progress {
    let of = &view.directives[index].containers;
    if of.profile.is_some() {
        return Progress::default();
    }
    let name = &container.profile;
    let Some(template) = view.site.container_profiles.get(name) else {
        return Progress::failed(user(format!("argument profile={name}: the profile is gone")));
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
        return Err(user(
            "command container: no containers run here; leave the directive out, or the administrator starts the coordinator with --container-namespace",
        ));
    };
    if view.namespace() != containers.namespace {
        return Err(user(format!(
            "command container: containers run in the Kubernetes namespace {} only, and this workflow is in {}",
            containers.namespace,
            view.namespace()
        )));
    }
    storages::check(container)?;
    let faults = containers::check::faults(template.data(), view.workflow.spec.user_id);
    if let Some(fault) = faults.first() {
        return Err(user(format!("argument profile={}: {fault}", container.profile)));
    }
    if template.data().mpi_spec.is_some() && containers.podhelper_image.is_none() {
        return Err(run::no_podhelper(&container.profile));
    }
    named(view, template).map_err(|fault| user(fault.to_string()))
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
    let files = [
        of.service.is_none().then(|| Change::create(&objects::service(&run))),
        of.config_map.is_none().then(|| Change::create(&objects::config_map(&run))),
    ];
    let mounted = storages::mounted(view, container, run.rabbits());
    let all = Progress::default().with(files.into_iter().flatten()).and(mounted);
    all.then(|| {
        let missing = (0..run.placement.len()).filter_map(|place| {
            let job = objects::job(&run, place)?;
            let is_there = of.jobs.contains_key(job.metadata.name.as_deref()?);
            (!is_there).then(|| Change::create(&job))
        });
        let missing: Vec<Change> = missing.collect();
        if missing.is_empty() {
            let names = run.rabbits().map(|rabbit| names::job(parts.workflow(), rabbit));
            let jobs: Vec<&Job> = names.filter_map(|name| Some(&**of.jobs.get(&name)?)).collect();
            ready(of, &jobs)
        } else {
            Progress::default().with(missing)
        }
    })
}

/// The part for MPI of a directive's profile.
fn mpi_of<'a>(view: &'a View<'_>, index: usize) -> Option<&'a NnfMpiSpec> {
    view.directives[index].containers.profile.as_ref()?.data().mpi_spec.as_ref()
}

/// Whether the containers of all of these Jobs are ready, or have ended; how they ended is told in PostRun.
fn ready(of: &Objects, jobs: &[&Job]) -> Progress {
    if let Some(job) = jobs.iter().find(|job| state(job) == State::TooLate) {
        let rabbit = rabbit_of(job);
        let limit = job.spec.as_ref().and_then(|spec| spec.active_deadline_seconds).unwrap_or(0);
        let what = format!("container on {rabbit} was not ready after {limit} seconds");
        return Progress::failed(user(with(what, pods(of, job))));
    }
    let starting = || jobs.iter().filter(|job| state(job) == State::Starting);
    if let Some(job) = starting().next() {
        let rabbit = rabbit_of(job);
        let names = some_of(starting().map(|job| rabbit_of(job)));
        let why = pods(of, job).map(|why| format!("; {rabbit}: {why}")).unwrap_or_default();
        return Progress::wait(format!("containers on {names}{why}"));
    }
    let running = jobs.iter().filter(|job| state(job) == State::Ready);
    Progress::default().with(running.filter_map(|job| with_deadline(job, None)))
}

/// Waits until all containers have ended, and tells how.
fn end(view: &View<'_>, index: usize, now: Timestamp) -> Progress {
    let of = &view.directives[index].containers;
    let Some(profile) = of.profile.as_ref().map(|profile| profile.data()) else {
        return Progress::failed(internal("the pinned NnfContainerProfile is gone"));
    };
    if let Some(mpi) = &profile.mpi_spec {
        return mpi::end(view, index, profile, mpi, now);
    }
    if of.jobs.is_empty() && is_completed(view, index, "PreRun") {
        return Progress::failed(internal(
            "the containers' Jobs are gone: how they ended is not known",
        ));
    }
    let failed = of.jobs.values().find(|job| matches!(state(job), State::Failed | State::TooLate));
    if let Some(job) = failed {
        return Progress::failed(user(why(of, job, profile)));
    }
    let running = of.jobs.values().filter(|job| !state(job).is_ended());
    awaited(&running.map(|job| &**job).collect::<Vec<_>>(), profile, now)
}

/// Waits for the end of these Jobs, and gives each the deadline of the end.
fn awaited(running: &[&Job], profile: &NnfContainerProfileData, now: Timestamp) -> Progress {
    let limit = profile.post_run_timeout_seconds.unwrap_or(objects::TIMEOUT);
    if limit == 0 || running.is_empty() {
        return Progress::default();
    }
    let rabbits = some_of(running.iter().map(|job| rabbit_of(job)));
    let start = profile.pre_run_timeout_seconds.unwrap_or(objects::TIMEOUT);
    let changes = running.iter().filter_map(|job| {
        let now_set = job.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
        // That of the start stands in a Job that was never ready.
        let is_set = now_set.is_some_and(|seconds| seconds != start);
        let began = job.status.as_ref().and_then(|status| status.start_time.as_ref())?;
        let age = now.duration_since(began.0).as_secs().max(0);
        (!is_set).then(|| with_deadline(job, Some(age.saturating_add(limit)))).flatten()
    });
    Progress::wait(format!("containers on {rabbits} to end")).with(changes)
}

/// How a container ended that did not end well.
fn why(of: &Objects, job: &Job, profile: &NnfContainerProfileData) -> String {
    let rabbit = rabbit_of(job);
    let what = if state(job) == State::TooLate {
        let limit = profile.post_run_timeout_seconds.unwrap_or(objects::TIMEOUT);
        format!("container on {rabbit} failed to complete after {limit} seconds")
    } else {
        let attempts = profile.retry_limit.saturating_add(1);
        format!("container on {rabbit} failed to run successfully after {attempts} attempts")
    };
    with(what, pods(of, job))
}

/// Removes the containers and what they were made from, and gives their ports back.
pub fn removed(view: &View<'_>, index: usize, now: Timestamp) -> Progress {
    let of = &view.directives[index].containers;
    let jobs = of.jobs.values().filter_map(|job| Change::delete(&**job));
    let files = of.service.iter().filter_map(|one| Change::delete(&**one));
    let files = files.chain(of.network_policy.iter().filter_map(|one| Change::delete(&**one)));
    let config_maps = of.config_map.iter().chain(of.attempts.values());
    let files = files.chain(config_maps.filter_map(|one| Change::delete(&**one)));
    let changes: Vec<Change> = jobs.chain(files).collect();
    if !of.is_gone() {
        let rabbits = some_of(of.jobs.values().map(|job| rabbit_of(job)));
        return Progress::wait(format!("containers on {rabbits} to end")).with(changes);
    }
    Progress::default().with(changes).with(ports::returned(view, now))
}

/// What the job's computes are told of the containers.
pub fn told_to_computes(view: &View<'_>) -> BTreeMap<String, String> {
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

fn pods(of: &Objects, job: &Job) -> Option<String> {
    let pods = of.pods.get(job.metadata.name.as_deref()?)?;
    told(pods.iter().map(|pod| &**pod))
}

fn with(text: String, more: Option<String>) -> String {
    match more {
        Some(more) => format!("{text}: {more}"),
        None => text,
    }
}

fn with_deadline(job: &Job, seconds: Option<i64>) -> Option<Change> {
    let mut after = job.clone();
    after.spec.get_or_insert_default().active_deadline_seconds = seconds;
    Change::patch(job, &after)
}
