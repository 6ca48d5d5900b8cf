//! Proposes which rabbits to drain, from what their agents report about drives and links that get worse.

use std::collections::BTreeMap;

use api::{Storage, storage::StorageState};
use cli::{Exit, Output};
use kube::{Client, ResourceExt};
use proto::v1::{NodeRecord, Role};
use serde::Serialize;

use super::{change, jobs, storages};
use crate::{args::workflow::Hosts, client::CoordinatorArgs, failure::Failure, verbs::nodes};

/// A proposal to drain a rabbit.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Proposal {
    rabbit: String,
    /// Number of workflows that have storage on the rabbit.
    jobs: usize,
    /// What its agent reports, each with device and reading.
    reasons: Vec<String>,
    /// True if the rabbit is disabled already.
    disabled: bool,
}

/// Prints the proposals; with `act`, disables at most so many of the proposed rabbits.
pub(super) async fn run(
    client: &Client,
    coordinator: &CoordinatorArgs,
    act: Option<usize>,
    output: Output,
) -> Result<Exit, Failure> {
    let known = nodes::list(coordinator).await?;
    known.gaps.iter().for_each(|gap| output.note(&format!("incomplete: {gap}")));
    let storages = storages(client, &[], output).await?;
    let proposals = proposals(&known.nodes, &storages, &jobs::by_rabbit(client, output).await?);
    let silent = known.nodes.iter().filter(|node| node.role() == Role::Rabbit && !node.connected);
    silent.for_each(|node| {
        output.note(&format!("{}: not connected, so its drives are not known", node.node));
    });
    if output.is_json() {
        output.json(&proposals)?;
    } else if proposals.is_empty() {
        output.note("no connected rabbit reports a drive or link that gets worse");
    } else {
        proposals.iter().try_for_each(|proposal| output.line(&text(proposal)))?;
    }
    let is_there =
        |proposal: &&Proposal| storages.iter().any(|storage| storage.name_any() == proposal.rabbit);
    let to_disable = proposals.iter().filter(|proposal| !proposal.disabled).filter(is_there);
    for proposal in to_disable.take(act.unwrap_or(0)) {
        let rabbit = [Hosts(vec![proposal.rabbit.clone()])];
        change::run(client, &rabbit, Some(&proposal.reasons.join("; ")), output).await?;
    }
    Ok(Exit::Done)
}

fn proposals(
    nodes: &[NodeRecord],
    storages: &[Storage],
    jobs: &BTreeMap<String, jobs::Users>,
) -> Vec<Proposal> {
    let propose = |node: &NodeRecord| {
        let reasons = node.health.as_ref()?.worsening.clone();
        let storage = storages.iter().find(|storage| storage.name_any() == node.node);
        (node.connected && !reasons.is_empty()).then(|| Proposal {
            rabbit: node.node.clone(),
            jobs: jobs.get(&node.node).map_or(0, jobs::workflows),
            reasons,
            disabled: storage.is_some_and(|storage| storage.spec.state == StorageState::Disabled),
        })
    };
    nodes.iter().filter_map(propose).collect()
}

fn text(proposal: &Proposal) -> String {
    let Proposal { rabbit, jobs, reasons, disabled } = proposal;
    let after = match jobs {
        0 => String::new(),
        1 => " after its job".to_owned(),
        jobs => format!(" after its {jobs} jobs"),
    };
    let reasons = reasons.join("; ");
    if *disabled {
        format!("{rabbit} is disabled already: {reasons}")
    } else {
        format!("drain {rabbit}{after}: {reasons}")
    }
}

#[cfg(test)]
mod tests {
    use proto::v1::Health;

    use super::*;

    fn node(name: &str, connected: bool, worsening: &[&str]) -> NodeRecord {
        let worsening = worsening.iter().map(|text| (*text).to_owned()).collect();
        let health = Some(Health { worsening, ..Health::default() });
        NodeRecord { node: name.to_owned(), connected, health, ..NodeRecord::default() }
    }

    #[test]
    fn only_connected_rabbits_that_get_worse_are_proposed() {
        let errors = "drive in slot 4: 61 media errors, 12 at the previous check";
        let nodes =
            [node("r1", true, &[errors]), node("r2", true, &[]), node("r3", false, &[errors])];
        let user = |name: &str, persistent| jobs::User {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            persistent,
        };
        let users =
            BTreeMap::from([(user("w", false), 1), (user("v", false), 1), (user("p", true), 1)]);
        let all = BTreeMap::from([("r1".to_owned(), users)]);
        let found = proposals(&nodes, &[], &all);
        let lines: Vec<_> = found.iter().map(text).collect();
        assert_eq!(lines, [format!("drain r1 after its 2 jobs: {errors}")]);
    }
}
