//! What each node is to be told, and in which order.
//!
//! A node's queue holds names only; what is told is made when the node is ready to take it. So the newest version of each
//! object wins, and a slow node costs the names of its own objects and nothing more. An object is told again only when
//! its [`Version`] or its profile changed, which a status or a finalizer does not do: own writes wake nobody. A status that
//! says something else than the node reported was written by somebody else, and the node is asked once more.
//!
//! Nothing is told before both lists, mounts and profiles, were read once; a list that fails later leaves what is known.
//! Nor is a session told anything before it is admitted: by a list of its node's objects that is younger than the session.

mod answers;
mod newcomers;
mod node_queue;
mod profiles;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use proto::v1::{DesiredMount, Gone};
use tokio::sync::Notify;

use crate::object::{Key, MountObject, ProfileObject, Version, precedes};
pub(crate) use newcomers::Listing;
use node_queue::{NodeQueue, Told};
use profiles::Profiles;
pub(crate) use profiles::{Lack, ProfileAnswer, missing as missing_profile};

/// The next thing to do for a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    Desired(DesiredMount),
    Gone(Gone),
    /// Everything that exists has been told.
    Synced,
    /// The object must carry the node's finalizer before the node is told.
    Hold(Key),
    /// The profile that the object names must be read before the node is told.
    Ask(Key),
    /// Nothing, until the queue's bell rings.
    Idle,
    /// A newer session took over, or the node left.
    Ended,
}

/// Who a session is with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// A compute: it is told what to mount.
    Compute,
    /// A rabbit: it watches the API itself, and is told nothing.
    Rabbit,
}

/// What another reading of a ClientMount brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Nothing that matters here.
    Nothing,
    /// It asks what it asked, but its status is another.
    Status,
    /// It asks something new.
    Question,
}

/// One ClientMount and since when it asks what it asks.
#[derive(Debug)]
struct Entry {
    object: Arc<MountObject>,
    /// The earliest resourceVersion seen with this [`Version`]: a report on an earlier one answers another question.
    since: String,
    /// What the API answered for this [`Version`] about a profile that no watch knows.
    answer: Option<ProfileAnswer>,
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
    /// Starts the queue of a session; the bell rings whenever [`Fanout::next`] may have something to say. A rabbit watches
    /// the API itself and is told nothing.
    pub(crate) fn open(&mut self, node: &str, epoch: u64, audience: Audience) -> Arc<Notify> {
        let mut queue = NodeQueue::new(epoch, audience);
        if self.listed() && !queue.newcomer {
            queue.seed(self.names(node));
        }
        let bell = queue.bell.clone();
        if let Some(replaced) = self.queues.insert(node.to_owned(), queue) {
            replaced.bell.notify_one();
        }
        bell
    }

    /// Drops the queue of a session, unless a newer one took over.
    pub(crate) fn close(&mut self, node: &str, epoch: u64) {
        if self.serves(node, epoch) {
            self.queues.remove(node);
        }
    }

    /// Whether the session `epoch` is the one that `node` is served by.
    pub(crate) fn serves(&self, node: &str, epoch: u64) -> bool {
        self.queues.get(node).is_some_and(|queue| queue.epoch == epoch)
    }

    /// The API does not take the finalizer: the node is not told of this object before it does, and does not wait for it.
    pub(crate) fn cannot_hold(&mut self, key: &Key) {
        if let Some(queue) = self.queues.get_mut(&key.namespace) {
            queue.untold.remove(&key.name);
            queue.bell.notify_one();
        }
    }

    /// Ends all sessions.
    pub(crate) fn close_all(&mut self) {
        for (_, queue) in self.queues.drain() {
            queue.bell.notify_one();
        }
    }

    /// A ClientMount as it is now.
    pub(crate) fn mount(&self, key: &Key) -> Option<Arc<MountObject>> {
        self.entry(key).map(|entry| entry.object.clone())
    }

    /// Every ClientMount.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = &Arc<MountObject>> {
        self.mounts.values().flat_map(BTreeMap::values).map(|entry| &entry.object)
    }

    /// Takes in a ClientMount.
    pub(crate) fn apply_mount(&mut self, object: MountObject) -> News {
        let key = object.key.clone();
        let known = self.entry(&key);
        if known.is_some_and(|known| object.older_than(&known.object)) {
            return News::Nothing;
        }
        let same = known.filter(|known| known.object.version == object.version);
        let since =
            same.map_or_else(|| object.resource_version.clone(), |known| known.since.clone());
        let news = match same {
            Some(known) if known.object.held() != object.held() => News::Question,
            Some(known) if known.object.status != object.status => News::Status,
            Some(_) => News::Nothing,
            None => News::Question,
        };
        let answer = same.and_then(|known| known.answer.clone());
        self.index_profile(&key, Some(&object));
        let entry = Entry { object: Arc::new(object), since, answer };
        self.mounts.entry(key.namespace.clone()).or_default().insert(key.name.clone(), entry);
        if news == News::Question {
            self.touch(&key);
        }
        news
    }

    /// Takes out a ClientMount that is no more. A deletion seen late does not take out the object of that name made since.
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

    /// Takes in a complete list of ClientMounts: what is not in it is no more.
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

    /// The profile to read for an object, with the version of the object that names it; None when nothing is to be read,
    /// or when what was read is there and the object did not change since.
    pub(crate) fn unanswered(&self, key: &Key) -> Option<(Version, Key)> {
        let entry = self.entry(key)?;
        let profile = entry.object.profile().ok()?;
        let settled = match &entry.answer {
            // The watch tells when one that is missing appears.
            Some(Ok(_) | Err(Lack::Missing(_))) => true,
            Some(Err(Lack::Unread(_))) | None => false,
        };
        if settled || self.profiles.get(&profile).is_some() {
            return None;
        }
        Some((entry.object.version.clone(), profile))
    }

    /// Takes in the profile that was read for a version of an object; of an earlier version it is not taken.
    pub(crate) fn answer(&mut self, key: &Key, version: &Version, answer: ProfileAnswer) {
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

    /// Takes in a profile; the mounts that name it are told again.
    pub(crate) fn apply_profile(&mut self, profile: ProfileObject) {
        let key = profile.key.clone();
        if self.profiles.apply(profile) {
            self.touch_users(&key);
        }
    }

    /// Takes out a profile that is no more.
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

    /// Whether a report on `resource_version` answers what the object asks now.
    pub(crate) fn answers(&self, key: &Key, uid: &str, resource_version: &str) -> bool {
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
        } else if listed && !queue.newcomer && queue.audience == Audience::Compute {
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
            queue.untold.remove(&name);
        }
        if !queue.synced && queue.untold.is_empty() {
            queue.synced = true;
            return Next::Synced;
        }
        Next::Idle
    }

    /// What the node must hear about one of its objects; None when it knows all there is to know.
    fn judge(&self, node: &str, name: &str, queue: &mut NodeQueue) -> Option<Next> {
        let entry = self.mounts.get(node).and_then(|names| names.get(name));
        let object = entry.map(|entry| &entry.object);
        let wanted = object
            .filter(|object| object.held() || !object.version.deleting)
            .filter(|object| !queue.is_history(name, &object.resource_version));
        let uid = wanted.map(|object| object.version.uid.as_str());
        if queue.told.get(name).is_some_and(|told| Some(told.version.uid.as_str()) != uid) {
            if wanted.is_some() {
                queue.dirty.insert(name.to_owned());
            }
            let told = queue.told.remove(name)?;
            return Some(Next::Gone(gone(node, name, told.version)));
        }
        let object = wanted?;
        if !object.held() {
            if refusal(object).is_some() {
                return None;
            }
            return Some(Next::Hold(object.key.clone()));
        }
        let Some(profile) = self.profile(entry?) else {
            return Some(Next::Ask(object.key.clone()));
        };
        let (desired, told) = desired(entry?, profile);
        if queue.told.get(name).is_some_and(|known| known.covers(&told)) {
            return None;
        }
        queue.told.insert(name.to_owned(), told);
        queue.untold.remove(name);
        Some(Next::Desired(desired))
    }

    /// The profile of an object, or why it has none; None when the API must be asked.
    fn profile<'a>(&'a self, entry: &'a Entry) -> Option<Result<&'a ProfileObject, Lack>> {
        let key = match entry.object.profile() {
            Ok(key) => key,
            Err(unnamed) => return Some(Err(Lack::Missing(unnamed))),
        };
        let answered = || entry.answer.as_ref().map(|answer| answer.as_ref().map_err(Clone::clone));
        self.profiles.get(&key).map(Ok).or_else(answered)
    }

    /// Whether the API must be asked for the profile of an object before a node is told of it.
    pub(crate) fn lacks_profile(&self, key: &Key) -> bool {
        self.entry(key).is_some_and(|entry| self.profile(entry).is_none())
    }

    /// Whether both lists were read.
    pub(crate) fn listed(&self) -> bool {
        self.mounts_listed && self.profiles.listed
    }

    fn seed_if_listed(&mut self, first: bool) {
        if !(first && self.listed()) {
            return;
        }
        for (node, queue) in self.queues.iter_mut().filter(|(_, queue)| !queue.newcomer) {
            let names = self
                .mounts
                .get(node)
                .map(|names| names.keys().cloned().collect())
                .unwrap_or_default();
            queue.seed(names);
        }
    }

    fn names(&self, node: &str) -> BTreeSet<String> {
        self.mounts.get(node).map(|names| names.keys().cloned().collect()).unwrap_or_default()
    }

    fn entry(&self, key: &Key) -> Option<&Entry> {
        self.mounts.get(&key.namespace)?.get(&key.name)
    }

    fn touch(&mut self, key: &Key) {
        if let Some(queue) = self.queues.get_mut(&key.namespace) {
            queue.touch(&key.name);
        }
    }

    /// What was answered about a profile is no news once the watch tells of it.
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

/// Why no node is told of this object, in words for the user: the namespace says which node acts on it, and the spec
/// names another. An object that a node already holds is told all the same, so that the node can clean up.
pub(crate) fn refusal(object: &MountObject) -> Option<String> {
    let Key { namespace, name } = &object.key;
    (object.node != *namespace && !object.held()).then(|| {
        format!(
            "ClientMount {name} is in namespace {namespace}, but spec.node is {:?}: a ClientMount must be in the \
             namespace of the node that mounts it",
            object.node
        )
    })
}

fn desired(entry: &Entry, profile: Result<&ProfileObject, Lack>) -> (DesiredMount, Told) {
    let object = &entry.object;
    let told = Told {
        version: object.version.clone(),
        profile: profile
            .as_ref()
            .map(|profile| profile.resource_version.clone())
            .map_err(Clone::clone),
        answer: None,
        contradicted: false,
    };
    let desired = DesiredMount {
        namespace: object.key.namespace.clone(),
        name: object.key.name.clone(),
        uid: object.version.uid.clone(),
        resource_version: object.resource_version.clone(),
        client_mount: object.json.clone(),
        profile: profile.as_ref().map(|profile| profile.json.clone()).unwrap_or_default(),
        profile_unread: matches!(profile, Err(Lack::Unread(_))),
        profile_missing: profile.err().map(Lack::into_text).unwrap_or_default(),
    };
    (desired, told)
}

fn gone(node: &str, name: &str, version: Version) -> Gone {
    Gone { namespace: node.to_owned(), name: name.to_owned(), uid: version.uid }
}

#[cfg(test)]
mod tests;
