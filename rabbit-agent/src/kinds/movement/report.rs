//! Builds the status of a movement. Pure.

mod words;

use api::{
    NnfDataMovementStatus, ResourceError,
    nnf_data_movement::{
        DataMovementFailure, DataMovementProgress, DataMovementState, DataMovementVerdict,
    },
};
use k8s_openapi::jiff::Timestamp;
use movement::report::{Ended, Outcome, Progress};

/// Value of `commandStatus.command`.
const COMMAND: &str = "datamover";
/// Maximum number of failures in a message.
const LISTED: usize = 3;

/// Progress of a copy, and when it was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    pub progress: Progress,
    pub at: Timestamp,
    /// When the process started.
    pub began: Timestamp,
}

/// How a movement ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    pub verdict: DataMovementVerdict,
    pub message: String,
    /// The first files that were not copied.
    pub failures: Vec<DataMovementFailure>,
}

impl Finish {
    /// Returns an end without a list of files.
    #[must_use]
    pub fn new(verdict: DataMovementVerdict, message: String) -> Self {
        Self { verdict, message, failures: Vec::new() }
    }
}

/// Returns the status of a waiting movement, with the reason.
#[must_use]
pub fn waiting(before: &NnfDataMovementStatus, why: &str) -> NnfDataMovementStatus {
    NnfDataMovementStatus {
        state: Some(DataMovementState::Starting),
        status: None,
        message: causes::message(why),
        error: None,
        ..before.clone()
    }
}

/// Returns the status of a running copy; `reading` is its latest progress, `began` the start of its process.
#[must_use]
pub fn running(
    before: &NnfDataMovementStatus,
    reading: Option<&Reading>,
    began: Timestamp,
    restarts: u64,
) -> NnfDataMovementStatus {
    let start_time = before.start_time.unwrap_or(began.into());
    let command_status = match reading {
        Some(reading) => command_status(before, reading, start_time.0, false).into(),
        None => before.command_status.clone(),
    };
    NnfDataMovementStatus {
        state: Some(DataMovementState::Running),
        status: None,
        message: String::new(),
        start_time: Some(start_time),
        end_time: None,
        restarts: restarts.try_into().unwrap_or(i64::MAX),
        command_status,
        error: None,
        failures: Vec::new(),
    }
}

/// Returns a status with another message: why a copy has not ended yet, or why it makes no progress.
#[must_use]
pub fn with_message(before: &NnfDataMovementStatus, why: &str) -> NnfDataMovementStatus {
    NnfDataMovementStatus { message: causes::message(why), ..before.clone() }
}

/// Returns the status of a movement that has ended; `error` is set if it failed.
#[must_use]
pub fn finished(
    before: &NnfDataMovementStatus,
    finish: &Finish,
    reading: Option<&Reading>,
    (end, restarts): (Timestamp, u64),
    error: Option<ResourceError>,
) -> NnfDataMovementStatus {
    let start_time = before.start_time.or(reading.map(|reading| reading.began.into()));
    let is_whole = finish.verdict == DataMovementVerdict::Success;
    let command_status = match (reading, start_time) {
        (Some(reading), Some(start)) => command_status(before, reading, start.0, is_whole).into(),
        _ => before.command_status.clone(),
    };
    NnfDataMovementStatus {
        state: Some(DataMovementState::Finished),
        status: Some(finish.verdict.clone()),
        message: causes::message(&finish.message),
        start_time,
        end_time: Some(end.into()),
        restarts: before.restarts.max(restarts.try_into().unwrap_or(i64::MAX)),
        command_status,
        error,
        failures: finish.failures.clone(),
    }
}

/// Returns the verdict on the final report of `datamover`; `failures` holds the first lines of its list of failures.
/// With `allows_failures`, files that were not copied are only reported.
#[must_use]
pub fn judge(ended: &Ended, failures: Vec<DataMovementFailure>, allows_failures: bool) -> Finish {
    let progress = &ended.progress;
    let (verdict, message) = match &ended.outcome {
        Outcome::Cancelled => (DataMovementVerdict::Cancelled, "cancelled".to_owned()),
        Outcome::Stopped(why) => (DataMovementVerdict::Failed, why.clone()),
        Outcome::Done if progress.failed > 0 => {
            let verdict = match allows_failures {
                true => DataMovementVerdict::Success,
                false => DataMovementVerdict::Failed,
            };
            (verdict, words::failures(progress.failed, &failures))
        }
        Outcome::Done => (DataMovementVerdict::Success, words::changed(progress.changed)),
    };
    Finish { verdict, message, failures }
}

fn command_status(
    before: &NnfDataMovementStatus,
    reading: &Reading,
    start: Timestamp,
    is_whole: bool,
) -> DataMovementProgress {
    let Reading { progress, at, began } = reading;
    let elapsed = words::seconds(*at, start);
    let count = |number: u64| Some(i64::from(i32::try_from(number).unwrap_or(i32::MAX)));
    let rate = words::rate(progress, words::seconds(*at, *began));
    let percent = if is_whole { Some(100) } else { words::percent(progress) };
    DataMovementProgress {
        command: COMMAND.to_owned(),
        elapsed_time: words::duration(elapsed),
        // A restarted copy counts the kept files again from 0; the percentage never falls.
        progress: percent.max(before.command_status.progress),
        last_message: words::progress(progress, percent, rate, is_whole),
        last_message_time: Some((*at).into()),
        seconds: format!("{elapsed:.3}"),
        items: count(progress.directories + progress.files + progress.links),
        directories: count(progress.directories),
        files: count(progress.files),
        links: count(progress.links),
        data: words::bytes(progress.bytes),
        rate: rate.map(|rate| format!("{}/s", words::bytes(rate))).unwrap_or_default(),
        bytes: as_i64(progress.bytes),
        total_bytes: progress.total.and_then(|total| as_i64(total.bytes)),
        bytes_per_second: rate.and_then(as_i64),
    }
}

fn as_i64(number: u64) -> Option<i64> {
    i64::try_from(number).ok()
}

#[cfg(test)]
mod tests;
