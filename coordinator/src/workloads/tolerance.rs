//! The number of computes that a job may lose before it starts, and the computes it has lost. Both are stored in an
//! annotation of the Workflow, beside the deadlines. Pure.
//!
//! A job continues without a compute only if a fault of the compute or of its rabbit was reported, and if the job waits
//! for nothing but such computes. The loss of the connection to an agent is no evidence of a fault.

use std::collections::{BTreeMap, BTreeSet};

use api::workflow::WorkflowDriverStatus;
use api::{Workflow, WorkflowState};
use directive::{Command, FileSystem};
use kube::ResourceExt;
use proto::v1::node_condition::Condition;
use proto::v1::{LostNode, NodeCondition, Role};
use serde::{Deserialize, Serialize};

/// Annotation with a [`Tolerance`] as JSON.
pub(super) const ANNOTATION: &str = "warren/tolerance";

/// The number of computes that a job may lose, and the computes it has lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tolerance {
    /// Number of computes that the job may lose.
    pub nodes: u32,
    /// Computes that the job has lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Lost>,
}

/// A compute that the job continues without, the state in which it was lost, and the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lost {
    pub node: String,
    pub state: WorkflowState,
    pub evidence: String,
}

impl Tolerance {
    /// Reads the tolerance from a Workflow's annotation. An annotation that cannot be read counts as no tolerance.
    pub(super) fn read(workflow: &Workflow) -> Self {
        let text = workflow.annotations().get(ANNOTATION);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Returns the annotation's text.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Converts the lost computes for an answer.
    pub(super) fn lost_nodes(&self) -> Vec<LostNode> {
        let to_proto = |lost: &Lost| LostNode {
            node: lost.node.clone(),
            state: lost.state.to_string(),
            evidence: lost.evidence.clone(),
        };
        self.lost.iter().map(to_proto).collect()
    }

    /// Returns whether a compute was lost in Setup. Such a compute has no storage, and is removed from the Computes.
    pub(super) fn is_left_out(&self, node: &str) -> bool {
        self.lost.iter().any(|lost| lost.node == node && lost.state == WorkflowState::Setup)
    }

    /// Returns this tolerance with more lost computes: those that delay the Workflow now. The caller then forces the
    /// Workflow's state ready, so that the job continues without them. `unready` has the nodes that are not ready, by
    /// directive.
    ///
    /// # Errors
    /// The reason why the job cannot continue without these computes.
    pub(super) fn after_losing(
        &self,
        workflow: &Workflow,
        nodes: &[NodeCondition],
        unready: &BTreeMap<u32, BTreeSet<String>>,
        rabbit_of: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let state = stuck_in(workflow)?;
        let mut after = self.clone();
        let rabbits =
            self.lost.iter().filter_map(|lost| rabbit_of.get(&lost.node)).map(String::as_str);
        let lost = newly_lost(state, nodes, rabbit_of, rabbits.collect())?.into_iter();
        // Adds no compute twice: the loss may be recorded already, while the state is not ready yet.
        after.lost.extend(lost.filter(|new| !self.lost.iter().any(|old| old.node == new.node)));
        let names: Vec<&str> = after.lost.iter().map(|lost| lost.node.as_str()).collect();
        let rabbits = names.iter().filter_map(|name| rabbit_of.get(*name)).map(String::as_str);
        waits_only_for(workflow, state, unready, &names.iter().copied().chain(rabbits).collect())?;
        let (count, names) = (names.len(), directive::hostlist::compress(&names));
        if u32::try_from(count).is_ok_and(|count| count <= self.nodes) {
            return Ok(after);
        }
        Err(format!("{count} computes are lost ({names}), and the job tolerates {}", self.nodes))
    }
}

/// Returns the state in which a Workflow waits, if that state may be forced.
fn stuck_in(workflow: &Workflow) -> Result<&WorkflowState, String> {
    let state = &workflow.spec.desired_state;
    let status = workflow.status.as_ref();
    let is_stuck =
        status.is_some_and(|status| status.state.as_ref() == Some(state) && !status.ready);
    match state {
        WorkflowState::Setup if is_stuck => {
            match workflow.spec.directives.iter().find(|line| spans(line)) {
                Some(line) => Err(format!("`{line}` spans its rabbits, and needs all of them")),
                None => Ok(state),
            }
        }
        WorkflowState::PreRun if is_stuck => Ok(state),
        _ => Err("computes are lost in Setup and PreRun only".to_owned()),
    }
}

/// Returns whether a directive's storage needs all of its rabbits, as storage that spans several rabbits does.
pub(super) fn spans(line: &str) -> bool {
    match command(line) {
        Some(Command::Jobdw(jobdw)) => jobdw.file_system == FileSystem::Lustre,
        Some(Command::CreatePersistent(_) | Command::DestroyPersistent(_)) => true,
        _ => false,
    }
}

/// Parses the command of a directive's line.
pub(super) fn command(line: &str) -> Option<Command> {
    Command::read(line)
}

/// Returns the computes that are not ready, each with the evidence of its own fault or of its rabbit's fault. If a node
/// is not ready and neither it nor its rabbit has evidence of a fault, returns an error that names the node.
/// `lost_before` has the rabbits whose computes were lost earlier.
fn newly_lost(
    state: &WorkflowState,
    nodes: &[NodeCondition],
    rabbit_of: &BTreeMap<String, String>,
    lost_before: BTreeSet<&str>,
) -> Result<Vec<Lost>, String> {
    let is_bad =
        |node: &NodeCondition| matches!(node.condition(), Condition::Faulty | Condition::Down);
    let (rabbits, computes): (Vec<&NodeCondition>, Vec<&NodeCondition>) =
        nodes.iter().partition(|node| node.role() == Role::Rabbit);
    let rabbits = rabbits.into_iter().filter(|rabbit| rabbit.condition() != Condition::Ready);
    let rabbits: BTreeMap<&str, &NodeCondition> =
        rabbits.map(|rabbit| (rabbit.node.as_str(), rabbit)).collect();
    let mut lost = Vec::new();
    let mut explained = lost_before;
    for compute in &computes {
        let rabbit = rabbit_of.get(&compute.node);
        let rabbit = rabbit.and_then(|rabbit| rabbits.get(rabbit.as_str()).copied());
        // In Setup no compute has a mount yet, so a compute seems ready. It lacks storage if its rabbit is not ready.
        let lacks_storage = *state == WorkflowState::Setup && rabbit.is_some();
        if compute.condition() == Condition::Ready && !lacks_storage {
            continue;
        }
        let evidence = match rabbit {
            _ if is_bad(compute) => compute.evidence.clone(),
            Some(rabbit) if is_bad(rabbit) => format!("{}: {}", rabbit.node, rabbit.evidence),
            _ => {
                let node = rabbit.filter(|_| lacks_storage).unwrap_or(compute);
                return Err(format!("no fault of {} was reported: {}", node.node, node.evidence));
            }
        };
        explained.extend(rabbit.map(|rabbit| rabbit.node.as_str()));
        lost.push(Lost { node: compute.node.clone(), state: state.clone(), evidence });
    }
    if let Some(rabbit) = rabbits.values().find(|rabbit| !explained.contains(rabbit.node.as_str()))
    {
        return Err(format!(
            "rabbit {} is not ready, and none of the lost computes belongs to it: {}",
            rabbit.node, rabbit.evidence
        ));
    }
    match lost.len() {
        0 => Err("no fault of a compute was reported".to_owned()),
        count if count == computes.len() => Err("the job would have no compute left".to_owned()),
        _ => Ok(lost),
    }
}

/// Fails if an incomplete directive waits for a node that is not in `lost`.
fn waits_only_for(
    workflow: &Workflow,
    state: &WorkflowState,
    unready: &BTreeMap<u32, BTreeSet<String>>,
    lost: &BTreeSet<&str>,
) -> Result<(), String> {
    let shares = workflow.status.iter().flat_map(|status| &status.drivers);
    let waits_for_lost = |share: &WorkflowDriverStatus| {
        let index = u32::try_from(share.dwd_index).ok();
        let nodes = index.and_then(|index| unready.get(&index));
        nodes.is_some_and(|nodes| nodes.iter().all(|node| lost.contains(node.as_str())))
    };
    let mut undone = shares.filter(|share| share.watch_state == *state && !share.completed);
    match undone.find(|share| !waits_for_lost(share)) {
        None => Ok(()),
        Some(share) => Err(format!(
            "directive {} waits for more than the lost computes: {}",
            share.dwd_index, share.message
        )),
    }
}

#[cfg(test)]
mod tests;
