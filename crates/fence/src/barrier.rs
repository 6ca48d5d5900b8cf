//! Decides which computes may get access to a GFS2: all computes that are neither fenced nor being fenced.
//!
//! A pass that began before a fence may still be about to attach a namespace that the fence detaches. So
//! each attachment asks for permission right before it begins, and a fence waits only for attachments to its
//! node that have begun.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use storage::desired::{Allocation, Endpoint, NodeName};
use thiserror::Error;
use tokio::sync::Notify;

/// The agent cannot tell which computes are fenced, so it gives no compute access to a GFS2.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "no compute gets access to a GFS2, because the agent cannot tell which computes are fenced: {0}"
)]
pub struct FencesUnknown(String);

/// Why a compute gets no access to a GFS2.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum NotAttached {
    #[error(transparent)]
    Unknown(#[from] FencesUnknown),
    #[error("{0} is fenced, or is being fenced")]
    Closed(NodeName),
}

/// The fenced computes; the fencer and all passes share this record.
#[derive(Debug, Clone)]
pub struct Fences(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<FenceState>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct FenceState {
    unknown: Option<String>,
    fenced: BTreeSet<NodeName>,
    requested: BTreeSet<NodeName>,
    /// Number of fences that work on each node: a fence may begin before the previous one on the same node is dropped.
    busy: BTreeMap<NodeName, usize>,
    attaching: BTreeMap<NodeName, usize>,
}

impl FenceState {
    fn is_closed(&self, node: &NodeName) -> bool {
        self.fenced.contains(node) || self.requested.contains(node) || self.busy.contains_key(node)
    }
}

/// Permission for one attachment to the compute; valid until it is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct Attaching {
    shared: Arc<Shared>,
    node: NodeName,
}

impl Drop for Attaching {
    fn drop(&mut self) {
        decrement(&mut self.shared.state.lock().attaching, &self.node);
        self.shared.ended.notify_waiters();
    }
}

/// Keeps a GFS2 from a node until the fence of the node has ended, with all work that it began.
#[derive(Debug)]
#[must_use]
pub(super) struct Closed {
    shared: Arc<Shared>,
    node: NodeName,
}

impl Drop for Closed {
    fn drop(&mut self) {
        decrement(&mut self.shared.state.lock().busy, &self.node);
    }
}

fn decrement(counts: &mut BTreeMap<NodeName, usize>, node: &NodeName) {
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

    /// Removes fenced computes from the access lists of a GFS2's allocations. Fails if the lists have computes and the
    /// agent does not know which computes are fenced.
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

    /// Permits the attachment of a GFS2's namespace to the compute `node`. Refuses if the compute is fenced, or if
    /// the agent cannot tell.
    pub(super) fn attach(&self, node: &NodeName) -> Result<Attaching, NotAttached> {
        let mut state = self.0.state.lock();
        if state.is_closed(node) {
            return Err(NotAttached::Closed(node.clone()));
        }
        if let Some(why) = &state.unknown {
            return Err(FencesUnknown(why.clone()).into());
        }
        *state.attaching.entry(node.clone()).or_default() += 1;
        Ok(Attaching { shared: Arc::clone(&self.0), node: node.clone() })
    }

    /// Records that the agent cannot tell which computes are fenced.
    pub(super) fn set_unknown(&self, why: String) {
        self.0.state.lock().unknown = Some(why);
    }

    pub(super) fn set_known(&self) {
        self.0.state.lock().unknown = None;
    }

    /// Stores the nodes that have an answer of success and the nodes that have a request. Returns whether the fenced
    /// nodes changed; a change of the requested nodes concerns only the fencer.
    pub(super) fn update(&self, fenced: BTreeSet<NodeName>, requested: BTreeSet<NodeName>) -> bool {
        let mut state = self.0.state.lock();
        let changes = state.fenced != fenced;
        (state.fenced, state.requested) = (fenced, requested);
        changes
    }

    /// Begins a fence of `node`: the node gets no GFS2 until the returned value is dropped.
    pub(super) fn close(&self, node: &NodeName) -> Closed {
        *self.0.state.lock().busy.entry(node.clone()).or_default() += 1;
        Closed { shared: Arc::clone(&self.0), node: node.clone() }
    }

    pub(super) async fn wait_for_attachments(&self, node: &NodeName) {
        loop {
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            // From here on the future notices the end of every attachment, even before the future is awaited.
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
    use storage::desired::{AllocationId, Spread};

    use super::*;
    use crate::samples;

    fn set(nodes: &[&str]) -> BTreeSet<NodeName> {
        nodes.iter().map(|node| node.parse().unwrap()).collect()
    }

    fn sample_allocations() -> Vec<Allocation> {
        let id = AllocationId { owner: samples::GFS2_UID.parse().unwrap(), index: 0 };
        let hosts = ["rabbit-1", "compute-01", "compute-03"];
        let access = hosts.map(|host| samples::chassis().access(host).unwrap()).into();
        vec![Allocation::new(id, 1 << 20, Spread::ONE, access)]
    }

    fn granted_nodes(fences: &Fences) -> Vec<String> {
        let mut wanted = sample_allocations();
        fences.remove_fenced(&mut wanted).unwrap();
        let left: Vec<_> = wanted[0].access.iter().map(|access| access.node.clone()).collect();
        let computes = left.iter().filter(|node| node.as_str() != "rabbit-1");
        assert!(computes.into_iter().all(|node| fences.attach(node).is_ok()), "{left:?}");
        left.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn fenced_computes_get_no_access_but_the_rabbit_does() {
        let fences = Fences::default();
        assert_eq!(granted_nodes(&fences).len(), 3);
        assert!(fences.update(set(&["compute-01"]), set(&["compute-03", "rabbit-1"])));
        assert!(
            !fences.update(set(&["compute-01"]), set(&["compute-03", "rabbit-1"])),
            "the fenced computes stay the same"
        );
        assert_eq!(granted_nodes(&fences), ["rabbit-1"]);
        assert_eq!(fences.fenced(), set(&["compute-01"]));

        let closed = fences.close(&"compute-01".parse().unwrap());
        assert!(fences.update(set(&[]), set(&[])));
        assert_eq!(
            granted_nodes(&fences),
            ["rabbit-1", "compute-03"],
            "the work of the fence has not ended"
        );
        drop(closed);
        assert_eq!(granted_nodes(&fences).len(), 3);
    }

    #[test]
    fn a_node_gets_no_gfs2_until_the_last_of_its_fences_ends() {
        let fences = Fences::default();
        let node: NodeName = "compute-01".parse().unwrap();
        let last = fences.close(&node);
        let next = fences.close(&node);
        drop(last);
        assert_eq!(granted_nodes(&fences), ["rabbit-1", "compute-03"]);
        drop(next);
        assert_eq!(granted_nodes(&fences).len(), 3);
    }

    #[test]
    fn a_fence_waits_only_for_attachments_to_its_node() {
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
    fn with_unknown_fences_only_the_rabbit_gets_access() {
        let fences = Fences::default();
        fences.set_unknown("the disk is gone".to_owned());
        assert!(
            fences
                .remove_fenced(&mut sample_allocations())
                .unwrap_err()
                .to_string()
                .contains("disk is gone")
        );
        let refused = fences.attach(&"compute-01".parse().unwrap()).unwrap_err();
        assert!(matches!(refused, NotAttached::Unknown(_)), "{refused}");
        let mut rabbit = sample_allocations();
        rabbit[0].access.retain(|access| access.endpoint == Endpoint::Rabbit);
        assert!(fences.remove_fenced(&mut rabbit).is_ok());
        fences.set_known();
        assert_eq!(granted_nodes(&fences).len(), 3);
    }
}
