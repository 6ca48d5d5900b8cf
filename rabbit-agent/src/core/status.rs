//! The agent's own status: its rabbit's health, whether the agent is ready, and how many passes it has made.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use prometheus_client::{encoding::text::encode, metrics::counter::Counter, registry::Registry};

use crate::{core::Key, health::HealthState};

/// The status that the agent writes, and that the HTTP pages and the link to the coordinator read.
#[derive(Debug, Clone)]
pub struct AgentStatus {
    pub health: HealthState,
    ready: Arc<AtomicBool>,
    /// By kind.
    passes: BTreeMap<&'static str, Counter>,
    fences: Counter,
}

/// Kinds of objects, each with the metric that counts the passes over objects of the kind. Dashboards for
/// nnf-node-manager use these names.
const PASSES: [(&str, &str); 7] = [
    ("ClientMount", "nnf_clientmount_reconciles"),
    ("NnfNode", "nnf_node_reconciles"),
    ("NnfNodeStorage", "nnf_node_storage_reconciles"),
    ("NnfNodeBlockStorage", "nnf_node_block_storage_reconciles"),
    ("NnfLustreMGT", "nnf_lustre_mgt_reconciles"),
    ("NodeContainers", "warren_node_containers_reconciles"),
    ("NnfDataMovement", "warren_data_movement_reconciles"),
];

impl AgentStatus {
    /// Returns the status of an agent whose rabbit has this health.
    pub fn new(health: HealthState) -> Self {
        let passes = PASSES.map(|(kind, _)| (kind, Counter::default())).into();
        Self { health, ready: Arc::default(), passes, fences: Counter::default() }
    }

    /// Records that every kind was listed completely at least once.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    /// Returns whether every kind was listed completely at least once.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Counts a pass over an object.
    pub fn count(&self, key: &Key) {
        self.passes[key.kind()].inc();
    }

    /// Returns the counter of fence requests.
    pub fn fence_requests(&self) -> Counter {
        self.fences.clone()
    }

    /// Returns all counters in the text format of OpenMetrics.
    pub fn metrics(&self) -> String {
        let mut registry = Registry::default();
        for (kind, name) in PASSES {
            let help = format!("Reconciles of {kind} objects");
            registry.register(name, help, self.passes[kind].clone());
        }
        let help = "Requests to fence a compute";
        registry.register("gfs2_fence_requests", help, self.fences.clone());
        let mut text = String::new();
        encode(&mut text, &registry).expect("writing into a string does not fail");
        text
    }
}

impl Default for AgentStatus {
    fn default() -> Self {
        Self::new(HealthState::default())
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
