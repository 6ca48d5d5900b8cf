//! Lists all nodes that the coordinator knows.

use bytesize::ByteSize;
use jiff::Timestamp;
use proto::v1::cluster_client::ClusterClient;
use proto::v1::health::State;
use proto::v1::{Health, ListNodesRequest, ListNodesResponse, NodeRecord, Role};
use serde_json::{Value, json};

use crate::client::CoordinatorArgs;
use crate::failure::Failure;
use cli::Exit;
use cli::Output;

/// Largest accepted answer in bytes: thousands of nodes, each with its health message.
const LARGEST_ANSWER: usize = 64 << 20;
const HEADER: [&str; 8] =
    ["NODE", "ROLE", "RABBIT", "INDEX", "CONNECTED", "SINCE", "HEALTH", "MESSAGE"];

/// Returns the nodes that the coordinator knows.
pub(super) async fn list(coordinator: &CoordinatorArgs) -> Result<ListNodesResponse, Failure> {
    let channel = coordinator.channel().await?;
    let answer = ClusterClient::new(channel)
        .max_decoding_message_size(LARGEST_ANSWER)
        .list_nodes(ListNodesRequest {})
        .await;
    let failed = |status| Failure::grpc("list the coordinator's nodes", &status);
    Ok(answer.map_err(failed)?.into_inner())
}

pub(crate) async fn run(coordinator: &CoordinatorArgs, output: Output) -> Result<Exit, Failure> {
    let answer = list(coordinator).await?;
    if output.is_json() {
        output.json(&json(&answer))?;
        return Ok(Exit::Done);
    }
    for gap in &answer.gaps {
        output.note(&format!("incomplete: {gap}"));
    }
    if answer.nodes.is_empty() {
        output.note("no nodes: the SystemConfiguration names no node, and no node has connected");
        return Ok(Exit::Done);
    }
    let now = Timestamp::now().as_second();
    let rows: Vec<_> = answer.nodes.iter().map(|record| row(record, now)).collect();
    output.table(&HEADER.map(str::to_owned), &rows)?;
    Ok(Exit::Done)
}

fn row(record: &NodeRecord, now: i64) -> Vec<String> {
    let since = if record.since == 0 { String::new() } else { age(now - record.since) };
    vec![
        record.node.clone(),
        role(record).to_owned(),
        record.rabbit.clone(),
        record.index.map(|index| index.to_string()).unwrap_or_default(),
        if record.connected { "yes" } else { "no" }.to_owned(),
        since,
        health(record).to_owned(),
        message(record),
    ]
}

fn role(record: &NodeRecord) -> &'static str {
    match record.role() {
        Role::Compute => "compute",
        Role::Rabbit => "rabbit",
        Role::Unspecified => "",
    }
}

/// Returns the node's health; `unknown` for a node that is not connected, whatever it reported before.
fn health(record: &NodeRecord) -> &'static str {
    let Some(health) = record.health.as_ref().filter(|_| record.connected) else {
        return "unknown";
    };
    match health.state() {
        State::Ok => "ok",
        State::Warning => "warning",
        State::Critical => "critical",
        State::Unspecified => "unknown",
    }
}

pub(super) fn message(record: &NodeRecord) -> String {
    let health = record.health.clone().unwrap_or_default();
    let Health { message, capacity_total, capacity_allocated, .. } = health;
    let both: Vec<&str> = [record.certificate.as_str(), &message]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    let message = both.join("; ");
    if message.is_empty() && capacity_total > 0 {
        let [allocated, total] =
            [capacity_allocated, capacity_total].map(|bytes| ByteSize(bytes).display().iec());
        return format!("{allocated} of {total} allocated");
    }
    message
}

/// Formats seconds as kubectl shows ages.
pub(super) fn age(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..=119 => format!("{seconds}s"),
        seconds @ 120..=7199 => format!("{}m", seconds / 60),
        seconds @ 7200..=172_799 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

fn json(answer: &ListNodesResponse) -> Value {
    let nodes: Vec<Value> = answer
        .nodes
        .iter()
        .map(|record| {
            let health_record = record.health.clone().unwrap_or_default();
            json!({
                "node": record.node, "role": role(record), "rabbit": record.rabbit, "index": record.index,
                "connected": record.connected, "since": record.since, "version": record.version,
                "bootId": record.boot_id, "epoch": record.epoch, "health": health(record), "message": health_record.message,
                "certificate": record.certificate,
                "capacityBytes": health_record.capacity_total, "capacityAllocatedBytes": health_record.capacity_allocated,
            })
        })
        .collect();
    json!({"nodes": nodes, "gaps": answer.gaps})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_health_of_a_disconnected_node_is_unknown() {
        let health = Health { state: State::Ok.into(), ..Health::default() };
        let mut record = NodeRecord {
            node: "n".to_owned(),
            health: Some(health),
            connected: true,
            ..NodeRecord::default()
        };
        assert_eq!(row(&record, 0)[6], "ok");
        record.connected = false;
        assert_eq!(row(&record, 0)[6], "unknown");
    }

    #[test]
    fn a_healthy_rabbit_shows_its_capacity() {
        let health =
            Health { capacity_total: 36 << 40, capacity_allocated: 512 << 30, ..Health::default() };
        let record = NodeRecord { health: Some(health), ..NodeRecord::default() };
        assert_eq!(message(&record), "512.0 GiB of 36.0 TiB allocated");
    }

    #[test]
    fn an_age_is_shown_in_a_single_unit() {
        let ages = [(-5, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172_800, "2d")];
        for (seconds, text) in ages {
            assert_eq!(age(seconds), text);
        }
    }
}
