//! What nodes answered, held against what the API says they did.

use serde_json::Value;

use super::Fanout;
use super::node_queue::Told;
use crate::object::Key;
use crate::pending::says;

impl Fanout {
    /// The node reported this status of an object.
    pub(crate) fn answered(&mut self, key: &Key, status: &Value) {
        if let Some(told) = self.told(key) {
            told.answer = Some(status.clone());
        }
    }

    /// Has the node asked again when the object's status is not what it reported.
    pub(crate) fn check_status(&mut self, key: &Key) {
        let Some(object) = self.mount(key) else { return };
        let Some(told) = self.told(key).filter(|told| told.version == object.version) else {
            return;
        };
        let is_said = |answer: &Value| says(object.status.as_ref(), answer);
        if told.answer.take_if(|answer| !is_said(answer)).is_some() {
            told.contradicted = true;
            self.touch(key);
        }
    }

    fn told(&mut self, key: &Key) -> Option<&mut Told> {
        self.queues.get_mut(&key.namespace)?.told.get_mut(&key.name)
    }
}
