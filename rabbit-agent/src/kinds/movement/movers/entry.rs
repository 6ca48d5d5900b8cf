//! One movement in the agent's table.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use movement::{
    order::{Change, Order, Task},
    report::{Ended, Progress},
};
use process::worker::Worker;

use super::{Owner, Snapshot};
use crate::kinds::movement::{
    plan::{End, MovementState, Process},
    record::RecordedEnd,
    report::Reading,
};

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    pub(super) running: Option<Running>,
    pub(super) end: Option<End>,
    /// Final progress of the last copy.
    pub(super) last: Option<Reading>,
    pub(super) losses: u32,
    /// Number of copies that were started.
    starts: u64,
    pub(super) is_clean: bool,
    pub(super) is_blocked: bool,
    /// Whether the object disappeared although the agent had not released it.
    pub(super) is_abandoned: bool,
    pub(super) cleaning_error: Option<String>,
}

/// A running process.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) task: Task,
    pub(super) worker: Worker,
    began: Timestamp,
    started: Instant,
    /// Minimum time between two writes of progress to the status.
    interval: Duration,
    /// Limit in bytes per second of the rabbit's configuration and of the profile.
    configured: Option<u64>,
    /// Limit in bytes per second of the movement's object.
    pub(super) limit: Option<u64>,
    /// The limit that `datamover` has.
    rate: Option<u64>,
    newest: Option<(Progress, Timestamp)>,
    pub(super) verdict: Option<Ended>,
    /// The last line that is not a report.
    pub(super) last_output: String,
    pub(super) cancelled: Option<Instant>,
    pub(super) killed: Option<Instant>,
}

impl Entry {
    /// Restores a movement from its state directory.
    pub(super) fn from_record(owner: &Owner, starts: u64, end: Option<RecordedEnd>) -> Self {
        let last = end.as_ref().map(|end| Reading {
            progress: end.ended.progress,
            at: end.at,
            began: end.began,
        });
        Self {
            owner: owner.clone(),
            running: None,
            end: end.map(|end| End::Verdict(end.ended)),
            last,
            losses: 0,
            starts,
            is_clean: false,
            is_blocked: false,
            is_abandoned: false,
            cleaning_error: None,
        }
    }

    /// Records the start of a copy; `starts` includes it.
    pub(super) fn set_started(&mut self, starts: u64) {
        (self.starts, self.end, self.is_blocked) = (starts, None, false);
    }

    pub(super) fn is_copying(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.task == Task::Copy)
    }

    /// Whether the movement could start if it had its turn. A movement that could not start at its last turn counts
    /// only if it tries again now.
    pub(super) fn could_start(&self, tries_again: bool) -> bool {
        let has_ended = matches!(self.end, Some(End::Verdict(_)));
        self.running.is_none() && !has_ended && (tries_again || !self.is_blocked)
    }

    pub(super) fn snapshot(&self, now: Instant) -> Snapshot {
        let running = self.running.as_ref();
        let state = MovementState {
            process: running.map(|running| running.process(now)),
            end: self.end.clone(),
            losses: self.losses,
            has_begun: self.starts > 0,
            is_clean: self.is_clean,
        };
        Snapshot {
            state,
            reading: running.and_then(Running::reading).or(self.last),
            began: running.map(|running| running.began),
            interval: running.map(|running| running.interval).unwrap_or_default(),
            restarts: self.starts.saturating_sub(1),
            cleaning_error: self.cleaning_error.clone(),
        }
    }
}

impl Running {
    /// `limit` is the limit of the movement's object, and `rate` the rate with which `datamover` was started.
    pub(super) fn new(
        order: &Order,
        limit: Option<u64>,
        rate: Option<u64>,
        worker: Worker,
    ) -> Self {
        Self {
            task: order.task,
            worker,
            began: Timestamp::now(),
            started: Instant::now(),
            interval: Duration::from_millis(order.interval),
            configured: order.rate,
            limit,
            rate,
            newest: None,
            verdict: None,
            last_output: String::new(),
            cancelled: None,
            killed: None,
        }
    }

    /// Sends `datamover` the lowest of its limits, if it has another. `share` is its share of the rabbit's rate.
    pub(super) fn set_share(&mut self, share: Option<u64>) {
        let rate = [self.configured, self.limit, share].into_iter().flatten().min();
        if std::mem::replace(&mut self.rate, rate) != rate {
            let line = serde_json::to_string(&Change::Rate(rate)).unwrap_or_default();
            // A copy that has just ended takes no line.
            let _ = self.worker.write_line(&line);
        }
    }

    fn process(&self, now: Instant) -> Process {
        let since = |at: Instant| now.saturating_duration_since(at);
        Process {
            task: self.task,
            age: since(self.started),
            cancelled: self.cancelled.map(since),
            killed: self.killed.map(since),
        }
    }

    /// Records progress that has just been received.
    pub(super) fn set_progress(&mut self, progress: Progress) {
        self.newest = Some((progress, Timestamp::now()));
    }

    /// Returns the latest progress of a copy; `None` for a process that removes temporary files.
    pub(super) fn reading(&self) -> Option<Reading> {
        let (progress, at) = self.newest.filter(|_| self.task == Task::Copy)?;
        Some(Reading { progress, at, began: self.began })
    }

    /// Returns the record of a copy that has just ended.
    pub(super) fn end_record(&self, ended: &Ended) -> RecordedEnd {
        RecordedEnd { ended: ended.clone(), began: self.began, at: Timestamp::now() }
    }
}
