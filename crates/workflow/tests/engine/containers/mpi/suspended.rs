//! MPI runs that are suspended.

use super::*;

#[test]
fn a_suspended_run_starts_again_with_other_keys_once_its_old_pods_have_ended() {
    let mut site = started("gfs2", &Value::Null);
    set_worker_status(&mut site, &running());
    set_job_status_of(&mut site, LAUNCHER, &running());
    let before = site.names("Secret");
    suspend(&mut site, true);
    assert!(jobs(&site).iter().all(|job| has_suspend_request(&site, job)));
    for job in jobs(&site) {
        set_job_status_of(&mut site, &job, &stopped());
    }
    site.pods_stay = true;
    suspend(&mut site, false);
    assert_eq!(jobs(&site).len(), 3, "pods of the first attempt have not ended yet");
    site.pods_stay = false;
    site.settle();
    assert_eq!(
        jobs(&site),
        WORKERS,
        "no launcher before the workers answer: {:?}",
        site.status_of("w")
    );
    for worker in WORKERS {
        let job = site.get("Job", "default", worker);
        assert_eq!(job["metadata"]["labels"]["nnf.cray.hpe.com/attempt"], "2");
        assert!(job["spec"]["suspend"].is_null());
    }
    let after = site.names("Secret");
    assert!(after.len() == 1 && after != before, "{before:?} {after:?}");
    assert_eq!(site.names("ConfigMap"), ["default/w-1-a2"]);
    set_worker_status(&mut site, &running());
    set_job_status_of(&mut site, LAUNCHER, &running());
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.status_of("w"));
    site.remove("w");
    assert!(site.names("Secret").is_empty());
}

#[test]
fn postrun_of_a_suspended_run_fails_and_names_teardown() {
    let mut site = started("gfs2", &Value::Null);
    set_worker_status(&mut site, &running());
    set_job_status_of(&mut site, LAUNCHER, &running());
    suspend(&mut site, true);
    for job in jobs(&site) {
        set_job_status_of(&mut site, &job, &stopped());
    }
    site.request_state("w", "PostRun");
    site.settle();
    assert!(site.message("w").contains("continue with Teardown"), "{:?}", site.status_of("w"));
    site.remove("w");
}
