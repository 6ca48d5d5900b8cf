//! The shared state of all tasks: objects from the watches, messages to the nodes, their reports, and writes to the API.
//!
//! Every method takes one lock, calls the pure parts, and returns; nothing waits while it holds the lock.

mod disconnected;
mod jobs;
mod session_start;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use controller::{Trouble, WatchHealth};
use proto::v1::{self, MountReport};
use tokio::sync::{Notify, watch};

use crate::fanout::{Audience, Change, Fanout, Next, ProfileRead, refusal};
use crate::object::{Key, MountObject, ProfileObject, Version};
use crate::pending::{UnfitStatus, Write, Writes, fit, refused};

/// The state that watches, sessions, readers and writers share.
#[derive(Debug, Default)]
pub struct Exchange {
    state: Mutex<State>,
    /// Notified when an object waits for a writer.
    write_wanted: Notify,
    /// Notified when an object waits for its profile.
    read_requested: Notify,
    /// Notified when an object waits for its profile while a task reads that already.
    read_requested_again: Notify,
    /// Notified when a session waits for its start.
    session_waiting: Notify,
    /// Whether sessions can start.
    ready: watch::Sender<bool>,
    /// The troubles of the watches that were logged.
    watches: WatchHealth,
}

#[derive(Debug, Default)]
struct State {
    fanout: Fanout,
    writes: Writes,
    /// Objects whose profile must be read.
    pending_reads: PendingReads<Key>,
    /// Nodes whose session waits for its start.
    waiting_sessions: PendingReads<String>,
    /// Which nodes are rabbits and computes; `None` while that is unknown.
    nodes: Option<Nodes>,
    /// Nodes whose session is notified of every change of their objects, their status included.
    job_watchers: BTreeSet<String>,
    /// Failures of requests that were logged since a request last succeeded.
    logged: BTreeSet<String>,
    closed: bool,
}

impl State {
    /// Sends an object again when somebody overwrote the reported status. While a reported status is still to be written, that
    /// write compares.
    fn check_status(&mut self, key: &Key) {
        if !self.writes.has_status(key) {
            self.fanout.check_status(key);
        }
    }
}

/// The nodes of the machine by kind. One that is in neither set is of unknown kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// By the machine's layout, or by their agent's hello. Their agents write the status of their objects themselves.
    pub rabbits: BTreeSet<String>,
    /// By the machine's layout; no rabbit is among them.
    pub computes: BTreeSet<String>,
}

/// A queue of keys to read about, in which each key is once.
#[derive(Debug, Default)]
struct PendingReads<T> {
    waiting: VecDeque<T>,
    /// Keys that wait or are being read.
    open: BTreeSet<T>,
}

impl<T: Clone + Ord> PendingReads<T> {
    /// Adds a key; returns whether it is new.
    fn push(&mut self, subject: &T) -> bool {
        let new = self.open.insert(subject.clone());
        if new {
            self.waiting.push_back(subject.clone());
        }
        new
    }
}

/// The session is over: a newer one replaced it, or the coordinator stops.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended;

impl Exchange {
    /// Opens a session; the returned `Notify` wakes it when [`Exchange::next`] may have a message.
    pub fn open(&self, node: &str, epoch: u64, audience: Audience) -> Arc<Notify> {
        let mut state = self.lock();
        let notify = state.fanout.open(node, epoch, audience);
        if state.closed {
            state.fanout.close_all();
        }
        self.queue_session(&mut state, node);
        notify
    }

    /// Closes a session, unless a later one replaced it.
    pub fn close(&self, node: &str, epoch: u64) {
        let mut state = self.lock();
        state.fanout.close(node, epoch);
        if !state.fanout.is_connected(node) {
            state.job_watchers.remove(node);
            self.release_all_disconnected(&mut state, Some(node));
        }
    }

    /// Closes all sessions, now and from now on.
    pub fn close_all(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.fanout.close_all();
    }

    /// Whether `epoch` is the current session of `node`.
    pub fn serves(&self, node: &str, epoch: u64) -> bool {
        self.lock().fanout.serves(node, epoch)
    }

    /// The next message to the node; `None` until the session is notified.
    pub fn next(&self, node: &str, epoch: u64) -> Result<Option<v1::to_node::Message>, Ended> {
        use v1::to_node::Message;
        let mut state = self.lock();
        loop {
            match state.fanout.next(node, epoch) {
                Next::Desired(desired) => return Ok(Some(Message::Desired(desired))),
                Next::Gone(gone) => return Ok(Some(Message::Gone(gone))),
                Next::Synced => return Ok(Some(Message::Synced(v1::Synced {}))),
                Next::Idle => return Ok(None),
                Next::Ended => return Err(Ended),
                Next::AddFinalizer(key) => {
                    let object = state.fanout.mount(&key);
                    if object.is_some_and(|object| state.writes.add_finalizer(&object)) {
                        self.write_wanted.notify_one();
                    }
                    // Both requests run at once, so that the job waits for the slower one and not for both in turn.
                    if state.fanout.needs_profile(&key) && state.pending_reads.push(&key) {
                        self.read_requested.notify_one();
                    }
                }
                Next::RetractUnmounted(key) => self.retract_unmounted(&mut state, &key),
                Next::ReadProfile(key) => {
                    if state.pending_reads.push(&key) {
                        self.read_requested.notify_one();
                    } else {
                        // The task that reads for this object waits to try again, perhaps for a profile that the object named before.
                        self.read_requested_again.notify_waiters();
                    }
                }
            }
        }
    }

    /// Takes a node's report. One on an earlier version of the object is dropped, because a newer report follows.
    pub fn report(&self, report: &MountReport) -> Result<(), UnfitStatus> {
        let key = Key::new(&report.namespace, &report.name);
        let mut state = self.lock();
        if !state.fanout.is_current(&key, &report.uid, &report.observed_resource_version) {
            log::debug!(client_mount:% = key; "drop a report on an earlier version");
            return Ok(());
        }
        let Some(object) = state.fanout.mount(&key) else { return Ok(()) };
        let status = fit(&report.status, &object)?;
        state.fanout.reported(&key, &status);
        if state.writes.report(&object, status, report.released) {
            self.write_wanted.notify_one();
        }
        Ok(())
    }

    /// Sets which nodes are rabbits, whose agents refuse objects themselves, and which are computes; `None` while that is unknown.
    /// In all namespaces but those of rabbits the coordinator refuses objects that it sends to no node.
    pub fn set_nodes(&self, nodes: Option<Nodes>) {
        let mut state = self.lock();
        if state.nodes != nodes {
            state.nodes = nodes;
            self.refuse_all(&mut state);
            self.release_all_disconnected(&mut state, None);
        }
    }

    /// A ClientMount is new or changed.
    pub fn apply_mount(&self, object: MountObject) {
        let mut state = self.lock();
        let key = object.key.clone();
        let change = state.fanout.apply_mount(object);
        if change == Change::Spec {
            state.writes.wake(&key);
        }
        if change != Change::Nothing {
            self.refuse(&mut state, &key);
            self.release_disconnected(&mut state, &key);
            state.check_status(&key);
        }
        state.notify_job_watcher(&key.namespace);
    }

    /// Takes the API's answer to a read or write of a ClientMount; `false` when the watch does not know that object.
    pub(crate) fn refresh_mount(&self, object: MountObject) -> bool {
        let key = object.key.clone();
        let known = self.lock().fanout.mount(&key);
        let Some(known) = known.filter(|known| known.version.uid == object.version.uid) else {
            return false;
        };
        if object.older_than(&known) {
            // The watch already brought a newer version, whose status was not compared while ours was being written.
            self.lock().check_status(&key);
        } else {
            self.apply_mount(object);
        }
        true
    }

    pub fn remove_mount(&self, key: &Key, uid: &str) {
        let mut state = self.lock();
        state.fanout.remove_mount(key, uid);
        state.writes.wake(key);
        state.notify_job_watcher(&key.namespace);
    }

    /// Takes a complete list of ClientMounts.
    pub fn replace_mounts(&self, objects: Vec<MountObject>) {
        let mut state = self.lock();
        let keys: Vec<Key> = objects.iter().map(|object| object.key.clone()).collect();
        state.fanout.replace_mounts(objects);
        state.writes.wake_all();
        for key in &keys {
            self.refuse(&mut state, key);
            self.release_disconnected(&mut state, key);
            state.check_status(key);
        }
        let watchers: Vec<String> = state.job_watchers.iter().cloned().collect();
        watchers.iter().for_each(|node| state.notify_job_watcher(node));
        self.update_readiness(&mut state);
    }

    /// A profile is new or changed.
    pub fn apply_profile(&self, profile: ProfileObject) {
        self.lock().fanout.apply_profile(profile);
    }

    pub fn remove_profile(&self, key: &Key) {
        self.lock().fanout.remove_profile(key);
    }

    /// Takes a complete list of profiles.
    pub fn replace_profiles(&self, profiles: Vec<ProfileObject>) {
        let mut state = self.lock();
        state.fanout.replace_profiles(profiles);
        self.update_readiness(&mut state);
    }

    /// The next object whose profile must be read; waits until there is one.
    pub(crate) async fn take_pending_read(&self) -> Key {
        loop {
            if let Some(key) = self.lock().pending_reads.waiting.pop_front() {
                return key;
            }
            self.read_requested.notified().await;
        }
    }

    /// The profile to read for a taken object; `None` ends the reader's work.
    pub(crate) fn profile_to_read(&self, key: &Key) -> Option<(Version, Key)> {
        let mut state = self.lock();
        let wanted = state.fanout.profile_to_read(key);
        if wanted.is_none() {
            state.pending_reads.open.remove(key);
        }
        wanted
    }

    /// Takes the profile read for a version of an object, or why there is none.
    pub(crate) fn answer(&self, key: &Key, version: &Version, answer: ProfileRead) {
        self.lock().fanout.answer(key, version, answer);
    }

    /// Returns when an object waits for its profile while a task reads that already.
    pub(crate) fn read_requested_again(&self) -> impl Future<Output = ()> + '_ {
        self.read_requested_again.notified()
    }

    /// The next object to write; waits until there is one.
    pub(crate) async fn take_write(&self) -> Key {
        loop {
            if let Some(key) = self.lock().writes.take() {
                return key;
            }
            self.write_wanted.notified().await;
        }
    }

    /// The next write of a taken object; `None` ends the writer's work.
    pub(crate) fn next_write(&self, key: &Key) -> Option<Write> {
        let mut state = self.lock();
        let object = state.fanout.mount(key);
        state.writes.next(key, object.as_deref())
    }

    /// The API accepted a write.
    pub(crate) fn written(&self, key: &Key, write: &Write) {
        self.lock().writes.written(key, write);
    }

    /// The API refused a write, which stays pending; Synced does not wait for it.
    pub(crate) fn refused_write(&self, key: &Key, write: &Write) {
        if write.adds_finalizer() || write.is_status() {
            self.lock().fanout.write_refused(key);
        }
    }

    /// Returns when a taken object has changed since the last call.
    pub(crate) async fn changed(&self, key: &Key) {
        let notify = self.lock().writes.notify(key);
        if let Some(notify) = notify {
            notify.notified().await;
        }
    }

    /// A watch fails; logged when that begins and when the reason changes.
    pub fn watch_failed(&self, kind: &str, trouble: &Trouble) {
        self.watches.failing(kind, trouble);
        self.update_readiness(&mut self.lock());
    }

    /// A watch works.
    pub fn watch_recovered(&self, kind: &str) {
        self.watches.working(kind);
        self.update_readiness(&mut self.lock());
    }

    /// Kinds whose watch fails now, and why.
    pub fn failing(&self) -> Vec<(String, String)> {
        self.watches.broken()
    }

    /// A request failed with this message; returns whether to log it. An API that is away for a night must not fill the journal.
    pub(crate) fn is_new_problem(&self, line: &str) -> bool {
        self.lock().logged.insert(line.to_owned())
    }

    /// A request succeeded: later failures are logged again.
    pub(crate) fn request_succeeded(&self) {
        self.lock().logged.clear();
    }

    fn refuse_all(&self, state: &mut State) {
        let keys: Vec<Key> = state.fanout.mounts().map(|object| object.key.clone()).collect();
        for key in keys {
            self.refuse(state, &key);
        }
    }

    /// Writes the refusal into an object that is sent to no node.
    fn refuse(&self, state: &mut State, key: &Key) {
        let Some(object) = state.fanout.mount(key) else { return };
        let Some(why) = refusal(&object) else { return };
        let nodes = state.nodes.as_ref();
        let ours = nodes.is_some_and(|nodes| !nodes.rabbits.contains(&key.namespace));
        if object.version.deleting || !ours {
            return;
        }
        if state.writes.report(&object, refused(&object, &why), false) {
            self.write_wanted.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a panic left the state half changed")
    }
}

#[cfg(test)]
mod tests;
