//! MPI that the rabbits' agents run.

use serde_json::{Value, json};

use super::{
    Objects, W,
    ends::suspend,
    mpi::started,
    on_rabbits::{self, state},
};

const LAUNCHER: &str = "NodeContainers r/default.w-launcher";
const WORKER: &str = "NodeContainers s/default.w-worker-1";

/// Returns workflow `w` whose agents run the launcher, at the end of PreRun.
fn launched(policy: &Value) -> Objects {
    let ready = |site: Objects| site.edit_all("NodeContainers", &state("Ready")).settle();
    ready(ready(started(on_rabbits::site(), policy))).completes()
}

#[test]
fn agents_start_the_launcher_when_all_workers_run_and_postrun_reports_its_end() {
    let site = started(on_rabbits::site(), &Value::Null);
    site.clone().then(WORKER, &state("Succeeded")).plans(&[
        "delete ConfigMap default/w-1-a1",
        "change NodeContainers r/default.w-worker-0: deadline 60, suspended",
        "w: PreRun Error: DW Directive 1: User error: worker on s ended before its launcher",
    ]);
    site.clone().then(WORKER, &state("Failed")).plans(&[
        "delete ConfigMap default/w-1-a1",
        "change NodeContainers r/default.w-worker-0: deadline 60, suspended",
        "w: PreRun Error: DW Directive 1: User error: container on s failed to run successfully after 3 attempts",
    ]);
    site.edit_all("NodeContainers", &state("Ready")).plans(&[
        "change NodeContainers r/default.w-worker-0: deadline null",
        "change NodeContainers s/default.w-worker-1: deadline null",
    ]);
    let site = launched(&Value::Null).reach("PostRun").plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0",
        "change ClientMount d1/default-w-0-computes: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change NodeContainers r/default.w-launcher: deadline 100",
        "w: PostRun DriverWait: DW Directive 0: pending unmount on c1, c2, d1",
    ]).settle();
    site.then(LAUNCHER, &state("Succeeded")).plans(&[
        "delete ConfigMap default/w-1-a1",
        "change NodeContainers r/default.w-worker-0: deadline null, suspended",
        "change NodeContainers s/default.w-worker-1: deadline null, suspended",
    ]);
}

#[test]
fn postrun_reports_a_failed_launcher_of_agents_under_any_clean_pod_policy() {
    let words = "container nnf-wait exited with 1: podhelper: 1 of 2 workers do not answer";
    let failed = json!({"status": {"state": "Failed", "message": words}});
    let end = |policy: &str| {
        let site = launched(&json!({"cleanPodPolicy": policy}));
        site.edit(LAUNCHER, &failed)
    };
    end("All").plans(&[
        "delete ConfigMap default/w-1-a1",
        "delete NodeContainers r/default.w-worker-0",
        "delete NodeContainers s/default.w-worker-1",
    ]).settle().reach("PostRun").plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0",
        "change ClientMount d1/default-w-0-computes: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change ClientMount r/default-w-0-servers: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "change ClientMount s/default-w-0-servers: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for d1",
        "w: PostRun Error: DW Directive 1: User error: container on r failed to run successfully after 3 attempts: container nnf-wait exited with 1: podhelper: 1 of 2 workers do not answer",
    ]);
    end("None").plans(&[
        "delete ConfigMap default/w-1-a1",
    ]).settle().reach("PostRun").plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0",
        "change ClientMount d1/default-w-0-computes: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "w: PostRun Error: DW Directive 1: User error: container on r failed to run successfully after 3 attempts: container nnf-wait exited with 1: podhelper: 1 of 2 workers do not answer",
    ]);
}

#[test]
fn a_suspended_run_of_agents_starts_again_once_its_pods_have_ended() {
    let site = launched(&Value::Null)
        .then(W, &suspend(true))
        .plans(&[
            "change NodeContainers r/default.w-launcher: deadline null, suspended",
            "change NodeContainers r/default.w-worker-0: deadline null, suspended",
            "change NodeContainers s/default.w-worker-1: deadline null, suspended",
        ])
        .settle();
    let site = site.edit_all("NodeContainers", &state("Suspended"));
    let site = site
        .dead("s")
        .then(W, &suspend(false))
        .plans(&["create ConfigMap default/w-1-a2"])
        .settle()
        .forget();
    site.plans(&[]);
}

#[test]
fn the_time_to_live_counts_from_the_launchers_end_and_removes_all() {
    let site = launched(&json!({"ttlSecondsAfterFinished": 600}));
    let end = site.now();
    let ended = json!({"status": {"state": "Succeeded", "endTime": end.to_string()}});
    let site = site.edit(LAUNCHER, &ended).settle().reach("PostRun").settle().completes();
    assert_eq!(site.plan().replan_at.unwrap().duration_since(end).as_secs(), 600);
    let site = site
        .after(600)
        .plans(&[
            "delete NodeContainers r/default.w-launcher",
            "delete NodeContainers r/default.w-worker-0",
            "delete NodeContainers s/default.w-worker-1",
        ])
        .settle();
    assert_eq!(site.plan().replan_at, None);
}
