//! PostRun: waits until a directive's containers have ended, and reports how they ended.

use api::{NnfContainerProfileData, ResourceError};
use containers::{objects, outcome::State};
use k8s_openapi::jiff::Timestamp;

use super::{mpi, suspend::stay_suspended};
use crate::{
    objects::{
        part::{Part, all_parts},
        view::{Containers as Objects, View},
    },
    progress::{Progress, internal_error, some_of, transient_error, user_error},
    report::is_completed,
};

pub(super) fn wait_for_all(view: &View<'_>, index: usize, now: Timestamp) -> Progress {
    let existing = &view.directives[index].containers;
    let Some(profile) = existing.profile.as_ref().map(|profile| profile.data()) else {
        return Progress::failed(internal_error(
            "the pinned NnfContainerProfile of this workflow was deleted: tear the workflow down",
        ));
    };
    if let Some(mpi) = &profile.mpi_spec {
        return mpi::wait_for_launcher(view, index, profile, mpi, now);
    }
    if all_parts(existing).next().is_none() && is_completed(view, index, "PreRun") {
        return Progress::failed(internal_error(
            "the containers' Jobs were deleted, so their result is not known",
        ));
    }
    let has_failed = |state| matches!(state, State::Failed | State::TooLate | State::Unprepared);
    let mut failed = all_parts(existing).filter(|part| has_failed(part.state()));
    if let Some(first) = failed.next() {
        return Progress::failed(user_error(also_on(
            failure_text(existing, first, profile),
            failed,
        )));
    }
    if all_parts(existing).any(|part| part.state() == State::Suspended) {
        return Progress::failed(stay_suspended());
    }
    let running: Vec<Part<'_>> =
        all_parts(existing).filter(|part| !part.state().is_ended()).collect();
    wait_for_end(existing, &running, profile, now)
}

/// Waits for the end of these containers, and sets the end deadline of each.
pub(super) fn wait_for_end(
    existing: &Objects,
    running: &[Part<'_>],
    profile: &NnfContainerProfileData,
    now: Timestamp,
) -> Progress {
    let limit = profile.post_run_timeout_seconds.unwrap_or(objects::TIMEOUT);
    if limit == 0 || running.is_empty() {
        return Progress::default();
    }
    let start = profile.pre_run_timeout_seconds.unwrap_or(objects::TIMEOUT);
    let changes = running.iter().filter_map(|part| {
        // Containers that were never ready still have the start deadline.
        let is_set = part.deadline().is_some_and(|seconds| seconds != start);
        let age = now.duration_since(part.started()?).as_secs().max(0);
        (!is_set).then(|| part.with_deadline(Some(age.saturating_add(limit)))).flatten()
    });
    let error = silence_error(existing, running.iter().copied(), now);
    error
        .map_or_else(
            || Progress::wait_on("end of containers on", running.iter().map(|part| part.rabbit())),
            Progress::failed,
        )
        .with(changes)
}

/// Returns an error if rabbits with these containers are silent. Containers may or may not run there, so the run ends
/// only when the rabbits report again; until then the workload manager sees the error.
pub(super) fn silence_error<'a>(
    existing: &Objects,
    parts: impl Iterator<Item = Part<'a>>,
    now: Timestamp,
) -> Option<ResourceError> {
    let mut silent = parts.filter(|part| part.silent_from().is_some_and(|from| from <= now));
    let first = silent.next()?;
    let (rabbit, runner) = (first.rabbit(), first.runner());
    let what = format!(
        "rabbit {rabbit} is silent: the deadline of its container has passed, and its {runner} has not reported the end; check that the rabbit and its {runner} run: the container may still run"
    );
    Some(transient_error(also_on(with_reason(what, first.reason(existing)), silent)))
}

/// Describes containers that failed, or did not end in time.
pub(super) fn failure_text(
    existing: &Objects,
    part: Part<'_>,
    profile: &NnfContainerProfileData,
) -> String {
    let rabbit = part.rabbit();
    if part.state() == State::Unprepared {
        return not_started_text(existing, part);
    }
    let what = if part.state() == State::TooLate {
        let limit = profile.post_run_timeout_seconds.unwrap_or(objects::TIMEOUT);
        format!("container on {rabbit} failed to complete after {limit} seconds")
    } else {
        let attempts = profile.retry_limit.saturating_add(1);
        format!("container on {rabbit} failed to run successfully after {attempts} attempts")
    };
    with_reason(what, part.reason(existing))
}

/// Describes containers that were not started.
pub(super) fn not_started_text(existing: &Objects, part: Part<'_>) -> String {
    with_reason(format!("containers on {} were not started", part.rabbit()), part.reason(existing))
}

/// Appends, to a text about one rabbit, the names of the other rabbits for which the text is true too.
pub(super) fn also_on<'a>(text: String, others: impl Iterator<Item = Part<'a>>) -> String {
    let others: Vec<&str> = others.map(Part::rabbit).collect();
    if others.is_empty() { text } else { format!("{text}; also on {}", some_of(others)) }
}

/// Appends the reason to a text, if one is known.
pub(super) fn with_reason(text: String, more: Option<String>) -> String {
    match more {
        Some(more) => format!("{text}: {more}"),
        None => text,
    }
}
