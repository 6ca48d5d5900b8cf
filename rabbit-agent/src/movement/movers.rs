//! The copiers of this rabbit: which run, what they told last, and whose turn is next.

mod entry;
mod listener;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::jiff::Timestamp;
use movement::order::{Change, Order, Task};
use parking_lot::Mutex;
use storage::{desired::ObjectUid, host::CommandError, linux::worker::Worker};
use thiserror::Error;
use tokio::sync::mpsc;

use self::{
    entry::{Entry, Running},
    listener::CopierListener,
};
use super::{
    args::MovementConfig,
    plan::{Limits, Seen, Waiting, turns},
    record::MovementRecord,
    report::Reading,
};

/// News of a copier, for the agent's loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The movement with this name has progress, or has ended.
    Changed(String),
    /// A place became free: movements that wait may start.
    Freed,
}

/// A copier cannot be started.
#[derive(Debug, Error)]
pub enum StartError {
    #[error("write the state of the movement in {path}")]
    Record {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("an earlier datamover of this movement has not ended: it is waited for")]
    Locked,
    #[error(
        "datamover, which copies jobs' data, cannot be started: put it there, or name its path with --datamover"
    )]
    Program(#[source] CommandError),
    #[error(
        "this rabbit carries out no data movement: name the path of datamover with --datamover"
    )]
    NoProgram,
    #[error("give datamover its order")]
    Order(#[source] io::Error),
}

/// A movement as its pass sees it.
#[derive(Debug, Clone)]
pub struct Look {
    pub seen: Seen,
    /// The newest progress, or that of the end.
    pub reading: Option<Reading>,
    /// When the process that runs was started.
    pub began: Option<Timestamp>,
    /// Least time between two writes of its progress.
    pub interval: Duration,
    /// How often the copy was started again.
    pub restarts: u64,
    /// Why temporary files may be left.
    pub trouble: Option<String>,
}

/// Whose movement an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub uid: ObjectUid,
    pub name: String,
    pub user: i64,
}

/// All movements of this rabbit that an agent works on. When this is dropped, the processes end: their standard input closes.
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
    /// An empty table, and the news of its movements.
    #[must_use]
    pub fn new(config: MovementConfig) -> (Arc<Self>, mpsc::UnboundedReceiver<News>) {
        let (news, heard) = mpsc::unbounded_channel();
        (Arc::new(Self { config, news, table: Mutex::default() }), heard)
    }

    /// Returns the state directory of a movement.
    #[must_use]
    pub fn record(&self, uid: ObjectUid) -> MovementRecord {
        MovementRecord::new(&self.config.state, uid)
    }

    /// Returns the time limits of plans.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits { grace: self.config.grace, clean: self.config.clean }
    }

    /// Returns what there is of a movement. May block: reads the state directory at first sight.
    ///
    /// # Errors
    /// When the state directory cannot be read.
    pub fn look(&self, owner: &Owner) -> Result<Look, StartError> {
        if let Some(entry) = self.table.lock().entries.get(&owner.uid) {
            return Ok(entry.look(Instant::now()));
        }
        let record = self.record(owner.uid);
        let starts = record.starts().map_err(|source| in_record(&record, source))?;
        let entry = Entry::from_record(owner, starts, record.end());
        let mut table = self.table.lock();
        Ok(table.entries.entry(owner.uid).or_insert(entry).look(Instant::now()))
    }

    /// Whether a movement may start now. `waiting` are all that could.
    #[must_use]
    pub fn has_turn(&self, uid: ObjectUid, waiting: &[Waiting]) -> bool {
        self.table.lock().has_turn(uid, waiting, self.config.at_once)
    }

    /// Starts a process if it is the movement's turn; returns whether it was. Cleaning needs no turn. May block.
    ///
    /// # Errors
    /// When the process cannot be started, or one of an earlier agent has not ended.
    pub fn start(
        self: &Arc<Self>,
        owner: &Owner,
        order: &Order,
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
        let worker = self.run(owner, order).inspect_err(|_| {
            if is_copy {
                // It did not run. A number that is too high only shows in the status.
                let _ = record.set_starts(starts);
            }
        })?;
        let entry = table.entries.entry(owner.uid);
        let entry = entry.or_insert_with(|| Entry::from_record(owner, starts, None));
        entry.running = Some(Running::new(order, worker));
        if is_copy {
            entry.set_started(starts + 1);
            table.served.retain(|user| *user != owner.user);
            table.served.push_back(owner.user);
        }
        Ok(true)
    }

    /// Starts the program and gives it its order. Its lines wait for the lock on the table, which the caller holds.
    fn run(self: &Arc<Self>, owner: &Owner, order: &Order) -> Result<Worker, StartError> {
        let listener = CopierListener { movers: Arc::downgrade(self), uid: owner.uid };
        let program = self.config.datamover.as_ref().ok_or(StartError::NoProgram)?;
        let worker = Worker::start(program, listener).map_err(StartError::Program)?;
        let order =
            serde_json::to_string(order).map_err(|error| StartError::Order(error.into()))?;
        worker.write_line(&order).map_err(StartError::Order)?;
        Ok(worker)
    }

    /// Records that a movement cannot start although it is its turn: others go before it.
    pub fn block(&self, uid: ObjectUid) {
        let mut table = self.table.lock();
        let Some(entry) = table.entries.get_mut(&uid) else { return };
        if !std::mem::replace(&mut entry.is_blocked, true) {
            self.tell(News::Freed);
        }
    }

    /// Tells a copier to cancel. One that does not read is killed later.
    pub fn cancel(&self, uid: ObjectUid) {
        let line = serde_json::to_string(&Change::Cancel).unwrap_or_default();
        if let Some(running) = self.table.lock().running(uid) {
            let _ = running.worker.write_line(&line);
            running.cancelled = Some(Instant::now());
        }
    }

    /// Kills a process group.
    pub fn kill(&self, uid: ObjectUid) {
        if let Some(running) = self.table.lock().running(uid) {
            running.worker.kill();
            running.killed = Some(Instant::now());
        }
    }

    /// Returns what the processes of a movement wait for. May block.
    #[must_use]
    pub fn standing(&self, uid: ObjectUid) -> String {
        let mut table = self.table.lock();
        table.running(uid).map(|running| running.worker.describe_waits()).unwrap_or_default()
    }

    /// Records that temporary files stay, for this reason.
    pub fn leave_files(&self, uid: ObjectUid, why: String) {
        if let Some(entry) = self.table.lock().entries.get_mut(&uid) {
            (entry.is_clean, entry.trouble) = (true, Some(why));
        }
    }

    /// Forgets a movement that runs no process.
    pub fn forget(&self, uid: ObjectUid) {
        self.table.lock().entries.remove(&uid);
    }

    /// Kills processes of objects of this name that went without the agent, but not those of `present`.
    pub fn abandon(&self, name: &str, present: Option<ObjectUid>) {
        let mut table = self.table.lock();
        let gone = table.entries.iter_mut();
        let gone = gone.filter(|(uid, entry)| entry.owner.name == name && Some(**uid) != present);
        for (_, entry) in gone {
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

    /// Removes the state directory of a movement whose object went without the agent.
    fn remove_record(&self, uid: ObjectUid) {
        if let Err(error) = self.record(uid).remove() {
            log::warn!("remove the state of data movement {uid}: {error}");
        }
    }

    fn tell(&self, news: News) {
        // The receiver is gone only when the agent ends.
        let _ = self.news.send(news);
    }
}

impl Table {
    fn running(&mut self, uid: ObjectUid) -> Option<&mut Running> {
        self.entries.get_mut(&uid)?.running.as_mut()
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
