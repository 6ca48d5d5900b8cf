//! The containers of a copy by MPI: the same as those of a `container` directive with MPI, except that they run in DataIn
//! or DataOut, that they end by themselves, and that no profile of containers is stored for them.

use api::{
    NnfContainerProfileData, NodeContainers, ResourceError, WorkflowState,
    nnf_container_profile::NnfMpiRunPolicy,
};
use containers::{names, outcome::State};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{
    by_holder,
    ended::with_reason,
    mpi,
    propose::{check_content, check_site},
    run::{Parts, no_podhelper_for_copy},
};
use crate::{
    change::Change,
    names::service_name,
    objects::{
        part::{Part, all_parts},
        view::View,
    },
    plan::copies::CopyRun,
    progress::{Outcome, Progress, user_error},
};

/// The state of a copy's containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// The launcher does not run yet.
    Starting,
    /// The launcher runs. The end of its log, and the time of the request for the log.
    Running(Option<(Timestamp, String)>),
    /// No container runs any more. The end of the launcher's log, or the error.
    Ended(Result<String, String>),
}

/// Checks in Proposal that this site can run the containers of a copy. `name` is the name of the data movement profile.
///
/// # Errors
/// The field or the setting that prevents the copy, with the remedy.
pub fn check_copy(
    view: &View<'_>,
    index: usize,
    profile: &NnfContainerProfileData,
    name: &str,
) -> Result<(), ResourceError> {
    let instead = "name a profile without data.image";
    let containers = check_site(view, "data.image of the copy's NnfDataMovementProfile", instead)?;
    check_content(view, containers, profile, name)?;
    if containers.namespace.is_some() && containers.podhelper_image.is_none() {
        return Err(no_podhelper_for_copy());
    }
    let workflow = view.workflow.metadata.name.as_deref().unwrap_or_default();
    let service = service_name(&view.workflow, index);
    names::check_workflow(workflow)
        .and_then(|()| names::check_mpi(&service, view.site.rabbits().len()))
        .map_err(|fault| user_error(fault.to_string()))
}

/// Starts the containers of a copy once their storage is mounted (`mounted`), and follows them to their end.
pub fn advance_copy(
    view: &View<'_>,
    index: usize,
    run: &CopyRun,
    mounted: Progress,
    now: Timestamp,
) -> (Progress, CopyState) {
    let state = view.state();
    if let Some(end) = end_of(view, index, run, now) {
        return finish(view, index, &state, end);
    }
    let parts = match Parts::of_copy(view, index, run) {
        Ok(parts) => parts,
        Err(error) => return (Progress::failed(error), CopyState::Starting),
    };
    let progress = mpi::create_attempt(view, &parts, |_| mounted, now);
    let launcher = mpi::launcher(view, index).filter(|part| part.state() == State::Ready);
    let state_of_run =
        launcher.map_or(CopyState::Starting, |part| CopyState::Running(answered_log(part)));
    (by_holder(view, index, &state, progress), state_of_run)
}

/// Returns how the launcher, or a worker before it, ended; `None` while the run goes on.
fn end_of(
    view: &View<'_>,
    index: usize,
    run: &CopyRun,
    now: Timestamp,
) -> Option<Result<String, String>> {
    let existing = &view.directives[index].containers;
    let Some(launcher) = mpi::launcher(view, index) else {
        let lost = mpi::lost_worker(existing, &run.profile, now)?;
        return match lost.outcome {
            Outcome::Failed(error) => Some(Err(error.user_message.unwrap_or(error.debug_message))),
            _ => None,
        };
    };
    let reason = || launcher.reason(existing);
    match launcher.state() {
        State::Succeeded => Some(Ok(log_of(launcher).unwrap_or_default())),
        State::TooLate => {
            let limit = launcher.deadline().unwrap_or(0);
            let what = format!("the copying containers did not start within {limit} seconds");
            Some(Err(with_reason(what, reason())))
        }
        State::Failed | State::Unprepared => {
            Some(Err(reason().unwrap_or_else(|| "the copying container failed".to_owned())))
        }
        State::Starting | State::Ready | State::Suspended => None,
    }
}

/// Stops what still runs after the end of a copy, and deletes the keys.
fn finish(
    view: &View<'_>,
    index: usize,
    state: &WorkflowState,
    end: Result<String, String>,
) -> (Progress, CopyState) {
    let existing = &view.directives[index].containers;
    let running: Vec<Part<'_>> =
        all_parts(existing).filter(|part| !part.state().is_ended()).collect();
    let changes = mpi::clean_up(view, index, &NnfMpiRunPolicy::default());
    if !running.is_empty() {
        let rabbits = running.iter().map(|part| part.rabbit());
        let wait = Progress::wait_on("end of containers on", rabbits).with(changes);
        return (by_holder(view, index, state, wait), CopyState::Running(None));
    }
    let result = match &end {
        Ok(_) => Progress::default(),
        Err(why) => Progress::failed(user_error(why.clone())),
    };
    let progress = by_holder(view, index, state, result.with(changes));
    // With several coordinators, the ContainerRun records the end first.
    let is_waiting = matches!(progress.outcome, Outcome::Wait(_) | Outcome::Queued(_));
    (progress, if is_waiting { CopyState::Running(None) } else { CopyState::Ended(end) })
}

/// Returns the end of the launcher's log. `None` for Jobs: the engine does not read the logs of pods.
fn log_of(launcher: Part<'_>) -> Option<String> {
    let Part::Agent(containers) = launcher else { return None };
    let (status, main) = (containers.status.as_ref()?, containers.spec.containers.first()?);
    let mut logs = status.logs.iter().rev();
    logs.find(|log| log.container == main.name).map(|log| log.text.clone())
}

/// Returns the log that the launcher's agent returned last, with the time of the request.
fn answered_log(launcher: Part<'_>) -> Option<(Timestamp, String)> {
    let Part::Agent(containers) = launcher else { return None };
    let answered = containers.status.as_ref()?.logs_answered?;
    Some((answered.0, log_of(launcher)?))
}

/// Returns the request for the log of a copy's running launcher, and the time from which to make it: `interval` after the
/// last one. `None` while the agent has not answered, and for Jobs.
pub fn next_log_request(
    view: &View<'_>,
    index: usize,
    interval: SignedDuration,
    now: Timestamp,
) -> Option<(Timestamp, Change)> {
    let launcher = mpi::launcher(view, index)?;
    let Part::Agent(containers) = launcher else { return None };
    if launcher.state() != State::Ready || containers.unanswered_log_request().is_some() {
        return None;
    }
    let last = containers.status.as_ref()?.logs_answered;
    let at = last.map_or(now, |last| last.0.checked_add(interval).unwrap_or(last.0));
    let mut after = NodeContainers::clone(containers);
    let annotations = after.metadata.annotations.get_or_insert_default();
    let time = containers.next_log_request(now).to_string();
    annotations.insert(api::names::annotation::LOGS_ASKED.to_owned(), time);
    Some((at, Change::patch(containers, &after)?))
}
