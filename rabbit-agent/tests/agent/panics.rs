//! Tests that a defect of the agent affects only the object in whose pass the agent panics.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use api::{NnfNode, NnfNodeBlockStorage, names::NNF_NODE};
use rabbit_agent::{core::status::AgentStatus, health::HealthState};
use storage::{
    Desired,
    health::{Facts, Link, Probe},
};
use tokio::sync::Notify;

use crate::bench::{Bench, NAME, RABBIT, block_failed, block_ready, block_storage, node_reported};

const OTHER: &str = "default-job-8-0-xfs-0";
const SIZE: i64 = 1 << 20;

fn is_of_unlucky_object(desired: &Desired) -> bool {
    matches!(desired, Desired::Allocated(allocation) if allocation.capacity == 2 * SIZE.unsigned_abs())
}

#[tokio::test]
async fn a_panic_in_an_observation_fails_only_its_allocation() {
    let bench = Bench::new().await;
    bench.trouble.lock().unwrap().bug = Some(is_of_unlucky_object);
    let unlucky = block_storage(NAME, &[(2 * SIZE, &[RABBIT])]);
    bench.make::<NnfNodeBlockStorage>(RABBIT, unlucky).await;
    let failed: NnfNodeBlockStorage = bench.until(NAME, "failed", block_failed).await;
    let error = failed.status.unwrap().error.unwrap();
    assert!(error.debug_message.contains("a bug in an observation"), "{error:?}");
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(OTHER, &[(SIZE, &[RABBIT])])).await;
    bench.until(OTHER, "ready", block_ready).await;

    bench.trouble.lock().unwrap().bug = None;
    bench.until(NAME, "ready", block_ready).await;
}

/// A node whose health check panics.
#[derive(Debug, Default)]
struct Defective {
    called: Notify,
    mended: AtomicBool,
}

impl Probe for Defective {
    fn links(&self) -> BTreeMap<u8, Link> {
        BTreeMap::new()
    }

    fn facts(&self) -> Facts {
        self.called.notify_one();
        assert!(self.mended.load(Ordering::SeqCst), "a bug in a pass");
        Facts::default()
    }
}

#[tokio::test]
async fn a_panic_in_a_pass_fails_only_its_object() {
    let defective = Arc::new(Defective::default());
    let mut bench = Bench::bare().await;
    bench.status = AgentStatus::new(HealthState::new(defective.clone(), None, 0));
    bench.site().await;
    bench.start();
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(SIZE, &[RABBIT])])).await;
    bench.until(NAME, "ready", block_ready).await;
    // The pass over the NnfNode panics. This pass may begin later than the pass over the other object.
    defective.called.notified().await;

    defective.mended.store(true, Ordering::SeqCst);
    bench.until(NNF_NODE, "reported", |node: &NnfNode| node_reported(node)).await;
}
