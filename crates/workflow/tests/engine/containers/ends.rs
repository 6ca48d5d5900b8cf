//! How containers end, and what waits for it.

use serde_json::{Value, json};

use super::{complete, failed, lines, running, site};
use crate::site::{Site, at};

/// A pod of a Job, as a kubelet tells of it.
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
fn one_that_does_not_start_says_why_it_waits_and_is_an_error_at_its_deadline() {
    let mut site = site();
    site.towards("w", &lines("gfs2"), "PreRun");
    let waits = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
    pod(&mut site, "w-r", &container(&waits));
    site.settle();
    let why = "r: container app: ImagePullBackOff: no such image";
    assert!(site.message("w").ends_with(why), "{}", site.message("w"));
    site.jobs_tell(&failed("DeadlineExceeded"));
    let (state, ready, status, message) = site.told("w");
    assert_eq!((state.as_str(), ready, status.as_str()), ("PreRun", false, "Error"));
    let expected = "container on r was not ready after 60 seconds: container app: ImagePullBackOff";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn one_that_fails_is_an_error_in_postrun_with_its_last_words() {
    let mut site = site();
    site.towards("w", &lines("gfs2"), "PreRun");
    let ended = json!({"terminated": {"exitCode": 3, "message": "no input\n"}});
    pod(&mut site, "w-r", &container(&ended));
    site.jobs_tell(&failed("BackoffLimitExceeded"));
    assert!(site.is_ready("w", "PreRun"), "the job may go on without it: {:?}", site.told("w"));
    site.ask("w", "PostRun");
    site.settle();
    let (_, _, status, message) = site.told("w");
    assert_eq!(status, "Error");
    let expected = "container on r failed to run successfully after 3 attempts: container app exited with 3: no input";
    assert!(message.contains(expected), "{message}");
    site.ask("w", "Teardown");
    site.delete(&at("Pod", "default", "w-r-x"));
    site.settle();
    site.remove("w");
}

#[test]
fn one_that_does_not_end_in_time_is_an_error_in_postrun() {
    let mut site = site();
    site.towards("w", &lines("gfs2"), "PreRun");
    site.jobs_tell(&running());
    site.ask("w", "PostRun");
    site.settle();
    site.jobs_tell(&failed("DeadlineExceeded"));
    let expected = "container on r failed to complete after 90 seconds";
    assert!(site.message("w").contains(expected), "{}", site.message("w"));
}

#[test]
fn who_waits_for_none_finds_the_storage_mounted_until_the_containers_are_gone() {
    let mut site = site();
    site.edit("NnfContainerProfile", "nnf-system", "app", |profile| {
        profile["data"]["postRunTimeoutSeconds"] = json!(0);
    });
    site.towards("w", &lines("gfs2"), "PreRun");
    site.jobs_tell(&running());
    site.ask("w", "PostRun");
    site.settle();
    assert!(site.is_ready("w", "PostRun"), "{:?}", site.told("w"));
    let state = |site: &Site, node: &str, end: &str| {
        site.get("ClientMount", node, &format!("default-w-0-{end}"))["spec"]["desiredState"].clone()
    };
    assert_eq!(state(&site, "c1", "computes"), "unmounted");
    assert_eq!(state(&site, "r", "servers"), "mounted");
    let block = site.get("NnfNodeBlockStorage", "r", "default-w-0-gfs2-0");
    assert_eq!(block["spec"]["allocations"][0]["access"], json!(["r"]));
    site.pods_stay = true;
    for state in ["DataOut", "Teardown"] {
        site.ask("w", state);
        site.settle();
    }
    assert!(site.message("w").contains("containers"), "{:?}", site.told("w"));
    assert_eq!(state(&site, "r", "servers"), "mounted", "their pods still end");
    assert_eq!(site.names("NnfNodeStorage").len(), 2);
    site.pods_stay = false;
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.told("w"));
    site.remove("w");
}

#[test]
fn a_pod_that_outlives_its_job_keeps_the_storage() {
    let mut site = site();
    site.towards("w", &lines("gfs2"), "PreRun");
    site.jobs_tell(&running());
    pod(&mut site, "w-r", &json!({"phase": "Running"}));
    site.edit("Pod", "default", "w-r-x", |pod| {
        pod["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
    });
    site.ask("w", "Teardown");
    site.settle();
    assert!(!site.told("w").1 && !site.names("NnfNodeStorage").is_empty());
    site.edit("Pod", "default", "w-r-x", |pod| pod["metadata"]["finalizers"] = json!([]));
    site.collect();
    site.settle();
    site.remove("w");
}

#[test]
fn a_workflow_that_is_deleted_while_its_containers_run_leaves_nothing() {
    let mut site = site();
    site.towards("w", &lines("gfs2"), "PreRun");
    site.jobs_tell(&running());
    site.remove("w");
    assert!(site.names("Job").is_empty());
}

#[test]
fn jobs_that_somebody_deleted_are_told() {
    let mut site = site();
    site.towards("w", &lines("gfs2"), "PreRun");
    site.jobs_tell(&complete());
    for name in ["w-r", "w-s"] {
        site.delete(&at("Job", "default", name));
    }
    site.ask("w", "PostRun");
    site.settle();
    assert!(site.message("w").contains("Jobs are gone"), "{}", site.message("w"));
}

/// A rabbit without power: its Job's pods never go, so that the Job does not fail either.
#[test]
fn a_rabbit_that_is_silent_after_the_deadline_is_told_and_nothing_of_it_is_taken_for_ended() {
    for state in ["PreRun", "PostRun"] {
        let mut site = site();
        site.towards("w", &lines("gfs2"), "PreRun");
        site.jobs_tell(&json!({"active": 1, "ready": 0, "startTime": "2027-01-15T08:00:00Z"}));
        if state == "PostRun" {
            site.jobs_tell(&running());
            site.ask("w", "PostRun");
            site.settle();
        }
        let silent = site.next_look("w").expect("a moment");
        let until = u64::try_from(silent.duration_since(site.now()).as_secs()).unwrap();
        site.pass_time(until - 1);
        site.settle();
        assert!(!site.message("w").contains("silent"), "{state}: {}", site.message("w"));
        site.pass_time(2);
        site.settle();
        let (of, ready, status, message) = site.told("w");
        assert_eq!((&*of, ready, &*status), (state, false, "TransientCondition"), "{message}");
        assert!(message.contains("rabbit r is silent"), "{message}");
        assert!(message.ends_with("also on s"), "{message}");
        assert_eq!(site.next_look("w"), None, "only its next word helps");
        assert_eq!(site.names("Job").len(), 2);
        assert_eq!(site.world().count(site.now()).containers, [("silent", 2)].into());
        site.jobs_tell(&failed("DeadlineExceeded"));
        assert_eq!(site.world().count(site.now()).containers, [("too late", 2)].into());
        assert_eq!(site.told("w").2, "Error", "it speaks again: {:?}", site.told("w"));
    }
}

#[test]
fn containers_that_are_suspended_stop_and_are_made_anew_with_all_attempts() {
    let mut site = site();
    site.towards("w", &lines("gfs2"), "PreRun");
    site.jobs_tell(&running());
    super::mpi::suspend(&mut site, true);
    let before = site.get("Job", "default", "w-r").clone();
    assert_eq!(before["spec"]["suspend"], true);
    site.jobs_tell(&super::mpi::stopped());
    super::mpi::suspend(&mut site, false);
    let after = site.get("Job", "default", "w-r").clone();
    assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
    assert_eq!(after["spec"]["suspend"], Value::Null);
    site.jobs_tell(&running());
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.told("w"));
    super::mpi::suspend(&mut site, true);
    site.jobs_tell(&super::mpi::stopped());
    site.ask("w", "PostRun");
    site.settle();
    assert!(site.message("w").contains("go on to Teardown"), "{:?}", site.told("w"));
    site.ask("w", "Teardown");
    site.settle();
    site.remove("w");
}
