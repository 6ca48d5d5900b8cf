//! How many computes a job may lose before it starts, and which it has lost. It is kept in an annotation of the Workflow, beside
//! the deadlines. Pure.
//!
//! A job goes on without a compute only when somebody reported what is wrong with it or with its rabbit, and when nothing else
//! keeps the job: silence is no evidence, and neither is a count.

use std::collections::{BTreeMap, BTreeSet};

use api::workflow::WorkflowDriverStatus;
use api::{Workflow, WorkflowState};
use directive::{Command, Directive, FileSystem};
use kube::ResourceExt;
use proto::v1::node_condition::Condition;
use proto::v1::{LostNode, NodeCondition, Role};
use serde::{Deserialize, Serialize};

/// The annotation: a Tolerance as JSON.
pub(super) const ANNOTATION: &str = "warren/tolerance";

/// How many computes a job may lose, and which it has lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tolerance {
    /// How many computes the job may lose.
    pub nodes: u32,
    /// The computes that the job has lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Lost>,
}

/// A compute that the job goes on without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lost {
    pub node: String,
    pub state: WorkflowState,
    pub evidence: String,
}

impl Tolerance {
    /// The tolerance in a Workflow's annotation. An annotation that cannot be read counts as no tolerance.
    pub(super) fn of(workflow: &Workflow) -> Self {
        let text = workflow.annotations().get(ANNOTATION);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The annotation's text.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn reported(&self) -> Vec<LostNode> {
        let lost = |one: &Lost| LostNode {
            node: one.node.clone(),
            state: one.state.to_string(),
            evidence: one.evidence.clone(),
        };
        self.lost.iter().map(lost).collect()
    }

    /// Whether a compute has no storage since Setup: it is none of the job's Computes any more.
    pub(super) fn is_left_out(&self, node: &str) -> bool {
        self.lost.iter().any(|one| one.node == node && one.state == WorkflowState::Setup)
    }

    /// The same, with the computes that a Workflow's state is to be forced ready without. `open` are the nodes that are not
    /// ready, by directive.
    ///
    /// # Errors
    /// Why the job does not go on, for the caller who waits.
    pub(super) fn after_losing(
        &self,
        workflow: &Workflow,
        nodes: &[NodeCondition],
        open: &BTreeMap<u32, BTreeSet<String>>,
        rabbit_of: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let state = stuck_in(workflow)?;
        let mut after = self.clone();
        let rabbits =
            self.lost.iter().filter_map(|one| rabbit_of.get(&one.node)).map(String::as_str);
        let lost = lost(state, nodes, rabbit_of, rabbits.collect())?.into_iter();
        // A coordinator may have written the loss before, and ended before the state was forced.
        after.lost.extend(lost.filter(|one| !self.lost.iter().any(|old| old.node == one.node)));
        let names: Vec<&str> = after.lost.iter().map(|one| one.node.as_str()).collect();
        let rabbits = names.iter().filter_map(|name| rabbit_of.get(*name)).map(String::as_str);
        waits_only_for(workflow, state, open, &names.iter().copied().chain(rabbits).collect())?;
        let (count, names) = (names.len(), directive::hostlist::compress(&names));
        if u32::try_from(count).is_ok_and(|count| count <= self.nodes) {
            return Ok(after);
        }
        Err(format!("{count} computes are lost ({names}), and it tolerates {}", self.nodes))
    }
}

/// The state in which a Workflow is stuck, if it is one that may be forced.
fn stuck_in(workflow: &Workflow) -> Result<&WorkflowState, String> {
    let state = &workflow.spec.desired_state;
    let status = workflow.status.as_ref();
    let is_stuck =
        status.is_some_and(|status| status.state.as_ref() == Some(state) && !status.ready);
    match state {
        WorkflowState::Setup if is_stuck => {
            match workflow.spec.directives.iter().find(|line| spans(line)) {
                Some(line) => Err(format!(
                    "`{line}` spans its rabbits: without one of them there is none of it"
                )),
                None => Ok(state),
            }
        }
        WorkflowState::PreRun if is_stuck => Ok(state),
        _ => Err("computes are lost in Setup and PreRun only".to_owned()),
    }
}

/// Whether a directive's storage spans its rabbits, and is made as a whole or not at all.
pub(super) fn spans(line: &str) -> bool {
    match command(line) {
        Some(Command::Jobdw(jobdw)) => jobdw.file_system == FileSystem::Lustre,
        Some(Command::CreatePersistent(_) | Command::DestroyPersistent(_)) => true,
        _ => false,
    }
}

/// The directive that a line is.
pub(super) fn command(line: &str) -> Option<Command> {
    Command::try_from(&line.parse::<Directive>().ok()?).ok()
}

/// The computes that are not ready, each with the evidence against it or against its rabbit. An error names a node that is
/// not ready without such evidence; `lost_before` are rabbits whose computes were lost before.
fn lost(
    state: &WorkflowState,
    nodes: &[NodeCondition],
    rabbit_of: &BTreeMap<String, String>,
    lost_before: BTreeSet<&str>,
) -> Result<Vec<Lost>, String> {
    let is_bad =
        |one: &NodeCondition| matches!(one.condition(), Condition::Faulty | Condition::Down);
    let (rabbits, computes): (Vec<&NodeCondition>, Vec<&NodeCondition>) =
        nodes.iter().partition(|one| one.role() == Role::Rabbit);
    let rabbits = rabbits.into_iter().filter(|one| one.condition() != Condition::Ready);
    let rabbits: BTreeMap<&str, &NodeCondition> =
        rabbits.map(|one| (one.node.as_str(), one)).collect();
    let mut lost = Vec::new();
    let mut explained = lost_before;
    for compute in &computes {
        let rabbit = rabbit_of.get(&compute.node);
        let rabbit = rabbit.and_then(|rabbit| rabbits.get(rabbit.as_str()).copied());
        // In Setup nothing is mounted: a compute is as its rabbit is.
        let has_none = *state == WorkflowState::Setup && rabbit.is_some();
        if compute.condition() == Condition::Ready && !has_none {
            continue;
        }
        let evidence = match rabbit {
            _ if is_bad(compute) => compute.evidence.clone(),
            Some(rabbit) if is_bad(rabbit) => format!("{}: {}", rabbit.node, rabbit.evidence),
            _ => {
                let of = rabbit.filter(|_| has_none).unwrap_or(compute);
                return Err(format!(
                    "nobody reported what is wrong with {}: {}",
                    of.node, of.evidence
                ));
            }
        };
        explained.extend(rabbit.map(|rabbit| rabbit.node.as_str()));
        lost.push(Lost { node: compute.node.clone(), state: state.clone(), evidence });
    }
    if let Some(rabbit) = rabbits.values().find(|one| !explained.contains(one.node.as_str())) {
        return Err(format!("{} is no compute: {}", rabbit.node, rabbit.evidence));
    }
    match lost.len() {
        0 => Err("no compute is to blame".to_owned()),
        count if count == computes.len() => Err("it would have no compute left".to_owned()),
        _ => Ok(lost),
    }
}

/// Checks that each directive that is not done waits for lost nodes only.
fn waits_only_for(
    workflow: &Workflow,
    state: &WorkflowState,
    open: &BTreeMap<u32, BTreeSet<String>>,
    lost: &BTreeSet<&str>,
) -> Result<(), String> {
    let shares = workflow.status.iter().flat_map(|status| &status.drivers);
    let is_held = |share: &WorkflowDriverStatus| {
        let index = u32::try_from(share.dwd_index).ok();
        let nodes = index.and_then(|index| open.get(&index));
        nodes.is_some_and(|nodes| nodes.iter().all(|node| lost.contains(node.as_str())))
    };
    let mut undone = shares.filter(|share| share.watch_state == *state && !share.completed);
    match undone.find(|share| !is_held(share)) {
        None => Ok(()),
        Some(share) => Err(format!(
            "directive {} waits for something else: {}",
            share.dwd_index, share.message
        )),
    }
}

#[cfg(test)]
mod tests;
