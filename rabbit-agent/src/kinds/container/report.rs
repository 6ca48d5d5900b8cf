//! Computes the status of a NodeContainers. Pure.

use api::{
    NodeContainers, NodeContainersStatus,
    node_containers::{NodeContainersLog, NodeContainersState},
};
use containers::outcome::End;
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::{SignedDuration, Timestamp},
};

use super::{
    desired::Desired,
    observed::{ContainerState, Observed, ObservedAttempt, ObservedContainer},
    phase::{Phase, Record, deadline, is_ready, phase},
};

/// Reads the record from the status. If the status has no start time, the start time is `now`.
#[must_use]
pub fn record(object: &NodeContainers, now: Timestamp) -> Record {
    let status = object.status.clone().unwrap_or_default();
    Record {
        start: status.start_time.map_or(now, |start| start.0),
        attempt: status.attempt,
        is_late: status.deadline_exceeded,
        end: is_end(&status.state).then_some(status.state),
        end_time: status.end_time.map(|end| end.0),
        requested: object.unanswered_log_request(),
        answered: status.logs_answered,
        logs: status.logs,
    }
}

/// Returns whether a state is final.
fn is_end(state: &NodeContainersState) -> bool {
    matches!(
        state,
        NodeContainersState::Succeeded
            | NodeContainersState::Failed
            | NodeContainersState::TooLate
            | NodeContainersState::Unprepared
    )
}

/// Returns the first status of a valid object.
#[must_use]
pub fn initial_status(now: Timestamp) -> NodeContainersStatus {
    NodeContainersStatus {
        state: NodeContainersState::Starting,
        start_time: Some(Time(now)),
        ..NodeContainersStatus::default()
    }
}

/// Returns the new status. `trouble` says why the containers cannot go on. If a request for logs waits, `observed` must
/// have the logs of running containers.
#[must_use]
pub fn report(
    desired: &Desired,
    observed: &Observed,
    record: &Record,
    trouble: Option<&str>,
    now: Timestamp,
) -> NodeContainersStatus {
    let phase = phase(desired, observed, record, now);
    let last = observed.attempts.last_key_value();
    let attempt = last.map_or(0, |(number, _)| *number).max(record.attempt);
    let is_running = observed.attempts.values().any(|attempt| attempt.is_running);
    let ready = || last.is_some_and(|(_, attempt)| is_ready(desired, attempt));
    let state = match &phase {
        Phase::Over(end) if !is_running => end.clone(),
        Phase::Over(_) | Phase::Late | Phase::Attempt(_) if ready() => NodeContainersState::Ready,
        Phase::Over(_) | Phase::Late | Phase::Attempt(_) | Phase::Next(..) => {
            NodeContainersState::Starting
        }
    };
    let failure =
        || observed.attempts.iter().rev().find_map(|(_, attempt)| failure(desired, attempt));
    let removed = || {
        let is_gone = attempt > 0 && !observed.attempts.contains_key(&attempt);
        is_gone.then(|| format!("the pod of attempt {attempt} was removed outside Warren"))
    };
    let message = match state {
        NodeContainersState::Ready
        | NodeContainersState::Succeeded
        | NodeContainersState::Suspended => None,
        _ => trouble.map(str::to_owned).or_else(removed).or_else(failure),
    };
    let end_time = record.end_time.or_else(|| is_end(&state).then_some(now));
    NodeContainersStatus {
        state,
        attempt,
        start_time: Some(Time(record.start)),
        end_time: end_time.map(Time),
        deadline_exceeded: record.is_late || phase == Phase::Late,
        message: causes::message(&message.unwrap_or_default()),
        logs: logs(observed, record),
        logs_answered: record.requested.or(record.answered),
        packages: Vec::new(),
        error: None,
    }
}

/// Returns the status of an object with a job package that can never be fetched: no container of
/// the object was started.
#[must_use]
pub fn unprepared_status(record: &Record, why: &str) -> NodeContainersStatus {
    NodeContainersStatus {
        state: NodeContainersState::Unprepared,
        start_time: Some(Time(record.start)),
        // Limits the length of the text and removes control characters: the text may contain names from a foreign
        // archive.
        message: causes::message(why),
        ..NodeContainersStatus::default()
    }
}

/// Returns when the next pass must begin even if no event comes.
#[must_use]
pub fn next_wake_up(
    desired: &Desired,
    observed: &Observed,
    record: &Record,
    now: Timestamp,
) -> Option<Timestamp> {
    let next = match phase(desired, observed, record, now) {
        Phase::Over(_) => return None,
        Phase::Late => return Some(now),
        Phase::Attempt(_) => None,
        Phase::Next(_, begins) => begins,
    };
    next.into_iter().chain(deadline(desired, record)).min().and_then(just_after)
}

/// Returns the time 1 ms after `at`: a deadline at `at` has passed by then.
pub(super) fn just_after(at: Timestamp) -> Option<Timestamp> {
    at.checked_add(SignedDuration::from_millis(1)).ok()
}

/// Describes the first container, in the spec's order, that failed in this attempt.
fn failure(desired: &Desired, attempt: &ObservedAttempt) -> Option<String> {
    let spec = &desired.spec;
    let mut all = spec.init_containers.iter().chain(&spec.containers);
    all.find_map(|spec| {
        let container = attempt.containers.get(&spec.name)?;
        let name = &spec.name;
        let ContainerState::Ended { code, is_out_of_memory, .. } = container.state else {
            let is_lost = container.state == ContainerState::Lost;
            return is_lost.then(|| format!("container {name} ran when its rabbit stopped"));
        };
        // Shells and podman report death by signal N as exit code 128 + N.
        let signal = Some(code - 128).filter(|signal| (1..=64).contains(signal));
        let end = End { code, signal, is_out_of_memory };
        (code != 0).then(|| end.message(name, Some(&container.log)))
    })
}

fn logs(observed: &Observed, record: &Record) -> Vec<NodeContainersLog> {
    let all = observed.attempts.iter().flat_map(|(number, attempt)| {
        attempt.containers.iter().map(|(name, container)| NodeContainersLog {
            attempt: *number,
            container: name.clone(),
            text: log_text(container, *number, name, record),
        })
    });
    all.filter(|log| !log.text.is_empty()).collect()
}

/// Returns the end of a log. The last reported log of a running container stays in the status until the next request:
/// removing it would cost a write.
fn log_text(container: &ObservedContainer, attempt: i64, name: &str, record: &Record) -> String {
    if container.state != ContainerState::Running || !container.log.is_empty() {
        return container.log.clone();
    }
    let reported = record.logs.iter().find(|log| log.attempt == attempt && log.container == name);
    reported.map(|log| log.text.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
