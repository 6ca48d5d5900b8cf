//! Which computes may get a GFS2: none that is fenced or is being fenced.
//!
//! A pass that began earlier may still be about to attach what a fence detaches. So each attachment asks again right
//! before it begins, and a fence waits for the attachments to its node that have begun, and for nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use storage::desired::{Allocation, Endpoint, NodeName};
use thiserror::Error;
use tokio::sync::Notify;

/// The agent does not know which computes are fenced, so none gets a GFS2.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a GFS2 is given to no compute, because it is not known which of them are fenced: {0}")]
pub struct FencesUnknown(String);

/// Why a compute gets no GFS2.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotAttached {
    #[error(transparent)]
    Unknown(#[from] FencesUnknown),
    #[error("{0} is fenced, or is being fenced")]
    Closed(NodeName),
}

/// The fenced computes, shared by the fencer and all passes.
#[derive(Debug, Clone)]
pub struct Fences(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    unknown: Option<String>,
    fenced: BTreeSet<NodeName>,
    asked: BTreeSet<NodeName>,
    /// Number of fences that work on each node: the next one may begin before the last one is dropped.
    busy: BTreeMap<NodeName, usize>,
    attaching: BTreeMap<NodeName, usize>,
}

impl State {
    fn is_closed(&self, node: &NodeName) -> bool {
        self.fenced.contains(node) || self.asked.contains(node) || self.busy.contains_key(node)
    }
}

/// Allows one attachment to the compute, until it is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct Attaching {
    of: Arc<Shared>,
    node: NodeName,
}

impl Drop for Attaching {
    fn drop(&mut self) {
        one_less(&mut self.of.state.lock().attaching, &self.node);
        self.of.ended.notify_waiters();
    }
}

/// Keeps a node from getting a GFS2 while a fence works on it, or a part of the fence still runs.
#[derive(Debug)]
#[must_use]
pub(super) struct Closed {
    of: Arc<Shared>,
    node: NodeName,
}

impl Drop for Closed {
    fn drop(&mut self) {
        one_less(&mut self.of.state.lock().busy, &self.node);
    }
}

fn one_less(counts: &mut BTreeMap<NodeName, usize>, node: &NodeName) {
    if let Some(count) = counts.get_mut(node) {
        *count -= 1;
    }
    counts.retain(|_, count| *count > 0);
}

impl Default for Fences {
    fn default() -> Self {
        Self(Arc::new(Shared { state: Mutex::default(), ended: Notify::new() }))
    }
}

impl Fences {
    pub fn fenced(&self) -> BTreeSet<NodeName> {
        self.0.state.lock().fenced.clone()
    }

    /// Removes fenced computes from the access lists of a GFS2's allocations.
    /// Fails when computes remain and the agent does not know which are fenced.
    pub fn remove_fenced(&self, wanted: &mut [Allocation]) -> Result<(), FencesUnknown> {
        let state = self.0.state.lock();
        let mut any = false;
        for allocation in wanted {
            let closed = |endpoint: Endpoint, node: &NodeName| match endpoint {
                Endpoint::Rabbit => false,
                Endpoint::Compute(_) => state.is_closed(node),
            };
            allocation.access.retain(|access| !closed(access.endpoint, &access.node));
            any |= allocation.access.iter().any(|access| access.endpoint != Endpoint::Rabbit);
        }
        state.unknown.clone().filter(|_| any).map_or(Ok(()), |why| Err(FencesUnknown(why)))
    }

    /// Allows the attachment of a GFS2's namespace to the compute `node`, unless it is fenced or that is not known.
    pub(super) fn attach(&self, node: &NodeName) -> Result<Attaching, NotAttached> {
        let mut state = self.0.state.lock();
        if state.is_closed(node) {
            return Err(NotAttached::Closed(node.clone()));
        }
        if let Some(why) = &state.unknown {
            return Err(FencesUnknown(why.clone()).into());
        }
        *state.attaching.entry(node.clone()).or_default() += 1;
        Ok(Attaching { of: Arc::clone(&self.0), node: node.clone() })
    }

    /// From now on the agent does not know which computes are fenced.
    pub(super) fn set_unknown(&self, why: String) {
        self.0.state.lock().unknown = Some(why);
    }

    pub(super) fn set_known(&self) {
        self.0.state.lock().unknown = None;
    }

    /// Stores the nodes with an answer of success and those with a request. Returns whether the fenced nodes changed;
    /// requested ones concern only the fencer.
    pub(super) fn update(&self, fenced: BTreeSet<NodeName>, asked: BTreeSet<NodeName>) -> bool {
        let mut state = self.0.state.lock();
        let changes = state.fenced != fenced;
        (state.fenced, state.asked) = (fenced, asked);
        changes
    }

    /// Begins a fence of `node`: it gets no GFS2 until the result is dropped.
    pub(super) fn close(&self, node: &NodeName) -> Closed {
        *self.0.state.lock().busy.entry(node.clone()).or_default() += 1;
        Closed { of: Arc::clone(&self.0), node: node.clone() }
    }

    pub(super) async fn wait_for_attachments(&self, node: &NodeName) {
        loop {
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            // From here on an end is noticed, also one before the wait.
            ended.as_mut().enable();
            if !self.0.state.lock().attaching.contains_key(node) {
                return;
            }
            ended.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::samples;

    fn set(nodes: &[&str]) -> BTreeSet<NodeName> {
        nodes.iter().map(|node| node.parse().unwrap()).collect()
    }

    fn wanted() -> Vec<Allocation> {
        let object =
            samples::block_storage(&[(1 << 20, &["rabbit-1", "compute-01", "compute-03"])]);
        samples::wanted(&object)
    }

    fn granted(fences: &Fences) -> Vec<String> {
        let mut wanted = wanted();
        fences.remove_fenced(&mut wanted).unwrap();
        let left: Vec<_> = wanted[0].access.iter().map(|access| access.node.clone()).collect();
        let computes = left.iter().filter(|node| node.as_str() != "rabbit-1");
        assert!(computes.into_iter().all(|node| fences.attach(node).is_ok()), "{left:?}");
        left.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn who_is_fenced_or_about_to_be_is_left_out_and_the_rabbit_never_is() {
        let fences = Fences::default();
        assert_eq!(granted(&fences).len(), 3);
        assert!(fences.update(set(&["compute-01"]), set(&["compute-03", "rabbit-1"])));
        assert!(
            !fences.update(set(&["compute-01"]), set(&["compute-03", "rabbit-1"])),
            "as before"
        );
        assert_eq!(granted(&fences), ["rabbit-1"]);
        assert_eq!(fences.fenced(), set(&["compute-01"]));

        let closed = fences.close(&"compute-01".parse().unwrap());
        assert!(fences.update(set(&[]), set(&[])));
        assert_eq!(granted(&fences), ["rabbit-1", "compute-03"], "work on it has not ended");
        drop(closed);
        assert_eq!(granted(&fences).len(), 3);
    }

    #[test]
    fn the_end_of_a_fence_opens_nothing_to_a_node_that_the_next_one_works_on() {
        let fences = Fences::default();
        let node: NodeName = "compute-01".parse().unwrap();
        let last = fences.close(&node);
        let next = fences.close(&node);
        drop(last);
        assert_eq!(granted(&fences), ["rabbit-1", "compute-03"]);
        drop(next);
        assert_eq!(granted(&fences).len(), 3);
    }

    #[test]
    fn a_fence_waits_for_what_is_being_attached_to_its_node_and_for_nothing_else() {
        let fences = Fences::default();
        let node: NodeName = "compute-03".parse().unwrap();
        let (first, second) = (fences.attach(&node).unwrap(), fences.attach(&node).unwrap());
        let other = fences.attach(&"compute-01".parse().unwrap()).unwrap();
        let _closed = fences.close(&node);
        let mut quiet = Box::pin(fences.wait_for_attachments(&node));
        drop(first);
        assert!(quiet.as_mut().now_or_never().is_none());
        assert_eq!(fences.attach(&node).unwrap_err(), NotAttached::Closed(node.clone()));
        drop(second);
        assert!(quiet.as_mut().now_or_never().is_some());
        drop(other);
    }

    #[test]
    fn the_blind_give_nothing_to_computes_and_all_to_the_rabbit() {
        let fences = Fences::default();
        fences.set_unknown("the disk is gone".to_owned());
        assert!(
            fences.remove_fenced(&mut wanted()).unwrap_err().to_string().contains("disk is gone")
        );
        let refused = fences.attach(&"compute-01".parse().unwrap()).unwrap_err();
        assert!(matches!(refused, NotAttached::Unknown(_)), "{refused}");
        let mut rabbit = wanted();
        rabbit[0].access.retain(|access| access.endpoint == Endpoint::Rabbit);
        assert!(fences.remove_fenced(&mut rabbit).is_ok());
        fences.set_known();
        assert_eq!(granted(&fences).len(), 3);
    }
}
