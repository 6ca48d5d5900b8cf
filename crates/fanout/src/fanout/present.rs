//! Which nodes are there, and what they know.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Fanout;
use crate::object::MountObject;

impl Fanout {
    /// Whether a node has a session here.
    pub(crate) fn is_there(&self, node: &str) -> bool {
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
    pub(crate) fn ring(&self, node: &str) {
        if let Some(queue) = self.queues.get(node) {
            queue.notify.notify_one();
        }
    }
}
