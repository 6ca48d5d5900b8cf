//! Hands pending writes to the writers, and records the API's answers.

use super::{Exchange, State};
use crate::fanout::refusal;
use crate::object::Key;
use crate::pending::{Write, refused_status};

impl Exchange {
    /// Waits for the next object to write.
    pub(crate) async fn take_write(&self) -> Key {
        self.take(&self.write_requested, |state| state.writes.take()).await
    }

    /// Returns the next write of an object that a writer has taken from the queue; `None` ends the writer's work.
    pub(crate) fn next_write(&self, key: &Key) -> Option<Write> {
        let mut state = self.lock();
        let object = state.fanout.mount(key);
        state.writes.next(key, object.as_deref())
    }

    /// Records that the API accepted a write.
    pub(crate) fn write_accepted(&self, key: &Key, write: &Write) {
        self.lock().writes.write_accepted(key, write);
    }

    /// Records that the API refused a write. The write stays pending. The message `Synced`, which tells the node that
    /// all its objects were sent, no longer waits for this object.
    pub(crate) fn write_refused(&self, key: &Key, write: &Write) {
        if write.adds_finalizer() || write.is_status() {
            self.lock().fanout.write_refused(key);
        }
    }

    /// Waits until an object that a writer has taken from the queue has changed since the last call.
    pub(crate) async fn changed(&self, key: &Key) {
        let notify = self.lock().writes.notify(key);
        if let Some(notify) = notify {
            notify.notified().await;
        }
    }

    /// Writes the refusal into the status of an object that is sent to no node.
    pub(super) fn refuse(&self, state: &mut State, key: &Key) {
        let Some(object) = state.fanout.mount(key) else { return };
        let Some(why) = refusal(&object) else { return };
        // A rabbit's agent refuses objects itself.
        let nodes = state.nodes.as_ref();
        let may_refuse = nodes.is_some_and(|nodes| !nodes.rabbits.contains(&key.namespace));
        if object.version.deleting || !may_refuse {
            return;
        }
        if state.writes.report(&object, refused_status(&object, &why), false) {
            self.write_requested.notify_one();
        }
    }
}
