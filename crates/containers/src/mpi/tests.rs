use std::collections::BTreeMap;

use api::{NnfContainerProfileData, names::label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, from_str, from_value, json, to_value};

use super::*;
use crate::{Rabbit, nodes};

mod pods;

/// The folders of golden files. Each has an MPI implementation, and a flag whether the launcher is a worker too. The
/// files are those that the MPI operator creates for a job `demo` with three workers of three slots each.
const CASES: [(&str, &str, bool); 4] = [
    ("openmpi", "OpenMPI", false),
    ("intel", "Intel", false),
    ("mpich", "MPICH", false),
    ("variant-openmpi-launcher-as-worker", "OpenMPI", true),
];

fn golden(path: &str) -> String {
    let path = format!("{}/golden/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn profile(implementation: &str, is_worker: bool) -> NnfContainerProfileData {
    let launcher = json!({"name": "launcher", "image": "registry.example/pi:1", "command": ["mpirun"],
        "args": ["-n", "9", "/home/mpiuser/pi"], "env": [{"name": "OMPI_MCA_btl", "value": "tcp,self"}]});
    let worker = json!({"name": "worker", "image": "registry.example/pi:1"});
    from_value(json!({
        "preRunTimeoutSeconds": 60,
        "mpiSpec": {
            "launcher": {"containers": [launcher]}, "worker": {"containers": [worker]},
            "slotsPerWorker": 3, "mpiImplementation": implementation, "runLauncherAsWorker": is_worker,
        },
    }))
    .unwrap()
}

fn with_run(
    profile: &NnfContainerProfileData,
    rabbits: usize,
    domain: &str,
    check: impl FnOnce(&Run<'_>, &NnfMpiSpec),
) {
    let metadata = ObjectMeta {
        namespace: Some("default".to_owned()),
        labels: Some([(label::CONTAINER.to_owned(), "demo".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let rabbit = |index| Rabbit { name: format!("rabbit-{index}"), computes: Vec::new() };
    let placement: Vec<Rabbit> = (0..rabbits).map(rabbit).collect();
    let attempt = Attempt {
        number: 2,
        name: "demo-1-a2".to_owned(),
        keys: "demo-1-a2-keys".to_owned(),
        image: Some("registry.example/podhelper:1".to_owned()),
    };
    let run = Run {
        workflow: "demo",
        service: "demo",
        name: "demo-1-a2",
        metadata,
        user: 1050,
        group: 1051,
        profile,
        storages: &[],
        packages: &BTreeMap::new(),
        devices: &BTreeMap::new(),
        placement: &placement,
        ports: &[5000],
        network_port: None,
        attempt: Some(&attempt),
        cluster_domain: domain,
    };
    check(&run, profile.mpi_spec.as_ref().unwrap());
}

#[test]
fn hostfiles_equal_the_operators_byte_for_byte() {
    for (case, implementation, is_worker) in CASES {
        with_run(&profile(implementation, is_worker), 3, "", |run, mpi| {
            assert_eq!(hostfile(run, mpi), golden(&format!("{case}/22-hostfile.txt")), "{case}");
            let script = golden(&format!("{case}/23-discover_hosts.all-running.sh.txt"));
            assert_eq!(discover_hosts(run, mpi), script, "{case}");
            let files = nodes::files(run);
            assert_eq!(files["hostfile"], hostfile(run, mpi));
            assert_eq!(files["discover_hosts.sh"], script);
        });
    }
}

#[test]
fn hosts_are_in_numeric_order_and_in_the_clusters_domain() {
    with_run(&profile("MPICH", true), 12, "site.example", |run, mpi| {
        let text = hostfile(run, mpi);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "demo-launcher.demo.default.svc.site.example:3");
        for (index, line) in lines[1..].iter().enumerate() {
            assert_eq!(*line, format!("demo-worker-{index}.demo.default.svc.site.example:3"));
        }
        let workers = workers_file(run);
        assert_eq!(
            workers.lines().count(),
            12,
            "the launcher waits for all workers, and not for itself"
        );
        assert!(!workers.contains("launcher") && !workers.contains(":3"), "{workers}");
    });
}

#[test]
fn host_names_may_be_as_long_as_the_mpi_operator_allows() {
    let limits: Value = from_str(&golden("name-limits.json")).unwrap();
    for limit in limits["limits"].as_array().unwrap() {
        let number = |field: &str| usize::try_from(limit[field].as_u64().unwrap()).unwrap();
        let (rabbits, longest) = (number("replicas"), number("maxMpiJobNameLength"));
        assert_eq!(names::check_mpi(&"w".repeat(longest), rabbits), Ok(()), "{limit}");
        let error = names::check_mpi(&"w".repeat(longest + 1), rabbits).unwrap_err().to_string();
        assert!(error.contains("has 64 characters, and at most 63 are possible"), "{error}");
    }
}
