//! PostRun: how a directive's containers ended.

use api::{NnfContainerProfileData, ResourceError};
use containers::{objects, outcome::State};
use k8s_openapi::jiff::Timestamp;

use super::{
    mpi,
    part::{Part, all},
    suspend::stay_suspended,
};
use crate::{
    progress::{Progress, internal_error, some_of, transient_error, user_error},
    report::is_completed,
    view::{Containers as Objects, View},
};

/// Waits until all containers have ended, and reports how.
pub(super) fn end(view: &View<'_>, index: usize, now: Timestamp) -> Progress {
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
    let mut failed = all(of).filter(|part| has_failed(part.state()));
    if let Some(first) = failed.next() {
        return Progress::failed(user_error(also(why(of, first, profile), failed)));
    }
    if all(of).any(|part| part.state() == State::Suspended) {
        return Progress::failed(stay_suspended());
    }
    let running: Vec<Part<'_>> = all(of).filter(|part| !part.state().is_ended()).collect();
    awaited(of, &running, profile, now)
}

/// Waits for the end of these containers, and gives each the deadline of the end.
pub(super) fn awaited(
    of: &Objects,
    running: &[Part<'_>],
    profile: &NnfContainerProfileData,
    now: Timestamp,
) -> Progress {
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
    let silent = silent(of, running.iter().copied(), now);
    silent
        .map_or_else(|| Progress::wait(format!("end of containers on {rabbits}")), Progress::failed)
        .with(changes)
}

/// The rabbits of these containers that are silent. Nobody knows whether containers run there, so that only the rabbits' next word
/// ends the run; until then the workload manager is told.
pub(super) fn silent<'a>(
    of: &Objects,
    parts: impl Iterator<Item = Part<'a>>,
    now: Timestamp,
) -> Option<ResourceError> {
    let mut silent = parts.filter(|part| part.silent_from().is_some_and(|from| from <= now));
    let first = silent.next()?;
    let (rabbit, runner) = (first.rabbit(), first.runner());
    let what = format!(
        "rabbit {rabbit} is silent: the time of its container is over, and its {runner} does not say that it ended; see whether the rabbit and its {runner} run, for the container may run as well"
    );
    Some(transient_error(also(with(what, first.reason(of)), silent)))
}

/// How containers ended that did not end well.
pub(super) fn why(of: &Objects, part: Part<'_>, profile: &NnfContainerProfileData) -> String {
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
pub(super) fn unprepared(of: &Objects, part: Part<'_>) -> String {
    with(format!("containers on {} were not started", part.rabbit()), part.reason(of))
}

/// A text about one part, and where the others of which it is true are.
pub(super) fn also<'a>(text: String, others: impl Iterator<Item = Part<'a>>) -> String {
    let others: Vec<&str> = others.map(Part::rabbit).collect();
    if others.is_empty() { text } else { format!("{text}; also on {}", some_of(others)) }
}

/// A text, and the reason if one is known.
pub(super) fn with(text: String, more: Option<String>) -> String {
    match more {
        Some(more) => format!("{text}: {more}"),
        None => text,
    }
}
