use std::{sync::Arc, time::SystemTime};

use agent::{
    desired::Goal as MountGoal,
    error::Failure,
    received::ReceivedMount,
    reconcile::{Failed, MountOutcome, Outcome},
    testing::Chassis,
};
use api::{
    ClientMountStatus, NoProfile,
    client_mount::{ClientMountInfoStatus, MountState},
};
use proto::v1::{Directive, job_name::Name};

use super::*;

const MOUNT: Goal = Goal::Mounted { with_env: false, all_nodes: false };

fn job() -> JobName {
    JobName { name: Some(Name::Job("7".to_owned())) }
}

fn status(state: MountState, ready: bool) -> Vec<u8> {
    let mounts = vec![ClientMountInfoStatus { state, ready }];
    serde_json::to_vec(&ClientMountStatus { mounts, all_ready: ready, error: None }).unwrap()
}

/// Creates a ClientMount as the API stores it.
fn stored_mount(desired: &str, status: Vec<u8>) -> JobMount {
    JobMount {
        name: "job-0".to_owned(),
        uid: "a".to_owned(),
        desired_state: desired.to_owned(),
        held: true,
        status,
        directive: Some(0),
        ..JobMount::default()
    }
}

/// Creates a Workflow with one directive and with this node among its computes.
fn workflow(desired: &str, mounts: Vec<JobMount>) -> JobState {
    JobState {
        knowledge: Knowledge::Known.into(),
        workflow: "w".to_owned(),
        namespace: "default".to_owned(),
        desired_state: desired.to_owned(),
        assignment: Assignment::Assigned.into(),
        directives: vec![Directive { index: 0, text: "#DW jobdw type=xfs name=a-b".to_owned() }],
        mounts,
        ..JobState::default()
    }
}

fn done_outcome(goal: MountGoal) -> Outcome {
    let mounts = vec![MountOutcome::Ready];
    Outcome { goal, mounts, failures: Vec::new(), unreadable: Vec::new() }
}

fn outcome_with(goal: MountGoal, failure: Failure) -> Outcome {
    let mounts = vec![MountOutcome::Failed];
    Outcome { goal, mounts, failures: vec![Failed { path: None, failure }], unreadable: Vec::new() }
}

fn views(outcome: Option<Outcome>, gone: bool) -> Vec<(String, Viewed)> {
    let object = Chassis::new(1).object(0);
    let received = ReceivedMount::new(object, Err(NoProfile::Missing(String::new())));
    let (received, since) = (Arc::new(received), Some(SystemTime::UNIX_EPOCH));
    vec![("a".to_owned(), Viewed { received, gone, outcome, since, passes: 1 })]
}

fn judge_views(goal: Goal, state: Option<&JobState>, viewed: &[(String, Viewed)]) -> Judgement {
    let activity = Activity { cleaned_up: true, idle: true };
    judge(goal, &Evidence { job: &job(), state, connected: true, viewed, activity })
}

/// Returns a judgement as a short text: `0` for done; otherwise the exit status, followed by `?` for waiting, by `!`
/// for failing, and by nothing for impossible.
fn short(judged: &Judgement) -> String {
    match judged {
        Judgement::Done(_) => "0".to_owned(),
        Judgement::Impossible(verdict, ..) => format!("{}", *verdict as i32),
        Judgement::Waiting(verdict, _) => format!("{}?", *verdict as i32),
        Judgement::Failing(verdict, _) => format!("{}!", *verdict as i32),
    }
}

#[test]
fn without_a_certain_answer_of_the_coordinator_mount_and_unmount_wait_with_status_7() {
    let mounted = views(Some(done_outcome(MountGoal::Mounted)), false);
    let unmounted = views(Some(done_outcome(MountGoal::Unmounted)), false);
    let uncertain = JobState { knowledge: Knowledge::Uncertain.into(), ..JobState::default() };
    for state in [None, Some(&uncertain), Some(&JobState::default())] {
        assert_eq!(short(&judge_views(MOUNT, state, &mounted)), "7?", "{state:?}");
        assert_eq!(short(&judge_views(Goal::Unmounted, state, &unmounted)), "7?", "{state:?}");
        assert_eq!(short(&judge_views(Goal::Unmounted, state, &[])), "7?", "{state:?}");
    }
}

#[test]
fn a_mount_is_done_only_when_the_agent_has_mounted_and_the_api_has_the_report() {
    let good = || status(MountState::Mounted, true);
    let here = |mount: JobMount| workflow("PreRun", vec![mount]);
    let none = || workflow("PreRun", Vec::new());
    let two = || {
        let mut two = here(stored_mount("mounted", good()));
        two.directives.push(Directive { index: 1, text: "#DW persistentdw name=p".to_owned() });
        two
    };
    let unknown = JobState { knowledge: Knowledge::Unknown.into(), ..JobState::default() };
    let ambiguous = JobState { knowledge: Knowledge::Ambiguous.into(), ..JobState::default() };
    let nowhere = JobState { directives: Vec::new(), ..none() };
    let elsewhere = JobState { assignment: Assignment::AssignedToOthers.into(), ..none() };
    let unassigned = JobState { assignment: Assignment::Unassigned.into(), ..none() };
    let broken = JobState { status: "Error".to_owned(), ..none() };
    let deleting = JobState { deleting: true, ..here(stored_mount("mounted", good())) };
    let ready = || Some(done_outcome(MountGoal::Mounted));
    let refused =
        || Some(outcome_with(MountGoal::Mounted, Failure::input("mountPath: outside".to_owned())));
    let waiting = || {
        Some(outcome_with(MountGoal::Mounted, Failure::waiting("belongs to another".to_owned())))
    };
    for (what, state, outcome, expected) in [
        (
            "mounted, and the API has the report",
            here(stored_mount("mounted", good())),
            ready(),
            "0",
        ),
        ("unknown job", unknown, None, "0"),
        ("no storage", nowhere, None, "0"),
        ("the job runs on other nodes", elsewhere, None, "0"),
        ("two Workflows match the name", ambiguous, None, "2"),
        ("computes not named", unassigned, None, "3?"),
        ("no object yet", none(), None, "3?"),
        ("one of two directives has no ClientMount", two(), ready(), "3?"),
        (
            "the API has an older report",
            here(stored_mount("mounted", status(MountState::Mounted, false))),
            ready(),
            "3?",
        ),
        ("the API has no report", here(stored_mount("mounted", Vec::new())), ready(), "3?"),
        ("the first pass runs", here(stored_mount("mounted", good())), None, "3?"),
        ("the desired state is unmounted", here(stored_mount("unmounted", good())), ready(), "3?"),
        (
            "the last pass was for the earlier desired state",
            here(stored_mount("mounted", good())),
            Some(done_outcome(MountGoal::Unmounted)),
            "3?",
        ),
        ("the agent refused the object", here(stored_mount("mounted", good())), refused(), "5!"),
        ("another object has the path", here(stored_mount("mounted", good())), waiting(), "3?"),
        ("the Workflow failed", broken, None, "5!"),
        ("the job is over", workflow("Teardown", Vec::new()), None, "6"),
        ("the Workflow is being deleted", deleting, ready(), "6"),
    ] {
        let viewed =
            outcome.map_or_else(|| views(None, false), |outcome| views(Some(outcome), false));
        assert_eq!(short(&judge_views(MOUNT, Some(&state), &viewed)), expected, "{what}");
    }
    let not_received = judge_views(MOUNT, Some(&here(stored_mount("mounted", good()))), &[]);
    assert_eq!(short(&not_received), "3?", "the agent has not received the ClientMount");
}

#[test]
fn the_reason_for_a_wait_names_the_directive_without_a_mount() {
    let judged = judge_views(MOUNT, Some(&workflow("PreRun", Vec::new())), &[]);
    let Judgement::Waiting(_, why) = judged else { panic!("{judged:?}") };
    assert!(why.contains("directive 0") && why.contains("name=a-b"), "{why}");
}

#[test]
fn a_mount_waits_for_the_environment_when_the_script_asks_for_it() {
    let mounts = vec![stored_mount("mounted", status(MountState::Mounted, true))];
    let mut state = workflow("PreRun", mounts);
    let viewed = views(Some(done_outcome(MountGoal::Mounted)), false);
    let with_env = Goal::Mounted { with_env: true, all_nodes: false };
    assert_eq!(short(&judge_views(MOUNT, Some(&state), &viewed)), "0");
    assert_eq!(short(&judge_views(with_env, Some(&state), &viewed)), "3?");
    state.env.insert("DW_JOB_a_b".to_owned(), "/mnt".to_owned());
    assert_eq!(short(&judge_views(with_env, Some(&state), &viewed)), "0");
}

#[test]
fn a_mount_waits_for_the_other_nodes_when_the_script_asks_for_them() {
    let mounts = vec![stored_mount("mounted", status(MountState::Mounted, true))];
    let mut state = workflow("PreRun", mounts);
    state.state = "PreRun".to_owned();
    let viewed = views(Some(done_outcome(MountGoal::Mounted)), false);
    let all_nodes = Goal::Mounted { with_env: false, all_nodes: true };
    assert_eq!(short(&judge_views(MOUNT, Some(&state), &viewed)), "0");
    assert_eq!(short(&judge_views(all_nodes, Some(&state), &viewed)), "3?");
    state.status = "Error".to_owned();
    assert_eq!(short(&judge_views(all_nodes, Some(&state), &viewed)), "5!");
    (state.status, state.ready) = ("Completed".to_owned(), true);
    assert_eq!(short(&judge_views(all_nodes, Some(&state), &viewed)), "0");
}

#[test]
fn an_unmount_is_done_when_the_job_has_ended_and_nothing_is_left() {
    let good = || status(MountState::Unmounted, true);
    let over = |mount: JobMount| workflow("PostRun", vec![mount]);
    let unknown = || JobState { knowledge: Knowledge::Unknown.into(), ..JobState::default() };
    let deleted = |held| JobMount { deleting: true, held, ..stored_mount("unmounted", good()) };
    let (free, no) = (|| Some(done_outcome(MountGoal::Unmounted)), || None);
    let failure =
        Failure { severity: api::Severity::Major, ..Failure::waiting("hangs".to_owned()) };
    let hangs = || Some(outcome_with(MountGoal::Unmounted, failure.clone()));
    let busy = || Some(outcome_with(MountGoal::Unmounted, Failure::waiting("in use".to_owned())));
    for (what, state, outcome, gone, expected) in [
        (
            "unmounted, and the API has the report",
            over(stored_mount("unmounted", good())),
            free(),
            false,
            "0",
        ),
        (
            "the API has an older report",
            over(stored_mount("unmounted", status(MountState::Mounted, true))),
            free(),
            false,
            "3?",
        ),
        (
            "the desired state is still mounted",
            over(stored_mount("mounted", good())),
            Some(done_outcome(MountGoal::Mounted)),
            false,
            "3?",
        ),
        (
            "the job has not ended",
            workflow("PreRun", vec![stored_mount("unmounted", good())]),
            free(),
            false,
            "3?",
        ),
        ("in use", over(stored_mount("unmounted", good())), busy(), false, "3?"),
        ("umount hangs", over(stored_mount("unmounted", good())), hangs(), false, "4?"),
        ("deleted, and the finalizer remains", over(deleted(true)), free(), false, "3?"),
        ("deleted, and the finalizer is removed", over(deleted(false)), free(), false, "0"),
        (
            "every ClientMount is deleted and unmounted",
            workflow("Teardown", Vec::new()),
            free(),
            true,
            "0",
        ),
        ("the Workflow is gone, and the pass runs", unknown(), no(), true, "3?"),
        ("the Workflow is gone, and the mount is in use", unknown(), busy(), true, "3?"),
        ("the agent has not received the deletion", unknown(), free(), false, "3?"),
    ] {
        assert_eq!(
            short(&judge_views(Goal::Unmounted, Some(&state), &views(outcome, gone))),
            expected,
            "{what}"
        );
    }
    assert_eq!(
        short(&judge_views(Goal::Unmounted, Some(&unknown()), &[])),
        "0",
        "no such job, and no mount"
    );
    assert_eq!(
        short(&judge_views(Goal::Unmounted, Some(&workflow("Setup", Vec::new())), &[])),
        "3?",
        "ClientMounts may still be created"
    );
    let elsewhere = JobState {
        assignment: Assignment::AssignedToOthers.into(),
        ..workflow("PreRun", Vec::new())
    };
    assert_eq!(short(&judge_views(Goal::Unmounted, Some(&elsewhere), &[])), "0");
}

#[test]
fn an_unmount_of_a_job_that_is_gone_waits_for_the_clean_up() {
    let unknown = JobState { knowledge: Knowledge::Unknown.into(), ..JobState::default() };
    let activity = Activity { cleaned_up: false, idle: false };
    let (job, state) = (job(), Some(&unknown));
    let evidence = Evidence { job: &job, state, connected: true, viewed: &[], activity };
    assert_eq!(short(&judge(Goal::Unmounted, &evidence)), "3?");
}
