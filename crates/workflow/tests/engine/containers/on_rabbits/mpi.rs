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
