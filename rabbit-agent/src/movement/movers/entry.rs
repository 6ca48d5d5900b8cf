//! One movement in the agent's table.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use movement::{
    order::{Order, Task},
    report::{Ended, Progress},
};
use storage::linux::worker::Worker;

use super::{Look, Owner};
use crate::movement::{
    plan::{End, Process, Seen},
    record::RecordedEnd,
    report::Reading,
};

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    pub(super) running: Option<Running>,
    pub(super) end: Option<End>,
    /// Progress of the last copy, once it has ended.
    pub(super) last: Option<Reading>,
    pub(super) losses: u32,
    /// How often a copy was started.
    starts: u64,
    pub(super) is_clean: bool,
    pub(super) is_blocked: bool,
    /// Whether its object went without the agent.
    pub(super) is_abandoned: bool,
    pub(super) trouble: Option<String>,
}

/// A process.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) task: Task,
    pub(super) worker: Worker,
    began: Timestamp,
    started: Instant,
    /// Least time between two writes of progress.
    interval: Duration,
    newest: Option<(Progress, Timestamp)>,
    pub(super) verdict: Option<Ended>,
    /// The last line that is no report.
    pub(super) last_words: String,
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
            trouble: None,
        }
    }

    /// Records the start of a copy; `starts` counts it.
    pub(super) fn set_started(&mut self, starts: u64) {
        (self.starts, self.end, self.is_blocked) = (starts, None, false);
    }

    pub(super) fn is_copying(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.task == Task::Copy)
    }

    /// Whether it could start if it were its turn. That it was blocked does not count for one that tries again.
    pub(super) fn could_start(&self, tries_again: bool) -> bool {
        let has_ended = matches!(self.end, Some(End::Verdict(_)));
        self.running.is_none() && !has_ended && (tries_again || !self.is_blocked)
    }

    pub(super) fn look(&self, now: Instant) -> Look {
        let running = self.running.as_ref();
        let seen = Seen {
            process: running.map(|running| running.process(now)),
            end: self.end.clone(),
            losses: self.losses,
            has_begun: self.starts > 0,
            is_clean: self.is_clean,
        };
        Look {
            seen,
            reading: running.and_then(Running::reading).or(self.last),
            began: running.map(|running| running.began),
            interval: running.map(|running| running.interval).unwrap_or_default(),
            restarts: self.starts.saturating_sub(1),
            trouble: self.trouble.clone(),
        }
    }
}

impl Running {
    pub(super) fn new(order: &Order, worker: Worker) -> Self {
        Self {
            task: order.task,
            worker,
            began: Timestamp::now(),
            started: Instant::now(),
            interval: Duration::from_millis(order.interval),
            newest: None,
            verdict: None,
            last_words: String::new(),
            cancelled: None,
            killed: None,
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

    /// Records progress that came now.
    pub(super) fn set_progress(&mut self, progress: Progress) {
        self.newest = Some((progress, Timestamp::now()));
    }

    /// Returns the newest progress of a copy.
    pub(super) fn reading(&self) -> Option<Reading> {
        let (progress, at) = self.newest.filter(|_| self.task == Task::Copy)?;
        Some(Reading { progress, at, began: self.began })
    }

    /// Returns the record of an end that came now.
    pub(super) fn end_record(&self, ended: &Ended) -> RecordedEnd {
        RecordedEnd { ended: ended.clone(), began: self.began, at: Timestamp::now() }
    }
}
