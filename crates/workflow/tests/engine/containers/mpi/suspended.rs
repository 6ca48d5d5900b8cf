//! Runs that are suspended.

use super::*;

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
