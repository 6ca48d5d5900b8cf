use api::node_containers::NodeContainersState;
use serde_json::{Value, json};

use super::*;
use crate::container::{
    desired::tests::{UID, desired},
    observed::Container as Seen,
};

/// This many seconds after the containers were taken up.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

pub(crate) fn fresh() -> Record {
    let (asked, answered, logs) = (None, None, Vec::new());
    Record {
        start: at(0),
        attempt: 0,
        is_late: false,
        end: None,
        end_time: None,
        asked,
        answered,
        logs,
    }
}

pub(crate) fn ended(code: i32, seconds: i64) -> State {
    State::Ended { code, is_out_of_memory: false, at: at(seconds) }
}

/// Attempts from 1 on, each with its containers and whether anything of it runs.
pub(crate) fn seen(attempts: &[(&[(&str, State)], bool)]) -> Observed {
    let container = |(name, state): &(&str, State)| {
        let log = if matches!(state, State::Ended { .. }) { "its last words\n" } else { "" };
        ((*name).to_owned(), Seen { state: *state, monitor: None, log: log.to_owned() })
    };
    let attempt = |(containers, is_running): &(&[(&str, State)], bool)| observed::Attempt {
        is_running: *is_running,
        is_connected: false,
        containers: containers.iter().map(container).collect(),
    };
    let attempts = (1..).zip(attempts.iter().map(attempt)).collect();
    Observed { has_directory: true, has_files: true, attempts, ..Observed::default() }
}

fn steps(
    edit: impl FnOnce(&mut Value),
    observed: &Observed,
    record: &Record,
    now: Timestamp,
) -> Vec<String> {
    let steps = plan(&desired(edit), observed, record, true, now);
    steps.iter().map(|step| step.to_string().replace(UID, "U")).collect()
}

fn with_first(spec: &mut Value) {
    spec["initContainers"] =
        json!([{"name": "first", "image": "first:1", "imagePullPolicy": "Always"}]);
}

#[test]
fn files_pod_and_containers_are_made_before_anything_starts() {
    let none = Observed::default();
    let expected = [
        "write files of containers U",
        "make pod warren-U-1",
        "make container warren-U-1-first of first:1",
        "make container warren-U-1-app of app:1",
    ];
    assert_eq!(steps(with_first, &none, &fresh(), at(0)), expected);
    assert_eq!(
        plan(&desired(|_| {}), &none, &fresh(), false, at(0)),
        [],
        "its storage is not there"
    );
}

#[test]
fn a_step_that_was_cut_off_is_made_up_for() {
    let cut = seen(&[(&[("first", State::Created)], false)]);
    let made = ["make container warren-U-1-app of app:1"];
    assert_eq!(steps(with_first, &cut, &fresh(), at(0)), made);
}

#[test]
fn those_that_come_first_end_before_the_others_start() {
    use State::{Created, Running};
    let now = |first, app| {
        steps(with_first, &seen(&[(&[("first", first), ("app", app)], true)]), &fresh(), at(0))
    };
    assert_eq!(now(Created, Created), ["start container warren-U-1-first"]);
    assert!(now(Running, Created).is_empty());
    assert_eq!(now(ended(0, 1), Created), ["start container warren-U-1-app"]);
    assert!(now(ended(0, 1), Running).is_empty());
    assert_eq!(now(ended(0, 1), ended(0, 2)), ["stop pod warren-U-1"], "what holds its network");
}

/// One of MPI, which has keys and a network.
fn of_mpi(spec: &mut Value) {
    spec["keys"] = json!({"namespace": "default", "name": "k"});
    spec["network"] = json!({"port": 5001, "place": 0, "rabbits": ["rabbit-1", "rabbit-2"]});
}

#[test]
fn keys_are_written_before_a_pod_is_made_and_removed_once_it_is_over() {
    let first = steps(of_mpi, &Observed::default(), &fresh(), at(0));
    assert_eq!(first[..2], ["write files of containers U", "write keys of containers U"]);
    let over = Observed { has_keys: true, ..seen(&[(&[("app", ended(0, 1))], true)]) };
    let last = ["stop pod warren-U-1", "remove keys of containers U"];
    assert_eq!(steps(of_mpi, &over, &fresh(), at(2)), last);
    let stopped = |spec: &mut Value| {
        of_mpi(spec);
        spec["suspend"] = json!(true);
    };
    let running = Observed { has_keys: true, ..seen(&[(&[("app", State::Running)], true)]) };
    assert_eq!(
        steps(stopped, &running, &fresh(), at(2)),
        last,
        "what is suspended has none either"
    );
    assert!(steps(stopped, &Observed::default(), &fresh(), at(2)).is_empty());
}

#[test]
fn a_pod_is_in_its_network_before_anything_of_it_starts() {
    let mut made = Observed { has_keys: true, ..seen(&[(&[("app", State::Created)], false)]) };
    assert_eq!(steps(of_mpi, &made, &fresh(), at(0)), ["connect pod warren-U-1"]);
    made.attempts.get_mut(&1).unwrap().is_connected = true;
    assert_eq!(steps(of_mpi, &made, &fresh(), at(0)), ["start container warren-U-1-app"]);
}

#[test]
fn what_failed_is_stopped_and_followed_by_another_after_a_while() {
    let failed = seen(&[(&[("app", ended(3, 5))], true)]);
    assert_eq!(steps(|_| {}, &failed, &fresh(), at(6)), ["stop pod warren-U-1"]);
    let stopped = seen(&[(&[("app", ended(3, 5))], false)]);
    assert!(steps(|_| {}, &stopped, &fresh(), at(14)).is_empty());
    let next = ["make pod warren-U-2", "make container warren-U-2-app of app:1"];
    assert_eq!(steps(|_| {}, &stopped, &fresh(), at(15)), next);
    let spent = seen(&[(&[("app", ended(3, 5))], false), (&[("app", ended(4, 20))], false)]);
    assert!(steps(|_| {}, &spent, &fresh(), at(1000)).is_empty());
    assert!(
        steps(
            with_first,
            &seen(&[(&[("first", ended(1, 5)), ("app", State::Created)], false)]),
            &fresh(),
            at(14)
        )
        .is_empty()
    );
}

#[test]
fn an_attempt_goes_on_until_its_last_container_has_ended() {
    let two = |spec: &mut Value| {
        let side = json!({"name": "side", "image": "side:1", "imagePullPolicy": "Never"});
        spec["containers"].as_array_mut().unwrap().push(side);
    };
    let one = seen(&[(&[("app", ended(3, 5)), ("side", State::Running)], true)]);
    assert!(steps(two, &one, &fresh(), at(1000)).is_empty());
    // The next begins so long after the last end.
    let both = seen(&[(&[("app", ended(3, 5)), ("side", ended(0, 500))], false)]);
    assert!(steps(two, &both, &fresh(), at(509)).is_empty());
    assert_eq!(steps(two, &both, &fresh(), at(510))[0], "make pod warren-U-2");
}

#[test]
fn what_somebody_removed_or_a_reboot_ended_counts_as_an_attempt() {
    let record = Record { attempt: 1, ..fresh() };
    assert_eq!(steps(|_| {}, &seen(&[]), &record, at(0))[0], "make pod warren-U-2");
    let lost = seen(&[(&[("app", State::Lost)], false)]);
    assert_eq!(steps(|_| {}, &lost, &record, at(0))[0], "make pod warren-U-2");
    let record = Record { attempt: 2, ..fresh() };
    assert!(steps(|_| {}, &lost, &record, at(0)).is_empty(), "the second was the last");
}

#[test]
fn nothing_is_ended_before_it_is_written_down_that_it_is_late() {
    let limit = |spec: &mut Value| spec["activeDeadlineSeconds"] = json!(60);
    let running = seen(&[(&[("app", State::Running)], true)]);
    assert!(steps(limit, &running, &fresh(), at(59)).is_empty());
    assert!(steps(limit, &running, &fresh(), at(60)).is_empty());
    let record = Record { is_late: true, ..fresh() };
    assert_eq!(steps(limit, &running, &record, at(60)), ["stop pod warren-U-1"]);
    // A limit that was taken out since does not bring them back.
    assert_eq!(steps(|_| {}, &running, &record, at(60)), ["stop pod warren-U-1"]);
}

#[test]
fn an_image_is_fetched_in_the_time_that_is_left() {
    let within = |limit: Option<i64>| {
        let desired = desired(|spec| spec["activeDeadlineSeconds"] = json!(limit));
        let steps = plan(&desired, &seen(&[]), &fresh(), true, at(45));
        let left = steps.into_iter().find_map(|step| match step {
            Step::Make(container) => Some(container.within),
            _ => None,
        });
        left.unwrap()
    };
    assert_eq!((within(Some(60)), within(None)), (Some(15), None));
}

#[test]
fn after_a_final_state_nothing_starts_and_nothing_runs() {
    let record = Record { end: Some(NodeContainersState::Succeeded), attempt: 1, ..fresh() };
    assert!(steps(|_| {}, &seen(&[]), &record, at(0)).is_empty());
    let again = seen(&[(&[("app", State::Running)], true)]);
    assert_eq!(steps(|_| {}, &again, &record, at(0)), ["stop pod warren-U-1"]);
}

#[test]
fn a_deleted_object_leaves_nothing() {
    let uid = UID.parse().unwrap();
    let all = seen(&[(&[("app", ended(1, 0))], false), (&[("app", State::Running)], true)]);
    let steps: Vec<String> =
        removal(uid, 5, &all).iter().map(|step| step.to_string().replace(UID, "U")).collect();
    let expected =
        ["remove pod warren-U-1", "remove pod warren-U-2", "remove files of containers U"];
    assert_eq!(steps, expected);
    let cut = Observed { has_directory: true, ..Observed::default() };
    assert_eq!(removal(uid, 5, &cut), [Step::RemoveFiles(uid)], "of an agent that was killed");
    assert!(removal(uid, 5, &Observed::default()).is_empty());
}

#[test]
fn what_an_attempt_s_containers_share_is_made_for_each_and_goes_once_it_is_over() {
    let shares = |spec: &mut Value| spec["emptyDirs"] = json!(["v"]);
    let with = |numbers: &[i64], attempts| Observed {
        volumes: numbers.iter().copied().collect(),
        ..seen(attempts)
    };
    let first = steps(shares, &with(&[], &[]), &fresh(), at(0));
    let made = ["make directories of pod warren-U-1", "make pod warren-U-1"];
    assert_eq!(first[..2], made, "{first:?}");
    let cut: &[(&[(&str, State)], bool)] = &[(&[], false)];
    let missing = steps(shares, &with(&[], cut), &fresh(), at(0));
    assert_eq!(missing, [made[0], "make container warren-U-1-app of app:1"]);
    assert_eq!(steps(shares, &with(&[1], cut), &fresh(), at(0)).len(), 1, "never made twice");
    let failed: &[(&[(&str, State)], bool)] = &[(&[("app", ended(1, 5))], false)];
    let waiting = steps(shares, &with(&[1], failed), &fresh(), at(6));
    assert_eq!(waiting, ["remove directories of pod warren-U-1"], "before the next begins");
    let next = steps(shares, &with(&[], failed), &fresh(), at(15));
    assert_eq!(next[0], "make directories of pod warren-U-2");
    let holds: &[(&[(&str, State)], bool)] = &[(&[("app", ended(0, 5))], true)];
    let stopping = steps(shares, &with(&[1], holds), &fresh(), at(6));
    assert_eq!(stopping, ["stop pod warren-U-1"], "something of it runs");
    let over: &[(&[(&str, State)], bool)] = &[(&[("app", ended(0, 5))], false)];
    assert_eq!(steps(shares, &with(&[1], over), &fresh(), at(6)), waiting);
    assert!(steps(shares, &with(&[], over), &fresh(), at(6)).is_empty());
    assert_eq!(removal(UID.parse().unwrap(), 0, &with(&[1], over)).len(), 2, "with the files");
}
