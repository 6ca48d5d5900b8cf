//! Placement by the engine, and reservations of capacity.

use crate::{
    job::{GIB, directive},
    site::Site,
};

#[test]
fn a_job_waits_for_capacity_that_another_job_holds() {
    // Each of a job's two computes takes 1 GiB and the padding: the rabbit has room for one job.
    let mut site = Site::new(2, 3 * GIB);
    for name in ["a", "b"] {
        site.create(name, &[directive("xfs", "scratch")]);
    }
    site.settle();
    for name in ["a", "b"] {
        site.fill_computes(name, &["c1", "c2"]);
        site.request_state(name, "Setup");
    }
    // The engine fills one Servers at a time; here the engine restarts after each change.
    site.settle_with(|length| (0..length.min(1)).collect());
    assert!(site.is_ready("a", "Setup"), "{:?}", site.status_of("a"));
    let (_, ready, status, message) = site.status_of("b");
    // Flux ends a job after 10 s of a TransientCondition.
    assert!(!ready && status == "DriverWait", "{status}");
    assert!(message.contains("pending capacity on r: "), "{message}");
    assert!(message.contains("the workflow continues when other jobs release theirs"), "{message}");
    site.hand_over_capacity("a", "b");
}
