//! The table of `datamover` processes on this rabbit, with their latest reports and the order in which users get their
//! turns.

mod entry;
mod listener;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use causes::CommandError;
use k8s_openapi::jiff::Timestamp;
use movement::order::{Change, Order, Task};
use parking_lot::Mutex;
use process::worker::Worker;
use storage::desired::ObjectUid;
use thiserror::Error;
use tokio::sync::mpsc;

use self::{
    entry::{Entry, Running},
    listener::CopierListener,
};
use super::{
    args::MovementConfig,
    plan::{Limits, MovementState, Waiting, turns},
    record::MovementRecord,
    report::Reading,
    scope,
};

/// A change in the table, sent to the agent's loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The movement with this name has progress, or has ended.
    Changed(String),
    /// A running movement ended, or a movement gave up its turn: waiting movements may start.
    Freed,
}

/// Why `datamover` cannot be started.
#[derive(Debug, Error)]
pub enum StartError {
    #[error("read or write the state of the movement in {path}")]
    Record {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("an earlier datamover process of this movement has not ended: the agent waits for it")]
    Locked,
    #[error(
        "datamover, the program that copies jobs' data, cannot be started: install it there, or name its path with --datamover"
    )]
    Program(#[source] CommandError),
    #[error("write the order to the standard input of datamover")]
    Order(#[source] io::Error),
}

/// The state of a movement, as its pass reads it from the table.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub state: MovementState,
    /// The latest progress; after the end, the final progress.
    pub reading: Option<Reading>,
    /// Start time of the running process.
    pub began: Option<Timestamp>,
    /// Minimum time between two writes of the progress to the status.
    pub interval: Duration,
    /// How often the copy was started again.
    pub restarts: u64,
    /// Why temporary files may be left at the destination.
    pub cleaning_error: Option<String>,
}

/// The object of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub uid: ObjectUid,
    pub name: String,
    pub user: i64,
}

/// All movements of this rabbit that the agent works on. When `Movers` is dropped, the processes end, as their standard
/// input closes.
#[derive(Debug)]
pub struct Movers {
    pub config: MovementConfig,
    news: mpsc::UnboundedSender<News>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: BTreeMap<ObjectUid, Entry>,
    /// Users in the order in which one of their movements last started, the latest at the end.
    served: VecDeque<i64>,
}

impl Movers {
    /// Returns an empty table, and the receiver of its news.
    #[must_use]
    pub fn new(config: MovementConfig) -> (Arc<Self>, mpsc::UnboundedReceiver<News>) {
        let (news, receiver) = mpsc::unbounded_channel();
        (Arc::new(Self { config, news, table: Mutex::default() }), receiver)
    }

    /// Returns the state directory of a movement.
    #[must_use]
    pub fn record(&self, uid: ObjectUid) -> MovementRecord {
        MovementRecord::new(&self.config.state, uid)
    }

    /// Returns the time limits for planning.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits { grace: self.config.grace, clean: self.config.clean }
    }

    /// Returns the state of a movement. May block: reads the state directory when the table has no entry yet.
    ///
    /// # Errors
    /// When the state directory cannot be read.
    pub fn snapshot(&self, owner: &Owner) -> Result<Snapshot, StartError> {
        if let Some(entry) = self.table.lock().entries.get(&owner.uid) {
            return Ok(entry.snapshot(Instant::now()));
        }
        let record = self.record(owner.uid);
        let starts = record.starts().map_err(|source| in_record(&record, source))?;
        let entry = Entry::from_record(owner, starts, record.end());
        let mut table = self.table.lock();
        Ok(table.entries.entry(owner.uid).or_insert(entry).snapshot(Instant::now()))
    }

    /// Whether a movement may start now. `waiting` holds all movements that could start.
    #[must_use]
    pub fn has_turn(&self, uid: ObjectUid, waiting: &[Waiting]) -> bool {
        self.table.lock().has_turn(uid, waiting, self.config.at_once)
    }

    /// Starts a process if the movement has its turn, and returns whether it had. A process that removes temporary
    /// files needs no turn. May block.
    ///
    /// # Errors
    /// When the process cannot be started, or a process of an earlier agent has not ended.
    pub fn start(
        self: &Arc<Self>,
        owner: &Owner,
        order: &Order,
        limit: Option<u64>,
        waiting: &[Waiting],
    ) -> Result<bool, StartError> {
        let record = self.record(owner.uid);
        let mut table = self.table.lock();
        let is_copy = order.task == Task::Copy;
        if is_copy && !table.has_turn(owner.uid, waiting, self.config.at_once) {
            return Ok(false);
        }
        if record.is_locked() {
            return Err(StartError::Locked);
        }
        let starts = record.starts().map_err(|source| in_record(&record, source))?;
        let set = |number| record.set_starts(number).map_err(|source| in_record(&record, source));
        if is_copy {
            set(starts + 1)?;
        }
        // The copy begins with its lowest limit: it could end before a later message brought that limit.
        let share = self.config.share_of_total_rate(table.copies() + 1);
        let rate = [order.rate, limit, share].into_iter().flatten().min();
        let first = Order { rate, ..order.clone() };
        let worker = self.run(owner, &first, starts).inspect_err(|_| {
            if is_copy {
                // The copy did not start, so the earlier number of starts is written again. If this write fails, the
                // status shows one restart too many; nothing else depends on the number.
                let _ = record.set_starts(starts);
            }
        })?;
        let entry = table.entries.entry(owner.uid);
        let entry = entry.or_insert_with(|| Entry::from_record(owner, starts, None));
        entry.running = Some(Running::new(order, limit, rate, worker));
        if is_copy {
            entry.set_started(starts + 1);
            table.served.retain(|user| *user != owner.user);
            table.served.push_back(owner.user);
            table.share_rate(&self.config);
        }
        Ok(true)
    }

    /// Starts `datamover` and sends its order. The listener cannot take in reports yet: the caller holds the lock on
    /// the table.
    fn run(
        self: &Arc<Self>,
        owner: &Owner,
        order: &Order,
        starts: u64,
    ) -> Result<Worker, StartError> {
        let listener = CopierListener { movers: Arc::downgrade(self), uid: owner.uid };
        let command_line =
            scope::command_line(&self.config, owner.uid, starts).map_err(StartError::Program)?;
        let worker = Worker::start(command_line, listener).map_err(StartError::Program)?;
        let order =
            serde_json::to_string(order).map_err(|error| StartError::Order(error.into()))?;
        worker.write_line(&order).map_err(StartError::Order)?;
        Ok(worker)
    }

    /// Records that a movement could not start although it had its turn: other movements get their turns before it.
    pub fn block(&self, uid: ObjectUid) {
        let mut table = self.table.lock();
        let Some(entry) = table.entries.get_mut(&uid) else { return };
        if !std::mem::replace(&mut entry.is_blocked, true) {
            self.send(News::Freed);
        }
    }

    /// Sends a cancellation to `datamover`. A process that does not end in time is killed later.
    pub fn cancel(&self, uid: ObjectUid) {
        let line = serde_json::to_string(&Change::Cancel).unwrap_or_default();
        if let Some(running) = self.table.lock().running(uid) {
            let _ = running.worker.write_line(&line);
            running.cancelled = Some(Instant::now());
        }
    }

    /// Sets or removes the limit, in bytes per second, that a movement's object has.
    pub fn limit(&self, uid: ObjectUid, limit: Option<u64>) {
        let mut table = self.table.lock();
        let Some(running) = table.running(uid) else { return };
        if std::mem::replace(&mut running.limit, limit) != limit {
            table.share_rate(&self.config);
        }
    }

    /// Kills a process group.
    pub fn kill(&self, uid: ObjectUid) {
        if let Some(running) = self.table.lock().running(uid) {
            running.worker.kill();
            running.killed = Some(Instant::now());
        }
    }

    /// Returns a description of what the processes of a movement wait for in the kernel. May block.
    #[must_use]
    pub fn standing(&self, uid: ObjectUid) -> String {
        let mut table = self.table.lock();
        let waits = |running: &mut Running| running.worker.describe_waits(&self.config.state);
        table.running(uid).map(waits).unwrap_or_default()
    }

    /// Records that temporary files could not be removed, for this reason.
    pub fn give_up_cleaning(&self, uid: ObjectUid, why: String) {
        if let Some(entry) = self.table.lock().entries.get_mut(&uid) {
            (entry.is_clean, entry.cleaning_error) = (true, Some(why));
        }
    }

    /// Removes a movement without a running process from the table.
    pub fn forget(&self, uid: ObjectUid) {
        self.table.lock().entries.remove(&uid);
    }

    /// Kills the processes of objects with this name that disappeared although the agent had not released them, except
    /// the object `present`.
    pub fn abandon(&self, name: &str, present: Option<ObjectUid>) {
        let mut table = self.table.lock();
        let disappeared = table.entries.iter_mut();
        let disappeared =
            disappeared.filter(|(uid, entry)| entry.owner.name == name && Some(**uid) != present);
        for (_, entry) in disappeared {
            entry.is_abandoned = true;
            if let Some(running) = &entry.running {
                running.worker.kill();
            }
        }
        let has_ended = |entry: &Entry| entry.is_abandoned && entry.running.is_none();
        let ended: Vec<_> = table.entries.extract_if(.., |_, entry| has_ended(entry)).collect();
        drop(table);
        ended.iter().for_each(|(uid, _)| self.remove_record(*uid));
    }

    /// Removes the state directory of a movement whose object disappeared although the agent had not released it.
    fn remove_record(&self, uid: ObjectUid) {
        if let Err(error) = self.record(uid).remove() {
            log::warn!("remove the state directory of data movement {uid}: {error}");
        }
    }

    fn send(&self, news: News) {
        // The receiver is gone only when the agent ends.
        let _ = self.news.send(news);
    }
}

impl Table {
    fn running(&mut self, uid: ObjectUid) -> Option<&mut Running> {
        self.entries.get_mut(&uid)?.running.as_mut()
    }

    /// Returns the number of running copies.
    fn copies(&self) -> usize {
        self.entries.values().filter(|entry| entry.is_copying()).count()
    }

    /// Divides the rate of the rabbit among the running copies, and sends each copy its rate if the rate has changed.
    fn share_rate(&mut self, config: &MovementConfig) {
        let share = config.share_of_total_rate(self.copies());
        let copies = self.entries.values_mut().filter(|entry| entry.is_copying());
        copies.filter_map(|entry| entry.running.as_mut()).for_each(|copy| copy.set_share(share));
    }

    fn has_turn(&self, uid: ObjectUid, waiting: &[Waiting], at_once: usize) -> bool {
        let copies = self.entries.values().filter(|entry| entry.is_copying());
        let running: Vec<i64> = copies.map(|entry| entry.owner.user).collect();
        let could_start = |movement: &&Waiting| {
            let entry = self.entries.get(&movement.uid);
            entry.is_none_or(|entry| entry.could_start(movement.uid == uid))
        };
        let waiting: Vec<_> = waiting.iter().filter(could_start).cloned().collect();
        turns(&waiting, &running, &self.served, at_once).contains(&uid)
    }
}

fn in_record(record: &MovementRecord, source: io::Error) -> StartError {
    StartError::Record { path: record.directory().display().to_string(), source }
}
