//! What of a Workflow's new status is worth a line in the log and an Event: both are there when the Workflow is gone. Pure.

use api::{Workflow, WorkflowState, workflow::WorkflowStatusKind};
use controller::events::Note;

/// A state that fails or is delayed.
#[derive(Debug, PartialEq)]
struct Trouble<'a> {
    state: &'a WorkflowState,
    is_final: bool,
    message: &'a str,
}

/// What is new about the troubles of a Workflow.
#[must_use]
pub fn note(before: &Workflow, after: &Workflow) -> Option<Note> {
    const ACTION: &str = "DriveWorkflow";
    let (old, new) = (trouble(before), trouble(after));
    if old == new {
        return None;
    }
    if let Some(Trouble { state, is_final, message }) = new {
        let reason = if is_final { "StateFailed" } else { "StateDelayed" };
        return Some(Note::warning(reason, ACTION, format!("{state}: {message}")));
    }
    // Who goes on to Teardown gives up; nothing was mended.
    let state = old?.state;
    let goes_on = after.status.as_ref()?.state.as_ref() == Some(state);
    goes_on.then(|| Note::normal("StateResumed", ACTION, format!("{state}: the trouble is over")))
}

fn trouble(of: &Workflow) -> Option<Trouble<'_>> {
    let status = of.status.as_ref()?;
    let is_final = match status.status.as_ref()? {
        WorkflowStatusKind::Error => true,
        WorkflowStatusKind::TransientCondition => false,
        _ => return None,
    };
    Some(Trouble { state: status.state.as_ref()?, is_final, message: &status.message })
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn workflow(state: &str, status: &str, message: &str) -> Workflow {
        from_value(json!({
            "metadata": {"name": "w"},
            "spec": {"desiredState": state, "wlmID": "", "jobID": "", "userID": 1, "groupID": 1, "dwDirectives": []},
            "status": {"state": state, "ready": false, "status": status, "message": message},
        }))
        .unwrap()
    }

    #[test]
    fn each_trouble_is_noted_when_it_begins_changes_and_passes() {
        let good = workflow("PreRun", "DriverWait", "waits for mounts");
        let delayed = workflow("PreRun", "TransientCondition", "rabbit r is silent");
        let failed = workflow("PreRun", "Error", "no such image");
        let gone = workflow("Teardown", "DriverWait", "");
        let cases = [
            (&good, &good, None),
            (&good, &delayed, Some(("StateDelayed", "PreRun: rabbit r is silent"))),
            (&delayed, &delayed, None),
            (&delayed, &failed, Some(("StateFailed", "PreRun: no such image"))),
            (&delayed, &good, Some(("StateResumed", "PreRun: the trouble is over"))),
            (&failed, &gone, None),
        ];
        for (before, after, expected) in cases {
            let noted = note(before, after).map(|note| (note.reason, note.text()));
            assert_eq!(noted.as_ref().map(|(reason, text)| (*reason, &**text)), expected);
        }
    }
}
