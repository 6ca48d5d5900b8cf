//! Requests the plans of all nodes of a workflow from the coordinator.

use cli::{Exit, Output, exit_of_plans, plan_json};
use proto::v1::cluster_client::ClusterClient;
use proto::v1::{NodePlan, PlanWorkflowRequest};
use serde_json::{Value, json};

use crate::args::{Plan, PlannedState};
use crate::client::CoordinatorArgs;
use crate::failure::Failure;

pub(crate) async fn run(
    coordinator: &CoordinatorArgs,
    args: &Plan,
    output: Output,
) -> Result<Exit, Failure> {
    let request = PlanWorkflowRequest {
        namespace: args.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        workflow: args.workflow.clone().unwrap_or_default(),
        teardown: args.state == PlannedState::Teardown,
    };
    let channel = coordinator.channel().await?;
    let answer = ClusterClient::new(channel)
        .max_decoding_message_size(usize::MAX)
        .plan_workflow(request)
        .await
        .map_err(|status| Failure::grpc("request the plans of the workflow's nodes", &status))?;
    let nodes = answer.into_inner().nodes;
    if output.is_json() {
        output.json(&nodes.iter().map(to_json).collect::<Vec<_>>())?;
    } else {
        show(&nodes, output)?;
    }
    Ok(exit(&nodes))
}

/// Prints the plans of nodes, each under the name of its node.
pub(crate) fn show(nodes: &[NodePlan], output: Output) -> Result<(), Failure> {
    for node in nodes {
        if node.failure.is_empty() {
            output.line(&format!("{}:", node.node))?;
            node.plans.iter().try_for_each(|plan| output.plan(plan))?;
        } else {
            output.line(&format!("{}: no plan: {}", node.node, node.failure))?;
        }
    }
    Ok(())
}

pub(crate) fn to_json(node: &NodePlan) -> Value {
    json!({
        "node": node.node,
        "plans": node.plans.iter().map(plan_json).collect::<Vec<_>>(),
        "failure": node.failure,
    })
}

fn exit(nodes: &[NodePlan]) -> Exit {
    if nodes.iter().any(|node| !node.failure.is_empty()) {
        return Exit::Unreachable;
    }
    let exits = nodes.iter().map(|node| exit_of_plans(&node.plans));
    exits.into_iter().find(|exit| !matches!(exit, Exit::Done)).unwrap_or(Exit::Done)
}
