//! Who is let in, and when.

use api::ClientMount;
use kube::Resource;
use tokio::sync::watch;

use super::{Exchange, State};
use crate::fanout::Listing;

impl State {
    fn is_ready(&self) -> bool {
        self.fanout.listed() && !self.failing.contains_key(&*ClientMount::kind(&()))
    }
}

impl Exchange {
    /// Whether nodes that come are told anything: everything was listed, and the watch on ClientMounts works.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// The next node to be let in; waits for one.
    pub(crate) async fn take_newcomer(&self) -> String {
        loop {
            if let Some(node) = self.lock().newcomers.waiting.pop_front() {
                return node;
            }
            self.arrived.notified().await;
        }
    }

    /// The session of a taken node that waits to be let in; None ends the reader's work. While the watch on ClientMounts
    /// fails nobody is let in, and all are looked at again once it works.
    pub(crate) fn newcomer(&self, node: &str) -> Option<u64> {
        let mut state = self.lock();
        let epoch = state.fanout.newcomer(node).filter(|_| state.is_ready());
        if epoch.is_none() {
            state.newcomers.open.remove(node);
        }
        epoch
    }

    /// Lets a session in by a list asked for since it opened; false when less than that is known here.
    pub(crate) fn admit(&self, node: &str, epoch: u64, listing: &Listing) -> bool {
        let mut state = self.lock();
        state.is_ready() && state.fanout.admit(node, epoch, listing)
    }

    /// Once it is ready, those who came meanwhile are let in.
    pub(super) fn judge_readiness(&self, state: &mut State) {
        let ready = state.is_ready();
        let changed = self.ready.send_if_modified(|known| std::mem::replace(known, ready) != ready);
        if !(changed && ready) {
            return;
        }
        let waiting: Vec<String> = state.fanout.newcomers().cloned().collect();
        for node in &waiting {
            self.receive(state, node);
        }
    }

    /// Has the API asked about the node, if its session waits for that and it can be let in.
    pub(super) fn receive(&self, state: &mut State, node: &str) {
        let waits = state.is_ready() && state.fanout.newcomer(node).is_some();
        if waits && state.newcomers.push(&node.to_owned()) {
            self.arrived.notify_one();
        }
    }
}
