//! Containers that Kubernetes runs: how they end, and what waits for their end.

use serde_json::{Value, json};

use super::{
    GFS2, Objects, W,
    containers::{BESIDE, PROFILE, at, running, site},
};

const USE: &str = "#DW persistentdw name=kept";
const BESIDE_KEPT: &str = "#DW container name=beside profile=app DW_PERSISTENT_kept=kept";

pub(super) fn complete() -> Value {
    json!({"status": {"succeeded": 1, "ready": 0, "conditions": [
        {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached"},
        {"type": "Complete", "status": "True", "reason": "CompletionsReached"}]}})
}

pub(super) fn failed(reason: &str) -> Value {
    json!({"status": {"failed": 3, "ready": 0, "conditions": [
        {"type": "FailureTarget", "status": "True", "reason": reason},
        {"type": "Failed", "status": "True", "reason": reason}]}})
}

/// The status that the Job controller writes into a Job that it has suspended.
pub(super) fn stopped() -> Value {
    json!({"status": {"active": 0, "ready": 0, "terminating": 0, "conditions": [
        {"type": "Suspended", "status": "True", "reason": "JobSuspended"}]}})
}

/// Asks for the suspension of a workflow's containers, or for their continuation.
pub(super) fn suspend(is_suspended: bool) -> Value {
    let value = is_suspended.to_string();
    json!({"metadata": {"annotations": {"nnf.cray.hpe.com/suspend-containers": value}}})
}

/// Adds a pod of a Job. A kubelet reports this state of its container.
pub(super) fn with_pod(site: Objects, job: &str, state: &Value) -> Objects {
    let template = site.get(&format!("Job default/{job}"))["spec"]["template"].clone();
    let mut labels = template["metadata"]["labels"].clone();
    labels["batch.kubernetes.io/job-name"] = json!(job);
    let container = json!({"name": "app", "ready": false, "restartCount": 0, "image": "i", "imageID": "", "state": state});
    let uid = site.get(&format!("Job default/{job}"))["metadata"]["uid"].clone();
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid});
    site.put(&format!("Pod default/{job}-x"), json!({
        "metadata": {"labels": labels, "ownerReferences": [owner]},
        "spec": template["spec"], "status": {"phase": "Pending", "containerStatuses": [container]}}))
}

/// Returns workflow `w` whose containers run, at the beginning of PostRun.
fn postrun() -> Objects {
    let site = at(site(), GFS2, "PreRun").settle().edit_all("Job", &running());
    site.settle().reach("PostRun").settle()
}

#[test]
fn prerun_shows_why_a_container_waits_and_fails_at_the_start_deadline() {
    let site = at(site(), GFS2, "PreRun").settle();
    let waits = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
    let site = with_pod(site, "w-r", &waits).plans(&[
        "w: PreRun DriverWait: DW Directive 1: pending containers on r, s; r: container app: ImagePullBackOff: no such image",
    ]);
    site.edit_all("Job", &failed("DeadlineExceeded")).plans(&[
        "w: PreRun Error: DW Directive 1: User error: container on r was not ready after 60 seconds: container app: ImagePullBackOff: no such image; also on s",
    ]);
}

/// The job may go on without the container, so PreRun does not fail with it.
#[test]
fn postrun_fails_with_the_termination_message_of_a_failed_container() {
    let site = at(site(), GFS2, "PreRun").settle();
    let ended = json!({"terminated": {"exitCode": 3, "message": "no input\n"}});
    let site = with_pod(site, "w-r", &ended).edit_all("Job", &failed("BackoffLimitExceeded"));
    site.settle().completes().reach("PostRun").reports("w: PostRun Error: DW Directive 1: User error: container on r failed to run successfully after 3 attempts: container app exited with 3: no input; also on s");
}

#[test]
fn postrun_waits_for_the_end_of_all_containers_and_fails_at_the_end_deadline() {
    let site = postrun()
        .forget()
        .plans(&["w: PostRun DriverWait: DW Directive 1: pending end of containers on r, s"]);
    site.clone()
        .then("Job default/w-r", &complete())
        .plans(&["w: PostRun DriverWait: DW Directive 1: pending end of containers on s"]);
    site.clone().edit_all("Job", &complete()).plans(&[
        "change ClientMount r/default-w-0-servers: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "change ClientMount s/default-w-0-servers: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for d1",
        "w: PostRun DriverWait",
    ]);
    site.edit_all("Job", &failed("DeadlineExceeded")).plans(&[
        "change ClientMount r/default-w-0-servers: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "change ClientMount s/default-w-0-servers: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for d1",
        "w: PostRun Error: DW Directive 1: User error: container on r failed to complete after 90 seconds; also on s",
    ]);
}

#[test]
fn postrun_fails_when_the_jobs_were_deleted() {
    let site = at(site(), GFS2, "PreRun").settle().edit_all("Job", &complete()).settle();
    let site = site.without("Job default/w-r").without("Job default/w-s");
    site.reach("PostRun").reports("w: PostRun Error: DW Directive 1: Internal error: the containers' Jobs were deleted, so their result is not known");
}

/// Returns a site whose containers have no end deadline: the job does not wait for them.
fn endless() -> Objects {
    site().edit(PROFILE, &json!({"data": {"postRunTimeoutSeconds": 0}}))
}

#[test]
fn without_end_deadline_storage_stays_mounted_on_rabbits_until_teardown_ends_the_containers() {
    let site = at(endless(), GFS2, "PreRun").settle().edit_all("Job", &running()).settle();
    let site = site.reach("PostRun").plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0",
        "change ClientMount d1/default-w-0-computes: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "w: PostRun DriverWait: DW Directive 0: pending unmount on c1, c2, d1",
    ]).settle().completes();
    let held = json!({"metadata": {"finalizers": ["foregroundDeletion"]}});
    let site = site
        .edit_all("Job", &held)
        .reach("Teardown")
        .plans(&[
            "delete Job default/w-r",
            "delete Job default/w-s",
            "delete Service default/w",
            "delete NetworkPolicy default/w",
            "delete ConfigMap default/w-1",
            "w: Teardown DriverWait: DW Directive 0: pending end of containers",
        ])
        .settle()
        .forget();
    site.plans(&["w: Teardown DriverWait: DW Directive 0: pending end of containers"]);
}

#[test]
fn persistent_storage_stays_mounted_on_the_rabbits_of_running_containers() {
    for kind in ["gfs2", "lustre", "raw"] {
        for (site, is_endless) in [(site(), false), (endless(), true)] {
            let site = site.keep(kind, "kept", &["c1", "c2", "d1"]);
            let site = site.propose(&[USE, BESIDE_KEPT]).computes(&["c1", "c2", "d1"]);
            let site = site.reach("PreRun").settle().edit_all("Job", &running()).settle();
            let site = site.reach("PostRun").settle();
            assert_eq!(mounted_on(&site), ["r", "s"], "{kind}");
            assert_eq!(site.get(W)["status"]["ready"], is_endless, "{kind}");
            let site = site.edit_all("Job", &complete()).settle().completes();
            let site = if is_endless { site.reach("Teardown").settle() } else { site };
            assert!(mounted_on(&site).is_empty(), "{kind}: {:?}", mounted_on(&site));
        }
    }
}

/// Returns the nodes with a ClientMount whose desired state is mounted.
pub(super) fn mounted_on(site: &Objects) -> Vec<&str> {
    let mounts = site
        .all
        .iter()
        .filter(|(at, mount)| at.0 == "ClientMount" && mount["spec"]["desiredState"] == "mounted");
    mounts.map(|(at, _)| at.1.as_str()).collect()
}

#[test]
fn storage_stays_while_a_pod_outlives_its_job() {
    let site = at(site(), GFS2, "PreRun").settle().edit_all("Job", &running()).settle();
    let site = with_pod(site, "w-r", &json!({"running": {}}));
    let held = json!({"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}});
    let site = site.edit("Pod default/w-r-x", &held).reach_by_force("Teardown").settle().forget();
    site.plans(&["w: Teardown DriverWait: DW Directive 0: pending end of containers"])
        .then_without("Pod default/w-r-x")
        .plans(&[
            "delete ClientMount c1/default-w-0-computes",
            "delete ClientMount c2/default-w-0-computes",
            "delete ClientMount d1/default-w-0-computes",
            "delete ClientMount r/default-w-0-servers",
            "delete ClientMount s/default-w-0-servers",
            "write the status of NnfPortManager r/nnf-port-manager",
            "write the status of NnfPortManager s/nnf-port-manager",
            "w: Teardown DriverWait: DW Directive 0: pending removal on c1 and others",
        ]);
}

/// A rabbit without power: the pods of its Job are never removed, so the Job controller does not mark the Job failed.
#[test]
fn a_silent_rabbit_is_reported_and_its_containers_count_as_running() {
    let starts = json!({"status": {"active": 1, "ready": 0, "startTime": "2027-01-15T08:00:00Z"}});
    let site = at(site(), GFS2, "PreRun").settle().edit_all("Job", &starts).settle();
    let silent_from = site.plan().replan_at.unwrap().duration_since(site.now()).as_secs();
    let site = site.after(silent_from - 1).plans(&[]).after(2).plans(&[
        "w: PreRun TransientCondition: DW Directive 1: Internal error: rabbit r is silent: the deadline of its container has passed, and its kubelet has not reported the end; check that the rabbit and its kubelet run: the container may still run; also on s",
    ]);
    assert_eq!(site.plan().replan_at, None, "only the rabbit's next report changes the plan");
    assert_eq!(site.world().count(site.now()).containers, [("silent", 2)].into());
    let site = site.edit_all("Job", &failed("DeadlineExceeded")).plans(&[
        "w: PreRun Error: DW Directive 1: User error: container on r was not ready after 60 seconds; also on s",
    ]);
    assert_eq!(site.world().count(site.now()).containers, [("too late", 2)].into());
    let site = postrun();
    let silent_from = site.plan().replan_at.unwrap().duration_since(site.now()).as_secs();
    site.after(silent_from).plans(&[
        "w: PostRun TransientCondition: DW Directive 1: Internal error: rabbit r is silent: the deadline of its container has passed, and its kubelet has not reported the end; check that the rabbit and its kubelet run: the container may still run; also on s",
    ]);
}

#[test]
fn suspended_containers_stop_and_are_created_again() {
    let site = at(site(), GFS2, "PreRun").settle().edit_all("Job", &running()).settle();
    let site = site
        .then(W, &suspend(true))
        .plans(&[
            "change Job default/w-r: deadline null, suspended",
            "change Job default/w-s: deadline null, suspended",
        ])
        .settle()
        .edit_all("Job", &stopped());
    site.clone().reach("PostRun").reports("w: PostRun Error: DW Directive 1: User error: containers are suspended, and are resumed only in PreRun: continue with Teardown");
    site.edit(W, &suspend(false))
        .plans(&["delete Job default/w-r", "delete Job default/w-s"])
        .step()
        .plans(&["create Job default/w-r: deadline 60", "create Job default/w-s: deadline 60"]);
}

#[test]
fn a_lone_container_needs_no_storage() {
    let site = site().propose(&[&BESIDE.replace(" DW_JOB_data=scratch", "")]);
    site.computes(&["c1"]).reach("Setup").settle().completes();
}
