//! Decides the next step for a node.

use api::NoProfile;
use proto::v1::{DesiredMount, Gone};

use super::node_queue::{NodeQueue, Sent};
use super::{Entry, Fanout, NodeKind};
use crate::object::{Key, MountObject, ProfileObject, Version};

/// The next step for a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    Desired(DesiredMount),
    Gone(Gone),
    /// Send the node the message that every existing object was sent.
    Synced,
    /// Add the finalizer to the object before it is sent.
    AddFinalizer(Key),
    /// Write a status that no longer says that everything is unmounted, before the node may mount.
    RetractUnmounted(Key),
    /// Read the profile that the object names before it is sent.
    ReadProfile(Key),
    /// Do nothing now: the session waits for its `Notify`.
    Idle,
    /// The session is over: a newer session replaced it, or the node disconnected.
    Ended,
}

impl Fanout {
    /// Returns the next step for session `epoch` of `node`.
    pub(crate) fn next(&mut self, node: &str, epoch: u64) -> Next {
        let Some(mut queue) = self.queues.remove(node) else { return Next::Ended };
        let next = if queue.epoch != epoch {
            Next::Ended
        } else if !queue.is_waiting && queue.node_kind == NodeKind::Compute {
            self.advance(node, &mut queue)
        } else {
            Next::Idle
        };
        self.queues.insert(node.to_owned(), queue);
        next
    }

    fn advance(&self, node: &str, queue: &mut NodeQueue) -> Next {
        while let Some(name) = queue.dirty.pop_first() {
            if let Some(next) = self.next_of(node, &name, queue) {
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

    /// Returns the next step for one object; `None` if its node is up to date.
    fn next_of(&self, node: &str, name: &str, queue: &mut NodeQueue) -> Option<Next> {
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
            return Some(Next::Gone(gone_message(node, name, sent.version)));
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
        let (desired, sent) = desired_message(entry?, profile);
        if queue.sent.get(name).is_some_and(|known| known.covers(&sent)) {
            return None;
        }
        queue.sent.insert(name.to_owned(), sent);
        queue.unsent.remove(name);
        Some(Next::Desired(desired))
    }

    /// Returns the profile of an object, or the reason why it has none; `None` if the profile must be read first.
    fn profile<'a>(&'a self, entry: &'a Entry) -> Option<Result<&'a ProfileObject, NoProfile>> {
        let key = match entry.object.profile() {
            Ok(key) => key,
            Err(no_label) => return Some(Err(NoProfile::Missing(no_label))),
        };
        let read = || entry.profile_read.as_ref().map(|read| read.as_ref().map_err(Clone::clone));
        self.profiles.get(&key).map(Ok).or_else(read)
    }

    /// Returns whether the profile of an object must be read before the object is sent.
    pub(crate) fn needs_profile(&self, key: &Key) -> bool {
        self.entry(key).is_some_and(|entry| self.profile(entry).is_none())
    }
}

/// Returns a text for the user if an object is sent to no node, because its `spec.node` differs from its Kubernetes
/// namespace. Returns `None` for an object with the finalizer: it is sent to the node of its Kubernetes namespace, so
/// that this node can unmount.
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

fn desired_message(
    entry: &Entry,
    profile: Result<&ProfileObject, NoProfile>,
) -> (DesiredMount, Sent) {
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
        profile_missing: profile.err().map(|why| why.text().to_owned()).unwrap_or_default(),
    };
    (desired, sent)
}

fn gone_message(node: &str, name: &str, version: Version) -> Gone {
    Gone { namespace: node.to_owned(), name: name.to_owned(), uid: version.uid }
}
