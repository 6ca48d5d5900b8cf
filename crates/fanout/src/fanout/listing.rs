//! Starts a session once the watch knows every object in a fresh list of the node's objects: another coordinator may
//! have sent the node newer versions than this coordinator's watch has delivered.

use std::collections::{BTreeMap, BTreeSet};

use controller::precedes;

use super::{Entry, Fanout};
use crate::object::MountObject;

/// The ClientMounts of one node in a list from the API.
#[derive(Debug)]
pub(crate) struct Listing {
    /// `metadata.resourceVersion` of the list.
    pub(crate) version: String,
    pub(crate) objects: Vec<MountObject>,
}

impl Fanout {
    /// Returns the session of a node if it waits for its start.
    pub(crate) fn waiting_session(&self, node: &str) -> Option<u64> {
        self.queues.get(node).filter(|queue| queue.is_waiting).map(|queue| queue.epoch)
    }

    /// Returns the nodes whose sessions wait for their start.
    pub(crate) fn waiting_sessions(&self) -> impl Iterator<Item = &String> {
        self.queues.iter().filter(|(_, queue)| queue.is_waiting).map(|(node, _)| node)
    }

    /// Starts a session with a list of the node's objects, which must have been requested after the session opened.
    /// Returns `false`, and does not start the session, while the watch has not delivered all objects of the list.
    pub(crate) fn start_session(&mut self, node: &str, epoch: u64, listing: &Listing) -> bool {
        if !self.is_listed() || !self.knows_all_of(node, listing) {
            return false;
        }
        let known = self.mounts.get(node).into_iter();
        let names = known.flat_map(BTreeMap::keys).cloned().collect();
        if let Some(queue) = self.queues.get_mut(node).filter(|queue| queue.epoch == epoch) {
            queue.start_session(names, &listing.version);
        }
        true
    }

    fn knows_all_of(&self, node: &str, listing: &Listing) -> bool {
        let known = self.mounts.get(node);
        let is_known = |listed: &MountObject| {
            let entry = known.and_then(|names| names.get(&listed.key.name));
            entry.is_some_and(|entry| is_no_older(entry, listed, &listing.version))
        };
        let listed: BTreeSet<_> =
            listing.objects.iter().map(|object| object.key.name.as_str()).collect();
        let outlived = known.into_iter().flatten().any(|(name, entry)| {
            !listed.contains(name.as_str())
                && !precedes(&listing.version, &entry.object.resource_version)
        });
        !outlived && listing.objects.iter().all(is_known)
    }
}

fn is_no_older(entry: &Entry, listed: &MountObject, list: &str) -> bool {
    let known = &entry.object;
    // The known object may be older if only its status differs: the node does not act on the status.
    let same = known.version == listed.version && known.has_finalizer() == listed.has_finalizer();
    let is_same_object = known.version.uid == listed.version.uid;
    same || precedes(list, &known.resource_version) || (is_same_object && !known.older_than(listed))
}
