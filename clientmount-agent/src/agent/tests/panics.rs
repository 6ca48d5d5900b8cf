//! A panic in the work on one object becomes a failure of this object, and of no other object.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// A node on which observing the first job's mount panics.
#[derive(Debug)]
struct Defective {
    node: Arc<FakeHost>,
    repaired: AtomicBool,
}

impl Host for Defective {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        let hit =
            matches!(desired, Desired::Mounted(mount) if mount.target == point("/mnt/nnf/job-0"));
        assert!(!hit || self.repaired.load(Ordering::SeqCst), "a bug in observe");
        self.node.observe(desired)
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        self.node.apply(step)
    }
}

#[tokio::test]
async fn a_panic_fails_only_its_object_and_the_object_is_retried() {
    let mut node = Node::start(Chassis::new(2));
    let [unlucky, other] = [0, 1].map(|index| node.chassis.object(index));
    let session = node.coordinator.session().await;
    let defective = Arc::new(Defective {
        node: node.chassis.compute.clone(),
        repaired: AtomicBool::new(false),
    });
    node.restart_agent_on(defective.clone(), session).await;
    let mut session = node.coordinator.session().await;
    session.sync(&[&unlucky, &other]).await;
    let report = session.report_of(&unlucky, is_failed).await;
    let status: ClientMountStatus = serde_json::from_slice(&report.status).unwrap();
    let error = status.error.unwrap();
    assert!(error.debug_message.contains("a bug in observe"), "{error:?}");
    assert_eq!(error.severity, Severity::Major);
    session.report_of(&other, ready).await;

    defective.repaired.store(true, Ordering::SeqCst);
    session.report_of(&unlucky, ready).await;
    node.stop.take().unwrap().send(()).unwrap();
    assert_eq!(node.end().await, End::Stopped);
}
