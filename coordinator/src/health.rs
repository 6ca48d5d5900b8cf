//! Status for gRPC's health service.
//!
//! `NodeLink` is serving once all objects were listed and while the watch on ClientMounts works; until then nodes that connect
//! wait here, and another coordinator may serve them sooner. The process as a whole (the empty name) and `Cluster` are serving as
//! long as they answer: a restart of the coordinator would not help while the API is away.

use proto::v1::cluster_server::ClusterServer;
use proto::v1::node_link_server::NodeLinkServer;
use tokio::sync::watch::Receiver;
use tonic_health::server::HealthReporter;

use crate::cluster::ClusterService;
use crate::link::Link;

/// The status before any object was listed.
pub(crate) async fn reporter() -> HealthReporter {
    let health = HealthReporter::new();
    health.set_serving::<ClusterServer<ClusterService>>().await;
    health.set_not_serving::<NodeLinkServer<Link>>().await;
    health
}

/// Keeps the status of `NodeLink` current, until dropped.
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
