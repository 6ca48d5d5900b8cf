//! ClientMounts of computes whose agent does not run, and the status before a node mounts again.
//!
//! After the last script of a job has run, its node may have no agent when somebody deletes the job's ClientMounts. If the status
//! says that everything is unmounted, the coordinator removes the finalizer itself. It does so only for nodes that the system's
//! layout calls computes: a rabbit's agent does not take the statement back before it mounts again.
//! [`MountObject::is_provably_unmounted`](crate::object::MountObject) says why that status is proof.

use api::ClientMountStatus;
use serde_json::Value;

use super::{Exchange, State};
use crate::object::Key;

impl Exchange {
    /// Removes the finalizer of an object that is deleted and unmounted, when its node is a compute that is not connected here. A
    /// node that is connected to another coordinator does the same itself.
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
                "ClientMount {key} is deleted and unmounted, and its finalizer stays: the SystemConfiguration names no compute {node}; add it there, or start the node's agent"
            );
            return;
        }
        let Some(status) = object.status.clone() else { return };
        if state.writes.report(&object, status, true) {
            log::info!(client_mount:% = key; "removes the finalizer of a deleted object that its node has unmounted");
            self.write_requested.notify_one();
        }
    }

    /// Takes back in the status that everything is unmounted. Only then is the object sent to its node.
    pub(super) fn retract_unmounted(&self, state: &mut State, key: &Key) {
        let Some(object) = state.fanout.mount(key) else { return };
        let status = serde_json::to_value(ClientMountStatus::for_mounting(object.mounts));
        if state.writes.report(&object, status.unwrap_or(Value::Null), false) {
            self.write_requested.notify_one();
        }
    }
}
