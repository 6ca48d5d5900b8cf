//! Decides when sessions can start, and queues them.

use api::ClientMount;
use kube::Resource;
use tokio::sync::watch;

use super::{Exchange, State};
use crate::fanout::Listing;

impl Exchange {
    /// Returns whether all objects were listed and the watch on ClientMounts works.
    fn is_ready(&self, state: &State) -> bool {
        state.fanout.is_listed() && !self.watches.is_broken(&ClientMount::kind(&()))
    }

    /// Returns a receiver of whether sessions can start: all objects were listed, and the
    /// watch on ClientMounts works.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Waits for the next node whose session waits for its start.
    pub(crate) async fn take_waiting_session(&self) -> String {
        self.take(&self.session_waiting, |state| state.waiting_sessions.take()).await
    }

    /// Returns the session of a node that a task has taken from the queue, if the session still waits for its start;
    /// `None` ends the task for that node. No session starts while the watch on ClientMounts fails; once it works
    /// again, all waiting sessions are queued again.
    pub(crate) fn waiting_session(&self, node: &str) -> Option<u64> {
        let mut state = self.lock();
        let epoch = state.fanout.waiting_session(node).filter(|_| self.is_ready(&state));
        if epoch.is_none() {
            state.waiting_sessions.done(&node.to_owned());
        }
        epoch
    }

    /// Starts a session with a list of the node's objects, which must have been requested after the session opened.
    /// Returns `false`, and does not start the session, while the watch has not delivered all objects of the list.
    pub(crate) fn start_session(&self, node: &str, epoch: u64, listing: &Listing) -> bool {
        let mut state = self.lock();
        self.is_ready(&state) && state.fanout.start_session(node, epoch, listing)
    }

    /// Updates [`Exchange::ready`], and queues the waiting sessions when sessions can start.
    pub(super) fn update_readiness(&self, state: &mut State) {
        let ready = self.is_ready(state);
        let changed = self.ready.send_if_modified(|known| std::mem::replace(known, ready) != ready);
        if !(changed && ready) {
            return;
        }
        let waiting: Vec<String> = state.fanout.waiting_sessions().cloned().collect();
        for node in &waiting {
            self.queue_session(state, node);
        }
    }

    /// Queues a node whose session waits for its start, if sessions can start now.
    pub(super) fn queue_session(&self, state: &mut State, node: &str) {
        let waits = self.is_ready(state) && state.fanout.waiting_session(node).is_some();
        if waits && state.waiting_sessions.push(&node.to_owned()) {
            self.session_waiting.notify_one();
        }
    }
}
