//! The one place where what is known meets: objects from the watches, sessions from the links, writes to the API.
//!
//! Every method takes one lock, decides by the pure parts, and returns; nothing waits inside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use api::SystemConfiguration;
use proto::v1::{self, Health, Hello, ListNodesResponse, MountReport};
use thiserror::Error;
use tokio::sync::Notify;

use crate::fanout::{Audience, Fanout, Next, refusal};
use crate::object::{Key, MountObject, ProfileObject};
use crate::roster::{RejectedHello, Roster};
use crate::status::{UnfitStatus, Write, Writes, fit, refused};

/// Shared by all tasks of the coordinator.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    state: Mutex<State>,
    /// Rings when an object waits for a writer.
    wished: Notify,
}

#[derive(Debug, Default)]
struct State {
    roster: Roster,
    fanout: Fanout,
    writes: Writes,
    /// Watches that do not work now, and why.
    failing: BTreeMap<&'static str, String>,
    stopping: bool,
}

/// A node's session, as its link holds it.
#[derive(Debug)]
pub(crate) struct Session {
    pub node: String,
    pub epoch: u64,
    /// Rings when [`Hub::next`] may have something to say.
    pub bell: Arc<Notify>,
}

/// Why a session is over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// By a newer agent of this node; its boot.
    Superseded {
        boot: String,
    },
    Stopping,
}

/// A report that is not taken.
#[derive(Debug, Error)]
pub(crate) enum RejectedReport {
    #[error("a newer session of node {node} is open")]
    OldSession { node: String },
    #[error("node {node} reported on ClientMount {key}, which is not in its namespace")]
    Foreign { node: String, key: Key },
    #[error(
        "node {node} is a rabbit, which writes the status of its ClientMounts itself, but reported on {key}"
    )]
    FromRabbit { node: String, key: Key },
    #[error("report of node {node} on ClientMount {key}")]
    Unfit {
        node: String,
        key: Key,
        #[source]
        source: UnfitStatus,
    },
}

impl Hub {
    /// Opens a session for a node.
    ///
    /// # Errors
    /// When another agent has the better claim to the name.
    pub(crate) fn hello(&self, hello: Hello) -> Result<Session, RejectedHello> {
        let mut state = self.lock();
        let node = hello.node.clone();
        let audience =
            if hello.role() == v1::Role::Rabbit { Audience::Rabbit } else { Audience::Compute };
        let epoch = state.roster.hello(hello, now())?;
        let bell = state.fanout.open(&node, epoch, audience);
        if state.stopping {
            state.fanout.close_all();
        }
        Ok(Session { node, epoch, bell })
    }

    /// Closes a session.
    pub(crate) fn bye(&self, session: &Session) {
        let mut state = self.lock();
        state.roster.bye(&session.node, session.epoch, now());
        state.fanout.close(&session.node, session.epoch);
    }

    /// What the session has to tell its node; None until the bell rings.
    ///
    /// # Errors
    /// When the session is over.
    pub(crate) fn next(
        &self,
        session: &Session,
    ) -> Result<Option<v1::to_node::Message>, SessionEnd> {
        use v1::to_node::Message;
        let mut state = self.lock();
        loop {
            match state.fanout.next(&session.node, session.epoch) {
                Next::Desired(desired) => return Ok(Some(Message::Desired(desired))),
                Next::Gone(gone) => return Ok(Some(Message::Gone(gone))),
                Next::Synced => return Ok(Some(Message::Synced(v1::Synced {}))),
                Next::Idle => return Ok(None),
                Next::Ended => return Err(state.end(session)),
                Next::Hold(key) => {
                    if state.writes.hold(&key) {
                        self.wished.notify_one();
                    }
                }
            }
        }
    }

    /// Why the session is over, once it is.
    pub(crate) fn over(&self, session: &Session) -> Option<SessionEnd> {
        let state = self.lock();
        (!state.fanout.serves(&session.node, session.epoch)).then(|| state.end(session))
    }

    /// Takes a node's report; one on an earlier version of the object is dropped, as a newer answer is on its way.
    ///
    /// # Errors
    /// When the session may not report this.
    pub(crate) fn report(
        &self,
        session: &Session,
        report: &MountReport,
    ) -> Result<(), RejectedReport> {
        let node = &session.node;
        let key = Key::new(&report.namespace, &report.name);
        let mut state = self.lock();
        if !state.roster.is_newest(node, session.epoch) {
            return Err(RejectedReport::OldSession { node: node.clone() });
        }
        if key.namespace != *node {
            return Err(RejectedReport::Foreign { node: node.clone(), key });
        }
        if state.roster.is_rabbit(node) {
            return Err(RejectedReport::FromRabbit { node: node.clone(), key });
        }
        if !state.fanout.answers(&key, &report.uid, &report.observed_resource_version) {
            log::debug!(node = node.as_str(), client_mount:% = key; "drop a report on an earlier version");
            return Ok(());
        }
        let Some(object) = state.fanout.mount(&key) else { return Ok(()) };
        let status = fit(&report.status, &object).map_err(|source| RejectedReport::Unfit {
            node: node.clone(),
            key: key.clone(),
            source,
        })?;
        if state.writes.report(&key, status, report.released) {
            self.wished.notify_one();
        }
        Ok(())
    }

    /// Takes a node's word on its health.
    pub(crate) fn health(&self, session: &Session, health: Health) {
        self.lock().roster.health(&session.node, session.epoch, health);
    }

    /// A ClientMount was made or changed.
    pub(crate) fn apply_mount(&self, object: MountObject) {
        let mut state = self.lock();
        let key = object.key.clone();
        if state.fanout.apply_mount(object) {
            self.refuse(&mut state, &key);
        }
    }

    /// The answer to a read or a write of a ClientMount that a watch told of; false when no watch knows it (any more).
    pub(crate) fn refresh_mount(&self, object: MountObject) -> bool {
        let known = self.lock().fanout.mount(&object.key);
        if known.is_none_or(|known| known.version.uid != object.version.uid) {
            return false;
        }
        self.apply_mount(object);
        true
    }

    /// A ClientMount is no more.
    pub(crate) fn remove_mount(&self, key: &Key, uid: &str) {
        self.lock().fanout.remove_mount(key, uid);
    }

    /// All ClientMounts, as a list answered.
    pub(crate) fn replace_mounts(&self, objects: Vec<MountObject>) {
        let mut state = self.lock();
        state.fanout.replace_mounts(objects);
        self.refuse_all(&mut state);
    }

    /// A profile was made or changed.
    pub(crate) fn apply_profile(&self, profile: ProfileObject) {
        self.lock().fanout.apply_profile(profile);
    }

    /// A profile is no more.
    pub(crate) fn remove_profile(&self, key: &Key) {
        self.lock().fanout.remove_profile(key);
    }

    /// All profiles, as a list answered.
    pub(crate) fn replace_profiles(&self, profiles: Vec<ProfileObject>) {
        self.lock().fanout.replace_profiles(profiles);
    }

    /// The machine's layout; returns the names of its nodes.
    pub(crate) fn configure(
        &self,
        configuration: Option<&SystemConfiguration>,
    ) -> BTreeSet<String> {
        let mut state = self.lock();
        let Some(configuration) = configuration else {
            state.roster.forget_configuration();
            return BTreeSet::new();
        };
        let names = state.roster.configure(configuration);
        self.refuse_all(&mut state);
        names
    }

    /// A watch works (`None`) or does not; whether that is news.
    pub(crate) fn watch_state(&self, kind: &'static str, failure: Option<String>) -> bool {
        let mut state = self.lock();
        match failure {
            Some(failure) => state.failing.insert(kind, failure).is_none(),
            None => state.failing.remove(kind).is_some(),
        }
    }

    /// Every node, and what could not be looked up.
    pub(crate) fn nodes(&self) -> ListNodesResponse {
        let state = self.lock();
        let failing = state
            .failing
            .iter()
            .map(|(kind, failure)| format!("{kind} cannot be watched: {failure}"));
        let gaps = state.roster.gap().map(str::to_owned).into_iter().chain(failing).collect();
        ListNodesResponse { nodes: state.roster.records(), gaps }
    }

    /// The next object to write; waits for one.
    pub(crate) async fn take_write(&self) -> Key {
        loop {
            if let Some(key) = self.lock().writes.take() {
                return key;
            }
            self.wished.notified().await;
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

    /// A write was refused, and would be again: nothing is written before there is news of the object.
    pub(crate) fn refused_write(&self, key: &Key, write: &Write) {
        let mut state = self.lock();
        state.writes.abandon(key);
        if write.is_hold() {
            state.fanout.cannot_hold(key);
        }
    }

    /// A taken object is not to be written any more.
    pub(crate) fn abandon_write(&self, key: &Key) {
        self.lock().writes.abandon(key);
    }

    /// Ends all sessions, now and from now on.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        state.fanout.close_all();
    }

    fn refuse_all(&self, state: &mut State) {
        let keys: Vec<Key> = state.fanout.mounts().map(|object| object.key.clone()).collect();
        for key in keys {
            self.refuse(state, &key);
        }
    }

    /// Writes the refusal into an object that no node is told of. A rabbit refuses its own; while the machine's layout is
    /// unknown, who is a rabbit is unknown too.
    fn refuse(&self, state: &mut State, key: &Key) {
        let Some(object) = state.fanout.mount(key) else { return };
        let Some(why) = refusal(&object) else { return };
        if object.version.deleting
            || state.roster.place(&key.namespace).is_none()
            || state.roster.is_rabbit(&key.namespace)
        {
            return;
        }
        if state.writes.report(key, refused(&object, &why), false) {
            self.wished.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn end(&self, session: &Session) -> SessionEnd {
        if self.roster.is_newest(&session.node, session.epoch) {
            return SessionEnd::Stopping;
        }
        SessionEnd::Superseded {
            boot: self.roster.boot(&session.node).unwrap_or_default().to_owned(),
        }
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(started_at: u64) -> Hello {
        Hello {
            node: "n1".to_owned(),
            role: v1::Role::Compute.into(),
            boot_id: "b".to_owned(),
            started_at,
            ..Hello::default()
        }
    }

    #[test]
    fn a_session_is_over_for_a_node_that_takes_nothing() {
        let hub = Hub::default();
        let first = hub.hello(hello(1)).unwrap();
        assert_eq!(hub.over(&first), None);
        let second = hub.hello(hello(2)).unwrap();
        assert_eq!(hub.over(&first), Some(SessionEnd::Superseded { boot: "b".to_owned() }));
        assert_eq!(hub.over(&second), None);
        hub.stop();
        assert_eq!(hub.over(&second), Some(SessionEnd::Stopping));
    }
}
