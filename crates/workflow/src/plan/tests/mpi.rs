//! MPI: the order of starts, failed launchers and workers, and the objects that remain after the end.

use serde_json::{Value, json};

use super::{
    GFS2, Objects, W,
    containers::{PROFILE, at, running, site, with_mpi},
    ends::{complete, failed, stopped, suspend, with_pod},
};

const LAUNCHER: &str = "Job default/w-launcher";
const WORKERS: [&str; 2] = ["Job default/w-worker-0", "Job default/w-worker-1"];

/// Returns workflow `w` in PreRun. Its two workers are created, and the profile has this run policy.
pub(super) fn started(site: Objects, policy: &Value) -> Objects {
    let site = with_mpi(site).edit(PROFILE, &json!({"data": {"mpiSpec": {"runPolicy": policy}}}));
    at(site, GFS2, "PreRun").settle()
}

/// Returns workflow `w` at the end of PreRun: its launcher runs.
fn launched(policy: &Value) -> Objects {
    let site = started(site(), policy).edit_all("Job", &running()).settle();
    site.edit(LAUNCHER, &running()).settle().completes()
}

#[test]
fn the_launcher_starts_when_all_workers_are_ready() {
    let site = started(site(), &Value::Null)
        .forget()
        .plans(&["w: PreRun DriverWait: DW Directive 1: pending containers on r, s"]);
    let site = site
        .then(WORKERS[0], &running())
        .plans(&["w: PreRun DriverWait: DW Directive 1: pending containers on s"]);
    let site = site
        .then(WORKERS[1], &running())
        .plans(&[
            "change Job default/w-worker-0: deadline null",
            "change Job default/w-worker-1: deadline null",
            "w: PreRun DriverWait: DW Directive 1: pending containers on r, s",
        ])
        .step()
        .plans(&["create Job default/w-launcher: deadline 60"]);
    site.settle()
        .edit(LAUNCHER, &running())
        .plans(&["change Job default/w-launcher: deadline null"]);
}

#[test]
fn prerun_fails_with_the_workers_that_do_not_start_or_answer() {
    let half = started(site(), &Value::Null).edit(WORKERS[0], &running());
    half.clone().edit(WORKERS[1], &failed("DeadlineExceeded")).plans(&[
        "delete ConfigMap default/w-1-a1",
        "change Job default/w-worker-0: deadline 60, suspended",
        "w: PreRun Error: DW Directive 1: User error: container on s was not ready after 60 seconds",
    ]);
    let worker = half.edit(WORKERS[1], &failed("BackoffLimitExceeded")).plans(&[
        "delete ConfigMap default/w-1-a1",
        "change Job default/w-worker-0: deadline 60, suspended",
        "w: PreRun Error: DW Directive 1: User error: container on s failed to run successfully after 3 attempts",
    ]).settle();
    worker.edit(WORKERS[0], &stopped()).plans(&[]);
    // The termination message of the launcher names a worker that stopped answering after the start.
    let site = started(site(), &Value::Null).edit_all("Job", &running()).settle();
    let words = "podhelper: after 30 seconds 1 of 2 workers do not answer: w-worker-1 (timed out)";
    let site =
        with_pod(site, "w-launcher", &json!({"terminated": {"exitCode": 1, "message": words}}));
    site.edit(LAUNCHER, &failed("DeadlineExceeded")).plans(&[
        "delete ConfigMap default/w-1-a1",
        "change Job default/w-worker-0: deadline null, suspended",
        "change Job default/w-worker-1: deadline null, suspended",
        "w: PreRun Error: DW Directive 1: User error: container on r was not ready after 60 seconds: container app exited with 1: podhelper: after 30 seconds 1 of 2 workers do not answer: w-worker-1 (timed out)",
    ]);
}

#[test]
fn mpi_fails_when_the_podhelper_image_is_not_configured_any_more() {
    let mut site = at(with_mpi(site()), GFS2, "PreRun");
    if let Some(containers) = &mut site.settings.containers {
        containers.podhelper_image = None;
    }
    site.plans(&[
        "create ClientMount r/default-w-0-servers: mounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "create ClientMount s/default-w-0-servers: mounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for d1",
        "change NnfNodeBlockStorage r/default-w-0-gfs2-0: 2214592512 for r c1 c2",
        "change NnfNodeBlockStorage s/default-w-0-gfs2-0: 1107296256 for s d1",
        "w: PreRun Error: DW Directive 1: User error: argument profile=app: data.mpiSpec needs podhelper, which is not configured here; name a profile with data.spec, or ask the administrator to start the coordinator with --podhelper-image",
    ]);
}

#[test]
fn postrun_waits_for_the_launcher_and_fails_with_it() {
    let site = launched(&Value::Null).reach("PostRun").plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0",
        "change ClientMount d1/default-w-0-computes: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change Job default/w-launcher: deadline 100",
        "w: PostRun DriverWait: DW Directive 0: pending unmount on c1, c2, d1",
    ]).settle();
    site.clone().then(LAUNCHER, &complete()).plans(&[
        "delete ConfigMap default/w-1-a1",
        "change Job default/w-worker-0: deadline null, suspended",
        "change Job default/w-worker-1: deadline null, suspended",
    ]);
    site.clone().then(LAUNCHER, &failed("DeadlineExceeded")).plans(&[
        "delete ConfigMap default/w-1-a1",
        "change Job default/w-worker-0: deadline null, suspended",
        "change Job default/w-worker-1: deadline null, suspended",
        "w: PostRun Error: DW Directive 1: User error: container on r failed to complete after 90 seconds",
    ]);
    site.then(LAUNCHER, &failed("BackoffLimitExceeded")).plans(&[
        "delete ConfigMap default/w-1-a1",
        "change Job default/w-worker-0: deadline null, suspended",
        "change Job default/w-worker-1: deadline null, suspended",
        "w: PostRun Error: DW Directive 1: User error: container on r failed to run successfully after 3 attempts",
    ]);
}

#[test]
fn a_failed_worker_is_not_suspended_and_keeps_its_log() {
    let site = launched(&Value::Null).edit(WORKERS[0], &failed("BackoffLimitExceeded"));
    site.edit(LAUNCHER, &complete()).plans(&[
        "delete ConfigMap default/w-1-a1",
        "change Job default/w-worker-1: deadline null, suspended",
    ]);
}

#[test]
fn the_clean_pod_policy_decides_which_jobs_stay_after_the_launchers_end() {
    let ended =
        |policy: &str| launched(&json!({"cleanPodPolicy": policy})).edit(LAUNCHER, &complete());
    ended("None").plans(&[
        "delete ConfigMap default/w-1-a1",
    ]).settle().reach("PostRun").plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0",
        "change ClientMount d1/default-w-0-computes: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "w: PostRun DriverWait: DW Directive 0: pending unmount on c1, c2, d1",
    ]);
    ended("Running").plans(&[
        "delete ConfigMap default/w-1-a1",
        "change Job default/w-worker-0: deadline null, suspended",
        "change Job default/w-worker-1: deadline null, suspended",
    ]).settle().reach("PostRun").plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0",
        "change ClientMount d1/default-w-0-computes: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "w: PostRun DriverWait: DW Directive 0: pending unmount on c1, c2, d1",
    ]);
    ended("All").plans(&[
        "delete ConfigMap default/w-1-a1",
        "delete Job default/w-worker-0",
        "delete Job default/w-worker-1",
    ]).settle().reach("PostRun").plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0",
        "change ClientMount d1/default-w-0-computes: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change ClientMount r/default-w-0-servers: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "change ClientMount s/default-w-0-servers: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for d1",
        "w: PostRun DriverWait: DW Directive 0: pending unmount on c1 and others",
    ]).step().plans(&[
        "change NnfNodeBlockStorage r/default-w-0-gfs2-0: 2214592512 for r",
        "change NnfNodeBlockStorage s/default-w-0-gfs2-0: 1107296256 for s",
        "delete Job default/w-launcher",
        "w: PostRun DriverWait: DW Directive 0: pending withdrawal of computes' access on r",
    ]);
}

/// The time to live begins when the status of the workflow has the end, so that no end is lost.
#[test]
fn the_time_to_live_is_set_after_postrun_and_removes_launcher_and_workers() {
    let site = launched(&json!({"ttlSecondsAfterFinished": 30})).edit(LAUNCHER, &complete());
    let site = site.plans(&[
        "delete ConfigMap default/w-1-a1",
        "change Job default/w-worker-0: deadline null, suspended",
        "change Job default/w-worker-1: deadline null, suspended",
    ]).settle().reach("PostRun").plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0",
        "change ClientMount d1/default-w-0-computes: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "w: PostRun DriverWait: DW Directive 0: pending unmount on c1, c2, d1",
    ]).step().plans(&[
        "change NnfNodeBlockStorage r/default-w-0-gfs2-0: 2214592512 for r",
        "change NnfNodeBlockStorage s/default-w-0-gfs2-0: 1107296256 for s",
        "change Job default/w-launcher: deadline null, kept for 30 s",
        "w: PostRun DriverWait: DW Directive 0: pending withdrawal of computes' access on r",
    ]).settle();
    // Kubernetes deletes the Job when its TTL has passed.
    site.completes()
        .without(LAUNCHER)
        .plans(&["delete Job default/w-worker-0", "delete Job default/w-worker-1"]);
}

/// Returns workflow `w` in PostRun, whose status has the failure of its launcher.
fn failed_with(policy: &Value) -> Objects {
    let site = launched(policy).reach("PostRun").settle();
    site.edit(LAUNCHER, &failed("BackoffLimitExceeded")).settle()
}

#[test]
fn objects_of_a_failed_run_are_removed_as_the_policy_says_and_the_error_stays() {
    let all = failed_with(&json!({"cleanPodPolicy": "All"}));
    assert!(all.names("Job").is_empty());
    all.forget().plans(&[
        "w: PostRun Error: DW Directive 1: User error: container on r failed to run successfully after 3 attempts",
    ]);
    let kept = failed_with(&json!({"ttlSecondsAfterFinished": 30}));
    assert_eq!(kept.get(LAUNCHER)["spec"]["ttlSecondsAfterFinished"], 30);
    let removed = kept.without(LAUNCHER).settle();
    assert!(removed.names("Job").is_empty());
    removed.forget().plans(&[
        "w: PostRun Error: DW Directive 1: User error: container on r failed to run successfully after 3 attempts",
    ]);
    assert_eq!(failed_with(&Value::Null).names("Job").len(), 3, "the logs stay");
}

#[test]
fn a_suspended_run_starts_again_with_other_keys_once_its_old_pods_have_ended() {
    let site = launched(&Value::Null)
        .then(W, &suspend(true))
        .plans(&[
            "change Job default/w-launcher: deadline null, suspended",
            "change Job default/w-worker-0: deadline null, suspended",
            "change Job default/w-worker-1: deadline null, suspended",
        ])
        .settle();
    let site = site.edit_all("Job", &stopped());
    site.clone().reach("PostRun").reports("w: PostRun Error: DW Directive 1: User error: containers are suspended, and are resumed only in PreRun: continue with Teardown");
    let held = json!({"metadata": {"finalizers": ["foregroundDeletion"]}});
    let site = site
        .edit_all("Job", &held)
        .then(W, &suspend(false))
        .plans(&["create ConfigMap default/w-1-a2"])
        .settle()
        .forget();
    let site = site.plans(&[]).edit_all("Job", &json!({"metadata": {"finalizers": null}}));
    site.collected().plans(&["create Secret default/w-1-a2-w"]).settle();
}
