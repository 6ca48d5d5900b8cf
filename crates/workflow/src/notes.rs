//! Chooses which status changes of a Workflow are logged and published as Events; both outlive the Workflow. Pure.

use api::{Workflow, WorkflowState, workflow::WorkflowStatusKind};
use controller::events::Note;

/// An error in a workflow's status: the state fails, or is delayed.
#[derive(Debug, PartialEq)]
struct Trouble<'a> {
    state: &'a WorkflowState,
    is_final: bool,
    message: &'a str,
}

/// Returns the note to publish if the error in a Workflow's status began, changed or ended.
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
    // Publish StateResumed only for the state that had the error: a workflow that went on to another state, such as
    // Teardown, has not resumed it.
    let state = old?.state;
    let has_continued = after.status.as_ref()?.state.as_ref() == Some(state);
    has_continued
        .then(|| Note::normal("StateResumed", ACTION, format!("{state}: the error has ended")))
}

fn trouble(workflow: &Workflow) -> Option<Trouble<'_>> {
    let status = workflow.status.as_ref()?;
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
    fn note_reports_an_error_when_it_begins_changes_and_ends() {
        let good = workflow("PreRun", "DriverWait", "waits for mounts");
        let delayed = workflow("PreRun", "TransientCondition", "rabbit r is silent");
        let failed = workflow("PreRun", "Error", "no such image");
        let gone = workflow("Teardown", "DriverWait", "");
        let cases = [
            (&good, &good, None),
            (&good, &delayed, Some(("StateDelayed", "PreRun: rabbit r is silent"))),
            (&delayed, &delayed, None),
            (&delayed, &failed, Some(("StateFailed", "PreRun: no such image"))),
            (&delayed, &good, Some(("StateResumed", "PreRun: the error has ended"))),
            (&failed, &gone, None),
        ];
        for (before, after, expected) in cases {
            let noted = note(before, after).map(|note| (note.reason, note.text()));
            assert_eq!(noted.as_ref().map(|(reason, text)| (*reason, &**text)), expected);
        }
    }
}
