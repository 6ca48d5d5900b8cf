//! Decides what to send to each node, and in which order.
//!
//! A node's queue holds names only; a message is built when the node is ready to read it. So a node always gets the
//! newest version, and a slow node costs only the memory for the names of its objects. An object is sent again only
//! when its [`Version`] or its profile changed. A new status or finalizer changes neither the [`Version`] nor the
//! profile, so the coordinator's own writes cause no messages. Exception: if a status differs from the node's report,
//! another client overwrote the status, and the object is sent once more.
//!
//! Nothing is sent before ClientMounts and profiles were listed once; if a later list fails, the known objects stay.
//! A session is opened when its node connects, and starts later: the coordinator first lists the node's objects, and
//! waits until its watch has delivered them. No message is sent before the start.

mod listing;
mod next;
mod node_queue;
mod profiles;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use api::NoProfile;
use controller::precedes;
use serde_json::Value;
use tokio::sync::Notify;

use crate::object::{Key, MountObject, ProfileObject};
use crate::pending::matches_report;
pub(crate) use listing::Listing;
pub(crate) use next::{Next, refusal};
use node_queue::{NodeQueue, Sent};
use profiles::Profiles;

/// The API's answer to a read of a profile.
pub(crate) type ProfileRead = Result<ProfileObject, NoProfile>;

/// The kind of a session's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A compute, which receives its ClientMounts.
    Compute,
    /// A rabbit, which watches the API itself and receives nothing.
    Rabbit,
}

/// The part of a ClientMount that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Neither a field that a node acts on, nor the status.
    Nothing,
    /// Only the status, which no node acts on.
    Status,
    /// A field that a node acts on.
    Spec,
}

/// A ClientMount, its profile, and the resourceVersion since which the ClientMount has its present [`Version`].
#[derive(Debug)]
struct Entry {
    object: Arc<MountObject>,
    /// The earliest resourceVersion seen with this [`Version`]: a report on an earlier resourceVersion is outdated.
    since: String,
    /// The API's answer to the read of the profile for this [`Version`]; `None` if the profile was not read.
    profile_read: Option<ProfileRead>,
}

/// All ClientMounts, the profiles they name, and the queues of the connected computes.
#[derive(Debug, Default)]
pub(crate) struct Fanout {
    mounts: HashMap<String, BTreeMap<String, Entry>>,
    profiles: Profiles,
    queues: HashMap<String, NodeQueue>,
    mounts_listed: bool,
}

impl Fanout {
    /// Starts the queue of a session; the returned `Notify` wakes it when [`Fanout::next`] may have something to do.
    pub(crate) fn open(&mut self, node: &str, epoch: u64, node_kind: NodeKind) -> Arc<Notify> {
        let queue = NodeQueue::new(epoch, node_kind);
        let notify = queue.notify.clone();
        if let Some(replaced) = self.queues.insert(node.to_owned(), queue) {
            replaced.notify.notify_one();
        }
        notify
    }

    /// Drops the queue of a session, unless a newer session replaced it.
    pub(crate) fn close(&mut self, node: &str, epoch: u64) {
        if self.serves(node, epoch) {
            self.queues.remove(node);
        }
    }

    /// Returns whether `epoch` is the number of the node's current session.
    pub(crate) fn serves(&self, node: &str, epoch: u64) -> bool {
        self.queues.get(node).is_some_and(|queue| queue.epoch == epoch)
    }

    /// Records that the API refused the finalizer or the status of an object: the object is not sent, and the message
    /// `Synced` does not wait for the object.
    pub(crate) fn write_refused(&mut self, key: &Key) {
        if let Some(queue) = self.queues.get_mut(&key.namespace) {
            queue.unsent.remove(&key.name);
            queue.notify.notify_one();
        }
    }

    pub(crate) fn close_all(&mut self) {
        for (_, queue) in self.queues.drain() {
            queue.notify.notify_one();
        }
    }

    /// Returns the latest version of a ClientMount.
    pub(crate) fn mount(&self, key: &Key) -> Option<Arc<MountObject>> {
        self.entry(key).map(|entry| entry.object.clone())
    }

    pub(crate) fn mounts(&self) -> impl Iterator<Item = &Arc<MountObject>> {
        self.mounts.values().flat_map(BTreeMap::values).map(|entry| &entry.object)
    }

    /// Stores the latest version of a ClientMount. Returns which part of the ClientMount changed.
    pub(crate) fn apply_mount(&mut self, object: MountObject) -> Change {
        let key = object.key.clone();
        let known = self.entry(&key);
        if known.is_some_and(|known| object.older_than(&known.object)) {
            return Change::Nothing;
        }
        let same = known.filter(|known| known.object.version == object.version);
        let since =
            same.map_or_else(|| object.resource_version.clone(), |known| known.since.clone());
        let change = match same {
            Some(known) if known.object.has_finalizer() != object.has_finalizer() => Change::Spec,
            Some(known) if known.object.says_unmounted() != object.says_unmounted() => Change::Spec,
            Some(known) if known.object.status != object.status => Change::Status,
            Some(_) => Change::Nothing,
            None => Change::Spec,
        };
        let profile_read = same.and_then(|known| known.profile_read.clone());
        self.index_profile(&key, Some(&object));
        let entry = Entry { object: Arc::new(object), since, profile_read };
        self.mounts.entry(key.namespace.clone()).or_default().insert(key.name.clone(), entry);
        if change == Change::Spec {
            self.mark_dirty(&key);
        }
        change
    }

    /// Removes a ClientMount that is gone. If a newer object of the same name is known already, it stays.
    pub(crate) fn remove_mount(&mut self, key: &Key, uid: &str) {
        if self.entry(key).is_none_or(|known| known.object.version.uid != uid) {
            return;
        }
        self.index_profile(key, None);
        if let Some(names) = self.mounts.get_mut(&key.namespace) {
            names.remove(&key.name);
            if names.is_empty() {
                self.mounts.remove(&key.namespace);
            }
        }
        self.mark_dirty(key);
    }

    /// Replaces all ClientMounts by a complete list: objects that are not in it are gone.
    pub(crate) fn replace_mounts(&mut self, objects: Vec<MountObject>) {
        let listed: BTreeSet<Key> = objects.iter().map(|object| object.key.clone()).collect();
        let vanished: Vec<_> =
            self.mounts().filter(|known| !listed.contains(&known.key)).cloned().collect();
        for object in vanished {
            self.remove_mount(&object.key, &object.version.uid);
        }
        for object in objects {
            self.apply_mount(object);
        }
        self.queues.values_mut().for_each(NodeQueue::forget_start);
        self.mounts_listed = true;
    }

    /// Returns whether a report on `resource_version` concerns the object's current [`Version`].
    pub(crate) fn is_current(&self, key: &Key, uid: &str, resource_version: &str) -> bool {
        self.entry(key).is_some_and(|entry| {
            entry.object.version.uid == uid && !precedes(resource_version, &entry.since)
        })
    }

    /// Returns whether ClientMounts and profiles were listed at least once.
    pub(crate) fn is_listed(&self) -> bool {
        self.mounts_listed && self.profiles.listed
    }

    /// Returns whether a node has a session here.
    pub(crate) fn is_connected(&self, node: &str) -> bool {
        self.queues.contains_key(node)
    }

    /// Returns whether session `epoch` has been sent all objects.
    pub(crate) fn is_synced(&self, node: &str, epoch: u64) -> bool {
        self.queues.get(node).is_some_and(|queue| queue.epoch == epoch && queue.synced)
    }

    /// Returns the ClientMounts of a node.
    pub(crate) fn mounts_of(&self, node: &str) -> impl Iterator<Item = &Arc<MountObject>> {
        self.mounts.get(node).into_iter().flat_map(BTreeMap::values).map(|entry| &entry.object)
    }

    /// Wakes a node's session.
    pub(crate) fn notify(&self, node: &str) {
        if let Some(queue) = self.queues.get(node) {
            queue.notify.notify_one();
        }
    }

    /// Records the status that the node reported for an object.
    pub(crate) fn record_report(&mut self, key: &Key, status: &Value) {
        if let Some(sent) = self.last_sent(key) {
            sent.reported = Some(status.clone());
        }
    }

    /// Sends the object to its node again if its status differs from the node's report.
    pub(crate) fn check_status(&mut self, key: &Key) {
        let Some(object) = self.mount(key) else { return };
        let Some(sent) = self.last_sent(key).filter(|sent| sent.version == object.version) else {
            return;
        };
        let is_as_reported = |reported: &Value| matches_report(object.status.as_ref(), reported);
        if sent.reported.take_if(|reported| !is_as_reported(reported)).is_some() {
            sent.overwritten = true;
            self.mark_dirty(key);
        }
    }

    /// Returns the last message that was sent about an object.
    fn last_sent(&mut self, key: &Key) -> Option<&mut Sent> {
        self.queues.get_mut(&key.namespace)?.sent.get_mut(&key.name)
    }

    fn entry(&self, key: &Key) -> Option<&Entry> {
        self.mounts.get(&key.namespace)?.get(&key.name)
    }

    fn entry_mut(&mut self, key: &Key) -> Option<&mut Entry> {
        self.mounts.get_mut(&key.namespace)?.get_mut(&key.name)
    }

    /// Marks an object that may have to be sent to its node.
    fn mark_dirty(&mut self, key: &Key) {
        if let Some(queue) = self.queues.get_mut(&key.namespace) {
            queue.mark_dirty(&key.name);
        }
    }
}

#[cfg(test)]
mod tests;
