//! Containers beside a job's storage. The tests write what the Job controller and kubelets were observed to write.

mod global_lustre;
pub(crate) mod mpi;
pub(crate) mod on_rabbits;
mod packages;
mod raw;
mod refused;

use serde_json::{Value, json};
use workflow::Containers;

use crate::{
    job::{GIB, STATES, directive},
    site::{Site, at},
};

const BESIDE_KEPT: &str = "#DW container name=beside profile=app DW_PERSISTENT_kept=kept";

/// Returns a site where containers run, with rabbit `r` for `c1` and `c2`, and rabbit `s` for `d1`.
pub(crate) fn site() -> Site {
    let mut site = Site::new(2, 100 * GIB);
    site.add_rabbit("s", &["d1".to_owned()], 100 * GIB);
    site.containers = Some(Containers {
        namespace: Some("default".to_owned()),
        cluster_domain: "cluster.local".to_owned(),
        podhelper_image: Some("registry.example/podhelper:1".to_owned()),
        packages: true,
    });
    site.edit("SystemConfiguration", "default", "default", |object| {
        object["spec"]["ports"] = json!(["5000-5002"]);
        object["spec"]["portsCooldownInSeconds"] = json!(60);
    });
    site.put(profile());
    site.settle();
    site
}

fn profile() -> Value {
    json!({
        "kind": "NnfContainerProfile", "metadata": {"name": "app", "namespace": "nnf-system"},
        "data": {
            "storages": [{"name": "DW_JOB_data", "optional": true}, {"name": "DW_PERSISTENT_kept", "optional": true}],
            "preRunTimeoutSeconds": 60, "postRunTimeoutSeconds": 90, "retryLimit": 2, "numPorts": 1,
            "spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
        },
    })
}

pub(crate) fn lines(kind: &str) -> Vec<String> {
    vec![
        directive(kind, "scratch"),
        "#DW container name=beside profile=app DW_JOB_data=scratch".to_owned(),
    ]
}

impl Site {
    /// Brings a new workflow to a state, without waiting for the end of that state.
    pub(crate) fn bring_towards(&mut self, name: &str, directives: &[String], to: &str) {
        self.create(name, directives);
        self.settle();
        self.fill_computes(name, &["c1", "c2", "d1"]);
        for state in &STATES[1..=STATES.iter().position(|state| *state == to).unwrap()] {
            assert!(self.status_of(name).1, "{:?}", self.status_of(name));
            self.request_state(name, state);
            self.settle();
        }
    }

    /// Writes a status into all Jobs, as the Job controller does.
    pub(crate) fn set_all_job_status(&mut self, status: &Value) {
        let jobs: Vec<_> = self.objects.keys().filter(|at| at.0 == "Job").cloned().collect();
        for job in jobs {
            self.edit(&job.0, &job.1, &job.2, |object| object["status"] = status.clone());
        }
        self.settle();
    }

    pub(crate) fn deadlines(&self) -> Vec<Value> {
        let jobs = self.objects.iter().filter(|(at, _)| at.0 == "Job");
        jobs.map(|(_, job)| job["spec"]["activeDeadlineSeconds"].clone()).collect()
    }

    pub(crate) fn message(&self, name: &str) -> String {
        self.status_of(name).3
    }
}

/// The status of a running Job. The site's clock starts at 1,800,000,000 s, which is the Job's start time.
pub(crate) fn running() -> Value {
    json!({"active": 1, "ready": 1, "startTime": "2027-01-15T08:00:00Z"})
}

pub(crate) fn complete() -> Value {
    json!({"succeeded": 1, "ready": 0, "conditions": [
        {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached"},
        {"type": "Complete", "status": "True", "reason": "CompletionsReached"}]})
}

pub(crate) fn failed(reason: &str) -> Value {
    json!({"failed": 3, "ready": 0, "conditions": [
        {"type": "FailureTarget", "status": "True", "reason": reason},
        {"type": "Failed", "status": "True", "reason": reason}]})
}

#[test]
fn containers_run_beside_gfs2_lustre_and_raw() {
    for kind in ["gfs2", "lustre", "raw"] {
        let mut site = site();
        site.bring_towards("w", &lines(kind), "PreRun");
        assert_eq!(
            site.names("Job"),
            ["default/w-r", "default/w-s"],
            "{kind}: {}",
            site.message("w")
        );
        assert!(!site.status_of("w").1, "{kind}: nothing is ready yet");
        site.set_all_job_status(&running());
        assert!(site.is_ready("w", "PreRun"), "{kind}: {:?}", site.status_of("w"));
        site.request_state("w", "PostRun");
        site.settle();
        assert!(site.message("w").contains("end of containers on r, s"), "{}", site.message("w"));
        site.set_all_job_status(&complete());
        assert!(site.is_ready("w", "PostRun"), "{kind}: {:?}", site.status_of("w"));
        for state in ["DataOut", "Teardown"] {
            site.request_state("w", state);
            site.settle();
            assert!(site.is_ready("w", state), "{kind}: {:?}", site.status_of("w"));
        }
        assert!(site.names("Job").is_empty() && site.names("Service").is_empty());
        site.remove("w");
    }
}

#[test]
fn computes_and_containers_get_the_same_paths_and_ports() {
    let mut site = site();
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    let env = site.workflow("w")["status"]["env"].clone();
    let expected = [
        ("NNF_CONTAINER_PORTS", "5000"),
        ("NNF_CONTAINER_PORTS_app", "5000"),
        ("NNF_CONTAINER_SUBDOMAIN", "w"),
        ("NNF_CONTAINER_DOMAIN", "default.svc.cluster.local"),
        ("NNF_CONTAINER_HOSTNAMES", "r,s"),
        ("NNF_CONTAINER_NODES", "r s"),
    ];
    for (name, value) in expected {
        assert_eq!(env[name], value, "{name}");
    }
    let job = site.get("Job", "default", "w-s");
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    let value_of = |name: &str| {
        let env = container["env"].as_array().unwrap();
        env.iter().find(|variable| variable["name"] == name).unwrap()["value"].clone()
    };
    assert_eq!(value_of("DW_JOB_data"), env["DW_JOB_scratch"]);
    assert_eq!(
        (value_of("NNF_CONTAINER_PORTS"), value_of("NNF_CONTAINER_INDEX")),
        (json!("5000"), json!("1"))
    );
    let labels = &job["metadata"]["labels"];
    assert_eq!(labels["nnf.cray.hpe.com/container"], "w");
    assert_eq!(labels["nnf.cray.hpe.com/pinned_container_profile_name"], "w-1");
    assert_eq!(job["spec"]["template"]["metadata"]["labels"], *labels);
    assert_eq!(job["metadata"]["ownerReferences"][0]["kind"], "Workflow");
    let nodes = site.get("ConfigMap", "default", "w-1")["data"]["nodes.json"].clone();
    assert!(nodes.as_str().unwrap().contains(r#"{"host":"d1","local":0,"global":2}"#), "{nodes}");
    assert_eq!(site.get("NnfContainerProfile", "default", "w-1")["data"]["pinned"], true);
}

#[test]
fn an_engine_stopped_after_any_change_continues_with_containers() {
    for (seed, kind) in [(0, "gfs2"), (1, "gfs2"), (2, "gfs2"), (3, "raw"), (4, "raw")] {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut cuts: Vec<usize> = (0..4_000).map(|_| random.usize(0..1_000)).collect();
        let cuts = std::cell::RefCell::new(&mut cuts);
        let cut = |length: usize| {
            let chosen = cuts.borrow_mut().pop().unwrap_or(0);
            if length == 0 { Vec::new() } else { vec![chosen % length] }
        };
        let mut site = site();
        site.create("w", &lines(kind));
        site.settle_with(cut);
        site.fill_computes("w", &["c1", "c2", "d1"]);
        for state in &STATES[1..] {
            site.request_state("w", state);
            site.settle_with(cut);
            match *state {
                "PreRun" => site.set_all_job_status(&running()),
                "PostRun" => site.set_all_job_status(&complete()),
                _ => {}
            }
            assert!(site.is_ready("w", state), "{seed} {state}: {:?}", site.status_of("w"));
        }
        site.delete(&at("Workflow", "default", "w"));
        site.settle_with(cut);
        site.assert_clean();
    }
}

#[test]
fn a_workflow_deleted_while_its_containers_run_leaves_nothing() {
    let mut site = site();
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    site.set_all_job_status(&running());
    site.remove("w");
    assert!(site.names("Job").is_empty());
}
