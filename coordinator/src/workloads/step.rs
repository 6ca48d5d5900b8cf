//! Decides the next step of a call that advances a Workflow to a state. Pure.

use api::{Workflow, WorkflowState};
use workload::is_ending;

/// The next step of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// None: the Workflow has reached the state, or a later one.
    Reached,
    Request(WorkflowState),
    Wait(WorkflowState),
    /// None: the Workflow is being torn down.
    TearingDown,
}

/// Returns the next step for a Workflow on its way to `target`.
pub(super) fn step(workflow: &Workflow, target: &WorkflowState) -> Step {
    let desired = &workflow.spec.desired_state;
    let is_ready = workflow
        .status
        .as_ref()
        .is_some_and(|status| status.ready && status.state.as_ref() == Some(desired));
    if *target == WorkflowState::Teardown {
        return match (desired == target, is_ready) {
            (true, true) => Step::Reached,
            (true, false) => Step::Wait(target.clone()),
            (false, _) => Step::Request(target.clone()),
        };
    }
    if is_ending(workflow) {
        return Step::TearingDown;
    }
    if order(desired) > order(target) || (desired == target && is_ready) {
        return Step::Reached;
    }
    if !is_ready {
        return Step::Wait(desired.clone());
    }
    desired.next().map_or(Step::TearingDown, |next| Step::Request(next.clone()))
}

/// Returns whether `state` or a later one was requested.
pub(super) fn was_requested(workflow: &Workflow, state: &WorkflowState) -> bool {
    order(&workflow.spec.desired_state) >= order(state)
}

fn order(state: &WorkflowState) -> Option<usize> {
    WorkflowState::ORDER.iter().position(|other| other == state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workflow(desired: &str, state: &str, ready: bool) -> Workflow {
        serde_json::from_value(json!({
            "metadata": {"name": "s-1"},
            "spec": {"desiredState": desired, "wlmID": "s", "jobID": "1", "userID": 0, "groupID": 0, "dwDirectives": []},
            "status": {"state": state, "ready": ready},
        }))
        .unwrap()
    }

    #[test]
    fn states_are_requested_one_after_the_other() {
        let start = |desired: &str, state: &str, ready| {
            step(&workflow(desired, state, ready), &WorkflowState::PreRun)
        };
        assert_eq!(start("Setup", "Setup", false), Step::Wait(WorkflowState::Setup));
        assert_eq!(start("Setup", "Setup", true), Step::Request(WorkflowState::DataIn));
        assert_eq!(start("DataIn", "Setup", true), Step::Wait(WorkflowState::DataIn));
        assert_eq!(start("PreRun", "PreRun", true), Step::Reached);
        assert_eq!(start("DataOut", "DataOut", false), Step::Reached);
        assert_eq!(start("Teardown", "PreRun", true), Step::TearingDown);
    }

    #[test]
    fn teardown_is_requested_from_every_state() {
        let end = |desired: &str, state: &str, ready| {
            step(&workflow(desired, state, ready), &WorkflowState::Teardown)
        };
        assert_eq!(end("DataIn", "DataIn", false), Step::Request(WorkflowState::Teardown));
        assert_eq!(end("Teardown", "DataIn", true), Step::Wait(WorkflowState::Teardown));
        assert_eq!(end("Teardown", "Teardown", true), Step::Reached);
    }
}
