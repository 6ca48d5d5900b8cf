//! How a launcher's end is told, and what stays.

use super::*;

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

/// A workflow in PostRun whose launcher failed, which was told.
fn failed_with(policy: &Value) -> Site {
    let mut site = started("gfs2", policy);
    workers_tell(&mut site, &running());
    job_tells(&mut site, LAUNCHER, &running());
    site.ask("w", "PostRun");
    site.settle();
    job_tells(&mut site, LAUNCHER, &failed("BackoffLimitExceeded"));
    site
}

fn is_still_told(site: &Site) {
    let (state, _, status, message) = site.told("w");
    assert_eq!((state.as_str(), status.as_str()), ("PostRun", "Error"), "{message}");
    let expected = "container on r failed to run successfully after 3 attempts";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn a_run_that_failed_goes_by_the_policy_too_and_its_error_stays() {
    let mut site = failed_with(&json!({"cleanPodPolicy": "All"}));
    assert!(jobs(&site).is_empty(), "{:?}", jobs(&site));
    is_still_told(&site);
    site.remove("w");

    let mut site = failed_with(&json!({"ttlSecondsAfterFinished": 30}));
    assert_eq!(jobs(&site), [LAUNCHER, WORKERS[0], WORKERS[1]]);
    assert_eq!(site.get("Job", "default", LAUNCHER)["spec"]["ttlSecondsAfterFinished"], 30);
    is_still_told(&site);
    // What Kubernetes does then.
    site.delete(&at("Job", "default", LAUNCHER));
    site.settle();
    assert!(jobs(&site).is_empty(), "{:?}", jobs(&site));
    is_still_told(&site);
    site.remove("w");

    let mut site = failed_with(&Value::Null);
    assert_eq!(jobs(&site), [LAUNCHER, WORKERS[0], WORKERS[1]], "all stay for their logs");
    is_still_told(&site);
    site.remove("w");
}
