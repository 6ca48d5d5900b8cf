//! Reads a Workflow's progress from its object. Pure.

use api::workflow::WorkflowStatusKind;
use api::{Workflow, WorkflowState};
use kube::{Resource, ResourceExt};

/// The progress of a Workflow towards a state.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// The state is ready, or a later state was requested.
    Reached,
    Failed(String),
    Waiting(String),
    /// Teardown was requested, or the Workflow is being deleted.
    Ending,
}

/// Returns the progress of a Workflow towards a state.
#[must_use]
pub fn progress(workflow: &Workflow, state: &WorkflowState) -> Progress {
    if *state != WorkflowState::Teardown && is_ending(workflow) {
        return Progress::Ending;
    }
    let place = |state| WorkflowState::ORDER.iter().position(|other| other == state);
    if place(&workflow.spec.desired_state) > place(state) {
        return Progress::Reached;
    }
    let Some(status) =
        workflow.status.as_ref().filter(|status| status.state.as_ref() == Some(state))
    else {
        return Progress::Waiting("the state has not begun".to_owned());
    };
    if status.ready {
        return Progress::Reached;
    }
    let message_or = |instead: &str| {
        if status.message.is_empty() { instead } else { &status.message }.to_owned()
    };
    match &status.status {
        Some(WorkflowStatusKind::Error) => {
            Progress::Failed(message_or("the workflow engine gives no reason"))
        }
        _ => Progress::Waiting(message_or("the state has begun")),
    }
}

/// Returns whether Teardown was requested, or the Workflow is being deleted.
#[must_use]
pub fn is_ending(workflow: &Workflow) -> bool {
    workflow.spec.desired_state == WorkflowState::Teardown
        || workflow.meta().deletion_timestamp.is_some()
}

/// Returns the name of the Workflow's Computes, even before the engine has created the Computes.
#[must_use]
pub fn computes_of(workflow: &Workflow) -> String {
    let reference = workflow.status.as_ref().and_then(|status| status.computes.as_ref());
    reference.and_then(|computes| computes.name.clone()).unwrap_or_else(|| workflow.name_any())
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "json! makes values")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn workflow(status: Value) -> Workflow {
        serde_json::from_value(json!({
            "metadata": {"name": "w"},
            "spec": {"desiredState": "Setup", "wlmID": "w", "jobID": 1, "userID": 0, "groupID": 0, "dwDirectives": []},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_state_is_reached_when_it_is_ready_or_a_later_state_is_requested() {
        let judge = |status| progress(&workflow(status), &WorkflowState::Setup);
        let ahead = |desired: &str| {
            let mut workflow = workflow(json!({"state": "Setup", "ready": true}));
            workflow.spec.desired_state = desired.into();
            progress(&workflow, &WorkflowState::Setup)
        };
        assert_eq!(ahead("PreRun"), Progress::Reached, "another client requested a later state");
        assert_eq!(ahead("Teardown"), Progress::Ending);
        assert_eq!(
            judge(json!({"state": "Setup", "ready": true, "status": "Completed"})),
            Progress::Reached
        );
        let before = json!({"state": "Proposal", "ready": true, "status": "Completed"});
        assert_eq!(judge(before), Progress::Waiting("the state has not begun".to_owned()));
        let error = json!({"state": "Setup", "ready": false, "status": "Error", "message": "DW Directive 0: no"});
        assert_eq!(judge(error), Progress::Failed("DW Directive 0: no".to_owned()));
        let later = json!({"state": "Setup", "ready": false, "status": "TransientCondition", "message": "m"});
        assert_eq!(judge(later), Progress::Waiting("m".to_owned()));
        let begun = json!({"state": "Setup", "ready": false, "status": "DriverWait"});
        assert_eq!(judge(begun), Progress::Waiting("the state has begun".to_owned()));
    }
}
