use api::node_containers::NodeContainersState;
use serde_json::{Value, json};

use super::*;
use crate::kinds::container::{
    desired::tests::{UID, desired},
    observed::ObservedContainer,
};

/// Returns the time this many seconds after the start of the object.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

pub(crate) fn fresh() -> Record {
    let (requested, answered, logs) = (None, None, Vec::new());
    Record {
        start: at(0),
        attempt: 0,
        is_late: false,
        end: None,
        end_time: None,
        requested,
        answered,
        logs,
    }
}

pub(crate) fn exit_state(code: i32, seconds: i64) -> ContainerState {
    ContainerState::Ended { code, is_out_of_memory: false, at: at(seconds) }
}

/// Returns an observation of attempts, numbered from 1. Each element has the attempt's containers, and whether a
/// process of its pod runs.
pub(crate) fn seen(attempts: &[(&[(&str, ContainerState)], bool)]) -> Observed {
    let container = |(name, state): &(&str, ContainerState)| {
        let log =
            if matches!(state, ContainerState::Ended { .. }) { "its last words\n" } else { "" };
        (
            (*name).to_owned(),
            ObservedContainer { state: *state, monitor: None, log: log.to_owned() },
        )
    };
    let attempt =
        |(containers, is_running): &(&[(&str, ContainerState)], bool)| observed::ObservedAttempt {
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
fn files_pod_and_containers_are_created_before_any_start() {
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
        "the storage is not mounted"
    );
}

#[test]
fn a_missing_container_of_an_interrupted_attempt_is_created() {
    let cut = seen(&[(&[("first", ContainerState::Created)], false)]);
    let made = ["make container warren-U-1-app of app:1"];
    assert_eq!(steps(with_first, &cut, &fresh(), at(0)), made);
}

#[test]
fn init_containers_end_before_main_containers_start() {
    use ContainerState::{Created, Running};
    let now = |first, app| {
        steps(with_first, &seen(&[(&[("first", first), ("app", app)], true)]), &fresh(), at(0))
    };
    assert_eq!(now(Created, Created), ["start container warren-U-1-first"]);
    assert!(now(Running, Created).is_empty());
    assert_eq!(now(exit_state(0, 1), Created), ["start container warren-U-1-app"]);
    assert!(now(exit_state(0, 1), Running).is_empty());
    assert_eq!(
        now(exit_state(0, 1), exit_state(0, 2)),
        ["stop pod warren-U-1"],
        "the infra container still runs"
    );
}

/// Turns the object into an MPI run with keys and a network.
fn use_mpi(spec: &mut Value) {
    spec["keys"] = json!({"namespace": "default", "name": "k"});
    spec["network"] = json!({"port": 5001, "place": 0, "rabbits": ["rabbit-1", "rabbit-2"]});
}

#[test]
fn keys_are_written_before_the_pod_is_created_and_removed_after_its_end() {
    let first = steps(use_mpi, &Observed::default(), &fresh(), at(0));
    assert_eq!(first[..2], ["write files of containers U", "write keys of containers U"]);
    let over = Observed { has_keys: true, ..seen(&[(&[("app", exit_state(0, 1))], true)]) };
    let last = ["stop pod warren-U-1", "remove keys of containers U"];
    assert_eq!(steps(use_mpi, &over, &fresh(), at(2)), last);
    let stopped = |spec: &mut Value| {
        use_mpi(spec);
        spec["suspend"] = json!(true);
    };
    let running =
        Observed { has_keys: true, ..seen(&[(&[("app", ContainerState::Running)], true)]) };
    assert_eq!(
        steps(stopped, &running, &fresh(), at(2)),
        last,
        "the keys of a suspended object are removed too"
    );
    assert!(steps(stopped, &Observed::default(), &fresh(), at(2)).is_empty());
}

#[test]
fn a_pod_is_connected_before_its_containers_start() {
    let mut made =
        Observed { has_keys: true, ..seen(&[(&[("app", ContainerState::Created)], false)]) };
    assert_eq!(steps(use_mpi, &made, &fresh(), at(0)), ["connect pod warren-U-1"]);
    made.attempts.get_mut(&1).unwrap().is_connected = true;
    assert_eq!(steps(use_mpi, &made, &fresh(), at(0)), ["start container warren-U-1-app"]);
}

#[test]
fn a_failed_attempt_is_stopped_and_retried_after_a_delay() {
    let failed = seen(&[(&[("app", exit_state(3, 5))], true)]);
    assert_eq!(steps(|_| {}, &failed, &fresh(), at(6)), ["stop pod warren-U-1"]);
    let stopped = seen(&[(&[("app", exit_state(3, 5))], false)]);
    assert!(steps(|_| {}, &stopped, &fresh(), at(14)).is_empty());
    let next = ["make pod warren-U-2", "make container warren-U-2-app of app:1"];
    assert_eq!(steps(|_| {}, &stopped, &fresh(), at(15)), next);
    let spent =
        seen(&[(&[("app", exit_state(3, 5))], false), (&[("app", exit_state(4, 20))], false)]);
    assert!(steps(|_| {}, &spent, &fresh(), at(1000)).is_empty());
    assert!(
        steps(
            with_first,
            &seen(&[(&[("first", exit_state(1, 5)), ("app", ContainerState::Created)], false)]),
            &fresh(),
            at(14)
        )
        .is_empty()
    );
}

#[test]
fn an_attempt_lasts_until_its_last_container_ends() {
    let two = |spec: &mut Value| {
        let side = json!({"name": "side", "image": "side:1", "imagePullPolicy": "Never"});
        spec["containers"].as_array_mut().unwrap().push(side);
    };
    let first_ended =
        seen(&[(&[("app", exit_state(3, 5)), ("side", ContainerState::Running)], true)]);
    assert!(steps(two, &first_ended, &fresh(), at(1000)).is_empty());
    // The delay counts from the end of the container that ended last.
    let both_ended = seen(&[(&[("app", exit_state(3, 5)), ("side", exit_state(0, 500))], false)]);
    assert!(steps(two, &both_ended, &fresh(), at(509)).is_empty());
    assert_eq!(steps(two, &both_ended, &fresh(), at(510))[0], "make pod warren-U-2");
}

#[test]
fn an_attempt_counts_as_failed_after_its_pod_was_removed_or_the_rabbit_rebooted() {
    let record = Record { attempt: 1, ..fresh() };
    assert_eq!(steps(|_| {}, &seen(&[]), &record, at(0))[0], "make pod warren-U-2");
    let lost = seen(&[(&[("app", ContainerState::Lost)], false)]);
    assert_eq!(steps(|_| {}, &lost, &record, at(0))[0], "make pod warren-U-2");
    let record = Record { attempt: 2, ..fresh() };
    assert!(steps(|_| {}, &lost, &record, at(0)).is_empty(), "the second attempt was the last");
}

#[test]
fn containers_past_their_deadline_are_stopped_after_the_status_says_so() {
    let limit = |spec: &mut Value| spec["activeDeadlineSeconds"] = json!(60);
    let running = seen(&[(&[("app", ContainerState::Running)], true)]);
    assert!(steps(limit, &running, &fresh(), at(59)).is_empty());
    assert!(steps(limit, &running, &fresh(), at(60)).is_empty());
    let record = Record { is_late: true, ..fresh() };
    assert_eq!(steps(limit, &running, &record, at(60)), ["stop pod warren-U-1"]);
    // The record says that the deadline passed: a spec without a deadline does not restart the containers.
    assert_eq!(steps(|_| {}, &running, &record, at(60)), ["stop pod warren-U-1"]);
}

#[test]
fn fetching_an_image_may_take_only_the_time_until_the_deadline() {
    let pull_seconds = |limit: Option<i64>| {
        let desired = desired(|spec| spec["activeDeadlineSeconds"] = json!(limit));
        let steps = plan(&desired, &seen(&[]), &fresh(), true, at(45));
        let left = steps.into_iter().find_map(|step| match step {
            Step::Make(container) => Some(container.pull_seconds),
            _ => None,
        });
        left.unwrap()
    };
    assert_eq!((pull_seconds(Some(60)), pull_seconds(None)), (Some(15), None));
}

#[test]
fn after_a_final_state_running_pods_are_stopped_and_no_pod_is_started() {
    let record = Record { end: Some(NodeContainersState::Succeeded), attempt: 1, ..fresh() };
    assert!(steps(|_| {}, &seen(&[]), &record, at(0)).is_empty());
    let again = seen(&[(&[("app", ContainerState::Running)], true)]);
    assert_eq!(steps(|_| {}, &again, &record, at(0)), ["stop pod warren-U-1"]);
}

#[test]
fn removal_removes_pods_and_files() {
    let uid = UID.parse().unwrap();
    let all =
        seen(&[(&[("app", exit_state(1, 0))], false), (&[("app", ContainerState::Running)], true)]);
    let steps: Vec<String> =
        removal(uid, 5, &all).iter().map(|step| step.to_string().replace(UID, "U")).collect();
    let expected =
        ["remove pod warren-U-1", "remove pod warren-U-2", "remove files of containers U"];
    assert_eq!(steps, expected);
    let cut = Observed { has_directory: true, ..Observed::default() };
    assert_eq!(removal(uid, 5, &cut), [Step::RemoveFiles(uid)], "a killed agent left only files");
    assert!(removal(uid, 5, &Observed::default()).is_empty());
}

#[test]
fn shared_directories_are_created_per_attempt_and_removed_after_its_end() {
    let shares = |spec: &mut Value| spec["emptyDirs"] = json!(["v"]);
    let with = |numbers: &[i64], attempts| Observed {
        volumes: numbers.iter().copied().collect(),
        ..seen(attempts)
    };
    let first = steps(shares, &with(&[], &[]), &fresh(), at(0));
    let made = ["make directories of pod warren-U-1", "make pod warren-U-1"];
    assert_eq!(first[..2], made, "{first:?}");
    let cut: &[(&[(&str, ContainerState)], bool)] = &[(&[], false)];
    let missing = steps(shares, &with(&[], cut), &fresh(), at(0));
    assert_eq!(missing, [made[0], "make container warren-U-1-app of app:1"]);
    assert_eq!(
        steps(shares, &with(&[1], cut), &fresh(), at(0)).len(),
        1,
        "existing directories are not made again"
    );
    let failed: &[(&[(&str, ContainerState)], bool)] = &[(&[("app", exit_state(1, 5))], false)];
    let waiting = steps(shares, &with(&[1], failed), &fresh(), at(6));
    assert_eq!(
        waiting,
        ["remove directories of pod warren-U-1"],
        "the old directories are removed before the next attempt"
    );
    let next = steps(shares, &with(&[], failed), &fresh(), at(15));
    assert_eq!(next[0], "make directories of pod warren-U-2");
    let holds: &[(&[(&str, ContainerState)], bool)] = &[(&[("app", exit_state(0, 5))], true)];
    let stopping = steps(shares, &with(&[1], holds), &fresh(), at(6));
    assert_eq!(stopping, ["stop pod warren-U-1"], "a process of the attempt runs");
    let over: &[(&[(&str, ContainerState)], bool)] = &[(&[("app", exit_state(0, 5))], false)];
    assert_eq!(steps(shares, &with(&[1], over), &fresh(), at(6)), waiting);
    assert!(steps(shares, &with(&[], over), &fresh(), at(6)).is_empty());
    assert_eq!(
        removal(UID.parse().unwrap(), 0, &with(&[1], over)).len(),
        2,
        "the shared directories go with the files"
    );
}
