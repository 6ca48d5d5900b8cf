//! What the API stores of one node's ClientMounts, for a node that waits for a job.

use std::collections::BTreeMap;

use api::names::label;
use proto::v1::JobMount;

use super::{Exchange, State};
use crate::object::MountObject;

impl Exchange {
    /// Whether the session's bell rings for every change of the node's objects, their status included.
    pub fn set_attentive(&self, node: &str, is_attentive: bool) {
        let mut state = self.lock();
        if is_attentive {
            state.attentive.insert(node.to_owned());
        } else {
            state.attentive.remove(node);
        }
    }

    /// The node's ClientMounts with these labels; None until the session `epoch` has been sent everything that exists.
    pub fn job_mounts(
        &self,
        node: &str,
        epoch: u64,
        is_meant: impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> Option<Vec<JobMount>> {
        let state = self.lock();
        state.fanout.is_synced(node, epoch).then(|| {
            let own = state.fanout.mounts_of(node);
            own.filter(|object| is_meant(&object.version.labels))
                .map(|object| told(object))
                .collect()
        })
    }
}

impl State {
    pub(super) fn tell_attentive(&self, node: &str) {
        if self.attentive.contains(node) {
            self.fanout.ring(node);
        }
    }
}

fn told(object: &MountObject) -> JobMount {
    let directive = object.version.labels.get(label::DIRECTIVE_INDEX);
    JobMount {
        namespace: object.key.namespace.clone(),
        name: object.key.name.clone(),
        uid: object.version.uid.clone(),
        desired_state: object.desired_state.clone(),
        deleting: object.version.deleting,
        held: object.has_finalizer(),
        status: object.status.as_ref().map(ToString::to_string).unwrap_or_default().into_bytes(),
        directive: directive.and_then(|index| index.parse().ok()),
    }
}
