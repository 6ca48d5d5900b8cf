//! Copies by MPI between two Lustre file systems: refusals, the order of starts, failures and cancellation.

use serde_json::{Value, json};

use super::{
    Objects, W, XFS, containers,
    copies::with_global_lustre,
    on_rabbits::{self, state},
};

const LUSTRE: &str = "#DW jobdw type=lustre capacity=20GB name=scratch";
const IN: &str = "#DW copy_in source=/lus/global/in destination=$DW_JOB_scratch/in";
const PROFILE: &str = "NnfDataMovementProfile nnf-system/default";
const COMMAND: &str = "mpirun --allow-run-as-root --hostfile $HOSTFILE dcp --progress 1 --uid $UID --gid $GID $SRC $DEST";
const MOVEMENT: &str = "NnfDataMovement r/w-1-0";
const LAUNCHER: &str = "NodeContainers r/default.w-copy1-launcher";
const WORKERS: [&str; 2] =
    ["NodeContainers r/default.w-copy1-worker-0", "NodeContainers s/default.w-copy1-worker-1"];

/// Returns a site with a default profile that copies by MPI.
fn with_mpi(site: Objects) -> Objects {
    let data =
        json!({"image": "registry.example/dcp:1", "command": COMMAND, "slots": 8, "maxSlots": 4});
    with_global_lustre(site).edit(PROFILE, &json!({"data": data}))
}

fn site() -> Objects {
    with_mpi(on_rabbits::site())
}

/// Returns workflow `w` whose copy has created its two workers.
fn started() -> Objects {
    let site = site().propose(&[LUSTRE, IN]).computes(&["c1", "d1"]);
    site.reach("DataIn").settle()
}

/// Returns workflow `w` whose launcher runs.
fn running() -> Objects {
    let ready = |site: Objects| site.edit_all("NodeContainers", &state("Ready")).settle();
    ready(ready(started()))
}

#[test]
fn proposal_refuses_what_cannot_run_with_the_field_the_value_and_the_remedy() {
    let with = |data: Value| site().edit(PROFILE, &json!({"data": data}));
    let propose = |site: Objects, user| site.request("w", user, &[LUSTRE, IN]);
    propose(with(json!({"command": format!("ulimit -n 2048 && {COMMAND}")})), 1001).reports(r#"w: Proposal Error: DW Directive 1: User error: NnfDataMovementProfile default: data.command "ulimit -n 2048 && mpirun --allow-run-as-root --hostfile $HOSTFILE dcp --progress 1 --uid $UID --gid $GID $SRC $DEST" needs a shell for "&&", and Warren starts none: ask the administrator to remove `ulimit -n 2048 &&`"#);
    propose(with(json!({"command": ""})), 1001).reports("w: Proposal Error: DW Directive 1: User error: NnfDataMovementProfile default: data.command is empty, and data.image is not: ask the administrator to write the command that copies, with $SRC and $DEST");
    propose(with(json!({"image": "--privileged"})), 1001).reports(r#"w: Proposal Error: DW Directive 1: User error: NnfDataMovementProfile default: data.image is "--privileged": ask the administrator to write an image's name, which does not begin with -"#);
    propose(site(), 0).reports("w: Proposal Error: DW Directive 1: User error: argument profile=default: the workflow's user is root, and containers run without its rights: submit the job as another user");
    let mut off = site();
    off.settings.containers = None;
    propose(off, 1001).reports("w: Proposal Error: DW Directive 1: User error: data.image of the copy's NnfDataMovementProfile: this site runs no containers; name a profile without data.image, or ask the administrator to start the coordinator with --container-namespace");
    let mut elsewhere = with_mpi(containers::site());
    if let Some(containers) = &mut elsewhere.settings.containers {
        containers.podhelper_image = None;
    }
    propose(elsewhere.clone(), 1001).reports("w: Proposal Error: DW Directive 1: User error: data.image of the NnfDataMovementProfile needs podhelper, which is not configured here; name a profile without data.image, or ask the administrator to start the coordinator with --podhelper-image");
    if let Some(containers) = &mut elsewhere.settings.containers {
        containers.namespace = Some("other".to_owned());
    }
    propose(elsewhere, 1001).reports("w: Proposal Error: DW Directive 1: User error: data.image of the copy's NnfDataMovementProfile: containers run in the Kubernetes namespace other only, and this workflow is in default");
    // Storage that is not shared is copied by datamover, whatever the command is.
    with(json!({"command": "a; b"})).propose(&[XFS, IN]).completes();
}

#[test]
fn workers_start_first_then_the_launcher_and_the_movement_has_its_state() {
    let site = site().propose(&[LUSTRE, IN]).computes(&["c1", "d1"]).reach("DataIn");
    let site = site.plans(&[
        "create ClientMount r/default-w-0-servers: mounted ddqksnha of 10.0.0.1@tcp at /mnt/nnf/w-0",
        "create ClientMount s/default-w-0-servers: mounted ddqksnha of 10.0.0.1@tcp at /mnt/nnf/w-0",
        "w: DataIn DriverWait: DW Directive 1: pending mount on r, s",
    ]).step().plans(&[
        "create NnfDataMovement r/w-1-0: /lus/global/in to /mnt/nnf/w-0/in",
    ]).step().plans(&[
        "create NnfPortManager r/nnf-port-manager",
        "create NnfPortManager s/nnf-port-manager",
        "write the status of NnfDataMovement r/w-1-0: /lus/global/in to /mnt/nnf/w-0/in, Starting",
        "w: DataIn DriverWait: DW Directive 1: pending copies on r: 0 %, 0 of 1 ended",
    ]).step().plans(&[
        "write the status of NnfPortManager r/nnf-port-manager",
        "write the status of NnfPortManager s/nnf-port-manager",
    ]);
    let site = site.settle().edit_all("NodeContainers", &state("Ready")).plans(&[
        "change NodeContainers r/default.w-copy1-worker-0: deadline null",
        "change NodeContainers s/default.w-copy1-worker-1: deadline null",
        "w: DataIn DriverWait: DW Directive 1: pending copies on r: 0 %, 0 of 1 ended",
    ]);
    site.settle().edit(LAUNCHER, &state("Ready")).plans(&[
        "change NodeContainers r/default.w-copy1-launcher: deadline null",
        "write the status of NnfDataMovement r/w-1-0: /lus/global/in to /mnt/nnf/w-0/in, Running",
        "change NodeContainers r/default.w-copy1-launcher: deadline 300",
        "w: DataIn DriverWait: DW Directive 1: pending copies on r: 0 %, 0 of 1 ended",
    ]);
}

#[test]
fn a_copy_has_finished_when_its_launcher_and_then_its_workers_have_ended() {
    let site = running()
        .then(LAUNCHER, &state("Succeeded"))
        .plans(&[
            "delete ConfigMap default/w-1-a1",
            "change NodeContainers r/default.w-copy1-worker-0: deadline null, suspended",
            "change NodeContainers s/default.w-copy1-worker-1: deadline null, suspended",
            "w: DataIn DriverWait: DW Directive 1: pending end of containers on r, s",
        ])
        .settle();
    let site = site.edit(WORKERS[0], &state("Suspended")).edit(WORKERS[1], &state("Suspended"));
    site.plans(&[
        "write the status of NnfDataMovement r/w-1-0: /lus/global/in to /mnt/nnf/w-0/in, Success",
        "w: DataIn DriverWait: DW Directive 1: pending copies on r: 0 %, 0 of 1 ended",
    ])
    .step()
    .plans(&[
        "delete NodeContainers r/default.w-copy1-launcher",
        "delete NodeContainers r/default.w-copy1-worker-0",
        "delete NodeContainers s/default.w-copy1-worker-1",
        "w: DataIn DriverWait: DW Directive 1: pending end of containers on r, s",
    ])
    .settle()
    .completes();
}

#[test]
fn a_failed_launcher_fails_the_copy_and_its_containers_stay_until_teardown() {
    let why = "container copy exited with 3: dcp: /lus/global/in: Permission denied";
    let failed = json!({"status": {"state": "Failed", "message": why}});
    let site = running().then(LAUNCHER, &failed).settle();
    let site = site.edit(WORKERS[0], &state("Suspended")).edit(WORKERS[1], &state("Suspended"));
    let site = site.step().plans(&[
        "w: DataIn Error: DW Directive 1: User error: copy_in on r: container copy exited with 3: dcp: /lus/global/in: Permission denied",
    ]).settle();
    assert_eq!(site.get(MOVEMENT)["status"]["message"], why);
    assert_eq!(site.names("NodeContainers").len(), 3, "the logs stay");
    site.reach_by_force("Teardown").settle().completes();
}

#[test]
fn a_worker_that_does_not_start_fails_the_copy() {
    let late = json!({"status": {"state": "TooLate", "message": "image dcp:1: not found"}});
    let site = started().edit(WORKERS[0], &state("Ready")).edit(WORKERS[1], &late).settle();
    site.edit(WORKERS[0], &state("Suspended")).settle().forget().reports("w: DataIn Error: DW Directive 1: User error: copy_in on r: container on s was not ready after 300 seconds: image dcp:1: not found");
}

#[test]
fn storage_that_is_not_shared_is_copied_by_datamover() {
    let out = "#DW copy_out source=$DW_JOB_scratch/out destination=/lus/global/results";
    let site =
        site().propose(&[XFS, out]).computes(&["c1"]).reach("DataOut").step().plans(&[
            "create NnfDataMovement r/w-1-0: /mnt/nnf/w-0/node-0/out to /lus/global/results",
        ]);
    assert!(site.settle().completes().names("NodeContainers").is_empty());
}

#[test]
fn a_cancelled_copy_has_finished_when_its_containers_are_gone() {
    let site = running().then(MOVEMENT, &json!({"spec": {"cancel": true}})).plans(&[
        "delete NodeContainers r/default.w-copy1-launcher",
        "delete NodeContainers r/default.w-copy1-worker-0",
        "delete NodeContainers s/default.w-copy1-worker-1",
        "delete ConfigMap default/w-1-a1",
        "w: DataIn DriverWait: DW Directive 1: pending end of containers on r, s",
    ]);
    let held = site.clone().dead("s").settle();
    assert_eq!(held.get(MOVEMENT)["status"]["state"], "Running");
    let site = site.settle();
    assert_eq!(site.get(MOVEMENT)["status"]["status"], "Cancelled");
    site.forget().plans(&[
        "w: DataIn Error: DW Directive 1: User error: copy_in on r: the copy was cancelled",
    ]);
}

#[test]
fn teardown_ends_the_containers_before_the_storage_is_unmounted() {
    for site in [started(), running()] {
        let site = site.dead("s").reach_by_force("Teardown").settle();
        assert_eq!(site.names("NnfDataMovement").len(), 1, "a movement outlives its containers");
        site.forget().plans(&["w: Teardown DriverWait: DW Directive 0: pending end of copies"]);
    }
}

#[test]
fn a_movement_that_a_person_deletes_is_made_again_and_its_containers_go_on() {
    running().then_without(MOVEMENT).plans(&[
        "create NnfDataMovement r/w-1-0: /lus/global/in to /mnt/nnf/w-0/in",
    ]).step().plans(&[
        "write the status of NnfDataMovement r/w-1-0: /lus/global/in to /mnt/nnf/w-0/in, Running",
    ]);
}

#[test]
fn containers_of_a_vanished_workflow_end_before_its_movements() {
    running().vanish(W).plans(&[
        "delete NodeContainers r/default.w-copy1-launcher",
        "delete NodeContainers r/default.w-copy1-worker-0",
        "delete NodeContainers s/default.w-copy1-worker-1",
        "delete NnfDataMovement r/w-1-0",
    ]);
}
