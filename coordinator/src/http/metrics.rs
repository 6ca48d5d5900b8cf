//! The page `/metrics`, rendered for each request.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use proto::v1::health::State;
use proto::v1::{ListNodesResponse, NodeRecord, Role};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    role: &'static str,
    state: &'static str,
}

/// Renders the number of nodes by role and state, the number of gaps (texts about missing information), and
/// the engine's own metrics.
pub(super) fn text(nodes: &ListNodesResponse, engine: &str) -> String {
    let (by_state, gaps) = (Family::<Labels, Gauge>::default(), Gauge::<i64>::default());
    for role in ["compute", "rabbit", "unknown"] {
        for state in ["ok", "warning", "critical", "silent", "away"] {
            by_state.get_or_create(&Labels { role, state }).set(0);
        }
    }
    for record in &nodes.nodes {
        by_state.get_or_create(&labels(record)).inc();
    }
    gaps.set(nodes.gaps.len().try_into().unwrap_or(i64::MAX));
    let mut registry = Registry::with_prefix("warren");
    registry.register(
        "nodes",
        "Nodes of the SystemConfiguration and nodes that ever connected; away: not connected; silent: connected, no health reported yet",
        by_state,
    );
    registry.register(
        "gaps",
        "Information that the coordinator cannot look up now; `warren nodes` names each",
        gaps,
    );
    let mut text = String::new();
    let written = encode_registry(&mut text, &registry);
    text.push_str(engine);
    written.and_then(|()| encode_eof(&mut text)).expect("writing into a string does not fail");
    text
}

fn labels(record: &NodeRecord) -> Labels {
    let role = match record.role() {
        Role::Compute => "compute",
        Role::Rabbit => "rabbit",
        Role::Unspecified => "unknown",
    };
    let health = record.health.as_ref().map_or(State::Unspecified, |health| health.state());
    let state = match health {
        _ if !record.connected => "away",
        State::Ok => "ok",
        State::Warning => "warning",
        State::Critical => "critical",
        State::Unspecified => "silent",
    };
    Labels { role, state }
}

#[cfg(test)]
mod tests {
    use proto::v1::Health;

    use super::*;

    fn record(role: Role, connected: bool, state: State) -> NodeRecord {
        let health = Health { state: state.into(), ..Health::default() };
        NodeRecord { role: role.into(), connected, health: Some(health), ..NodeRecord::default() }
    }

    #[test]
    fn each_node_is_counted_under_one_state() {
        let nodes = vec![
            record(Role::Compute, true, State::Ok),
            record(Role::Compute, true, State::Ok),
            record(Role::Compute, false, State::Ok),
            record(Role::Compute, true, State::Unspecified),
            record(Role::Rabbit, true, State::Critical),
        ];
        let page = text(
            &ListNodesResponse { nodes, gaps: vec!["a gap".to_owned()] },
            "warren_containers 1\n",
        );
        for line in [
            r#"warren_nodes{role="compute",state="ok"} 2"#,
            r#"warren_nodes{role="compute",state="away"} 1"#,
            r#"warren_nodes{role="compute",state="silent"} 1"#,
            r#"warren_nodes{role="rabbit",state="critical"} 1"#,
            r#"warren_nodes{role="rabbit",state="ok"} 0"#,
            "warren_gaps 1",
            "warren_containers 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
    }
}
