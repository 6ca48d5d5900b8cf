//! Containers that the rabbits' agents run without Kubernetes.

use api::names::annotation;
use serde_json::{Value, json};

use super::{
    GFS2, Objects, RAW, W,
    containers::{ALONE, PROFILE, at},
    ends::mounted_on,
};

/// Returns the site of the container tables, without Kubernetes.
pub(super) fn site() -> Objects {
    let mut site = super::containers::site();
    if let Some(containers) = &mut site.settings.containers {
        (containers.namespace, containers.podhelper_image) = (None, None);
    }
    site
}

/// The state that an agent reports.
pub(super) fn state(state: &str) -> Value {
    json!({"status": {"state": state}})
}

/// Returns workflow `w` whose agents run the containers, at the end of PreRun.
fn started(site: Objects, line: &str) -> Objects {
    at(site, line, "PreRun").settle().edit_all("NodeContainers", &state("Ready")).settle()
}

#[test]
fn agents_get_their_containers_after_all_storage_is_mounted() {
    at(site(), GFS2, "PreRun").plans(&[
        "create ClientMount r/default-w-0-servers: mounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "create ClientMount s/default-w-0-servers: mounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for d1",
        "change NnfNodeBlockStorage r/default-w-0-gfs2-0: 2214592512 for r c1 c2",
        "change NnfNodeBlockStorage s/default-w-0-gfs2-0: 1107296256 for s d1",
        "create NnfPortManager r/nnf-port-manager",
        "create NnfPortManager s/nnf-port-manager",
        "w: PreRun DriverWait: DW Directive 0: pending mount on c1 and others",
    ]).step().plans(&[
        "create ClientMount c1/default-w-0-computes: mounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "create ClientMount c2/default-w-0-computes: mounted r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0",
        "create ClientMount d1/default-w-0-computes: mounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "write the status of NnfPortManager r/nnf-port-manager",
        "write the status of NnfPortManager s/nnf-port-manager",
        "w: PreRun DriverWait: DW Directive 0: pending mount on c1, c2, d1",
    ]).settle().forget().plans(&[
        "w: PreRun DriverWait: DW Directive 1: pending containers on r, s",
    ]);
    let site = at(site(), GFS2, "PreRun").dead("s").settle();
    assert!(site.names("NodeContainers").is_empty());
}

#[test]
fn agents_get_the_start_deadline_then_none_then_the_end_deadline() {
    let site = at(site(), GFS2, "PreRun").settle();
    let site = site
        .edit("NodeContainers r/default-w-1", &state("Ready"))
        .plans(&["w: PreRun DriverWait: DW Directive 1: pending containers on s"]);
    let site = site
        .edit_all("NodeContainers", &state("Ready"))
        .plans(&[
            "change NodeContainers r/default-w-1: deadline null",
            "change NodeContainers s/default-w-1: deadline null",
        ])
        .settle();
    let site = site.reach("PostRun").plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0",
        "change ClientMount d1/default-w-0-computes: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change NodeContainers r/default-w-1: deadline 100",
        "change NodeContainers s/default-w-1: deadline 100",
        "w: PostRun DriverWait: DW Directive 0: pending unmount on c1, c2, d1",
    ]).settle();
    site.clone().edit_all("NodeContainers", &state("Succeeded")).plans(&[
        "change ClientMount r/default-w-0-servers: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "change ClientMount s/default-w-0-servers: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for d1",
        "w: PostRun DriverWait",
    ]);
    site.edit_all("NodeContainers", &state("TooLate")).plans(&[
        "change ClientMount r/default-w-0-servers: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "change ClientMount s/default-w-0-servers: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for d1",
        "w: PostRun Error: DW Directive 1: User error: container on r failed to complete after 90 seconds; also on s",
    ]);
}

#[test]
fn requests_for_logs_and_their_answers_plan_nothing() {
    let moment = "2026-11-27T03:00:00.000000Z";
    let asked = json!({"metadata": {"annotations": {annotation::LOGS_ASKED: moment}}});
    let logs = json!([{"attempt": 1, "container": "view", "text": "so far\n"}]);
    let site = started(site(), GFS2).edit_all("NodeContainers", &asked).plans(&[]);
    let answer = json!({"status": {"logs": logs, "logsAnswered": moment}});
    site.edit_all("NodeContainers", &answer).completes();
}

#[test]
fn the_status_of_the_workflow_has_the_messages_of_agents() {
    let site = site().propose(&[ALONE]).computes(&["c1", "d1"]).reach("PreRun").dead("s").settle();
    let site = site.forget().plans(&[
        "w: PreRun DriverWait: DW Directive 0: pending containers on r, s; s: its agent has not started them: check that the agent runs, with --podman",
    ]);
    let message = |state: &str| json!({"status": {"state": state, "message": "no such image"}});
    site.clone().edit("NodeContainers r/default-w-0", &message("Starting")).plans(&[
        "w: PreRun DriverWait: DW Directive 0: pending containers on r, s; r: no such image",
    ]);
    site.edit_all("NodeContainers", &message("TooLate")).plans(&[
        "w: PreRun Error: DW Directive 0: User error: container on r was not ready after 60 seconds: no such image; also on s",
    ]);
}

#[test]
fn postrun_fails_with_the_message_of_a_failed_container() {
    let words = "container app exited with 3: no input";
    let failed = json!({"status": {"state": "Failed", "message": words, "attempt": 3}});
    let site = started(site(), GFS2).edit_all("NodeContainers", &failed).settle().completes();
    site.reach("PostRun").reports("w: PostRun Error: DW Directive 1: User error: container on r failed to run successfully after 3 attempts: container app exited with 3: no input; also on s");
}

#[test]
fn storage_stays_mounted_until_the_agents_have_removed_the_containers() {
    let endless = site().edit(PROFILE, &json!({"data": {"postRunTimeoutSeconds": 0}}));
    let site = started(endless, GFS2).reach("PostRun").settle().completes();
    assert_eq!(mounted_on(&site), ["r", "s"]);
    let site = site
        .dead("r")
        .reach("Teardown")
        .settle()
        .forget()
        .plans(&["w: Teardown DriverWait: DW Directive 0: pending end of containers"]);
    assert_eq!(mounted_on(&site), ["r", "s"]);
}

#[test]
fn an_unreadable_nodecontainers_keeps_the_storage_mounted() {
    let hidden = "NodeContainers r/default-w-1";
    let site = started(site(), RAW).unreadable(hidden).reach_by_force("Teardown").settle();
    assert!(["r", "s"].iter().all(|rabbit| mounted_on(&site).contains(rabbit)));
    site.forget().plans(&["w: Teardown DriverWait: DW Directive 0: pending end of containers"]);
}

/// An administrator has removed the workflow's finalizer.
#[test]
fn containers_of_a_vanished_workflow_end_before_its_storage_is_removed() {
    let gone = started(site(), GFS2).vanish(W);
    gone.clone()
        .plans(&["delete NodeContainers r/default-w-1", "delete NodeContainers s/default-w-1"]);
    let another = json!({"metadata": {"uid": "another"}});
    let again = gone.request("w", 1001, &[GFS2]).edit(W, &another).plans(&[
        "create Computes default/w",
        "delete NodeContainers r/default-w-1",
        "delete NodeContainers s/default-w-1",
        "create NnfStorageProfile default/w-0",
        "create Servers default/w-0",
        "create DirectiveBreakdown default/w-0",
    ]);
    again.step().plans(&[
        "delete ClientMount c1/default-w-0-computes",
        "delete ClientMount c2/default-w-0-computes",
        "delete ClientMount d1/default-w-0-computes",
        "delete ClientMount r/default-w-0-servers",
        "delete ClientMount s/default-w-0-servers",
        "write the status of DirectiveBreakdown default/w-0",
        "w: Proposal DriverWait",
    ]);
}
