use api::names::annotation;
use kube::ResourceExt;
use serde_json::json;

use super::*;
use crate::kinds::container::{
    desired::tests::{desired, object},
    plan::tests::{at, exit_state, fresh, seen},
};

fn state_and_message(observed: &Observed, record: &Record, seconds: i64) -> (String, String) {
    let status = report(&desired(|_| {}), observed, record, None, at(seconds));
    (status.state.to_string(), status.message)
}

fn pair(state: &str, message: &str) -> (String, String) {
    (state.to_owned(), message.to_owned())
}

#[test]
fn the_state_is_ready_while_all_containers_run_and_final_once_no_process_runs() {
    let one_container =
        |state, runs| state_and_message(&seen(&[(&[("app", state)], runs)]), &fresh(), 0);
    assert_eq!(state_and_message(&seen(&[]), &fresh(), 0), pair("Starting", ""));
    assert_eq!(one_container(ContainerState::Created, false), pair("Starting", ""));
    assert_eq!(one_container(ContainerState::Running, true), pair("Ready", ""));
    assert_eq!(
        one_container(exit_state(0, 0), true),
        pair("Ready", ""),
        "the infra container still runs"
    );
    assert_eq!(one_container(exit_state(0, 0), false), pair("Succeeded", ""));
}

#[test]
fn a_failure_names_container_exit_code_or_signal_and_the_end_of_its_log() {
    let failed = |code| seen(&[(&[("app", exit_state(code, 0))], false)]);
    let exited = "container app exited with 3: its last words";
    assert_eq!(
        state_and_message(&failed(3), &fresh(), 0),
        pair("Starting", exited),
        "another attempt follows"
    );
    let killed = "container app was ended by signal 9: its last words";
    assert_eq!(state_and_message(&failed(137), &fresh(), 0), pair("Starting", killed));
    let twice =
        seen(&[(&[("app", exit_state(4, 0))], false), (&[("app", exit_state(3, 30))], false)]);
    assert_eq!(state_and_message(&twice, &fresh(), 30), pair("Failed", exited));
    let status = report(&desired(|_| {}), &twice, &fresh(), None, at(30));
    let logs: Vec<_> =
        status.logs.iter().map(|log| (log.attempt, &*log.container, &*log.text)).collect();
    assert_eq!(logs, [(1, "app", "its last words\n"), (2, "app", "its last words\n")]);
    assert_eq!(status.attempt, 2);
}

#[test]
fn the_message_says_why_containers_do_not_start() {
    let status = report(&desired(|_| {}), &seen(&[]), &fresh(), Some("no such image"), at(0));
    assert_eq!(pair(status.state.as_str(), &status.message), pair("Starting", "no such image"));
    let gone = Record { attempt: 1, ..fresh() };
    let (_, message) = state_and_message(&seen(&[]), &gone, 0);
    assert!(message.contains("the pod of attempt 1 was removed outside Warren"), "{message}");
    let lost = seen(&[(&[("app", ContainerState::Lost)], false)]);
    assert_eq!(
        state_and_message(&lost, &fresh(), 0).1,
        "container app ran when its rabbit stopped"
    );
}

#[test]
fn a_passed_deadline_is_recorded_while_containers_run_and_the_state_is_final_after_their_end() {
    let limit = |spec: &mut serde_json::Value| spec["activeDeadlineSeconds"] = json!(60);
    let running = seen(&[(&[("app", ContainerState::Running)], true)]);
    let status = report(&desired(limit), &running, &fresh(), None, at(60));
    assert!(status.deadline_exceeded && status.state == NodeContainersState::Ready);
    let late = Record { is_late: true, attempt: 1, ..fresh() };
    let ending = report(&desired(limit), &running, &late, None, at(61));
    assert_eq!(ending.state, NodeContainersState::Ready);
    let ended = seen(&[(&[("app", exit_state(143, 61))], false)]);
    let status = report(&desired(limit), &ended, &late, None, at(61));
    assert_eq!(status.state, NodeContainersState::TooLate);
    // An agent that starts later reads the same record.
    let mut stored = object(limit);
    stored.status = Some(status);
    let record = record(&stored, at(99));
    assert_eq!(record.end, Some(NodeContainersState::TooLate));
    assert_eq!((record.start, record.attempt, record.is_late), (at(0), 1, true));
}

#[test]
fn the_next_pass_is_due_when_the_next_attempt_may_start_or_at_the_deadline() {
    let limit = |spec: &mut serde_json::Value| spec["activeDeadlineSeconds"] = json!(60);
    let seconds_to_wait = |observed: &Observed, seconds| {
        let next = next_wake_up(&desired(limit), observed, &fresh(), at(seconds));
        next.map(|next| next.as_second() - at(0).as_second())
    };
    assert_eq!(seconds_to_wait(&seen(&[(&[("app", ContainerState::Running)], true)]), 5), Some(60));
    assert_eq!(seconds_to_wait(&seen(&[(&[("app", exit_state(1, 5))], false)]), 5), Some(15));
    assert_eq!(seconds_to_wait(&seen(&[(&[("app", exit_state(0, 5))], false)]), 5), None);
    let running = seen(&[(&[("app", ContainerState::Running)], true)]);
    assert_eq!(next_wake_up(&desired(|_| {}), &running, &fresh(), at(5)), None, "no timer runs");
}

#[test]
fn a_request_for_logs_is_answered_and_its_answer_stays() {
    let with_log = |text: &str| {
        let mut seen = seen(&[
            (&[("app", exit_state(1, 0))], false),
            (&[("app", ContainerState::Running), ("side", ContainerState::Created)], true),
        ]);
        let app = seen.attempts.get_mut(&2).unwrap().containers.get_mut("app").unwrap();
        app.log = text.to_owned();
        seen
    };
    let logs = |status: &NodeContainersStatus| -> Vec<(i64, String)> {
        status.logs.iter().map(|log| (log.attempt, log.text.clone())).collect()
    };
    let mut stored = object(|_| {});
    let mut pass = |requested: Option<&str>, seen: &str| {
        let requested = requested.map(|at| (annotation::LOGS_ASKED.to_owned(), at.to_owned()));
        stored.annotations_mut().extend(requested);
        let status =
            report(&desired(|_| {}), &with_log(seen), &record(&stored, at(0)), None, at(60));
        stored.status = Some(status.clone());
        (
            logs(&status),
            status.logs_answered.map(|at| at.to_string()),
            record(&stored, at(0)).requested,
        )
    };
    let first = (1, "its last words\n".to_owned());
    assert_eq!(pass(None, ""), (vec![first.clone()], None, None));
    let requested = "2027-01-15T08:01:00.000000Z";
    let answer =
        (vec![first.clone(), (2, "so far\n".to_owned())], Some(requested.to_owned()), None);
    assert_eq!(pass(Some(requested), "so far\n"), answer);
    assert_eq!(pass(None, ""), answer, "a pass without a request writes nothing");
    let later = "2027-01-15T08:02:00.000000Z";
    assert_eq!(pass(Some(later), "more\n").0, [first, (2, "more\n".to_owned())]);
}

#[test]
fn the_log_of_an_ended_container_replaces_the_log_that_was_reported_on_request() {
    let log = |text: &str| NodeContainersLog {
        attempt: 1,
        container: "app".to_owned(),
        text: text.to_owned(),
    };
    let answered = Record { logs: vec![log("so far\n")], ..fresh() };
    let ended = seen(&[(&[("app", exit_state(0, 0))], false)]);
    let status = report(&desired(|_| {}), &ended, &answered, None, at(0));
    assert_eq!(status.logs, [log("its last words\n")]);
    assert!(report(&desired(|_| {}), &seen(&[]), &answered, None, at(0)).logs.is_empty());
}
