//! MPI that the rabbits' agents run: who starts when, with which keys, and what stays.

use super::*;
use crate::containers::mpi::started_in;

const LAUNCHER: &str = "default.w-launcher";
const WORKERS: [&str; 2] = ["default.w-worker-0", "default.w-worker-1"];

/// A workflow in PreRun whose profile has this policy.
fn started(kind: &str, policy: &Value) -> Site {
    started_in(site(), kind, policy)
}

/// What the agent of its rabbit writes.
fn tells(site: &mut Site, name: &str, told: &Value) {
    let rabbit = if name == WORKERS[1] { "s" } else { "r" };
    site.edit("NodeContainers", rabbit, name, |object| {
        object["status"].as_object_mut().unwrap().extend(told.as_object().unwrap().clone());
    });
    site.settle();
}

fn all_tell(site: &mut Site, names: &[&str], told: &str) {
    names.iter().for_each(|name| tells(site, name, &state(told)));
}

/// A site whose launcher runs.
fn launched(kind: &str, policy: &Value) -> Site {
    let mut site = started(kind, policy);
    all_tell(&mut site, &WORKERS, "Ready");
    all_tell(&mut site, &[LAUNCHER], "Ready");
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.told("w"));
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

fn suspend(site: &mut Site, is: bool) {
    site.edit("Workflow", "default", "w", |workflow| {
        workflow["metadata"]["annotations"]["nnf.cray.hpe.com/suspend-containers"] =
            json!(is.to_string());
    });
    site.settle();
}

#[test]
fn a_launcher_starts_when_every_worker_runs_and_its_end_is_told() {
    for kind in ["gfs2", "raw"] {
        let mut site = started(kind, &Value::Null);
        assert_eq!(names(&site), WORKERS, "{kind}: {}", site.message("w"));
        all_tell(&mut site, &WORKERS[..1], "Ready");
        assert_eq!(names(&site), WORKERS, "one does not run yet");
        all_tell(&mut site, &WORKERS[1..], "Ready");
        assert_eq!(names(&site), [LAUNCHER, WORKERS[0], WORKERS[1]]);
        assert!(!site.told("w").1, "the launcher is not ready");
        all_tell(&mut site, &[LAUNCHER], "Ready");
        assert!(site.is_ready("w", "PreRun"), "{:?}", site.told("w"));
        for kubernetes in ["Job", "Service", "NetworkPolicy"] {
            assert!(site.names(kubernetes).is_empty(), "{kubernetes}");
        }
        let env = &site.workflow("w")["status"]["env"];
        assert_eq!(
            (&env["NNF_CONTAINER_PORTS"], &env["NNF_CONTAINER_LAUNCHER"]),
            (&json!("5000"), &json!("r"))
        );
        site.ask("w", "PostRun");
        site.settle();
        assert!(site.message("w").contains("end of containers on r"), "{}", site.message("w"));
        all_tell(&mut site, &[LAUNCHER], "Succeeded");
        assert!(site.is_ready("w", "PostRun"), "{:?}", site.told("w"));
        assert_eq!(are_stopped(&site), [false, true, true], "those that run are stopped");
        assert!(site.names("Secret").is_empty(), "keys go with the launcher's end");
        all_tell(&mut site, &WORKERS, "Suspended");
        for state in ["DataOut", "Teardown"] {
            site.ask("w", state);
            site.settle();
            assert!(site.is_ready("w", state), "{kind} {state}: {:?}", site.told("w"));
        }
        assert!(names(&site).is_empty());
        site.remove("w");
    }
}

#[test]
fn pods_of_a_run_share_a_port_of_its_own_and_the_keys_of_one_attempt() {
    let site = launched("gfs2", &Value::Null);
    let keys = site.names("Secret");
    assert_eq!(keys.len(), 1, "{keys:?}");
    for (place, (kind, rabbit, name)) in site.on_rabbits().iter().enumerate() {
        let spec = &site.get(kind, rabbit, name)["spec"];
        let network = json!({"port": 5001, "place": place, "rabbits": ["r", "r", "s"]});
        assert_eq!(spec["network"], network, "{name}");
        let of = &spec["keys"];
        assert_eq!(
            format!("{}/{}", of["namespace"].as_str().unwrap(), of["name"].as_str().unwrap()),
            keys[0]
        );
    }
    let record = &site.get("NnfPortManager", "s", "nnf-port-manager")["status"];
    assert_eq!(record["allocations"][0]["ports"], json!([5000, 5001]));
}

#[test]
fn a_launcher_that_failed_is_told_with_its_last_words_whatever_is_cleaned() {
    for (policy, left) in [("All", 1), ("None", 3)] {
        let mut site = launched("gfs2", &json!({"cleanPodPolicy": policy}));
        let words = "container nnf-wait exited with 1: podhelper: after 30 seconds 1 of 2 workers do not answer: w-worker-1";
        tells(&mut site, LAUNCHER, &json!({"state": "Failed", "message": words}));
        assert_eq!(names(&site).len(), left, "{policy}");
        assert!(!are_stopped(&site).contains(&true), "{policy}");
        site.ask("w", "PostRun");
        site.settle();
        assert!(site.message("w").contains(words), "{}", site.message("w"));
        site.remove("w");
        assert!(names(&site).is_empty());
    }
}

#[test]
fn workers_that_end_before_the_launcher_are_an_error_with_their_rabbit() {
    for (told, words) in [
        ("Succeeded", "worker on s ended before its launcher"),
        ("Failed", "container on s failed"),
    ] {
        let mut site = started("gfs2", &Value::Null);
        all_tell(&mut site, &WORKERS[1..], told);
        assert!(site.message("w").contains(words), "{}", site.message("w"));
        assert_eq!(names(&site), WORKERS, "nothing is launched");
        site.remove("w");
    }
}

#[test]
fn what_was_suspended_starts_anew_with_other_keys() {
    let mut site = launched("gfs2", &Value::Null);
    let before = site.names("Secret");
    suspend(&mut site, true);
    assert_eq!(are_stopped(&site), [true; 3]);
    all_tell(&mut site, &[LAUNCHER, WORKERS[0], WORKERS[1]], "Suspended");
    site.pods_stay = true;
    suspend(&mut site, false);
    assert_eq!(names(&site).len(), 3, "those of the attempt before still end");
    site.pods_stay = false;
    site.settle();
    assert_eq!(names(&site), WORKERS, "no launcher before the workers run: {:?}", site.told("w"));
    assert_eq!(are_stopped(&site), [false; 2]);
    let after = site.names("Secret");
    assert!(after.len() == 1 && after != before, "{before:?} {after:?}");
    all_tell(&mut site, &WORKERS, "Ready");
    all_tell(&mut site, &[LAUNCHER], "Ready");
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.told("w"));
    site.remove("w");
    assert!(site.names("Secret").is_empty() && site.names("ConfigMap").is_empty());
}

#[test]
fn a_time_to_live_counts_from_the_launcher_s_end_and_takes_all_once_it_was_told() {
    let mut site = launched("gfs2", &json!({"ttlSecondsAfterFinished": 600}));
    let end = site.now();
    let ended = json!({"state": "Succeeded", "endTime": end.to_string()});
    tells(&mut site, LAUNCHER, &ended);
    for state in ["PostRun", "DataOut"] {
        site.ask("w", state);
        site.settle();
        assert!(site.is_ready("w", state), "{:?}", site.told("w"));
        let at = site.next_look("w").expect("a moment");
        assert_eq!(at.duration_since(end).as_secs(), 600, "{state}");
    }
    assert_eq!(names(&site).len(), 3);
    site.pass_time(600);
    site.settle();
    assert!(names(&site).is_empty(), "{:?}", names(&site));
    assert!(site.is_ready("w", "DataOut") && site.next_look("w").is_none());
    site.remove("w");
}
