//! The queue of one session: the state of each object at the node, and the objects to send.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use api::NoProfile;
use controller::precedes;
use serde_json::Value;
use tokio::sync::Notify;

use super::NodeKind;
use crate::object::Version;

/// The last message to a node about one object, and the node's report on it.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) version: Version,
    /// The profile's resourceVersion, or the reason why there was no profile.
    pub(super) profile: Result<String, NoProfile>,
    /// The status that the node reported after this message; `None` before the report, or when the
    /// object is sent again.
    pub(super) reported: Option<Value>,
    /// Whether another client overwrote the reported status. If so, the object is sent again, and the node reports
    /// again.
    pub(super) overwritten: bool,
}

impl Sent {
    /// Returns whether this message has the same version and profile as `other`, and the node's
    /// report was not overwritten.
    pub(super) fn covers(&self, other: &Self) -> bool {
        !self.overwritten && self.version == other.version && self.profile == other.profile
    }
}

/// The objects that a session has sent, and the objects that it has to send.
#[derive(Debug)]
pub(super) struct NodeQueue {
    /// The session's number; a later session of the node has a higher number.
    pub(super) epoch: u64,
    pub(super) node_kind: NodeKind,
    /// Whether the session waits for its start; until then no message is sent.
    pub(super) is_waiting: bool,
    /// resourceVersion of the list with which the session started.
    since: String,
    /// The last message about each object, by the object's name.
    pub(super) sent: HashMap<String, Sent>,
    /// Names of objects that may have to be sent.
    pub(super) dirty: BTreeSet<String>,
    /// Names that existed when the session started and were not sent yet; the message `Synced` waits for these objects.
    pub(super) unsent: BTreeSet<String>,
    /// Whether the message `Synced` was sent.
    pub(super) synced: bool,
    /// Wakes the session when there may be a message to send.
    pub(super) notify: Arc<Notify>,
}

impl NodeQueue {
    pub(super) fn new(epoch: u64, node_kind: NodeKind) -> Self {
        Self {
            epoch,
            node_kind,
            is_waiting: node_kind == NodeKind::Compute,
            since: String::new(),
            sent: HashMap::new(),
            dirty: BTreeSet::new(),
            unsent: BTreeSet::new(),
            synced: false,
            notify: Arc::new(Notify::new()),
        }
    }

    /// Starts the session with the known objects, which include all objects of a list at `version`.
    pub(super) fn start_session(&mut self, names: BTreeSet<String>, version: &str) {
        self.is_waiting = false;
        version.clone_into(&mut self.since);
        self.dirty.clone_from(&names);
        self.unsent = names;
        self.notify.notify_one();
    }

    /// Returns whether an object was created and deleted before the session started: it is absent from the list with
    /// which the session started, but a watch that lags behind still delivers it.
    pub(super) fn predates_session(&self, name: &str, resource_version: &str) -> bool {
        let new = !self.sent.contains_key(name) && !self.unsent.contains(name);
        new && (resource_version == self.since || precedes(resource_version, &self.since))
    }

    /// Forgets the resourceVersion at which the session started: after a new list of all objects the watch
    /// delivers no older objects.
    pub(super) fn forget_start(&mut self) {
        self.since.clear();
    }

    /// Marks an object that may have to be sent.
    pub(super) fn mark_dirty(&mut self, name: &str) {
        if self.node_kind == NodeKind::Rabbit {
            return;
        }
        self.dirty.insert(name.to_owned());
        self.notify.notify_one();
    }
}
