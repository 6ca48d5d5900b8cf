//! Removes the finalizer from ClientMounts of computes whose agent does not run. Also retracts the status "unmounted",
//! that is, replaces it by another status, before a compute mounts again.
//!
//! A compute's agent may exit after the last script of a job, before the job's ClientMounts are deleted. If the status
//! says that everything is unmounted, the coordinator removes the finalizer in the agent's place. It does so only for
//! nodes that the SystemConfiguration calls computes, because only there the status is certain to be true: it is
//! retracted before the compute mounts again. The status of a rabbit's ClientMount is not retracted, so it may still
//! say "unmounted" while the rabbit has mounted. See
//! [`MountObject::is_provably_unmounted`](crate::object::MountObject).

use api::ClientMountStatus;
use serde_json::Value;

use super::{Exchange, State};
use crate::object::Key;

impl Exchange {
    /// Removes the finalizer of a deleted and unmounted object, if its node is a compute without a session here. If
    /// the node has a session at another coordinator, that coordinator removes the finalizer.
    pub(super) fn release_disconnected(&self, state: &mut State, key: &Key) {
        let node = &key.namespace;
        let Some(nodes) = &state.nodes else { return };
        if nodes.rabbits.contains(node) || state.fanout.is_connected(node) {
            return;
        }
        let Some(object) = state.fanout.mount(key).filter(|object| object.is_provably_unmounted())
        else {
            return;
        };
        if !nodes.computes.contains(node) {
            log::warn!(
                "ClientMount {key} is deleted and unmounted, but its finalizer stays: the SystemConfiguration names no compute {node}; add {node} there, or start its agent"
            );
            return;
        }
        let Some(status) = object.status.clone() else { return };
        if state.writes.report(&object, status, true) {
            log::info!(client_mount:% = key; "remove the finalizer of a deleted ClientMount that its node has unmounted");
            self.write_requested.notify_one();
        }
    }

    /// Requests the write of a status that no longer says that everything is unmounted. The object is sent to its
    /// node only after this write.
    pub(super) fn retract_unmounted(&self, state: &mut State, key: &Key) {
        let Some(object) = state.fanout.mount(key) else { return };
        let status = serde_json::to_value(ClientMountStatus::for_mounting(object.mounts));
        if state.writes.report(&object, status.unwrap_or(Value::Null), false) {
            self.write_requested.notify_one();
        }
    }
}
