//! MPI: who starts when, with which keys, and what stays.

use serde_json::{Value, json};

use super::{complete, failed, lines, profile, running, site};
use crate::site::{Site, at};

const LAUNCHER: &str = "w-launcher";
const WORKERS: [&str; 2] = ["w-worker-0", "w-worker-1"];

/// Makes the profile `app` one of MPI.
pub(super) fn with_profile(site: &mut Site) {
    let mut profile = profile();
    let data = profile["data"].as_object_mut().unwrap();
    let mut worker = data.remove("spec").unwrap();
    let mut launcher = worker.clone();
    launcher["containers"][0]["command"] = json!(["mpirun", "hostname"]);
    worker["containers"][0]["name"] = json!("worker");
    data.insert(
        "mpiSpec".to_owned(),
        json!({"launcher": launcher, "worker": worker, "slotsPerWorker": 2}),
    );
    site.put(profile);
    site.settle();
}

/// A site whose profile has this policy, and a workflow in PreRun.
fn started(kind: &str, policy: &Value) -> Site {
    let mut site = site();
    with_profile(&mut site);
    site.edit("NnfContainerProfile", "nnf-system", "app", |profile| {
        profile["data"]["mpiSpec"]["runPolicy"] = policy.clone();
    });
    site.towards("w", &lines(kind), "PreRun");
    site
}

fn job_tells(site: &mut Site, job: &str, status: &Value) {
    site.edit("Job", "default", job, |object| object["status"] = status.clone());
    site.settle();
}

fn workers_tell(site: &mut Site, status: &Value) {
    WORKERS.iter().for_each(|worker| job_tells(site, worker, status));
}

fn jobs(site: &Site) -> Vec<String> {
    site.names("Job").iter().map(|name| name.replace("default/", "")).collect()
}

fn annotate(site: &mut Site, is: bool) {
    site.edit("Workflow", "default", "w", |workflow| {
        workflow["metadata"]["annotations"]["nnf.cray.hpe.com/suspend-containers"] =
            json!(is.to_string());
    });
}

fn suspend(site: &mut Site, is: bool) {
    annotate(site, is);
    site.settle();
}

/// What the Job controller writes into a Job that it has stopped.
fn stopped() -> Value {
    json!({"active": 0, "ready": 0, "terminating": 0, "conditions": [
        {"type": "Suspended", "status": "True", "reason": "JobSuspended"}]})
}

fn is_asked_to_stop(site: &Site, job: &str) -> bool {
    site.get("Job", "default", job)["spec"]["suspend"] == true
}

#[test]
fn a_launcher_starts_when_every_worker_answers_and_its_end_is_told() {
    for kind in ["gfs2", "lustre"] {
        let mut site = started(kind, &Value::Null);
        assert_eq!(jobs(&site), WORKERS, "{kind}: {}", site.message("w"));
        job_tells(&mut site, WORKERS[0], &running());
        assert_eq!(jobs(&site), WORKERS, "one does not answer yet");
        assert!(site.message("w").contains("containers on s"), "{}", site.message("w"));
        job_tells(&mut site, WORKERS[1], &running());
        assert_eq!(jobs(&site), [LAUNCHER, WORKERS[0], WORKERS[1]]);
        assert!(!site.told("w").1, "the launcher is not ready");
        job_tells(&mut site, LAUNCHER, &running());
        assert!(site.is_ready("w", "PreRun"), "{:?}", site.told("w"));
        assert_eq!(site.deadlines(), [Value::Null, Value::Null, Value::Null]);
        let env = &site.workflow("w")["status"]["env"];
        assert_eq!(env["NNF_CONTAINER_LAUNCHER"], "r");
        assert_eq!(env["NNF_CONTAINER_PORTS"], "5000", "of the launcher's one container");
        site.ask("w", "PostRun");
        site.settle();
        assert!(site.message("w").contains("containers on r to end"), "{}", site.message("w"));
        job_tells(&mut site, LAUNCHER, &complete());
        assert!(site.is_ready("w", "PostRun"), "{:?}", site.told("w"));
        assert!(WORKERS.iter().all(|worker| is_asked_to_stop(&site, worker)));
        assert!(site.names("Secret").is_empty(), "keys go with the launcher's end");
        workers_tell(&mut site, &stopped());
        for state in ["DataOut", "Teardown"] {
            site.ask("w", state);
            site.settle();
            assert!(site.is_ready("w", state), "{kind} {state}: {:?}", site.told("w"));
        }
        site.remove("w");
    }
}

#[test]
fn each_worker_is_on_the_rabbit_of_its_number_and_files_are_of_one_attempt() {
    let site = started("gfs2", &Value::Null);
    for (worker, rabbit) in WORKERS.iter().zip(["r", "s"]) {
        let pod = &site.get("Job", "default", worker)["spec"]["template"]["spec"];
        assert_eq!(pod["nodeSelector"]["kubernetes.io/hostname"], rabbit);
        assert_eq!(pod["hostname"], *worker);
    }
    let hostfile = &site.get("ConfigMap", "default", "w-1-a1")["data"]["hostfile"];
    let host = |index| format!("w-worker-{index}.w.default.svc.cluster.local slots=2\n");
    assert_eq!(*hostfile, host(0) + &host(1));
    assert_eq!(site.names("Secret").len(), 1);
}

#[test]
fn workers_that_do_not_answer_are_an_error_with_their_names() {
    let mut site = started("gfs2", &Value::Null);
    job_tells(&mut site, WORKERS[0], &running());
    job_tells(&mut site, WORKERS[1], &failed("DeadlineExceeded"));
    let message = site.message("w");
    assert!(message.contains("container on s was not ready after 60 seconds"), "{message}");
    assert_eq!(jobs(&site), WORKERS, "nothing is launched");
    site.remove("w");

    // One that goes after it answered is named by the launcher's pod.
    let mut site = started("gfs2", &Value::Null);
    workers_tell(&mut site, &running());
    let template = site.get("Job", "default", LAUNCHER)["spec"]["template"].clone();
    let mut labels = template["metadata"]["labels"].clone();
    labels["batch.kubernetes.io/job-name"] = json!(LAUNCHER);
    let words = "podhelper: after 30 seconds 1 of 2 workers do not answer: w-worker-1.w.default.svc.cluster.local (timed out)";
    let state = json!({"terminated": {"exitCode": 1, "message": words}});
    site.put(json!({
        "kind": "Pod", "metadata": {"name": "x", "namespace": "default", "labels": labels,
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": LAUNCHER,
                "uid": site.get("Job", "default", LAUNCHER)["metadata"]["uid"]}]},
        "spec": template["spec"],
        "status": {"phase": "Failed", "initContainerStatuses": [
            {"name": "nnf-wait", "ready": false, "restartCount": 0, "image": "i", "imageID": "", "state": state}]},
    }));
    job_tells(&mut site, LAUNCHER, &failed("DeadlineExceeded"));
    let message = site.message("w");
    assert!(message.contains("container on r was not ready after 60 seconds"), "{message}");
    assert!(message.contains("1 of 2 workers do not answer: w-worker-1.w.default"), "{message}");
}

#[test]
fn a_launcher_that_fails_is_an_error_with_its_last_words() {
    let mut site = started("gfs2", &Value::Null);
    workers_tell(&mut site, &running());
    job_tells(&mut site, LAUNCHER, &failed("BackoffLimitExceeded"));
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.told("w"));
    site.ask("w", "PostRun");
    site.settle();
    let message = site.message("w");
    let expected = "container on r failed to run successfully after 3 attempts";
    assert!(message.contains(expected), "{message}");
    assert!(WORKERS.iter().all(|worker| is_asked_to_stop(&site, worker)));
    site.remove("w");
}

#[test]
fn a_launcher_that_does_not_end_is_an_error_in_postrun() {
    let mut site = started("gfs2", &Value::Null);
    workers_tell(&mut site, &running());
    job_tells(&mut site, LAUNCHER, &running());
    site.ask("w", "PostRun");
    site.settle();
    let deadlines = site.deadlines();
    assert!(deadlines[0].as_i64().unwrap() > 90, "of the launcher: {deadlines:?}");
    assert_eq!(deadlines[1..], [Value::Null, Value::Null], "workers end by the launcher's end");
    job_tells(&mut site, LAUNCHER, &failed("DeadlineExceeded"));
    let message = site.message("w");
    assert!(message.contains("failed to complete after 90 seconds"), "{message}");
}

#[test]
fn a_worker_that_fails_for_good_before_the_launcher_is_an_error() {
    let mut site = started("gfs2", &Value::Null);
    job_tells(&mut site, WORKERS[1], &failed("BackoffLimitExceeded"));
    let message = site.message("w");
    assert!(message.contains("container on s failed to run successfully after 3"), "{message}");
    assert_eq!(jobs(&site), WORKERS);
}

#[test]
fn what_was_suspended_starts_anew_with_other_keys_and_waits_for_workers_again() {
    let mut site = started("gfs2", &Value::Null);
    workers_tell(&mut site, &running());
    job_tells(&mut site, LAUNCHER, &running());
    let before = site.names("Secret");
    suspend(&mut site, true);
    assert!(jobs(&site).iter().all(|job| is_asked_to_stop(&site, job)));
    for job in jobs(&site) {
        job_tells(&mut site, &job, &stopped());
    }
    site.pods_stay = true;
    suspend(&mut site, false);
    assert_eq!(jobs(&site).len(), 3, "pods of the attempt before still end");
    site.pods_stay = false;
    site.settle();
    assert_eq!(jobs(&site), WORKERS, "no launcher before the workers answer: {:?}", site.told("w"));
    for worker in WORKERS {
        let job = site.get("Job", "default", worker);
        assert_eq!(job["metadata"]["labels"]["nnf.cray.hpe.com/attempt"], "2");
        assert!(job["spec"]["suspend"].is_null());
    }
    let after = site.names("Secret");
    assert!(after.len() == 1 && after != before, "{before:?} {after:?}");
    assert_eq!(site.names("ConfigMap"), ["default/w-1-a2"]);
    workers_tell(&mut site, &running());
    job_tells(&mut site, LAUNCHER, &running());
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.told("w"));
    site.remove("w");
    assert!(site.names("Secret").is_empty());
}

#[test]
fn a_run_that_is_suspended_in_postrun_is_told_to_go_on_to_teardown() {
    let mut site = started("gfs2", &Value::Null);
    workers_tell(&mut site, &running());
    job_tells(&mut site, LAUNCHER, &running());
    suspend(&mut site, true);
    for job in jobs(&site) {
        job_tells(&mut site, &job, &stopped());
    }
    site.ask("w", "PostRun");
    site.settle();
    assert!(site.message("w").contains("go on to Teardown"), "{:?}", site.told("w"));
    site.remove("w");
}

#[test]
fn the_policy_says_what_goes_when_the_launcher_has_ended() {
    let all = [LAUNCHER, WORKERS[0], WORKERS[1]];
    let cases: [(Value, &[&str], bool, &[&str]); 3] = [
        (json!({"cleanPodPolicy": "None"}), &all, false, &all),
        (json!({"cleanPodPolicy": "Running"}), &all, true, &all),
        (json!({"cleanPodPolicy": "All"}), &[LAUNCHER], false, &[]),
    ];
    for (policy, at_end, is_stopped, at_last) in cases {
        let mut site = started("gfs2", &policy);
        workers_tell(&mut site, &running());
        job_tells(&mut site, LAUNCHER, &complete());
        assert_eq!(jobs(&site), at_end, "{policy}");
        for worker in WORKERS.iter().filter(|worker| at_end.contains(worker)) {
            assert_eq!(is_asked_to_stop(&site, worker), is_stopped, "{policy}");
        }
        site.ask("w", "PostRun");
        site.settle();
        assert!(site.is_ready("w", "PostRun"), "{policy}: {:?}", site.told("w"));
        assert_eq!(jobs(&site), at_last, "{policy}: the end was told");
        site.remove("w");
        assert!(jobs(&site).is_empty(), "Teardown removes all");
    }
}

#[test]
fn a_worker_that_failed_keeps_its_log_when_the_others_are_stopped() {
    let mut site = started("gfs2", &Value::Null);
    workers_tell(&mut site, &running());
    job_tells(&mut site, WORKERS[0], &failed("BackoffLimitExceeded"));
    job_tells(&mut site, LAUNCHER, &complete());
    assert!(!is_asked_to_stop(&site, WORKERS[0]) && is_asked_to_stop(&site, WORKERS[1]));
}

#[test]
fn a_time_to_live_begins_when_the_end_was_told_and_takes_the_workers_too() {
    let mut site = started("gfs2", &json!({"ttlSecondsAfterFinished": 30}));
    workers_tell(&mut site, &running());
    job_tells(&mut site, LAUNCHER, &complete());
    let ttl = |site: &Site| {
        site.get("Job", "default", LAUNCHER)["spec"]["ttlSecondsAfterFinished"].clone()
    };
    assert_eq!(ttl(&site), Value::Null, "PostRun has to tell how it ended");
    site.ask("w", "PostRun");
    site.settle();
    assert_eq!(ttl(&site), 30);
    // What Kubernetes does then.
    site.delete(&at("Job", "default", LAUNCHER));
    site.settle();
    assert!(jobs(&site).is_empty(), "{:?}", jobs(&site));
    assert!(site.is_ready("w", "PostRun"), "{:?}", site.told("w"));
    site.remove("w");
}

#[test]
fn an_engine_that_is_stopped_after_any_change_goes_on() {
    for seed in 0..3 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut cuts: Vec<usize> = (0..4_000).map(|_| random.usize(0..1_000)).collect();
        let cuts = std::cell::RefCell::new(&mut cuts);
        let cut = |length: usize| {
            let chosen = cuts.borrow_mut().pop().unwrap_or(0);
            if length == 0 { Vec::new() } else { vec![chosen % length] }
        };
        let mut site = site();
        with_profile(&mut site);
        site.create("w", &lines("gfs2"));
        site.settle_with(cut);
        site.fill_computes("w", &["c1", "c2", "d1"]);
        for state in ["Setup", "DataIn", "PreRun"] {
            site.ask("w", state);
            site.settle_with(cut);
        }
        for (job, status) in
            [(WORKERS[0], running()), (WORKERS[1], running()), (LAUNCHER, running())]
        {
            site.edit("Job", "default", job, |object| object["status"] = status);
            site.settle_with(cut);
        }
        annotate(&mut site, true);
        site.settle_with(cut);
        for job in jobs(&site) {
            site.edit("Job", "default", &job, |object| object["status"] = stopped());
        }
        annotate(&mut site, false);
        site.settle_with(cut);
        assert_eq!(jobs(&site), WORKERS, "{seed}");
        assert_eq!(site.names("Secret").len(), 1, "{seed}: {:?}", site.names("Secret"));
        site.delete(&at("Workflow", "default", "w"));
        site.settle_with(cut);
        site.is_clean();
    }
}
