//! Containers beside a job's storage. The Job controller and the kubelets are played by what they were seen to write.

mod ends;
mod global_lustre;
mod mpi;
mod on_rabbits;
mod packages;
mod ports;
mod refused;

use serde_json::{Value, json};
use workflow::Containers;

use crate::{
    job::{GIB, STATES, directive},
    site::{Site, at},
};

const BESIDE_KEPT: &str = "#DW container name=beside profile=app DW_PERSISTENT_kept=kept";

/// A site with two rabbits, `r` with `c1` and `c2` and `s` with `d1`, where containers run.
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
    /// To a state, whose end is not waited for.
    pub(crate) fn towards(&mut self, name: &str, directives: &[String], to: &str) {
        self.create(name, directives);
        self.settle();
        self.fill_computes(name, &["c1", "c2", "d1"]);
        for state in &STATES[1..=STATES.iter().position(|state| *state == to).unwrap()] {
            assert!(self.told(name).1, "{:?}", self.told(name));
            self.ask(name, state);
            self.settle();
        }
    }

    /// What the Job controller writes into all Jobs of a rabbit.
    pub(crate) fn jobs_tell(&mut self, status: &Value) {
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

    /// Nodes with a ClientMount whose desired state is mounted.
    fn mounted_on(&self) -> Vec<&str> {
        let mounts = self.objects.iter().filter(|(at, _)| at.0 == "ClientMount");
        let mounts = mounts.filter(|(_, mount)| {
            mount["spec"]["desiredState"] == "mounted"
                && mount["metadata"]["deletionTimestamp"].is_null()
        });
        mounts.map(|(at, _)| at.1.as_str()).collect()
    }

    pub(crate) fn message(&self, name: &str) -> String {
        self.told(name).3
    }
}

/// 1,800,000,000 is when the site's clock starts.
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
fn a_rabbit_that_an_administrator_disabled_gets_no_containers_of_a_job_that_has_nothing_there() {
    let state = |site: &mut Site, rabbit: &str, to: &str| {
        site.edit("Storage", "default", rabbit, |object| object["spec"]["state"] = json!(to));
        site.settle();
    };
    for is_mpi in [false, true] {
        let mut site = site();
        if is_mpi {
            mpi::with_profile(&mut site);
        }
        state(&mut site, "s", "Disabled");
        site.towards("w", &lines("lustre"), "PreRun");
        let (_, _, status, message) = site.told("w");
        assert_eq!(status, "TransientCondition", "{message}");
        assert!(message.contains("s is disabled by an administrator"), "{message}");
        assert!(site.names("Job").is_empty());
        state(&mut site, "s", "Enabled");
        assert_eq!(site.names("Job").len(), 2, "{}", site.message("w"));
        // What is there stays.
        for rabbit in ["r", "s"] {
            state(&mut site, rabbit, "Disabled");
        }
        assert!(site.message("w").contains("containers on r, s"), "{}", site.message("w"));
        site.remove("w");
    }
}

#[test]
fn containers_run_beside_every_kind_of_storage_that_rabbits_may_have_mounted() {
    for kind in ["gfs2", "lustre"] {
        let mut site = site();
        site.towards("w", &lines(kind), "PreRun");
        assert_eq!(
            site.names("Job"),
            ["default/w-r", "default/w-s"],
            "{kind}: {}",
            site.message("w")
        );
        assert!(!site.told("w").1, "{kind}: nothing is ready yet");
        site.jobs_tell(&running());
        assert!(site.is_ready("w", "PreRun"), "{kind}: {:?}", site.told("w"));
        site.ask("w", "PostRun");
        site.settle();
        assert!(site.message("w").contains("end of containers on r, s"), "{}", site.message("w"));
        site.jobs_tell(&complete());
        assert!(site.is_ready("w", "PostRun"), "{kind}: {:?}", site.told("w"));
        for state in ["DataOut", "Teardown"] {
            site.ask("w", state);
            site.settle();
            assert!(site.is_ready("w", state), "{kind}: {:?}", site.told("w"));
        }
        assert!(site.names("Job").is_empty() && site.names("Service").is_empty());
        site.remove("w");
    }
}

/// Its own plan mounts persistent storage on rabbits, and unmounts it there once the containers have ended.
#[test]
fn containers_run_beside_persistent_storage_and_keep_it_mounted_on_their_rabbits() {
    for kind in ["gfs2", "lustre"] {
        let mut site = site();
        site.keep(kind, "kept", &["c1", "c2", "d1"]);
        let lines = ["#DW persistentdw name=kept", BESIDE_KEPT].map(str::to_owned);
        site.towards("w", &lines, "PreRun");
        assert_eq!(site.names("Job").len(), 2, "{kind}: {}", site.message("w"));
        let env =
            &site.get("Job", "default", "w-s")["spec"]["template"]["spec"]["containers"][0]["env"];
        let path = env.as_array().unwrap().iter().find(|one| one["name"] == "DW_PERSISTENT_kept");
        assert_eq!(
            path.unwrap()["value"],
            site.workflow("w")["status"]["env"]["DW_PERSISTENT_kept"]
        );
        site.jobs_tell(&running());
        assert!(site.is_ready("w", "PreRun"), "{kind}: {:?}", site.told("w"));
        site.ask("w", "PostRun");
        site.settle();
        assert_eq!(site.mounted_on(), ["r", "s"], "{kind}: the containers run");
        site.jobs_tell(&complete());
        assert!(site.is_ready("w", "PostRun"), "{kind}: {:?}", site.told("w"));
        assert!(site.mounted_on().is_empty(), "{kind}");
        for state in ["DataOut", "Teardown"] {
            site.ask("w", state);
            site.settle();
            assert!(site.is_ready("w", state), "{kind}: {:?}", site.told("w"));
        }
        site.delete(&at("Workflow", "default", "w"));
        site.end("kept");
    }
}

/// The job does not wait for these containers, so their storage stays until Teardown ends them.
#[test]
fn containers_that_nobody_waits_for_keep_persistent_storage_until_teardown() {
    let mut site = site();
    site.edit("NnfContainerProfile", "nnf-system", "app", |object| {
        object["data"]["postRunTimeoutSeconds"] = json!(0);
    });
    site.keep("gfs2", "kept", &["c1", "c2", "d1"]);
    let lines = ["#DW persistentdw name=kept", BESIDE_KEPT].map(str::to_owned);
    site.towards("w", &lines, "PreRun");
    site.jobs_tell(&running());
    for state in ["PostRun", "DataOut"] {
        site.ask("w", state);
        site.settle();
        assert!(site.is_ready("w", state), "{:?}", site.told("w"));
        assert_eq!(site.mounted_on(), ["r", "s"], "{state}");
    }
    site.ask("w", "Teardown");
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.told("w"));
    site.delete(&at("Workflow", "default", "w"));
    site.end("kept");
}

#[test]
fn persistent_xfs_is_for_computes_only() {
    let mut site = site();
    site.keep("xfs", "kept", &["c1"]);
    site.create("w", &["#DW persistentdw name=kept", BESIDE_KEPT].map(str::to_owned));
    site.settle();
    let message = site.message("w");
    assert!(message.contains("unsupported container filesystem xfs"), "{message}");
}

#[test]
fn computes_and_containers_are_told_of_the_same_storage_and_ports() {
    let mut site = site();
    site.towards("w", &lines("gfs2"), "PreRun");
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
    let of = |name: &str| {
        let env = container["env"].as_array().unwrap();
        env.iter().find(|one| one["name"] == name).unwrap()["value"].clone()
    };
    assert_eq!(of("DW_JOB_data"), env["DW_JOB_scratch"]);
    assert_eq!((of("NNF_CONTAINER_PORTS"), of("NNF_CONTAINER_INDEX")), (json!("5000"), json!("1")));
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
fn no_container_starts_before_its_rabbit_has_everything_mounted() {
    let mut site = site();
    site.towards("w", &lines("gfs2"), "DataIn");
    site.agents_sleep = true;
    site.ask("w", "PreRun");
    site.settle();
    assert!(site.names("Job").is_empty());
    site.agents_sleep = false;
    site.settle();
    assert_eq!(site.names("Job").len(), 2);
}

#[test]
fn the_deadline_of_the_start_goes_when_all_are_ready_and_that_of_the_end_comes_in_postrun() {
    let mut site = site();
    site.towards("w", &lines("gfs2"), "PreRun");
    assert_eq!(site.deadlines(), [json!(60), json!(60)]);
    site.edit("Job", "default", "w-r", |job| job["status"] = running());
    site.settle();
    assert_eq!(site.deadlines(), [json!(60), json!(60)], "one is not ready yet");
    assert!(site.message("w").contains("containers on s"), "{}", site.message("w"));
    site.jobs_tell(&running());
    assert_eq!(site.deadlines(), [Value::Null, Value::Null]);
    site.ask("w", "PostRun");
    site.settle();
    for deadline in site.deadlines() {
        let seconds = deadline.as_i64().unwrap();
        assert!(seconds > 90, "from the start of the Job, not from PostRun: {seconds}");
    }
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
        site.create("w", &lines("gfs2"));
        site.settle_with(cut);
        site.fill_computes("w", &["c1", "c2", "d1"]);
        for state in &STATES[1..] {
            site.ask("w", state);
            site.settle_with(cut);
            match *state {
                "PreRun" => site.jobs_tell(&running()),
                "PostRun" => site.jobs_tell(&complete()),
                _ => {}
            }
            assert!(site.is_ready("w", state), "{seed} {state}: {:?}", site.told("w"));
        }
        site.delete(&at("Workflow", "default", "w"));
        site.settle_with(cut);
        site.is_clean();
    }
}
