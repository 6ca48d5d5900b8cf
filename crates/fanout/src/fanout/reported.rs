//! Compares the statuses that nodes reported with those that the API stores.

use serde_json::Value;

use super::Fanout;
use super::node_queue::Sent;
use crate::object::Key;
use crate::pending::matches_report;

impl Fanout {
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
}
