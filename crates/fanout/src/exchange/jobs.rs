//! Returns the stored status of a node's ClientMounts, for a script on the node that waits for a job's mounts.

use std::collections::BTreeMap;

use api::names::label;
use proto::v1::JobMount;

use super::{Exchange, State};
use crate::object::MountObject;

impl Exchange {
    /// Sets whether a node's session is notified of every change of the node's objects, also of a changed status.
    pub fn set_watches_job(&self, node: &str, watches: bool) {
        let mut state = self.lock();
        match watches {
            true => state.job_watchers.insert(node.to_owned()),
            false => state.job_watchers.remove(node),
        };
    }

    /// Returns the node's ClientMounts whose labels match; `None` until session `epoch` has been sent all objects.
    pub fn job_mounts(
        &self,
        node: &str,
        epoch: u64,
        matches: impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> Option<Vec<JobMount>> {
        let state = self.lock();
        state.fanout.is_synced(node, epoch).then(|| {
            let own = state.fanout.mounts_of(node);
            own.filter(|object| matches(&object.version.labels))
                .map(|object| job_mount(object))
                .collect()
        })
    }
}

impl State {
    /// Notifies the node's session if a script on the node waits for a job's mounts.
    pub(super) fn notify_job_watcher(&self, node: &str) {
        if self.job_watchers.contains(node) {
            self.fanout.notify(node);
        }
    }
}

fn job_mount(object: &MountObject) -> JobMount {
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
