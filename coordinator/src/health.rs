//! Status of the coordinator's services for the gRPC health service.
//!
//! `NodeLink` is SERVING once all objects were listed and while the watch on ClientMounts works: otherwise a node
//! that connects has to wait, and another coordinator may serve it sooner. `Cluster` and the process as a whole
//! (the empty service name) are SERVING even while the API is unreachable: restarting the coordinator would not
//! bring the API back.

use proto::v1::cluster_server::ClusterServer;
use proto::v1::node_link_server::NodeLinkServer;
use tokio::sync::watch::Receiver;
use tonic_health::server::HealthReporter;

use crate::cluster::ClusterService;
use crate::link::Link;

/// Creates the reporter. `NodeLink` is not SERVING at first.
pub(crate) async fn reporter() -> HealthReporter {
    let health = HealthReporter::new();
    health.set_serving::<ClusterServer<ClusterService>>().await;
    health.set_not_serving::<NodeLinkServer<Link>>().await;
    health
}

/// Updates the status of `NodeLink` whenever `ready` changes, until this future is dropped.
pub(crate) async fn report(health: HealthReporter, mut ready: Receiver<bool>) {
    loop {
        if *ready.borrow_and_update() {
            health.set_serving::<NodeLinkServer<Link>>().await;
        } else {
            health.set_not_serving::<NodeLinkServer<Link>>().await;
        }
        if ready.changed().await.is_err() {
            return;
        }
    }
}
