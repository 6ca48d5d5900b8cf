//! The shared state of all tasks: objects from the watches, messages to the nodes, the nodes' reports, and
//! writes to the API.
//!
//! Every method takes one lock, calls pure functions, and returns; no method waits while it holds the lock.

mod disconnected;
mod jobs;
mod profiles;
mod read_queue;
mod readiness;
mod writes;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use controller::{Trouble, WatchHealth};
use proto::v1::{self, MountReport};
use tokio::sync::{Notify, watch};

use crate::fanout::{Change, Fanout, Next, NodeKind};
use crate::object::{Key, MountObject};
use crate::pending::{InvalidStatus, PendingWrites, parse_status};
use read_queue::ReadQueue;

/// The state that watches, sessions, readers and writers share.
#[derive(Debug, Default)]
pub struct Exchange {
    state: Mutex<State>,
    /// Notified when an object waits for a writer.
    write_requested: Notify,
    /// Notified when an object waits for its profile.
    read_requested: Notify,
    /// Notified when an object waits for its profile while a task already reads that profile.
    read_requested_again: Notify,
    /// Notified when a session waits for its start.
    session_waiting: Notify,
    /// Whether sessions can start: a session is opened when its node connects, and starts when it may send messages.
    ready: watch::Sender<bool>,
    /// Failing watches, and the failures that were logged.
    watches: WatchHealth,
}

#[derive(Debug, Default)]
struct State {
    fanout: Fanout,
    writes: PendingWrites,
    /// Objects whose profile must be read.
    pending_reads: ReadQueue<Key>,
    /// Nodes whose session is open, but waits for its start, before which no message is sent.
    waiting_sessions: ReadQueue<String>,
    /// Names of rabbits and computes; `None` while unknown.
    nodes: Option<Nodes>,
    /// Nodes on which a script waits for a job's mounts: the session of such a node is notified of every change of the
    /// node's objects, also of a changed status.
    job_watchers: BTreeSet<String>,
    /// Messages of failures that were logged since the last successful request.
    logged: BTreeSet<String>,
    /// Whether the coordinator is stopping: sessions end as soon as they open.
    closed: bool,
}

impl State {
    /// Sends an object to its node again if another client overwrote the status that the node reported. Does nothing
    /// while the node's report still waits to be written: that write replaces the stored status anyway.
    fn check_status(&mut self, key: &Key) {
        if !self.writes.has_status(key) {
            self.fanout.check_status(key);
        }
    }
}

/// The nodes of the system by kind. If a node is in neither set, its kind is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// Names of nodes that the SystemConfiguration or the agent's hello message calls rabbits. The agents of rabbits
    /// write the status of their objects themselves.
    pub rabbits: BTreeSet<String>,
    /// Names of nodes that the SystemConfiguration calls computes; no rabbit is among them.
    pub computes: BTreeSet<String>,
}

/// The session is over: a newer session replaced it, or the coordinator stops.
#[derive(Debug, PartialEq, Eq)]
pub struct SessionEnded;

impl Exchange {
    /// Opens a session; the returned `Notify` wakes it when [`Exchange::next`] may have a message.
    pub fn open(&self, node: &str, epoch: u64, node_kind: NodeKind) -> Arc<Notify> {
        let mut state = self.lock();
        let notify = state.fanout.open(node, epoch, node_kind);
        if state.closed {
            state.fanout.close_all();
        }
        self.queue_session(&mut state, node);
        notify
    }

    /// Closes a session, unless a later session replaced it.
    pub fn close(&self, node: &str, epoch: u64) {
        let mut state = self.lock();
        state.fanout.close(node, epoch);
        if !state.fanout.is_connected(node) {
            state.job_watchers.remove(node);
            let keys: Vec<Key> =
                state.fanout.mounts_of(node).map(|object| object.key.clone()).collect();
            keys.iter().for_each(|key| self.release_disconnected(&mut state, key));
        }
    }

    /// Closes all sessions; a session that opens later is closed at once.
    pub fn close_all(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.fanout.close_all();
    }

    /// Returns whether `epoch` is the number of the node's current session.
    pub fn serves(&self, node: &str, epoch: u64) -> bool {
        self.lock().fanout.serves(node, epoch)
    }

    /// Returns the next message to the node. `None` if there is no message now: the session then
    /// waits for its `Notify`.
    pub fn next(
        &self,
        node: &str,
        epoch: u64,
    ) -> Result<Option<v1::to_node::Message>, SessionEnded> {
        use v1::to_node::Message;
        let mut state = self.lock();
        loop {
            match state.fanout.next(node, epoch) {
                Next::Desired(desired) => return Ok(Some(Message::Desired(desired))),
                Next::Gone(gone) => return Ok(Some(Message::Gone(gone))),
                Next::Synced => return Ok(Some(Message::Synced(v1::Synced {}))),
                Next::Idle => return Ok(None),
                Next::Ended => return Err(SessionEnded),
                Next::AddFinalizer(key) => {
                    let object = state.fanout.mount(&key);
                    if object.is_some_and(|object| state.writes.add_finalizer(&object)) {
                        self.write_requested.notify_one();
                    }
                    // The finalizer is added while the profile is read: the job waits for the slower request, not for
                    // the sum of both.
                    if state.fanout.needs_profile(&key) && state.pending_reads.push(&key) {
                        self.read_requested.notify_one();
                    }
                }
                Next::RetractUnmounted(key) => self.retract_unmounted(&mut state, &key),
                Next::ReadProfile(key) => {
                    if state.pending_reads.push(&key) {
                        self.read_requested.notify_one();
                    } else {
                        // The task that reads profiles for this object may be waiting before a retry: a retry for
                        // another profile, which the object named before.
                        self.read_requested_again.notify_waiters();
                    }
                }
            }
        }
    }

    /// Requests that a writer stores a node's report in the API. Drops a report on an earlier version of the object,
    /// because the node will report on the current version too.
    pub fn report(&self, report: &MountReport) -> Result<(), InvalidStatus> {
        let key = Key::new(&report.namespace, &report.name);
        let mut state = self.lock();
        if !state.fanout.is_current(&key, &report.uid, &report.observed_resource_version) {
            log::debug!(client_mount:% = key; "drop a report on an earlier version");
            return Ok(());
        }
        let Some(object) = state.fanout.mount(&key) else { return Ok(()) };
        let status = parse_status(&report.status, &object)?;
        state.fanout.record_report(&key, &status);
        if state.writes.report(&object, status, report.released) {
            self.write_requested.notify_one();
        }
        Ok(())
    }

    /// Sets the names of rabbits and computes; `None` while unknown. The names matter for invalid objects, which are
    /// sent to no node: the coordinator writes the reason into their status, except in the Kubernetes namespaces of
    /// rabbits, whose agents do so themselves.
    pub fn set_nodes(&self, nodes: Option<Nodes>) {
        let mut state = self.lock();
        if state.nodes != nodes {
            state.nodes = nodes;
            let keys: Vec<Key> = state.fanout.mounts().map(|object| object.key.clone()).collect();
            for key in keys {
                self.refuse(&mut state, &key);
                self.release_disconnected(&mut state, &key);
            }
        }
    }

    /// Stores a new or changed ClientMount.
    pub fn apply_mount(&self, object: MountObject) {
        let mut state = self.lock();
        let key = object.key.clone();
        let change = state.fanout.apply_mount(object);
        if change == Change::Spec {
            state.writes.wake(&key);
        }
        if change != Change::Nothing {
            self.review(&mut state, &key);
        }
        state.notify_job_watcher(&key.namespace);
    }

    /// Stores the API's answer to a read or write of a ClientMount. Returns `false` if the watch does
    /// not know this ClientMount.
    pub(crate) fn refresh_mount(&self, object: MountObject) -> bool {
        let key = object.key.clone();
        let known = self.lock().fanout.mount(&key);
        let Some(known) = known.filter(|known| known.version.uid == object.version.uid) else {
            return false;
        };
        if object.older_than(&known) {
            // The watch delivered a newer version while the write was running. The status of that version was not
            // compared with the node's report then, because this status could have come from the running write.
            self.review(&mut self.lock(), &key);
        } else {
            self.apply_mount(object);
        }
        true
    }

    /// Removes a ClientMount that is gone.
    pub fn remove_mount(&self, key: &Key, uid: &str) {
        let mut state = self.lock();
        state.fanout.remove_mount(key, uid);
        state.writes.wake(key);
        state.notify_job_watcher(&key.namespace);
    }

    /// Replaces all ClientMounts by a complete list.
    pub fn replace_mounts(&self, objects: Vec<MountObject>) {
        let mut state = self.lock();
        let keys: Vec<Key> = objects.iter().map(|object| object.key.clone()).collect();
        state.fanout.replace_mounts(objects);
        state.writes.wake_all();
        for key in &keys {
            self.review(&mut state, key);
        }
        let watchers: Vec<String> = state.job_watchers.iter().cloned().collect();
        watchers.iter().for_each(|node| state.notify_job_watcher(node));
        self.update_readiness(&mut state);
    }

    /// Records that a watch fails. Logs the failure, unless the same failure was logged already.
    pub fn watch_failed(&self, kind: &str, trouble: &Trouble) {
        self.watches.failing(kind, trouble);
        self.update_readiness(&mut self.lock());
    }

    /// Records that a watch works.
    pub fn watch_recovered(&self, kind: &str) {
        self.watches.working(kind);
        self.update_readiness(&mut self.lock());
    }

    /// Returns the kinds whose watch fails, with the reason.
    pub fn failing(&self) -> Vec<(String, String)> {
        self.watches.broken()
    }

    /// Records a failed request, and returns whether to log the message: an API that is unreachable for a night must
    /// not fill the journal.
    pub(crate) fn is_new_problem(&self, line: &str) -> bool {
        self.lock().logged.insert(line.to_owned())
    }

    /// Records that a request succeeded: later failures are logged again.
    pub(crate) fn request_succeeded(&self) {
        self.lock().logged.clear();
    }

    /// Requests the writes that the current state of a ClientMount needs.
    fn review(&self, state: &mut State, key: &Key) {
        self.refuse(state, key);
        self.release_disconnected(state, key);
        state.check_status(key);
    }

    /// Takes the next item of a queue. `notify` is notified when the queue may have an item.
    async fn take<T>(&self, notify: &Notify, pop: impl Fn(&mut State) -> Option<T>) -> T {
        loop {
            if let Some(item) = pop(&mut self.lock()) {
                return item;
            }
            notify.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a panic left the state half changed")
    }
}

#[cfg(test)]
mod tests;
