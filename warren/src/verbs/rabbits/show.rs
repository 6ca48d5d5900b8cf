//! Shows all that is known about one rabbit.

use api::nnf_node::NnfDriveStatus;
use cli::{Exit, Output};
use kube::Client;
use serde_json::json;

use super::{Line, iec, jobs, line, nodes, storages};
use crate::{
    args::workflow::Hosts, client::CoordinatorArgs, failure::Failure, verbs::nodes as roster,
};

const DRIVES: [&str; 6] = ["SLOT", "SERIAL", "MODEL", "SIZE", "WEAR", "STATUS"];

/// Prints the rabbit's status, agent, drives, links and users. A part that cannot be read is named as unknown.
///
/// # Errors
/// When there is no Storage of the rabbit.
pub(super) async fn run(
    client: &Client,
    coordinator: &CoordinatorArgs,
    rabbit: &str,
    output: Output,
) -> Result<Exit, Failure> {
    let wanted = [Hosts(vec![rabbit.to_owned()])];
    let found = storages(client, &wanted, output).await?;
    let Some(storage) = found.first() else { return Ok(Exit::Failed) };
    let node = nodes(client, output).await?.remove(rabbit).and_then(|node| node.status);
    let users = jobs::by_rabbit(client, output).await?.remove(rabbit).unwrap_or_default();
    let agent = agent(coordinator, rabbit).await;
    let (drives, summary) =
        (node.map(|node| node.drives).unwrap_or_default(), line(storage, jobs::workflows(&users)));
    if output.is_json() {
        let users: Vec<_> =
            users.iter().map(|(user, bytes)| json!({"user": user, "bytes": bytes})).collect();
        output
            .json(&json!({"summary": summary, "agent": agent, "drives": drives, "users": users}))?;
        return Ok(Exit::Done);
    }
    output.line(&format!("rabbit     {rabbit}"))?;
    output.line(&format!("status     {}", with_reason(&summary.status, &summary.reason)))?;
    output.line(&format!("agent      {agent}"))?;
    output.line(&format!("free       {}", iec(summary.free)))?;
    output.line(&format!("computes   {}", computes(&summary)))?;
    for (user, bytes) in &users {
        output.line(&format!(
            "{:<10} {}/{}: {}",
            jobs::kind(user),
            user.namespace,
            user.name,
            iec(*bytes)
        ))?;
    }
    let rows: Vec<_> = drives.iter().map(row).collect();
    output.table(&DRIVES.map(str::to_owned), &rows)?;
    Ok(Exit::Done)
}

/// Says whether the rabbit's agent is connected, and what it reports.
async fn agent(coordinator: &CoordinatorArgs, rabbit: &str) -> String {
    let known = match roster::list(coordinator).await {
        Ok(known) => known,
        Err(failure) => return format!("not known: {}", failure.text()),
    };
    let Some(record) = known.nodes.iter().find(|record| record.node == rabbit) else {
        return "not known to the coordinator".to_owned();
    };
    let version = &record.version;
    match (record.connected, roster::message(record)) {
        (false, _) => "not connected".to_owned(),
        (true, message) if message.is_empty() => format!("connected, version {version}"),
        (true, message) => format!("connected, version {version}: {message}"),
    }
}

fn with_reason(status: &str, reason: &str) -> String {
    if reason.is_empty() { status.to_owned() } else { format!("{status}: {reason}") }
}

/// Returns the computes as a host list, and each link that is not Ready.
fn computes(summary: &Line) -> String {
    let links = summary.links.iter().map(|(compute, state)| format!("link of {compute} {state}"));
    [summary.computes.clone()].into_iter().chain(links).collect::<Vec<_>>().join("; ")
}

fn row(drive: &NnfDriveStatus) -> Vec<String> {
    let status = drive.status.as_ref().map(ToString::to_string).unwrap_or_default();
    let wear = format!("{} %", drive.wear_level);
    vec![
        drive.slot.clone(),
        drive.serial_number.clone(),
        drive.model.clone(),
        iec(drive.capacity),
        wear,
        status,
    ]
}
