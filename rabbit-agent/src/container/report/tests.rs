use api::names::annotation;
use kube::ResourceExt;
use serde_json::json;

use super::*;
use crate::container::{
    desired::tests::{desired, object},
    plan::tests::{at, ended, fresh, seen},
};

fn told(observed: &Observed, record: &Record, seconds: i64) -> (String, String) {
    let status = report(&desired(|_| {}), observed, record, None, at(seconds));
    (status.state.to_string(), status.message)
}

fn pair(state: &str, message: &str) -> (String, String) {
    (state.to_owned(), message.to_owned())
}

#[test]
fn an_attempt_is_ready_when_all_of_it_runs_and_over_when_nothing_does() {
    let one = |state, runs| told(&seen(&[(&[("app", state)], runs)]), &fresh(), 0);
    assert_eq!(told(&seen(&[]), &fresh(), 0), pair("Starting", ""));
    assert_eq!(one(State::Created, false), pair("Starting", ""));
    assert_eq!(one(State::Running, true), pair("Ready", ""));
    assert_eq!(one(ended(0, 0), true), pair("Ready", ""), "its network is still held");
    assert_eq!(one(ended(0, 0), false), pair("Succeeded", ""));
}

#[test]
fn a_failure_names_container_exit_code_or_signal_and_the_end_of_its_log() {
    let failed = |code| seen(&[(&[("app", ended(code, 0))], false)]);
    let exited = "container app exited with 3: its last words";
    assert_eq!(told(&failed(3), &fresh(), 0), pair("Starting", exited), "it is tried again");
    let killed = "container app was ended by signal 9: its last words";
    assert_eq!(told(&failed(137), &fresh(), 0), pair("Starting", killed));
    let twice = seen(&[(&[("app", ended(4, 0))], false), (&[("app", ended(3, 30))], false)]);
    assert_eq!(told(&twice, &fresh(), 30), pair("Failed", exited));
    let status = report(&desired(|_| {}), &twice, &fresh(), None, at(30));
    let logs: Vec<_> =
        status.logs.iter().map(|one| (one.attempt, &*one.container, &*one.text)).collect();
    assert_eq!(logs, [(1, "app", "its last words\n"), (2, "app", "its last words\n")]);
    assert_eq!(status.attempt, 2);
}

#[test]
fn what_keeps_them_from_going_on_is_told() {
    let status = report(&desired(|_| {}), &seen(&[]), &fresh(), Some("no such image"), at(0));
    assert_eq!(pair(status.state.as_str(), &status.message), pair("Starting", "no such image"));
    let gone = Record { attempt: 1, ..fresh() };
    let (_, message) = told(&seen(&[]), &gone, 0);
    assert!(message.contains("removed the containers of attempt 1"), "{message}");
    let lost = seen(&[(&[("app", State::Lost)], false)]);
    assert_eq!(told(&lost, &fresh(), 0).1, "container app ended with its rabbit");
}

#[test]
fn what_is_late_is_written_down_first_and_final_once_nothing_runs() {
    let limit = |spec: &mut serde_json::Value| spec["activeDeadlineSeconds"] = json!(60);
    let running = seen(&[(&[("app", State::Running)], true)]);
    let status = report(&desired(limit), &running, &fresh(), None, at(60));
    assert!(status.deadline_exceeded && status.state == NodeContainersState::Ready);
    let late = Record { is_late: true, attempt: 1, ..fresh() };
    let ending = report(&desired(limit), &running, &late, None, at(61));
    assert_eq!(ending.state, NodeContainersState::Ready);
    let ended = seen(&[(&[("app", ended(143, 61))], false)]);
    let status = report(&desired(limit), &ended, &late, None, at(61));
    assert_eq!(status.state, NodeContainersState::TooLate);
    // And so the next agent reads it.
    let mut stored = object(limit);
    stored.status = Some(status);
    let record = record(&stored, at(99));
    assert_eq!(record.end, Some(NodeContainersState::TooLate));
    assert_eq!((record.start, record.attempt, record.is_late), (at(0), 1, true));
}

#[test]
fn time_is_waited_for_where_it_alone_brings_something_about() {
    let limit = |spec: &mut serde_json::Value| spec["activeDeadlineSeconds"] = json!(60);
    let of = |observed: &Observed, seconds| {
        let next = again(&desired(limit), observed, &fresh(), at(seconds));
        next.map(|next| next.as_second() - at(0).as_second())
    };
    assert_eq!(of(&seen(&[(&[("app", State::Running)], true)]), 5), Some(60));
    assert_eq!(of(&seen(&[(&[("app", ended(1, 5))], false)]), 5), Some(15));
    assert_eq!(of(&seen(&[(&[("app", ended(0, 5))], false)]), 5), None);
    let running = seen(&[(&[("app", State::Running)], true)]);
    assert_eq!(again(&desired(|_| {}), &running, &fresh(), at(5)), None, "no timer runs");
}

#[test]
fn a_question_is_answered_with_the_logs_of_all_that_run_and_nothing_is_taken_back() {
    let say = |text: &str| {
        let mut seen = seen(&[
            (&[("app", ended(1, 0))], false),
            (&[("app", State::Running), ("side", State::Created)], true),
        ]);
        let app = seen.attempts.get_mut(&2).unwrap().containers.get_mut("app").unwrap();
        app.log = text.to_owned();
        seen
    };
    let told = |status: &NodeContainersStatus| -> Vec<(i64, String)> {
        status.logs.iter().map(|log| (log.attempt, log.text.clone())).collect()
    };
    let mut stored = object(|_| {});
    let mut pass = |asked: Option<&str>, seen: &str| {
        let asked = asked.map(|at| (annotation::LOGS_ASKED.to_owned(), at.to_owned()));
        stored.annotations_mut().extend(asked);
        let status = report(&desired(|_| {}), &say(seen), &record(&stored, at(0)), None, at(60));
        stored.status = Some(status.clone());
        (told(&status), status.logs_answered.map(|at| at.to_string()), record(&stored, at(0)).asked)
    };
    let first = (1, "its last words\n".to_owned());
    assert_eq!(pass(None, ""), (vec![first.clone()], None, None));
    let asked = "2027-01-15T08:01:00.000000Z";
    let answer = (vec![first.clone(), (2, "so far\n".to_owned())], Some(asked.to_owned()), None);
    assert_eq!(pass(Some(asked), "so far\n"), answer);
    assert_eq!(pass(None, ""), answer, "a pass that nobody asked writes nothing");
    let later = "2027-01-15T08:02:00.000000Z";
    assert_eq!(pass(Some(later), "more\n").0, [first, (2, "more\n".to_owned())]);
}

#[test]
fn what_was_told_of_one_that_ran_gives_way_to_its_last_words() {
    let log = |text: &str| NodeContainersLog {
        attempt: 1,
        container: "app".to_owned(),
        text: text.to_owned(),
    };
    let told = Record { logs: vec![log("so far\n")], ..fresh() };
    let ended = seen(&[(&[("app", ended(0, 0))], false)]);
    let status = report(&desired(|_| {}), &ended, &told, None, at(0));
    assert_eq!(status.logs, [log("its last words\n")]);
    assert!(report(&desired(|_| {}), &seen(&[]), &told, None, at(0)).logs.is_empty());
}
