//! The status of a movement that MPI carries out. Pure.

use ::movement::mpi::output;
use api::{
    NnfDataMovement, NnfDataMovementStatus,
    nnf_data_movement::{DataMovementProgress, DataMovementState, DataMovementVerdict},
};
use k8s_openapi::jiff::Timestamp;

use crate::{
    change::Change,
    progress::{Outcome, user_error},
    report::{go_duration, micro_time},
};

/// Returns the write of a status; `None` if the movement has this status.
pub(super) fn write(object: &NnfDataMovement, status: NnfDataMovementStatus) -> Option<Change> {
    let mut after = object.clone();
    after.status = Some(status);
    Change::status(object, &after)
}

/// Returns the status of a copy whose containers do not run yet, with the reason.
pub(super) fn starting(object: &NnfDataMovement, outcome: &Outcome) -> NnfDataMovementStatus {
    let message = match outcome {
        Outcome::Wait(why) | Outcome::Queued(why) => causes::message(why),
        Outcome::Failed(error) => {
            causes::message(error.user_message.as_ref().unwrap_or(&error.debug_message))
        }
        Outcome::Done | Outcome::Working => status_of(object).message,
    };
    let state = Some(DataMovementState::Starting);
    NnfDataMovementStatus { state, message, ..status_of(object) }
}

/// Returns the status of a running copy. Its progress changes only with a new log: time alone writes nothing.
pub(super) fn running(
    object: &NnfDataMovement,
    command: &str,
    log: Option<&(Timestamp, String)>,
    now: Timestamp,
) -> NnfDataMovementStatus {
    let before = status_of(object);
    let start = before.start_time.unwrap_or_else(|| micro_time(now));
    let mut progress = (*before.command_status).clone();
    command.clone_into(&mut progress.command);
    if let Some((at, text)) = log
        && progress.last_message_time.is_none_or(|last| last.0 < *at)
    {
        let figures = output::read(text);
        progress.progress = figures.percent.map(i64::from).or(progress.progress);
        progress.last_message = figures.line.unwrap_or(progress.last_message);
        progress.last_message_time = Some(micro_time(*at));
        progress.elapsed_time = elapsed(start.0, *at);
    }
    NnfDataMovementStatus {
        state: Some(DataMovementState::Running),
        message: String::new(),
        start_time: Some(start),
        command_status: progress.into(),
        ..before
    }
}

/// Returns the status of a copy that succeeded, with the statistics in the launcher's log.
pub(super) fn succeeded(
    object: &NnfDataMovement,
    command: &str,
    log: &str,
    now: Timestamp,
) -> NnfDataMovementStatus {
    let after = running(object, command, None, now);
    let figures = output::read(log);
    let totals = figures.totals.unwrap_or_default();
    let start = after.start_time.map_or(now, |start| start.0);
    let progress = DataMovementProgress {
        elapsed_time: elapsed(start, now),
        progress: Some(100),
        last_message: figures.line.unwrap_or(after.command_status.last_message.clone()),
        last_message_time: Some(micro_time(now)),
        seconds: totals.seconds,
        items: totals.items,
        directories: totals.directories,
        files: totals.files,
        links: totals.links,
        data: totals.data,
        rate: totals.rate,
        bytes: totals.bytes,
        total_bytes: totals.bytes,
        ..(*after.command_status).clone()
    };
    NnfDataMovementStatus {
        state: Some(DataMovementState::Finished),
        status: Some(DataMovementVerdict::Success),
        end_time: Some(micro_time(now)),
        command_status: progress.into(),
        ..after
    }
}

/// Returns the status of a copy that failed or was cancelled, for this reason.
pub(super) fn finished(
    object: &NnfDataMovement,
    verdict: DataMovementVerdict,
    why: &str,
    now: Timestamp,
) -> NnfDataMovementStatus {
    let error = (verdict == DataMovementVerdict::Failed).then(|| user_error(why));
    NnfDataMovementStatus {
        state: Some(DataMovementState::Finished),
        status: Some(verdict),
        message: causes::message(why),
        end_time: Some(micro_time(now)),
        error,
        ..status_of(object)
    }
}

fn status_of(object: &NnfDataMovement) -> NnfDataMovementStatus {
    object.status.clone().unwrap_or_default()
}

/// Returns the whole seconds between two times, such as `1m3s`.
fn elapsed(start: Timestamp, end: Timestamp) -> String {
    go_duration(i128::from(end.duration_since(start).as_secs().max(0)) * 1_000_000)
}
