//! Sessions that are told nothing yet, because what is known here may be older than what their node was told elsewhere.

use std::collections::BTreeSet;

use super::{Entry, Fanout};
use crate::object::{MountObject, precedes};

/// The ClientMounts of one node, as the API itself listed them.
#[derive(Debug)]
pub(crate) struct Listing {
    /// resourceVersion of the list.
    pub(crate) version: String,
    pub(crate) objects: Vec<MountObject>,
}

impl Fanout {
    /// The session of a node that waits for the API to be asked.
    pub(crate) fn newcomer(&self, node: &str) -> Option<u64> {
        self.queues.get(node).filter(|queue| queue.newcomer).map(|queue| queue.epoch)
    }

    /// The nodes of all such sessions.
    pub(crate) fn newcomers(&self) -> impl Iterator<Item = &String> {
        self.queues.iter().filter(|(_, queue)| queue.newcomer).map(|(node, _)| node)
    }

    /// Begins to tell a session, by a list that was asked for after it opened; false while less than that is known here.
    pub(crate) fn admit(&mut self, node: &str, epoch: u64, listing: &Listing) -> bool {
        if !self.knows_all_of(node, listing) {
            return false;
        }
        let names = self.names(node);
        if let Some(queue) = self.queues.get_mut(node).filter(|queue| queue.epoch == epoch) {
            queue.admit(names, &listing.version);
        }
        true
    }

    fn knows_all_of(&self, node: &str, listing: &Listing) -> bool {
        let known = self.mounts.get(node);
        let told = |listed: &MountObject| {
            let entry = known.and_then(|names| names.get(&listed.key.name));
            entry.is_some_and(|entry| is_no_older(entry, listed, &listing.version))
        };
        let listed: BTreeSet<_> = listing.objects.iter().map(|it| it.key.name.as_str()).collect();
        let outlived = known.into_iter().flatten().any(|(name, entry)| {
            !listed.contains(name.as_str())
                && !precedes(&listing.version, &entry.object.resource_version)
        });
        !outlived && listing.objects.iter().all(told)
    }
}

fn is_no_older(entry: &Entry, listed: &MountObject, list: &str) -> bool {
    let known = &entry.object;
    // A status that is on its way changes nothing of what the node is told.
    let same = known.version == listed.version && known.held() == listed.held();
    let of_one = known.version.uid == listed.version.uid;
    same || precedes(list, &known.resource_version) || (of_one && !known.older_than(listed))
}
