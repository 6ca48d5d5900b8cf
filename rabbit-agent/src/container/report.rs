//! What the status says. Pure.

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
    observed::{Attempt, Container, Observed, State},
    phase::{Phase, Record, due, is_ready, phase},
};

/// What the status has recorded; `now` begins what was not begun.
#[must_use]
pub fn record(object: &NodeContainers, now: Timestamp) -> Record {
    let status = object.status.clone().unwrap_or_default();
    Record {
        start: status.start_time.map_or(now, |start| start.0),
        attempt: status.attempt,
        is_late: status.deadline_exceeded,
        end: is_end(&status.state).then_some(status.state),
        end_time: status.end_time.map(|end| end.0),
        asked: object.unanswered_log_request(),
        answered: status.logs_answered,
        logs: status.logs,
    }
}

/// Whether a state is the last one.
fn is_end(state: &NodeContainersState) -> bool {
    matches!(
        state,
        NodeContainersState::Succeeded
            | NodeContainersState::Failed
            | NodeContainersState::TooLate
            | NodeContainersState::Unprepared
    )
}

/// The status of containers that were just taken up.
#[must_use]
pub fn begun(now: Timestamp) -> NodeContainersStatus {
    NodeContainersStatus {
        state: NodeContainersState::Starting,
        start_time: Some(Time(now)),
        ..NodeContainersStatus::default()
    }
}

/// The status at this moment. Where somebody asked for logs, those of containers that run were observed too. `trouble` is what keeps them from going on.
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
    let failure = || observed.attempts.iter().rev().find_map(|(_, one)| failure(desired, one));
    let lost = || {
        let is_gone = attempt > 0 && !observed.attempts.contains_key(&attempt);
        is_gone.then(|| format!("somebody removed the containers of attempt {attempt}"))
    };
    let message = match state {
        NodeContainersState::Ready
        | NodeContainersState::Succeeded
        | NodeContainersState::Suspended => None,
        _ => trouble.map(str::to_owned).or_else(lost).or_else(failure),
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
        logs_answered: record.asked.or(record.answered),
        packages: Vec::new(),
        error: None,
    }
}

/// The status of containers one of whose packages cannot be had. Nothing of them was started.
#[must_use]
pub fn unprepared(record: &Record, why: &str) -> NodeContainersStatus {
    NodeContainersStatus {
        state: NodeContainersState::Unprepared,
        start_time: Some(Time(record.start)),
        // Entries of an archive are called what their author called them.
        message: causes::message(why),
        ..NodeContainersStatus::default()
    }
}

/// When time alone brings something about.
#[must_use]
pub fn again(
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
    next.into_iter().chain(due(desired, record)).min().and_then(later)
}

/// 1 ms later, so that the deadline has passed.
pub(super) fn later(at: Timestamp) -> Option<Timestamp> {
    at.checked_add(SignedDuration::from_millis(1)).ok()
}

/// How an attempt failed, if it did: the first container in order that did not end well.
fn failure(desired: &Desired, attempt: &Attempt) -> Option<String> {
    let spec = &desired.spec;
    let mut all = spec.init_containers.iter().chain(&spec.containers);
    all.find_map(|one| {
        let container = attempt.containers.get(&one.name)?;
        let name = &one.name;
        let State::Ended { code, is_out_of_memory, .. } = container.state else {
            let is_lost = container.state == State::Lost;
            return is_lost.then(|| format!("container {name} ended with its rabbit"));
        };
        // What a shell says of a signal, and podman of a container.
        let signal = Some(code - 128).filter(|signal| (1..=64).contains(signal));
        let end = End { code, signal, is_out_of_memory };
        (code != 0).then(|| end.message(name, Some(&container.log)))
    })
}

fn logs(observed: &Observed, record: &Record) -> Vec<NodeContainersLog> {
    let all = observed.attempts.iter().flat_map(|(number, attempt)| {
        attempt.containers.iter().map(|(name, one)| NodeContainersLog {
            attempt: *number,
            container: name.clone(),
            text: text(one, *number, name, record),
        })
    });
    all.filter(|log| !log.text.is_empty()).collect()
}

/// The end of a log. What was told of a container that runs stays until somebody asks again: to take it back would be a write.
fn text(of: &Container, attempt: i64, name: &str, record: &Record) -> String {
    if of.state != State::Running || !of.log.is_empty() {
        return of.log.clone();
    }
    let told = record.logs.iter().find(|log| log.attempt == attempt && log.container == name);
    told.map(|log| log.text.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
