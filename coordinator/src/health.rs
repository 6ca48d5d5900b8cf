//! What gRPC's own health service says of us.
//!
//! `NodeLink` is served once everything was listed and while the ClientMounts are watched: another coordinator may be better
//! off, and a node that comes waits here. The process as a whole (the empty name) and `Cluster` are well as long as they
//! answer: to be started anew does not bring the API back.

use proto::v1::cluster_server::ClusterServer;
use proto::v1::node_link_server::NodeLinkServer;
use tokio::sync::watch::Receiver;
use tonic_health::server::HealthReporter;

use crate::cluster::Machine;
use crate::link::Link;

/// What is said before anything was listed.
pub(crate) async fn reporter() -> HealthReporter {
    let health = HealthReporter::new();
    health.set_serving::<ClusterServer<Machine>>().await;
    health.set_not_serving::<NodeLinkServer<Link>>().await;
    health
}

/// Tells whether nodes are served, until dropped.
pub(crate) async fn tell(health: HealthReporter, mut ready: Receiver<bool>) {
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
