//! The answer to a caller who asks about a job. Pure.

use api::Workflow;
use jiff::Timestamp;
use kube::ResourceExt;
use proto::v1::node_condition::Condition;
use proto::v1::{JobId, Verdict, Workload};
use workload::{Progress, progress};

use super::deadlines::{Deadlines, Record};
use super::job::ABORTED;
use super::tolerance::Tolerance;

/// How far a call got.
#[derive(Clone, Debug)]
pub(super) enum Ending {
    Done,
    /// The call has asked for the state, and does not wait for it.
    Requested,
    /// The deadline passed.
    Late(Record),
    /// The engine cannot reach the state before somebody changes the request.
    Failed(String),
    /// The job is being torn down, or was.
    TearingDown,
}

/// Whether a Workflow is that of a job.
pub(super) fn is_of(workflow: &Workflow, id: &JobId) -> bool {
    let spec = &workflow.spec;
    spec.wlm_id == id.manager && spec.job_id == id.job.as_str().into()
}

/// The first field in which a Workflow differs from the wanted one.
pub(super) fn difference(known: &Workflow, wanted: &Workflow) -> Option<&'static str> {
    let (old, new) = (&known.spec, &wanted.spec);
    let same = [
        ("manager", old.wlm_id == new.wlm_id && old.job_id == new.job_id),
        ("user", old.user_id == new.user_id),
        ("group", old.group_id == new.group_id),
        ("set of directives", old.directives == new.directives),
        ("tolerance", Tolerance::of(known).nodes == Tolerance::of(wanted).nodes),
    ];
    same.into_iter().find(|(_, is_same)| !is_same).map(|(field, _)| field)
}

/// The answer about a job that has no Workflow.
pub(super) fn unknown(id: &JobId) -> Workload {
    Workload { job: Some(id.clone()), ..Workload::default() }
}

/// A job as its Workflow says.
pub(super) fn workload(id: &JobId, workflow: &Workflow, now: Timestamp) -> Workload {
    let spec = &workflow.spec;
    let status = workflow.status.clone().unwrap_or_default();
    let tolerance = Tolerance::of(workflow);
    let number = |id: i64| u32::try_from(id).unwrap_or_default();
    let text = |text: Option<String>| text.unwrap_or_default();
    Workload {
        job: Some(id.clone()),
        workflow: format!("{}/{}", text(workflow.namespace()), workflow.name_any()),
        state: text(status.state.map(|state| state.to_string())),
        desired_state: spec.desired_state.to_string(),
        ready: status.ready,
        message: shown(workflow, &status.message),
        status: text(status.status.map(|status| status.to_string())),
        env: status.env.into_iter().collect(),
        user_id: number(spec.user_id),
        group_id: number(spec.group_id),
        deadlines: Deadlines::of(workflow).reported(workflow, now),
        aborted: workflow.annotations().get(ABORTED).cloned().unwrap_or_default(),
        tolerance: tolerance.nodes,
        lost: tolerance.reported(),
        ..Workload::default()
    }
}

/// How far a job is when no call asks anything of it.
pub(super) fn at_rest(workflow: &Workflow, now: Timestamp) -> Ending {
    let state = &workflow.spec.desired_state;
    match progress(workflow, state) {
        Progress::Reached => Ending::Done,
        Progress::Ending => Ending::TearingDown,
        Progress::Failed(message) => Ending::Failed(message),
        Progress::Waiting(_) => match Deadlines::of(workflow).missed(workflow, now) {
            Some(record) => Ending::Late(record.clone()),
            None => Ending::Requested,
        },
    }
}

/// The answer at the end of a call: with the verdict on what the call was to do.
pub(super) fn ended(mut answer: Workload, workflow: &Workflow, ending: &Ending) -> Workload {
    let (verdict, message, remedy) = match ending {
        Ending::Done => (Verdict::Done, String::new(), ""),
        Ending::Requested => {
            (Verdict::NotYet, format!("{} is asked for", answer.desired_state), "call again")
        }
        Ending::TearingDown => (
            Verdict::Cancelled,
            if answer.aborted.is_empty() {
                "the job is being torn down".to_owned()
            } else {
                format!("the job was aborted by {}", answer.aborted)
            },
            "call Teardown, which waits until nothing is left",
        ),
        Ending::Failed(message) => (
            failed(message),
            shown(workflow, message),
            "put right what the message names, then call Teardown and begin anew",
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

/// The verdict on a failure: whose fault it is, by the error's type in the engine's message.
fn failed(message: &str) -> Verdict {
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
        let remedy = "waits_for names what it waits for; renew the deadline, or call Teardown";
        return (Verdict::NotYet, message, remedy);
    }
    let remedy =
        "take these nodes out of service and call Teardown, or mend them and renew the deadline";
    (Verdict::NodeFault, message, remedy)
}

/// The engine's message, with the `#DW` line of the directive that the message is about.
fn shown(workflow: &Workflow, message: &str) -> String {
    let named = message.strip_prefix("DW Directive ").and_then(|rest| rest.split_once(": "));
    let line = named.and_then(|(index, text)| {
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
    fn a_failure_names_the_directive_and_whose_fault_it_is() {
        let id = JobId { manager: "s".to_owned(), job: "1".to_owned() };
        let answer = |message: &str| {
            let answer = workload(&id, &workflow(), Timestamp::now());
            ended(answer, &workflow(), &Ending::Failed(message.to_owned()))
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
    fn another_job_of_the_same_name_is_another_job() {
        let id =
            |manager: &str, job: &str| JobId { manager: manager.to_owned(), job: job.to_owned() };
        assert!(is_of(&workflow(), &id("s", "1")));
        assert!(!is_of(&workflow(), &id("s-1", "")));
        let mut other = workflow();
        other.spec.directives.clear();
        assert_eq!(difference(&workflow(), &other), Some("set of directives"));
        assert_eq!(difference(&workflow(), &workflow()), None);
    }
}
