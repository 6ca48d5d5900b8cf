//! Decides what to send to each node, and in which order.
//!
//! A node's queue holds names only; a message is made when the node is ready to take it. So a node always gets the newest
//! version, and a slow node costs only the memory for the names of its objects. An object is sent again only when its
//! [`Version`] or its profile changed. A status or a finalizer changes neither, so the coordinator's own writes wake no node. If
//! a status differs from the one that the node reported, somebody overwrote it, and the object is sent once more.
//!
//! Nothing is sent before ClientMounts and profiles were listed once; if a later list fails, the known objects stay. A session
//! receives nothing before it starts, with a list of its node's objects that is younger than the session.

mod node_queue;
mod profiles;
mod session_start;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use proto::v1::{DesiredMount, Gone};
use serde_json::Value;
use tokio::sync::Notify;

use crate::object::{Key, MountObject, ProfileObject, Version, precedes};
use crate::pending::matches_report;
use node_queue::{NodeQueue, Sent};
use profiles::Profiles;
pub(crate) use profiles::{NoProfile, ProfileRead, missing as missing_profile};
pub(crate) use session_start::Listing;

/// The next thing to do for a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    Desired(DesiredMount),
    Gone(Gone),
    /// Every object that exists was sent.
    Synced,
    /// Add the finalizer to the object before it is sent.
    AddFinalizer(Key),
    /// Take back that the status says everything is unmounted, before a node mounts something of the object.
    RetractUnmounted(Key),
    /// Read the profile that the object names before it is sent.
    ReadProfile(Key),
    /// Nothing, until the queue is notified.
    Idle,
    /// The session is over: a newer one replaced it, or the node disconnected.
    Ended,
}

/// Which kind of node a session is with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// A compute, which receives its ClientMounts.
    Compute,
    /// A rabbit, which watches the API itself and receives nothing.
    Rabbit,
}

/// What changed in a ClientMount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing that a node acts on, nor the status.
    Nothing,
    /// Only the status.
    Status,
    /// Something that a node acts on.
    Spec,
}

/// One ClientMount, its profile, and since when it has its [`Version`].
#[derive(Debug)]
struct Entry {
    object: Arc<MountObject>,
    /// The earliest resourceVersion seen with this [`Version`]: a report on an earlier one is out of date.
    since: String,
    /// The profile as it was read for this [`Version`], if the watch does not know it.
    answer: Option<ProfileRead>,
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
    pub(crate) fn open(&mut self, node: &str, epoch: u64, audience: Audience) -> Arc<Notify> {
        let mut queue = NodeQueue::new(epoch, audience);
        if self.listed() && !queue.is_waiting {
            queue.seed(self.names(node));
        }
        let notify = queue.notify.clone();
        if let Some(replaced) = self.queues.insert(node.to_owned(), queue) {
            replaced.notify.notify_one();
        }
        notify
    }

    /// Drops the queue of a session, unless a newer one took over.
    pub(crate) fn close(&mut self, node: &str, epoch: u64) {
        if self.serves(node, epoch) {
            self.queues.remove(node);
        }
    }

    /// Whether `epoch` is the current session of `node`.
    pub(crate) fn serves(&self, node: &str, epoch: u64) -> bool {
        self.queues.get(node).is_some_and(|queue| queue.epoch == epoch)
    }

    /// The API refused the finalizer: the object is not sent, and Synced does not wait for it.
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

    /// A ClientMount as it is now.
    pub(crate) fn mount(&self, key: &Key) -> Option<Arc<MountObject>> {
        self.entry(key).map(|entry| entry.object.clone())
    }

    pub(crate) fn mounts(&self) -> impl Iterator<Item = &Arc<MountObject>> {
        self.mounts.values().flat_map(BTreeMap::values).map(|entry| &entry.object)
    }

    /// Takes in a ClientMount.
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
        let answer = same.and_then(|known| known.answer.clone());
        self.index_profile(&key, Some(&object));
        let entry = Entry { object: Arc::new(object), since, answer };
        self.mounts.entry(key.namespace.clone()).or_default().insert(key.name.clone(), entry);
        if change == Change::Spec {
            self.touch(&key);
        }
        change
    }

    /// Removes a ClientMount that is gone. A late deletion does not remove a newer object of the same name.
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
        self.touch(key);
    }

    /// Takes in a complete list of ClientMounts: objects that it lacks are gone.
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
        self.queues.values_mut().for_each(NodeQueue::relisted);
        let first = !self.listed();
        self.mounts_listed = true;
        self.seed_if_listed(first);
    }

    /// The profile to read for an object, with the version of the object that names it; `None` when the profile is known or was
    /// read for this version.
    pub(crate) fn profile_to_read(&self, key: &Key) -> Option<(Version, Key)> {
        let entry = self.entry(key)?;
        let profile = entry.object.profile().ok()?;
        let is_read = match &entry.answer {
            // The watch brings a missing profile when it appears.
            Some(Ok(_) | Err(NoProfile::Missing(_))) => true,
            Some(Err(NoProfile::Forbidden(_))) | None => false,
        };
        if is_read || self.profiles.get(&profile).is_some() {
            return None;
        }
        Some((entry.object.version.clone(), profile))
    }

    /// Takes in the profile that was read for a version of an object, unless the object has changed since.
    pub(crate) fn answer(&mut self, key: &Key, version: &Version, answer: ProfileRead) {
        let Some(entry) =
            self.mounts.get_mut(&key.namespace).and_then(|names| names.get_mut(&key.name))
        else {
            return;
        };
        if entry.object.version == *version && entry.answer.as_ref() != Some(&answer) {
            entry.answer = Some(answer);
            self.touch(key);
        }
    }

    /// Takes in a profile; the objects that name it are sent again.
    pub(crate) fn apply_profile(&mut self, profile: ProfileObject) {
        let key = profile.key.clone();
        if self.profiles.apply(profile) {
            self.touch_users(&key);
        }
    }

    /// Removes a profile that is gone.
    pub(crate) fn remove_profile(&mut self, key: &Key) {
        if self.profiles.remove(key) {
            self.touch_users(key);
        }
    }

    /// Takes in a complete list of profiles.
    pub(crate) fn replace_profiles(&mut self, profiles: Vec<ProfileObject>) {
        let first = !self.listed();
        for key in self.profiles.replace(profiles) {
            self.touch_users(&key);
        }
        self.seed_if_listed(first);
    }

    /// Whether a report on `resource_version` is about the object's current [`Version`].
    pub(crate) fn is_current(&self, key: &Key, uid: &str, resource_version: &str) -> bool {
        self.entry(key).is_some_and(|entry| {
            entry.object.version.uid == uid && !precedes(resource_version, &entry.since)
        })
    }

    /// What to do next for the session `epoch` of `node`.
    pub(crate) fn next(&mut self, node: &str, epoch: u64) -> Next {
        let listed = self.listed();
        let Some(mut queue) = self.queues.remove(node) else { return Next::Ended };
        let next = if queue.epoch != epoch {
            Next::Ended
        } else if listed && !queue.is_waiting && queue.audience == Audience::Compute {
            self.advance(node, &mut queue)
        } else {
            Next::Idle
        };
        self.queues.insert(node.to_owned(), queue);
        next
    }

    fn advance(&self, node: &str, queue: &mut NodeQueue) -> Next {
        while let Some(name) = queue.dirty.pop_first() {
            if let Some(next) = self.judge(node, &name, queue) {
                return next;
            }
            queue.unsent.remove(&name);
        }
        if !queue.synced && queue.unsent.is_empty() {
            queue.synced = true;
            return Next::Synced;
        }
        Next::Idle
    }

    /// What to do next about one object; `None` when its node already has everything.
    fn judge(&self, node: &str, name: &str, queue: &mut NodeQueue) -> Option<Next> {
        let entry = self.mounts.get(node).and_then(|names| names.get(name));
        let object = entry.map(|entry| &entry.object);
        let wanted = object
            .filter(|object| object.has_finalizer() || !object.version.deleting)
            .filter(|object| !queue.predates_session(name, &object.resource_version));
        let uid = wanted.map(|object| object.version.uid.as_str());
        if queue.sent.get(name).is_some_and(|sent| Some(sent.version.uid.as_str()) != uid) {
            if wanted.is_some() {
                queue.dirty.insert(name.to_owned());
            }
            let sent = queue.sent.remove(name)?;
            return Some(Next::Gone(gone(node, name, sent.version)));
        }
        let object = wanted?;
        if !object.has_finalizer() {
            if refusal(object).is_some() {
                return None;
            }
            return Some(Next::AddFinalizer(object.key.clone()));
        }
        if object.may_be_mounted() && object.says_unmounted() {
            return Some(Next::RetractUnmounted(object.key.clone()));
        }
        let Some(profile) = self.profile(entry?) else {
            return Some(Next::ReadProfile(object.key.clone()));
        };
        let (desired, sent) = desired(entry?, profile);
        if queue.sent.get(name).is_some_and(|known| known.covers(&sent)) {
            return None;
        }
        queue.sent.insert(name.to_owned(), sent);
        queue.unsent.remove(name);
        Some(Next::Desired(desired))
    }

    /// The profile of an object, or why it has none; `None` when the profile must be read first.
    fn profile<'a>(&'a self, entry: &'a Entry) -> Option<Result<&'a ProfileObject, NoProfile>> {
        let key = match entry.object.profile() {
            Ok(key) => key,
            Err(unnamed) => return Some(Err(NoProfile::Missing(unnamed))),
        };
        let answered = || entry.answer.as_ref().map(|answer| answer.as_ref().map_err(Clone::clone));
        self.profiles.get(&key).map(Ok).or_else(answered)
    }

    /// Whether the profile of an object must be read before the object is sent.
    pub(crate) fn needs_profile(&self, key: &Key) -> bool {
        self.entry(key).is_some_and(|entry| self.profile(entry).is_none())
    }

    /// Whether ClientMounts and profiles were listed.
    pub(crate) fn listed(&self) -> bool {
        self.mounts_listed && self.profiles.listed
    }

    fn seed_if_listed(&mut self, first: bool) {
        if !(first && self.listed()) {
            return;
        }
        for (node, queue) in self.queues.iter_mut().filter(|(_, queue)| !queue.is_waiting) {
            queue.seed(names(&self.mounts, node));
        }
    }

    fn names(&self, node: &str) -> BTreeSet<String> {
        names(&self.mounts, node)
    }

    /// Whether a node has a session here.
    pub(crate) fn is_connected(&self, node: &str) -> bool {
        self.queues.contains_key(node)
    }

    /// Whether the session `epoch` has been sent everything that exists.
    pub(crate) fn is_synced(&self, node: &str, epoch: u64) -> bool {
        self.queues.get(node).is_some_and(|queue| queue.epoch == epoch && queue.synced)
    }

    /// A node's ClientMounts.
    pub(crate) fn mounts_of(&self, node: &str) -> impl Iterator<Item = &Arc<MountObject>> {
        self.mounts.get(node).into_iter().flat_map(BTreeMap::values).map(|entry| &entry.object)
    }

    /// Wakes a node's session.
    pub(crate) fn notify(&self, node: &str) {
        if let Some(queue) = self.queues.get(node) {
            queue.notify.notify_one();
        }
    }

    /// The node reported this status of an object.
    pub(crate) fn reported(&mut self, key: &Key, status: &Value) {
        if let Some(sent) = self.sent(key) {
            sent.reported = Some(status.clone());
        }
    }

    /// Sends the object to its node again when its status differs from the one that the node reported.
    pub(crate) fn check_status(&mut self, key: &Key) {
        let Some(object) = self.mount(key) else { return };
        let Some(sent) = self.sent(key).filter(|sent| sent.version == object.version) else {
            return;
        };
        let is_as_reported = |reported: &Value| matches_report(object.status.as_ref(), reported);
        if sent.reported.take_if(|reported| !is_as_reported(reported)).is_some() {
            sent.overwritten = true;
            self.touch(key);
        }
    }

    fn sent(&mut self, key: &Key) -> Option<&mut Sent> {
        self.queues.get_mut(&key.namespace)?.sent.get_mut(&key.name)
    }

    fn entry(&self, key: &Key) -> Option<&Entry> {
        self.mounts.get(&key.namespace)?.get(&key.name)
    }

    fn touch(&mut self, key: &Key) {
        if let Some(queue) = self.queues.get_mut(&key.namespace) {
            queue.touch(&key.name);
        }
    }

    /// Wakes the objects that name a profile, and forgets what was read of it: the watch knows better now.
    fn touch_users(&mut self, profile: &Key) {
        for user in self.profiles.users(profile) {
            let names = self.mounts.get_mut(&user.namespace);
            if let Some(entry) = names.and_then(|names| names.get_mut(&user.name)) {
                entry.answer = None;
            }
            self.touch(&user);
        }
    }

    fn index_profile(&mut self, key: &Key, object: Option<&MountObject>) {
        let before = self.entry(key).and_then(|entry| entry.object.profile().ok());
        let after = object.and_then(|object| object.profile().ok());
        self.profiles.index(key, before, after);
    }
}

fn names(mounts: &HashMap<String, BTreeMap<String, Entry>>, node: &str) -> BTreeSet<String> {
    mounts.get(node).into_iter().flat_map(BTreeMap::keys).cloned().collect()
}

/// Why an object is sent to no node, as a text for the user: its `spec.node` names another node than its namespace. An object
/// with the finalizer is sent all the same, so that its node can unmount.
pub(crate) fn refusal(object: &MountObject) -> Option<String> {
    let Key { namespace, name } = &object.key;
    (object.node != *namespace && !object.has_finalizer()).then(|| {
        format!(
            "ClientMount {name} is in namespace {namespace}, but spec.node is {:?}: a ClientMount must be in the \
             namespace of the node that mounts it",
            object.node
        )
    })
}

fn desired(entry: &Entry, profile: Result<&ProfileObject, NoProfile>) -> (DesiredMount, Sent) {
    let object = &entry.object;
    let sent = Sent {
        version: object.version.clone(),
        profile: profile
            .as_ref()
            .map(|profile| profile.resource_version.clone())
            .map_err(Clone::clone),
        reported: None,
        overwritten: false,
    };
    let desired = DesiredMount {
        namespace: object.key.namespace.clone(),
        name: object.key.name.clone(),
        uid: object.version.uid.clone(),
        resource_version: object.resource_version.clone(),
        client_mount: object.json.clone(),
        profile: profile.as_ref().map(|profile| profile.json.clone()).unwrap_or_default(),
        profile_unread: matches!(profile, Err(NoProfile::Forbidden(_))),
        profile_missing: profile.err().map(NoProfile::into_text).unwrap_or_default(),
    };
    (desired, sent)
}

fn gone(node: &str, name: &str, version: Version) -> Gone {
    Gone { namespace: node.to_owned(), name: name.to_owned(), uid: version.uid }
}

#[cfg(test)]
mod tests;
