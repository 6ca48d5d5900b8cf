//! Tests how PostRun reports a launcher's end, and which objects remain after this end.

use super::*;

#[test]
fn postrun_fails_with_a_failed_launcher() {
    let mut site = started("gfs2", &Value::Null);
    set_worker_status(&mut site, &running());
    set_job_status_of(&mut site, LAUNCHER, &failed("BackoffLimitExceeded"));
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.status_of("w"));
    site.request_state("w", "PostRun");
    site.settle();
    let message = site.message("w");
    let expected = "container on r failed to run successfully after 3 attempts";
    assert!(message.contains(expected), "{message}");
    assert!(WORKERS.iter().all(|worker| has_suspend_request(&site, worker)));
    site.remove("w");
}

#[test]
fn postrun_fails_if_the_launcher_does_not_end() {
    let mut site = started("gfs2", &Value::Null);
    set_worker_status(&mut site, &running());
    set_job_status_of(&mut site, LAUNCHER, &running());
    site.request_state("w", "PostRun");
    site.settle();
    let deadlines = site.deadlines();
    assert!(
        deadlines[0].as_i64().unwrap() > 90,
        "the launcher has the end deadline: {deadlines:?}"
    );
    assert_eq!(
        deadlines[1..],
        [Value::Null, Value::Null],
        "workers need no end deadline: they end with the launcher"
    );
    set_job_status_of(&mut site, LAUNCHER, &failed("DeadlineExceeded"));
    let message = site.message("w");
    assert!(message.contains("failed to complete after 90 seconds"), "{message}");
}

#[test]
fn the_clean_pod_policy_decides_which_jobs_stay_after_the_launchers_end() {
    let all = [LAUNCHER, WORKERS[0], WORKERS[1]];
    let cases: [(Value, &[&str], bool, &[&str]); 3] = [
        (json!({"cleanPodPolicy": "None"}), &all, false, &all),
        (json!({"cleanPodPolicy": "Running"}), &all, true, &all),
        (json!({"cleanPodPolicy": "All"}), &[LAUNCHER], false, &[]),
    ];
    for (policy, at_end, is_stopped, at_last) in cases {
        let mut site = started("gfs2", &policy);
        set_worker_status(&mut site, &running());
        set_job_status_of(&mut site, LAUNCHER, &complete());
        assert_eq!(jobs(&site), at_end, "{policy}");
        for worker in WORKERS.iter().filter(|worker| at_end.contains(worker)) {
            assert_eq!(has_suspend_request(&site, worker), is_stopped, "{policy}");
        }
        site.request_state("w", "PostRun");
        site.settle();
        assert!(site.is_ready("w", "PostRun"), "{policy}: {:?}", site.status_of("w"));
        assert_eq!(jobs(&site), at_last, "{policy}: the status reports the launcher's end");
        site.remove("w");
        assert!(jobs(&site).is_empty(), "Teardown removes all Jobs");
    }
}

#[test]
fn a_failed_worker_is_not_suspended_and_keeps_its_log() {
    let mut site = started("gfs2", &Value::Null);
    set_worker_status(&mut site, &running());
    set_job_status_of(&mut site, WORKERS[0], &failed("BackoffLimitExceeded"));
    set_job_status_of(&mut site, LAUNCHER, &complete());
    assert!(!has_suspend_request(&site, WORKERS[0]) && has_suspend_request(&site, WORKERS[1]));
}

#[test]
fn the_ttl_is_set_after_postrun_and_removes_launcher_and_workers() {
    let mut site = started("gfs2", &json!({"ttlSecondsAfterFinished": 30}));
    set_worker_status(&mut site, &running());
    set_job_status_of(&mut site, LAUNCHER, &complete());
    let ttl = |site: &Site| {
        site.get("Job", "default", LAUNCHER)["spec"]["ttlSecondsAfterFinished"].clone()
    };
    assert_eq!(ttl(&site), Value::Null, "PostRun has not reported the end yet");
    site.request_state("w", "PostRun");
    site.settle();
    assert_eq!(ttl(&site), 30);
    // Kubernetes deletes the Job when its TTL has passed.
    site.delete(&at("Job", "default", LAUNCHER));
    site.settle();
    assert!(jobs(&site).is_empty(), "{:?}", jobs(&site));
    assert!(site.is_ready("w", "PostRun"), "{:?}", site.status_of("w"));
    site.remove("w");
}

/// Returns a site with a workflow in PostRun whose status reports a failed launcher.
fn failed_with(policy: &Value) -> Site {
    let mut site = started("gfs2", policy);
    set_worker_status(&mut site, &running());
    set_job_status_of(&mut site, LAUNCHER, &running());
    site.request_state("w", "PostRun");
    site.settle();
    set_job_status_of(&mut site, LAUNCHER, &failed("BackoffLimitExceeded"));
    site
}

fn assert_error_stays(site: &Site) {
    let (state, _, status, message) = site.status_of("w");
    assert_eq!((state.as_str(), status.as_str()), ("PostRun", "Error"), "{message}");
    let expected = "container on r failed to run successfully after 3 attempts";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn objects_of_a_failed_run_are_removed_as_the_policy_says_and_the_error_stays() {
    let mut site = failed_with(&json!({"cleanPodPolicy": "All"}));
    assert!(jobs(&site).is_empty(), "{:?}", jobs(&site));
    assert_error_stays(&site);
    site.remove("w");

    let mut site = failed_with(&json!({"ttlSecondsAfterFinished": 30}));
    assert_eq!(jobs(&site), [LAUNCHER, WORKERS[0], WORKERS[1]]);
    assert_eq!(site.get("Job", "default", LAUNCHER)["spec"]["ttlSecondsAfterFinished"], 30);
    assert_error_stays(&site);
    // Kubernetes deletes the Job when its TTL has passed.
    site.delete(&at("Job", "default", LAUNCHER));
    site.settle();
    assert!(jobs(&site).is_empty(), "{:?}", jobs(&site));
    assert_error_stays(&site);
    site.remove("w");

    let mut site = failed_with(&Value::Null);
    assert_eq!(jobs(&site), [LAUNCHER, WORKERS[0], WORKERS[1]], "all Jobs stay for their logs");
    assert_error_stays(&site);
    site.remove("w");
}
