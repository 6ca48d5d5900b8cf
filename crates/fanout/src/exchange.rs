//! Where what is known meets: objects from the watches, what nodes are told and report, writes to the API.
//!
//! Every method takes one lock, decides by the pure parts, and returns; nothing waits inside.

mod newcomers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use controller::{Trouble, WatchHealth};
use proto::v1::{self, MountReport};
use tokio::sync::{Notify, watch};

use crate::fanout::{Audience, Fanout, News, Next, ProfileAnswer, refusal};
use crate::object::{Key, MountObject, ProfileObject, Version};
use crate::pending::{UnfitStatus, Write, Writes, fit, refused};

/// Shared by all tasks that carry something.
#[derive(Debug, Default)]
pub struct Exchange {
    state: Mutex<State>,
    /// Rings when an object waits for a writer.
    wanted: Notify,
    /// Rings when an object waits for its profile.
    asked: Notify,
    /// Rings when a profile is asked for that somebody looks for already.
    asked_again: Notify,
    /// Rings when a node waits to be let in.
    arrived: Notify,
    /// Whether nodes that come are let in.
    ready: watch::Sender<bool>,
    /// What the log was told of the watches.
    watches: WatchHealth,
}

#[derive(Debug, Default)]
struct State {
    fanout: Fanout,
    writes: Writes,
    /// Objects whose profile is to be read.
    asks: Asks<Key>,
    /// Nodes that wait to be let in.
    newcomers: Asks<String>,
    /// Namespaces whose own agent writes the status of its objects; None while that is unknown.
    rabbits: Option<BTreeSet<String>>,
    /// Watches that do not work now, and why.
    failing: BTreeMap<String, String>,
    /// What went wrong with reads and writes of single objects since one worked last.
    logged: BTreeSet<String>,
    closed: bool,
}

impl State {
    /// Has the node asked again when somebody else has written over its word. While a status of its own is still to be
    /// written, that write looks at what is there.
    fn check_status(&mut self, key: &Key) {
        if !self.writes.has_status(key) {
            self.fanout.check_status(key);
        }
    }
}

/// What the API is to be asked about.
#[derive(Debug)]
struct Asks<T> {
    waiting: VecDeque<T>,
    /// Including what somebody reads now.
    open: BTreeSet<T>,
}

impl<T> Default for Asks<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), open: BTreeSet::new() }
    }
}

impl<T: Clone + Ord> Asks<T> {
    /// Whether nobody asks about it yet.
    fn push(&mut self, subject: &T) -> bool {
        let new = self.open.insert(subject.clone());
        if new {
            self.waiting.push_back(subject.clone());
        }
        new
    }
}

/// The node is to be told nothing more: another session took over, or everything ends.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended;

impl Exchange {
    /// Starts to tell a node; the bell rings whenever [`Exchange::next`] may have something to say.
    pub fn open(&self, node: &str, epoch: u64, audience: Audience) -> Arc<Notify> {
        let mut state = self.lock();
        let bell = state.fanout.open(node, epoch, audience);
        if state.closed {
            state.fanout.close_all();
        }
        self.receive(&mut state, node);
        bell
    }

    /// Ends it, unless a later one took over.
    pub fn close(&self, node: &str, epoch: u64) {
        self.lock().fanout.close(node, epoch);
    }

    /// Ends all, now and from now on.
    pub fn close_all(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.fanout.close_all();
    }

    /// Whether `epoch` is what `node` is told by.
    pub fn serves(&self, node: &str, epoch: u64) -> bool {
        self.lock().fanout.serves(node, epoch)
    }

    /// What there is to tell the node; None until the bell rings.
    ///
    /// # Errors
    /// When it is to be told nothing more.
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
                Next::Hold(key) => {
                    let object = state.fanout.mount(&key);
                    if object.is_some_and(|object| state.writes.add_finalizer(&object)) {
                        self.wanted.notify_one();
                    }
                    // Both are on their way at once: the job waits for the longer and not for one after the other.
                    if state.fanout.lacks_profile(&key) && state.asks.push(&key) {
                        self.asked.notify_one();
                    }
                }
                Next::Ask(key) => {
                    if state.asks.push(&key) {
                        self.asked.notify_one();
                    } else {
                        // Somebody waits for a profile that this object named before, or for this one to appear.
                        self.asked_again.notify_waiters();
                    }
                }
            }
        }
    }

    /// Takes a node's report; one on an earlier version of the object is dropped, as a newer answer is on its way.
    ///
    /// # Errors
    /// When its status cannot stand in the object.
    pub fn report(&self, report: &MountReport) -> Result<(), UnfitStatus> {
        let key = Key::new(&report.namespace, &report.name);
        let mut state = self.lock();
        if !state.fanout.answers(&key, &report.uid, &report.observed_resource_version) {
            log::debug!(client_mount:% = key; "drop a report on an earlier version");
            return Ok(());
        }
        let Some(object) = state.fanout.mount(&key) else { return Ok(()) };
        let status = fit(&report.status, &object)?;
        state.fanout.answered(&key, &status);
        if state.writes.report(&object, status, report.released) {
            self.wanted.notify_one();
        }
        Ok(())
    }

    /// Namespaces whose own agent refuses what it cannot take; None while that is unknown. In all others, objects that
    /// no node is told of are refused here.
    pub fn set_rabbits(&self, namespaces: Option<BTreeSet<String>>) {
        let mut state = self.lock();
        if state.rabbits != namespaces {
            state.rabbits = namespaces;
            self.refuse_all(&mut state);
        }
    }

    /// A ClientMount was made or changed.
    pub fn apply_mount(&self, object: MountObject) {
        let mut state = self.lock();
        let key = object.key.clone();
        let news = state.fanout.apply_mount(object);
        if news == News::Question {
            state.writes.wake(&key);
        }
        if news != News::Nothing {
            self.refuse(&mut state, &key);
            state.check_status(&key);
        }
    }

    /// The answer to a read or a write of a ClientMount that a watch told of; false when no watch knows it (any more).
    pub(crate) fn refresh_mount(&self, object: MountObject) -> bool {
        let key = object.key.clone();
        let known = self.lock().fanout.mount(&key);
        let Some(known) = known.filter(|known| known.version.uid == object.version.uid) else {
            return false;
        };
        if object.older_than(&known) {
            // What the watch told meanwhile was not looked at, as our own status was on its way.
            self.lock().check_status(&key);
        } else {
            self.apply_mount(object);
        }
        true
    }

    /// A ClientMount is no more.
    pub fn remove_mount(&self, key: &Key, uid: &str) {
        let mut state = self.lock();
        state.fanout.remove_mount(key, uid);
        state.writes.wake(key);
    }

    /// All ClientMounts, as a list answered.
    pub fn replace_mounts(&self, objects: Vec<MountObject>) {
        let mut state = self.lock();
        let keys: Vec<Key> = objects.iter().map(|object| object.key.clone()).collect();
        state.fanout.replace_mounts(objects);
        state.writes.wake_all();
        for key in &keys {
            self.refuse(&mut state, key);
            state.check_status(key);
        }
        self.judge_readiness(&mut state);
    }

    /// A profile was made or changed.
    pub fn apply_profile(&self, profile: ProfileObject) {
        self.lock().fanout.apply_profile(profile);
    }

    /// A profile is no more.
    pub fn remove_profile(&self, key: &Key) {
        self.lock().fanout.remove_profile(key);
    }

    /// All profiles, as a list answered.
    pub fn replace_profiles(&self, profiles: Vec<ProfileObject>) {
        let mut state = self.lock();
        state.fanout.replace_profiles(profiles);
        self.judge_readiness(&mut state);
    }

    /// The next object whose profile is to be read; waits for one.
    pub(crate) async fn take_ask(&self) -> Key {
        loop {
            if let Some(key) = self.lock().asks.waiting.pop_front() {
                return key;
            }
            self.asked.notified().await;
        }
    }

    /// The profile to read for a taken object; None ends the reader's work.
    pub(crate) fn unanswered(&self, key: &Key) -> Option<(Version, Key)> {
        let mut state = self.lock();
        let wanted = state.fanout.unanswered(key);
        if wanted.is_none() {
            state.asks.open.remove(key);
        }
        wanted
    }

    /// Takes the profile read for a version of an object, or why there is none.
    pub(crate) fn answer(&self, key: &Key, version: &Version, answer: ProfileAnswer) {
        self.lock().fanout.answer(key, version, answer);
    }

    /// Returns when a profile is asked for that somebody reads already.
    pub(crate) fn asked_again(&self) -> impl Future<Output = ()> + '_ {
        self.asked_again.notified()
    }

    /// The next object to write; waits for one.
    pub(crate) async fn take_write(&self) -> Key {
        loop {
            if let Some(key) = self.lock().writes.take() {
                return key;
            }
            self.wanted.notified().await;
        }
    }

    /// The next write of a taken object; None ends the writer's work.
    pub(crate) fn next_write(&self, key: &Key) -> Option<Write> {
        let mut state = self.lock();
        let object = state.fanout.mount(key);
        state.writes.next(key, object.as_deref())
    }

    /// A write was accepted.
    pub(crate) fn written(&self, key: &Key, write: &Write) {
        self.lock().writes.written(key, write);
    }

    /// A write was refused: it stays wanted, but no node waits for it.
    pub(crate) fn refused_write(&self, key: &Key, write: &Write) {
        if write.is_hold() {
            self.lock().fanout.cannot_hold(key);
        }
    }

    /// Returns when there is news of a taken object, or was since this was waited for last.
    pub(crate) async fn news(&self, key: &Key) {
        let bell = self.lock().writes.bell(key);
        if let Some(bell) = bell {
            bell.notified().await;
        }
    }

    /// A watch is broken; the log is told when that begins and when its reason changes.
    pub fn watch_fails(&self, kind: &str, trouble: &Trouble) {
        self.watches.failing(kind, trouble);
        let mut state = self.lock();
        state.failing.insert(kind.to_owned(), trouble.text().to_owned());
        self.judge_readiness(&mut state);
    }

    /// A watch stands.
    pub fn watch_works(&self, kind: &str) {
        self.watches.working(kind);
        let mut state = self.lock();
        state.failing.remove(kind);
        self.judge_readiness(&mut state);
    }

    /// Watches that do not work now, and why.
    pub fn failing(&self) -> Vec<(String, String)> {
        self.lock().failing.clone().into_iter().collect()
    }

    /// A read or write of a single object failed; whether that is to be said. An API that is away for a night must not
    /// fill the journal.
    pub(crate) fn is_news(&self, line: &str) -> bool {
        self.lock().logged.insert(line.to_owned())
    }

    /// One worked.
    pub(crate) fn works_again(&self) {
        self.lock().logged.clear();
    }

    fn refuse_all(&self, state: &mut State) {
        let keys: Vec<Key> = state.fanout.mounts().map(|object| object.key.clone()).collect();
        for key in keys {
            self.refuse(state, &key);
        }
    }

    /// Writes the refusal into an object that no node is told of.
    fn refuse(&self, state: &mut State, key: &Key) {
        let Some(object) = state.fanout.mount(key) else { return };
        let Some(why) = refusal(&object) else { return };
        let ours = state.rabbits.as_ref().is_some_and(|rabbits| !rabbits.contains(&key.namespace));
        if object.version.deleting || !ours {
            return;
        }
        if state.writes.report(&object, refused(&object, &why), false) {
            self.wanted.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nobody panicked while he changed the state: it may be half changed")
    }
}

#[cfg(test)]
mod tests;
