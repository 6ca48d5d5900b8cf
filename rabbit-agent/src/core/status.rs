//! The agent's own status: its rabbit's health, whether the agent is ready, and how many passes it has made.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use prometheus_client::{encoding::text::encode, metrics::counter::Counter, registry::Registry};

use crate::{core::cache::Key, health::HealthState};

/// The status that the agent writes, and that the HTTP pages and the link to the coordinator read.
#[derive(Debug, Clone, Default)]
pub struct AgentStatus {
    pub health: HealthState,
    ready: Arc<AtomicBool>,
    passes: Passes,
}

/// Counters of passes over objects of each kind, and of fence requests.
#[derive(Debug, Clone, Default)]
struct Passes {
    client_mount: Counter,
    node: Counter,
    node_storage: Counter,
    block_storage: Counter,
    lustre_mgt: Counter,
    containers: Counter,
    movements: Counter,
    fences: Counter,
}

impl AgentStatus {
    /// Returns the status of an agent whose rabbit has this health.
    pub fn new(health: HealthState) -> Self {
        Self { health, ..Self::default() }
    }

    /// Records that every kind was listed completely at least once.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    /// Returns whether every kind was listed completely at least once.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    pub fn count(&self, key: &Key) {
        let counter = match key {
            Key::Node => &self.passes.node,
            Key::BlockStorage(_) => &self.passes.block_storage,
            Key::NodeStorage(_) => &self.passes.node_storage,
            Key::ClientMount(_) | Key::Vanished(_) => &self.passes.client_mount,
            Key::LustreMgt(_) => &self.passes.lustre_mgt,
            Key::Containers(_) => &self.passes.containers,
            Key::Movement(_) => &self.passes.movements,
        };
        counter.inc();
    }

    /// Returns the counter of fence requests.
    pub fn fence_requests(&self) -> Counter {
        self.passes.fences.clone()
    }

    /// Returns all counters in the text format of OpenMetrics, under the names that
    /// dashboards for nnf-node-manager use.
    pub fn metrics(&self) -> String {
        let mut registry = Registry::default();
        let passes = &self.passes;
        for (name, kind, counter) in [
            ("nnf_clientmount_reconciles", "ClientMount", &passes.client_mount),
            ("nnf_node_reconciles", "NnfNode", &passes.node),
            ("nnf_node_storage_reconciles", "NnfNodeStorage", &passes.node_storage),
            ("nnf_node_block_storage_reconciles", "NnfNodeBlockStorage", &passes.block_storage),
            ("nnf_lustre_mgt_reconciles", "NnfLustreMGT", &passes.lustre_mgt),
            ("warren_node_containers_reconciles", "NodeContainers", &passes.containers),
            ("warren_data_movement_reconciles", "NnfDataMovement", &passes.movements),
        ] {
            registry.register(name, format!("Reconciles of {kind} objects"), counter.clone());
        }
        registry.register(
            "gfs2_fence_requests",
            "Requests to fence a compute",
            passes.fences.clone(),
        );
        let mut text = String::new();
        encode(&mut text, &registry).expect("writing into a string does not fail");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_metric_names_of_nnf_node_manager() {
        let status = AgentStatus::default();
        for key in [
            Key::Node,
            Key::ClientMount("a".into()),
            Key::Vanished("b".into()),
            Key::NodeStorage("a".into()),
        ] {
            status.count(&key);
        }
        status.fence_requests().inc();
        let text = status.metrics();
        for line in [
            "nnf_clientmount_reconciles_total 2",
            "nnf_node_reconciles_total 1",
            "nnf_node_storage_reconciles_total 1",
            "nnf_node_block_storage_reconciles_total 0",
            "nnf_lustre_mgt_reconciles_total 0",
            "gfs2_fence_requests_total 1",
        ] {
            assert!(text.lines().any(|printed| printed == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn clones_of_the_status_share_its_readiness() {
        let status = AgentStatus::default();
        let other = status.clone();
        assert!(!other.is_ready());
        status.set_ready();
        assert!(other.is_ready());
    }
}
