//! MPI that the rabbits' agents run: the order of starts, the keys, and the objects that remain after the end.

use super::*;
use crate::containers::mpi::started_in;

const LAUNCHER: &str = "default.w-launcher";
const WORKERS: [&str; 2] = ["default.w-worker-0", "default.w-worker-1"];

/// Returns a site with a run policy, and a workflow in PreRun.
fn started(kind: &str, policy: &Value) -> Site {
    started_in(site(), kind, policy)
}

/// Writes a status, as the agent of the object's rabbit does.
fn set_status(site: &mut Site, name: &str, status: &Value) {
    let rabbit = if name == WORKERS[1] { "s" } else { "r" };
    site.edit("NodeContainers", rabbit, name, |object| {
        object["status"].as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
    });
    site.settle();
}

fn set_states(site: &mut Site, names: &[&str], to: &str) {
    names.iter().for_each(|name| set_status(site, name, &state(to)));
}

/// Returns a site whose launcher runs.
fn launched(kind: &str, policy: &Value) -> Site {
    let mut site = started(kind, policy);
    set_states(&mut site, &WORKERS, "Ready");
    set_states(&mut site, &[LAUNCHER], "Ready");
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.status_of("w"));
    site
}

fn names(site: &Site) -> Vec<String> {
    let names = site.names("NodeContainers").into_iter();
    names.map(|name| name.split_once('/').unwrap().1.to_owned()).collect()
}

fn are_stopped(site: &Site) -> Vec<bool> {
    let places = site.on_rabbits().into_iter();
    places
        .map(|(kind, rabbit, name)| site.get(&kind, &rabbit, &name)["spec"]["suspend"] == true)
        .collect()
}

fn suspend(site: &mut Site, is_suspended: bool) {
    site.edit("Workflow", "default", "w", |workflow| {
        workflow["metadata"]["annotations"]["nnf.cray.hpe.com/suspend-containers"] =
            json!(is_suspended.to_string());
    });
    site.settle();
}

#[test]
fn agents_start_the_launcher_when_all_workers_run_and_postrun_reports_its_end() {
    for kind in ["gfs2", "raw"] {
        let mut site = started(kind, &Value::Null);
        assert_eq!(names(&site), WORKERS, "{kind}: {}", site.message("w"));
        set_states(&mut site, &WORKERS[..1], "Ready");
        assert_eq!(names(&site), WORKERS, "the second worker does not run yet");
        set_states(&mut site, &WORKERS[1..], "Ready");
        assert_eq!(names(&site), [LAUNCHER, WORKERS[0], WORKERS[1]]);
        assert!(!site.status_of("w").1, "the launcher is not ready");
        set_states(&mut site, &[LAUNCHER], "Ready");
        assert!(site.is_ready("w", "PreRun"), "{:?}", site.status_of("w"));
        for kubernetes in ["Job", "Service", "NetworkPolicy"] {
            assert!(site.names(kubernetes).is_empty(), "{kubernetes}");
        }
        let env = &site.workflow("w")["status"]["env"];
        assert_eq!(
            (&env["NNF_CONTAINER_PORTS"], &env["NNF_CONTAINER_LAUNCHER"]),
            (&json!("5000"), &json!("r"))
        );
        site.request_state("w", "PostRun");
        site.settle();
        assert!(site.message("w").contains("end of containers on r"), "{}", site.message("w"));
        set_states(&mut site, &[LAUNCHER], "Succeeded");
        assert!(site.is_ready("w", "PostRun"), "{:?}", site.status_of("w"));
        assert_eq!(are_stopped(&site), [false, true, true], "running workers are suspended");
        assert!(site.names("Secret").is_empty(), "the keys are deleted with the launcher's end");
        set_states(&mut site, &WORKERS, "Suspended");
        for state in ["DataOut", "Teardown"] {
            site.request_state("w", state);
            site.settle();
            assert!(site.is_ready("w", state), "{kind} {state}: {:?}", site.status_of("w"));
        }
        assert!(names(&site).is_empty());
        site.remove("w");
    }
}

#[test]
fn pods_of_a_run_share_a_network_port_and_the_keys_of_one_attempt() {
    let site = launched("gfs2", &Value::Null);
    let keys = site.names("Secret");
    assert_eq!(keys.len(), 1, "{keys:?}");
    for (place, (kind, rabbit, name)) in site.on_rabbits().iter().enumerate() {
        let spec = &site.get(kind, rabbit, name)["spec"];
        let network = json!({"port": 5001, "place": place, "rabbits": ["r", "r", "s"]});
        assert_eq!(spec["network"], network, "{name}");
        let keys_reference = &spec["keys"];
        assert_eq!(
            format!(
                "{}/{}",
                keys_reference["namespace"].as_str().unwrap(),
                keys_reference["name"].as_str().unwrap()
            ),
            keys[0]
        );
    }
    let record = &site.get("NnfPortManager", "s", "nnf-port-manager")["status"];
    assert_eq!(record["allocations"][0]["ports"], json!([5000, 5001]));
}

#[test]
fn postrun_reports_a_failed_launcher_under_any_clean_pod_policy() {
    for (policy, left) in [("All", 1), ("None", 3)] {
        let mut site = launched("gfs2", &json!({"cleanPodPolicy": policy}));
        let words = "container nnf-wait exited with 1: podhelper: after 30 seconds 1 of 2 workers do not answer: w-worker-1";
        set_status(&mut site, LAUNCHER, &json!({"state": "Failed", "message": words}));
        assert_eq!(names(&site).len(), left, "{policy}");
        assert!(!are_stopped(&site).contains(&true), "{policy}");
        site.request_state("w", "PostRun");
        site.settle();
        assert!(site.message("w").contains(words), "{}", site.message("w"));
        site.remove("w");
        assert!(names(&site).is_empty());
    }
}

#[test]
fn prerun_fails_and_names_the_rabbit_of_a_worker_that_ended_before_the_launcher_started() {
    for (state, words) in [
        ("Succeeded", "worker on s ended before its launcher"),
        ("Failed", "container on s failed"),
    ] {
        let mut site = started("gfs2", &Value::Null);
        set_states(&mut site, &WORKERS[1..], state);
        assert!(site.message("w").contains(words), "{}", site.message("w"));
        assert_eq!(names(&site), WORKERS, "no launcher is created");
        site.remove("w");
    }
}

#[test]
fn a_resumed_run_starts_again_with_new_keys() {
    let mut site = launched("gfs2", &Value::Null);
    let before = site.names("Secret");
    suspend(&mut site, true);
    assert_eq!(are_stopped(&site), [true; 3]);
    set_states(&mut site, &[LAUNCHER, WORKERS[0], WORKERS[1]], "Suspended");
    site.pods_stay = true;
    suspend(&mut site, false);
    assert_eq!(names(&site).len(), 3, "pods of the first attempt have not ended yet");
    site.pods_stay = false;
    site.settle();
    assert_eq!(
        names(&site),
        WORKERS,
        "no launcher before the workers run: {:?}",
        site.status_of("w")
    );
    assert_eq!(are_stopped(&site), [false; 2]);
    let after = site.names("Secret");
    assert!(after.len() == 1 && after != before, "{before:?} {after:?}");
    set_states(&mut site, &WORKERS, "Ready");
    set_states(&mut site, &[LAUNCHER], "Ready");
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.status_of("w"));
    site.remove("w");
    assert!(site.names("Secret").is_empty() && site.names("ConfigMap").is_empty());
}

#[test]
fn the_time_to_live_counts_from_the_launchers_end_and_removes_all() {
    let mut site = launched("gfs2", &json!({"ttlSecondsAfterFinished": 600}));
    let end = site.now();
    let ended = json!({"state": "Succeeded", "endTime": end.to_string()});
    set_status(&mut site, LAUNCHER, &ended);
    for state in ["PostRun", "DataOut"] {
        site.request_state("w", state);
        site.settle();
        assert!(site.is_ready("w", state), "{:?}", site.status_of("w"));
        let at = site.replan_time("w").expect("the engine plans again at a known time");
        assert_eq!(at.duration_since(end).as_secs(), 600, "{state}");
    }
    assert_eq!(names(&site).len(), 3);
    site.pass_time(600);
    site.settle();
    assert!(names(&site).is_empty(), "{:?}", names(&site));
    assert!(site.is_ready("w", "DataOut") && site.replan_time("w").is_none());
    site.remove("w");
}
