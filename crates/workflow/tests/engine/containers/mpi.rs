//! MPI under Kubernetes: the order of starts, the keys, and the objects that remain after the end.

use std::cell::{Cell, RefCell};

use serde_json::{Value, json};

use super::{complete, lines, profile, running, site};
use crate::site::{Site, at};

const LAUNCHER: &str = "w-launcher";
const WORKERS: [&str; 2] = ["w-worker-0", "w-worker-1"];

/// Turns the profile `app` into a profile for MPI.
pub(crate) fn with_profile(site: &mut Site) {
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

/// Returns a site with a run policy, and a workflow in PreRun.
fn started(kind: &str, policy: &Value) -> Site {
    started_in(site(), kind, policy)
}

/// Brings a workflow to PreRun in this site, with a run policy.
pub(super) fn started_in(mut site: Site, kind: &str, policy: &Value) -> Site {
    with_profile(&mut site);
    site.edit("NnfContainerProfile", "nnf-system", "app", |profile| {
        profile["data"]["mpiSpec"]["runPolicy"] = policy.clone();
    });
    site.bring_towards("w", &lines(kind), "PreRun");
    site
}

fn set_job_status_of(site: &mut Site, job: &str, status: &Value) {
    site.edit("Job", "default", job, |object| object["status"] = status.clone());
    site.settle();
}

fn set_worker_status(site: &mut Site, status: &Value) {
    WORKERS.iter().for_each(|worker| set_job_status_of(site, worker, status));
}

fn jobs(site: &Site) -> Vec<String> {
    site.names("Job").iter().map(|name| name.replace("default/", "")).collect()
}

fn annotate(site: &mut Site, is_suspended: bool) {
    site.edit("Workflow", "default", "w", |workflow| {
        workflow["metadata"]["annotations"]["nnf.cray.hpe.com/suspend-containers"] =
            json!(is_suspended.to_string());
    });
}

/// The status that the Job controller writes into a Job that it has suspended.
pub(super) fn stopped() -> Value {
    json!({"active": 0, "ready": 0, "terminating": 0, "conditions": [
        {"type": "Suspended", "status": "True", "reason": "JobSuspended"}]})
}

fn has_suspend_request(site: &Site, job: &str) -> bool {
    site.get("Job", "default", job)["spec"]["suspend"] == true
}

#[test]
fn the_launcher_starts_when_all_workers_are_ready_and_postrun_reports_its_end() {
    for kind in ["gfs2", "lustre"] {
        let mut site = started(kind, &Value::Null);
        assert_eq!(jobs(&site), WORKERS, "{kind}: {}", site.message("w"));
        set_job_status_of(&mut site, WORKERS[0], &running());
        assert_eq!(jobs(&site), WORKERS, "w-worker-1 is not ready yet");
        assert!(site.message("w").contains("containers on s"), "{}", site.message("w"));
        set_job_status_of(&mut site, WORKERS[1], &running());
        assert_eq!(jobs(&site), [LAUNCHER, WORKERS[0], WORKERS[1]]);
        assert!(!site.status_of("w").1, "the launcher is not ready");
        set_job_status_of(&mut site, LAUNCHER, &running());
        assert!(site.is_ready("w", "PreRun"), "{:?}", site.status_of("w"));
        assert_eq!(site.deadlines(), [Value::Null, Value::Null, Value::Null]);
        let env = &site.workflow("w")["status"]["env"];
        assert_eq!(env["NNF_CONTAINER_LAUNCHER"], "r");
        assert_eq!(env["NNF_CONTAINER_PORTS"], "5000", "only the launcher's container gets a port");
        site.request_state("w", "PostRun");
        site.settle();
        assert!(site.message("w").contains("end of containers on r"), "{}", site.message("w"));
        set_job_status_of(&mut site, LAUNCHER, &complete());
        assert!(site.is_ready("w", "PostRun"), "{:?}", site.status_of("w"));
        assert!(WORKERS.iter().all(|worker| has_suspend_request(&site, worker)));
        assert!(site.names("Secret").is_empty(), "the keys are deleted with the launcher's end");
        set_worker_status(&mut site, &stopped());
        for state in ["DataOut", "Teardown"] {
            site.request_state("w", state);
            site.settle();
            assert!(site.is_ready("w", state), "{kind} {state}: {:?}", site.status_of("w"));
        }
        site.remove("w");
    }
}

#[test]
fn workers_run_on_their_rabbits_with_the_files_of_one_attempt() {
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
fn an_engine_stopped_after_any_change_continues_with_mpi() {
    let found = Cell::new(0);
    for seed in 0..3 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut cuts: Vec<usize> = (0..4_000).map(|_| random.usize(0..1_000)).collect();
        let cuts = RefCell::new(&mut cuts);
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
            site.request_state("w", state);
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
        site.assert_clean();
        found.set(found.get() + site.keys_found);
    }
    assert!(found.get() > 0, "no engine was stopped between the keys and the launcher");
}

#[test]
fn the_network_policy_exists_from_before_the_first_pod_until_teardown() {
    let mut mpi = site();
    with_profile(&mut mpi);
    assert_policy(mpi, &json!("worker"), &Value::Null);
    assert_policy(site(), &Value::Null, &json!([{"port": 5000}]));
}

/// Checks that a NetworkPolicy selects pods with this role, and opens these ports.
fn assert_policy(mut site: Site, role: &Value, ports: &Value) {
    site.bring_towards("w", &lines("gfs2"), "DataIn");
    assert!(site.names("NetworkPolicy").is_empty());
    site.request_state("w", "PreRun");
    let mut before = Vec::new();
    while site.names("Job").is_empty() {
        before = site.names("NetworkPolicy");
        assert!(site.step(|length| (0..length).collect()), "{:?}", site.status_of("w"));
    }
    assert_eq!(before, ["default/w"], "the policy exists before the first pod");
    let policy = &site.get("NetworkPolicy", "default", "w")["spec"];
    assert_eq!(policy["podSelector"]["matchLabels"]["nnf.cray.hpe.com/role"], *role);
    assert_eq!(policy["ingress"][1]["ports"], *ports);
    let uid = &site.workflow("w")["metadata"]["uid"];
    let from = &policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"];
    assert_eq!(from["dataworkflowservices.github.io/workflow.uid"], *uid, "{policy:#}");
    site.settle();
    site.request_state("w", "Teardown");
    site.settle();
    assert!(site.names("NetworkPolicy").is_empty(), "{:?}", site.status_of("w"));
    site.remove("w");
}
