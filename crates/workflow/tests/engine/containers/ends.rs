//! Tests how containers end, and the engine's actions that wait for this end.

use serde_json::{Value, json};

use super::{complete, failed, lines, running, site};
use crate::site::{Site, at};

/// Adds a pod of a Job with the status that a kubelet reports.
fn pod(site: &mut Site, job: &str, status: &Value) {
    let template = site.get("Job", "default", job)["spec"]["template"].clone();
    let mut labels = template["metadata"]["labels"].clone();
    labels["batch.kubernetes.io/job-name"] = json!(job);
    site.put(json!({
        "kind": "Pod",
        "metadata": {"name": format!("{job}-x"), "namespace": "default", "labels": labels,
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": job,
                "uid": site.get("Job", "default", job)["metadata"]["uid"]}]},
        "spec": template["spec"], "status": status,
    }));
}

fn container(state: &Value) -> Value {
    json!({"phase": "Pending", "containerStatuses": [
        {"name": "app", "ready": false, "restartCount": 0, "image": "i", "imageID": "", "state": state}]})
}

#[test]
fn prerun_shows_why_a_container_waits_and_fails_at_the_start_deadline() {
    let mut site = site();
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    let waits = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
    pod(&mut site, "w-r", &container(&waits));
    site.settle();
    let why = "r: container app: ImagePullBackOff: no such image";
    assert!(site.message("w").ends_with(why), "{}", site.message("w"));
    site.set_all_job_status(&failed("DeadlineExceeded"));
    let (state, ready, status, message) = site.status_of("w");
    assert_eq!((state.as_str(), ready, status.as_str()), ("PreRun", false, "Error"));
    let expected = "container on r was not ready after 60 seconds: container app: ImagePullBackOff";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn postrun_fails_with_the_termination_message_of_a_failed_container() {
    let mut site = site();
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    let ended = json!({"terminated": {"exitCode": 3, "message": "no input\n"}});
    pod(&mut site, "w-r", &container(&ended));
    site.set_all_job_status(&failed("BackoffLimitExceeded"));
    assert!(
        site.is_ready("w", "PreRun"),
        "PreRun does not fail with the container: the job may go on: {:?}",
        site.status_of("w")
    );
    site.request_state("w", "PostRun");
    site.settle();
    let (_, _, status, message) = site.status_of("w");
    assert_eq!(status, "Error");
    let expected = "container on r failed to run successfully after 3 attempts: container app exited with 3: no input";
    assert!(message.contains(expected), "{message}");
    site.request_state("w", "Teardown");
    site.delete(&at("Pod", "default", "w-r-x"));
    site.settle();
    site.remove("w");
}

#[test]
fn postrun_fails_at_the_end_deadline() {
    let mut site = site();
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    site.set_all_job_status(&running());
    site.request_state("w", "PostRun");
    site.settle();
    site.set_all_job_status(&failed("DeadlineExceeded"));
    let expected = "container on r failed to complete after 90 seconds";
    assert!(site.message("w").contains(expected), "{}", site.message("w"));
}

#[test]
fn without_end_deadline_storage_stays_mounted_until_teardown_ends_the_containers() {
    let mut site = site();
    site.edit("NnfContainerProfile", "nnf-system", "app", |profile| {
        profile["data"]["postRunTimeoutSeconds"] = json!(0);
    });
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    site.set_all_job_status(&running());
    site.request_state("w", "PostRun");
    site.settle();
    assert!(site.is_ready("w", "PostRun"), "{:?}", site.status_of("w"));
    let state = |site: &Site, node: &str, end: &str| {
        site.get("ClientMount", node, &format!("default-w-0-{end}"))["spec"]["desiredState"].clone()
    };
    assert_eq!(state(&site, "c1", "computes"), "unmounted");
    assert_eq!(state(&site, "r", "servers"), "mounted");
    let block = site.get("NnfNodeBlockStorage", "r", "default-w-0-gfs2-0");
    assert_eq!(block["spec"]["allocations"][0]["access"], json!(["r"]));
    site.pods_stay = true;
    for state in ["DataOut", "Teardown"] {
        site.request_state("w", state);
        site.settle();
    }
    assert!(site.message("w").contains("containers"), "{:?}", site.status_of("w"));
    assert_eq!(state(&site, "r", "servers"), "mounted", "the pods have not ended yet");
    assert_eq!(site.names("NnfNodeStorage").len(), 2);
    site.pods_stay = false;
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn storage_stays_while_a_pod_outlives_its_job() {
    let mut site = site();
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    site.set_all_job_status(&running());
    pod(&mut site, "w-r", &json!({"phase": "Running"}));
    site.edit("Pod", "default", "w-r-x", |pod| {
        pod["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
    });
    site.request_state("w", "Teardown");
    site.settle();
    assert!(!site.status_of("w").1 && !site.names("NnfNodeStorage").is_empty());
    site.edit("Pod", "default", "w-r-x", |pod| pod["metadata"]["finalizers"] = json!([]));
    site.collect();
    site.settle();
    site.remove("w");
}

#[test]
fn a_workflow_deleted_while_its_containers_run_leaves_nothing() {
    let mut site = site();
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    site.set_all_job_status(&running());
    site.remove("w");
    assert!(site.names("Job").is_empty());
}

#[test]
fn postrun_fails_when_the_kubernetes_jobs_were_deleted() {
    let mut site = site();
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    site.set_all_job_status(&complete());
    for name in ["w-r", "w-s"] {
        site.delete(&at("Job", "default", name));
    }
    site.request_state("w", "PostRun");
    site.settle();
    assert!(site.message("w").contains("Jobs were deleted"), "{}", site.message("w"));
}

/// A rabbit without power: the pods of its Job are never removed, so the Job controller does not mark
/// the Job failed either.
#[test]
fn a_silent_rabbit_is_reported_and_its_containers_count_as_running() {
    for state in ["PreRun", "PostRun"] {
        let mut site = site();
        site.bring_towards("w", &lines("gfs2"), "PreRun");
        site.set_all_job_status(
            &json!({"active": 1, "ready": 0, "startTime": "2027-01-15T08:00:00Z"}),
        );
        if state == "PostRun" {
            site.set_all_job_status(&running());
            site.request_state("w", "PostRun");
            site.settle();
        }
        let silent = site.replan_time("w").expect("the engine plans again at a known time");
        let until = u64::try_from(silent.duration_since(site.now()).as_secs()).unwrap();
        site.pass_time(until - 1);
        site.settle();
        assert!(!site.message("w").contains("silent"), "{state}: {}", site.message("w"));
        site.pass_time(2);
        site.settle();
        let (reported_state, ready, status, message) = site.status_of("w");
        assert_eq!(
            (&*reported_state, ready, &*status),
            (state, false, "TransientCondition"),
            "{message}"
        );
        assert!(message.contains("rabbit r is silent"), "{message}");
        assert!(message.ends_with("also on s"), "{message}");
        assert_eq!(site.replan_time("w"), None, "only the rabbit's next report changes the plan");
        assert_eq!(site.names("Job").len(), 2);
        assert_eq!(site.world().count(site.now()).containers, [("silent", 2)].into());
        site.set_all_job_status(&failed("DeadlineExceeded"));
        assert_eq!(site.world().count(site.now()).containers, [("too late", 2)].into());
        assert_eq!(
            site.status_of("w").2,
            "Error",
            "the rabbit reports again: {:?}",
            site.status_of("w")
        );
    }
}

#[test]
fn suspended_containers_stop_and_are_created_again_with_all_attempts() {
    let mut site = site();
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    site.set_all_job_status(&running());
    super::mpi::suspend(&mut site, true);
    let before = site.get("Job", "default", "w-r").clone();
    assert_eq!(before["spec"]["suspend"], true);
    site.set_all_job_status(&super::mpi::stopped());
    super::mpi::suspend(&mut site, false);
    let after = site.get("Job", "default", "w-r").clone();
    assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
    assert_eq!(after["spec"]["suspend"], Value::Null);
    site.set_all_job_status(&running());
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.status_of("w"));
    super::mpi::suspend(&mut site, true);
    site.set_all_job_status(&super::mpi::stopped());
    site.request_state("w", "PostRun");
    site.settle();
    assert!(site.message("w").contains("continue with Teardown"), "{:?}", site.status_of("w"));
    site.request_state("w", "Teardown");
    site.settle();
    site.remove("w");
}
