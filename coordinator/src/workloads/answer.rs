//! Builds the answer to a call about a job. Pure.

use api::Workflow;
use jiff::Timestamp;
use kube::ResourceExt;
use proto::v1::node_condition::Condition;
use proto::v1::{JobId, Verdict, Workload};
use workload::{Progress, progress};

use super::deadlines::{Deadlines, Record};
use super::job::ABORTED;
use super::tolerance::Tolerance;

/// The outcome of a call that was to bring a job's Workflow to a state.
#[derive(Clone, Debug)]
pub(super) enum Ending {
    Done,
    /// The call has requested the state, and does not wait for it.
    Requested,
    /// The deadline of the state passed.
    Late(Record),
    /// The engine cannot reach the state unless a user changes the request; with the engine's message.
    Failed(String),
    /// The job is being torn down, or is gone.
    TearingDown,
}

/// Returns whether a Workflow belongs to job `id`.
pub(super) fn belongs_to(workflow: &Workflow, id: &JobId) -> bool {
    let spec = &workflow.spec;
    spec.wlm_id == id.manager && spec.job_id == id.job.as_str().into()
}

/// Returns the first field in which an existing Workflow differs from the wanted Workflow.
pub(super) fn difference(known: &Workflow, wanted: &Workflow) -> Option<&'static str> {
    let (old, new) = (&known.spec, &wanted.spec);
    let same = [
        ("manager", old.wlm_id == new.wlm_id && old.job_id == new.job_id),
        ("user", old.user_id == new.user_id),
        ("group", old.group_id == new.group_id),
        ("set of directives", old.directives == new.directives),
        ("tolerance", Tolerance::read(known).nodes == Tolerance::read(wanted).nodes),
    ];
    same.into_iter().find(|(_, is_same)| !is_same).map(|(field, _)| field)
}

/// Returns the answer about a job that has no Workflow.
pub(super) fn unknown(id: &JobId) -> Workload {
    Workload { job: Some(id.clone()), ..Workload::default() }
}

/// Returns the job's state as its Workflow records it.
pub(super) fn workload(id: &JobId, workflow: &Workflow, now: Timestamp) -> Workload {
    let spec = &workflow.spec;
    let status = workflow.status.clone().unwrap_or_default();
    let tolerance = Tolerance::read(workflow);
    let number = |id: i64| u32::try_from(id).unwrap_or_default();
    let text = |text: Option<String>| text.unwrap_or_default();
    Workload {
        job: Some(id.clone()),
        workflow: format!("{}/{}", text(workflow.namespace()), workflow.name_any()),
        state: text(status.state.map(|state| state.to_string())),
        desired_state: spec.desired_state.to_string(),
        ready: status.ready,
        message: with_directive_line(workflow, &status.message),
        status: text(status.status.map(|status| status.to_string())),
        env: status.env.into_iter().collect(),
        user_id: number(spec.user_id),
        group_id: number(spec.group_id),
        deadlines: Deadlines::read(workflow).to_proto(workflow, now),
        aborted: workflow.annotations().get(ABORTED).cloned().unwrap_or_default(),
        tolerance: tolerance.nodes,
        lost: tolerance.lost_nodes(),
        ..Workload::default()
    }
}

/// Returns the outcome of the state that was requested last, as far as it is known now.
pub(super) fn current_ending(workflow: &Workflow, now: Timestamp) -> Ending {
    let state = &workflow.spec.desired_state;
    match progress(workflow, state) {
        Progress::Reached => Ending::Done,
        Progress::Ending => Ending::TearingDown,
        Progress::Failed(message) => Ending::Failed(message),
        Progress::Waiting(_) => match Deadlines::read(workflow).missed(workflow, now) {
            Some(record) => Ending::Late(record.clone()),
            None => Ending::Requested,
        },
    }
}

/// Adds the verdict on the call, with message and remedy, to an answer.
pub(super) fn with_verdict(mut answer: Workload, workflow: &Workflow, ending: &Ending) -> Workload {
    let (verdict, message, remedy) = match ending {
        Ending::Done => (Verdict::Done, String::new(), ""),
        Ending::Requested => {
            (Verdict::NotYet, format!("{} is requested", answer.desired_state), "call again")
        }
        Ending::TearingDown => (
            Verdict::Cancelled,
            if answer.aborted.is_empty() {
                "the job is being torn down".to_owned()
            } else {
                format!("the job was aborted by {}", answer.aborted)
            },
            "call Teardown, which waits until the Workflow is deleted",
        ),
        Ending::Failed(message) => (
            verdict_on_failure(message),
            with_directive_line(workflow, message),
            "correct what the message names, then call Teardown and create the job again",
        ),
        Ending::Late(record) => late(&answer, record),
    };
    answer.set_verdict(verdict);
    if verdict != Verdict::Done {
        answer.message = causes::message(&message);
        answer.remedy = remedy.to_owned();
    }
    answer
}

/// Returns the verdict on a failure. The error type in the engine's message says whether the request or the storage is
/// at fault.
fn verdict_on_failure(message: &str) -> Verdict {
    let is_request = ["User error:", "WLM error:"].iter().any(|kind| message.contains(kind));
    if is_request { Verdict::BadRequest } else { Verdict::StorageFault }
}

fn late(answer: &Workload, record: &Record) -> (Verdict, String, &'static str) {
    let bad: Vec<String> = answer
        .nodes
        .iter()
        .filter(|node| matches!(node.condition(), Condition::Faulty | Condition::Down))
        .map(|node| format!("{}: {}", node.node, node.evidence))
        .collect();
    let seconds = record.due.as_second() - record.asked.as_second();
    let mut message = format!(
        "{} is not ready: the deadline that {} set at {:.0} passed after {seconds} s",
        answer.desired_state, record.owner, record.asked
    );
    for part in [bad.join("; "), answer.message.clone()] {
        if !part.is_empty() {
            message.push_str(": ");
            message.push_str(&part);
        }
    }
    if bad.is_empty() {
        let remedy = "waits_for lists the open steps; renew the deadline, or call Teardown";
        return (Verdict::NotYet, message, remedy);
    }
    let remedy =
        "take these nodes out of service and call Teardown, or repair them and renew the deadline";
    (Verdict::NodeFault, message, remedy)
}

/// Returns the engine's message, with the `#DW` line of the directive that the message is about.
fn with_directive_line(workflow: &Workflow, message: &str) -> String {
    let index_and_text =
        message.strip_prefix("DW Directive ").and_then(|rest| rest.split_once(": "));
    let line = index_and_text.and_then(|(index, text)| {
        let line = workflow.spec.directives.get(index.parse::<usize>().ok()?)?;
        Some(format!("directive {index} `{}`: {text}", causes::quoted(line)))
    });
    causes::message(&line.unwrap_or_else(|| message.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workflow() -> Workflow {
        let directives = vec!["#DW jobdw type=xfs capacity=1GiB name=a".to_owned()];
        workload::job("default", "s-1", ("s", "1"), (7, 7), directives)
    }

    #[test]
    fn the_answer_to_a_failure_quotes_its_directive_and_has_the_verdict_of_the_error_type() {
        let id = JobId { manager: "s".to_owned(), job: "1".to_owned() };
        let answer = |message: &str| {
            let answer = workload(&id, &workflow(), Timestamp::now());
            with_verdict(answer, &workflow(), &Ending::Failed(message.to_owned()))
        };
        let user = answer("DW Directive 0: User error: no such profile");
        assert_eq!(user.verdict(), Verdict::BadRequest);
        let line =
            "directive 0 `#DW jobdw type=xfs capacity=1GiB name=a`: User error: no such profile";
        assert_eq!(user.message, line);
        let machine = answer("DW Directive 7: Internal error: mkfs failed");
        assert_eq!(machine.verdict(), Verdict::StorageFault);
        assert_eq!(machine.message, "DW Directive 7: Internal error: mkfs failed");
        assert!(machine.remedy.contains("Teardown"));
        let long = answer(&format!("DW Directive 0: User error: \u{1b}[2J{}", "x".repeat(1 << 20)));
        assert!(long.message.len() <= causes::MESSAGE, "{}", long.message.len());
        assert!(!long.message.contains(char::is_control), "{}", long.message);
    }

    #[test]
    fn a_workflow_belongs_to_a_job_by_manager_and_id_and_not_by_its_name() {
        let id =
            |manager: &str, job: &str| JobId { manager: manager.to_owned(), job: job.to_owned() };
        assert!(belongs_to(&workflow(), &id("s", "1")));
        assert!(!belongs_to(&workflow(), &id("s-1", "")));
        let mut other = workflow();
        other.spec.directives.clear();
        assert_eq!(difference(&workflow(), &other), Some("set of directives"));
        assert_eq!(difference(&workflow(), &workflow()), None);
    }
}
