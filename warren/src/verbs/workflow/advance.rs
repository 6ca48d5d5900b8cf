//! Advances a workflow to the next state, or through all states up to a later state.

use api::{Workflow, WorkflowState};
use kube::{Client, ResourceExt};
use serde_json::json;
use workload::{Progress, progress};

use crate::args::workflow::{Advance, Owner};
use crate::failure::Failure;
use crate::workflow::life::Life;
use cli::Exit;
use cli::Output;

pub(super) async fn run(client: Client, args: &Advance, output: Output) -> Result<Exit, Failure> {
    let target = &args.workflow;
    let owner = Owner {
        namespace: target.namespace.clone(),
        name: Some(target.name.clone()),
        user: None,
        group: None,
    };
    let life = Life::new(client, &owner, target.timeout, output);
    let workflow = life.drive.get().await?;
    let now = &workflow.spec.desired_state;
    let ahead = ahead(now, args.to.as_ref())?;
    // Teardown may follow any state, so the command does not wait for a state that is not ready or has failed.
    if args.to == Some(WorkflowState::Teardown) && progress(&workflow, now) != Progress::Reached {
        return print(&life.go_to(&WorkflowState::Teardown).await?, output);
    }
    // Waits for the current state if it is not ready yet.
    let mut workflow = life.drive.reach(now, target.timeout).await?;
    if let Some(nodes) = &args.nodes {
        life.name_computes(&workflow, &nodes.0).await?;
    }
    for state in &ahead {
        workflow = match life.go_to(state).await {
            Err(failure)
                if args.to == Some(WorkflowState::Teardown)
                    && *state != WorkflowState::Teardown =>
            {
                output.note(&failure.text());
                return print(&life.go_to(&WorkflowState::Teardown).await?, output);
            }
            reached => reached?,
        };
    }
    print(&workflow, output)
}

/// Returns the states to go through.
fn ahead(now: &WorkflowState, to: Option<&WorkflowState>) -> Result<Vec<WorkflowState>, Failure> {
    let next = now.next().cloned();
    let Some(to) = to else {
        return next.map(|state| vec![state]).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("no state follows {now}"))
                .remedy("`warren workflow delete` removes the workflow")
        });
    };
    let later: Vec<_> = std::iter::successors(next, |state| state.next().cloned()).collect();
    match later.iter().position(|state| state == to) {
        Some(last) => Ok(later.into_iter().take(last + 1).collect()),
        None => Err(Failure::new(
            Exit::Usage,
            format!("--to {to}: the workflow is in {now}, and states do not go back"),
        )),
    }
}

/// Prints the workflow's state.
pub(super) fn print(workflow: &Workflow, output: Output) -> Result<Exit, Failure> {
    let status = workflow.status.clone().unwrap_or_default();
    let state = status.state.map(|state| state.to_string()).unwrap_or_default();
    if output.is_json() {
        output.json(&json!({"workflow": workflow.name_any(), "state": state, "ready": status.ready, "env": status.env}))?;
    } else {
        output.line(&format!("workflow/{} {state}", workflow.name_any()))?;
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_advances_through_each_state_in_order() {
        let words = |now: &str, to: Option<&str>| {
            let states = ahead(&now.into(), to.map(WorkflowState::from).as_ref());
            states
                .map(|states| states.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
                .map_err(|failure| failure.text())
        };
        assert_eq!(words("Proposal", None).unwrap(), "Setup");
        assert_eq!(words("Setup", Some("PostRun")).unwrap(), "DataIn PreRun PostRun");
        assert!(words("Teardown", None).unwrap_err().contains("no state follows Teardown"));
        assert!(words("PreRun", Some("Setup")).unwrap_err().contains("do not go back"));
        assert!(words("PreRun", Some("PreRun")).unwrap_err().contains("do not go back"));
    }
}
