use api::{NnfContainerProfileData, names::label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, from_str, from_value, json, to_value};

use super::*;
use crate::{Rabbit, nodes, objects};

/// What the MPI operator makes of a job `demo` with three workers of three slots.
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

fn with(
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
        image: "registry.example/podhelper:1".to_owned(),
    };
    let run = Run {
        workflow: "demo",
        name: "demo-1-a2",
        metadata,
        user: 1050,
        group: 1051,
        profile,
        storages: &[],
        placement: &placement,
        ports: &[],
        attempt: Some(&attempt),
        cluster_domain: domain,
    };
    check(&run, profile.mpi_spec.as_ref().unwrap());
}

#[test]
fn hostfiles_are_those_of_the_operator_to_the_byte() {
    for (case, implementation, is_worker) in CASES {
        with(&profile(implementation, is_worker), 3, "", |run, mpi| {
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
fn hosts_are_in_numeric_order_and_have_the_cluster_s_domain() {
    with(&profile("MPICH", true), 12, "site.example", |run, mpi| {
        let text = hostfile(run, mpi);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "demo-launcher.demo.default.svc.site.example:3");
        for (index, line) in lines[1..].iter().enumerate() {
            assert_eq!(*line, format!("demo-worker-{index}.demo.default.svc.site.example:3"));
        }
        let waited = answering(run);
        assert_eq!(waited.lines().count(), 12, "the launcher waits for all but itself");
        assert!(!waited.contains("launcher") && !waited.contains(":3"), "{waited}");
    });
}

#[test]
fn a_name_may_be_as_long_as_the_operator_lets_it() {
    let limits: Value = from_str(&golden("name-limits.json")).unwrap();
    for limit in limits["limits"].as_array().unwrap() {
        let number = |field: &str| usize::try_from(limit[field].as_u64().unwrap()).unwrap();
        let (rabbits, longest) = (number("replicas"), number("maxMpiJobNameLength"));
        assert_eq!(names::check_mpi(&"w".repeat(longest), rabbits), Ok(()), "{limit}");
        let told = names::check_mpi(&"w".repeat(longest + 1), rabbits).unwrap_err().to_string();
        assert!(told.contains("has 64 characters and may have 63"), "{told}");
    }
}

/// Variables of the operator that ours do not have: the agent has no options of ssh.
const OF_SSH: [&str; 3] =
    ["OMPI_MCA_plm_rsh_args", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "HYDRA_LAUNCH_EXTRA_ARGS"];

fn variables(container: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = container["env"].as_array().unwrap().iter();
    all.map(|one| (text(&one["name"]), text(&one["value"]))).collect()
}

#[test]
fn a_launcher_has_what_the_operator_gives_it_but_for_the_options_of_ssh() {
    for (case, implementation, is_worker) in CASES {
        let theirs: Value = from_str(&golden(&format!("{case}/50-job-launcher.json"))).unwrap();
        with(&profile(implementation, is_worker), 3, "", |run, _| {
            let ours = to_value(objects::launcher(run).unwrap()).unwrap();
            assert_eq!(ours["metadata"]["name"], theirs["metadata"]["name"]);
            assert_eq!(
                ours["spec"]["podReplacementPolicy"],
                theirs["spec"]["podReplacementPolicy"]
            );
            let [ours, theirs] = [&ours, &theirs].map(|job| &job["spec"]["template"]["spec"]);
            assert_eq!(ours["hostname"], theirs["hostname"]);
            assert_eq!(ours["subdomain"], theirs["subdomain"]);
            let own = variables(&ours["containers"][0]);
            for (name, value) in variables(&theirs["containers"][0]) {
                let is_there = own.contains(&(name.clone(), value.clone()));
                assert_eq!(is_there, !OF_SSH.contains(&&*name), "{case}: {name}={value}");
            }
            assert_eq!(own.last().unwrap().0, "OMPI_MCA_btl", "the profile has the last word");
            assert_eq!(ours["nodeSelector"]["kubernetes.io/hostname"], "rabbit-0");
        });
    }
}

#[test]
fn each_mpirun_is_told_of_the_agent() {
    for (implementation, variables_of_agent) in [
        ("OpenMPI", &["OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"][..]),
        ("Intel", &["I_MPI_HYDRA_BOOTSTRAP_EXEC"]),
        ("MPICH", &["HYDRA_LAUNCHER_EXEC"]),
    ] {
        with(&profile(implementation, false), 65, "", |run, _| {
            let job = to_value(objects::launcher(run).unwrap()).unwrap();
            let own = variables(&job["spec"]["template"]["spec"]["containers"][0]);
            for name in variables_of_agent {
                let told = (name.to_string(), "/nnf/bin/rsh".to_owned());
                assert!(own.contains(&told), "{implementation}: {own:?}");
            }
            let flat = ("OMPI_MCA_plm_rsh_no_tree_spawn".to_owned(), "1".to_owned());
            assert_eq!(own.contains(&flat), implementation == "OpenMPI", "{own:?}");
        });
    }
}

#[test]
fn worker_i_is_bound_to_rabbit_i_and_ready_when_it_answers() {
    with(&profile("OpenMPI", false), 3, "", |run, _| {
        for index in 0..3 {
            let theirs = golden(&format!("openmpi/40-pod-worker-{index}.json"));
            let theirs: Value = from_str(&theirs).unwrap();
            let ours = to_value(objects::job(run, index).unwrap()).unwrap();
            assert_eq!(ours["metadata"]["name"], theirs["metadata"]["name"]);
            let pod = &ours["spec"]["template"]["spec"];
            assert_eq!(pod["hostname"], theirs["spec"]["hostname"]);
            assert_eq!(pod["subdomain"], theirs["spec"]["subdomain"]);
            let rabbit = format!("rabbit-{index}");
            assert_eq!(pod["nodeSelector"]["kubernetes.io/hostname"], *rabbit);
            let worker = &pod["containers"][0];
            assert_eq!(worker["command"], json!(["/nnf/bin/podhelper", "worker"]));
            let asked = json!(["/nnf/bin/podhelper", "wait", "--worker=localhost", "--seconds=5"]);
            assert_eq!(worker["readinessProbe"]["exec"]["command"], asked);
            let role = ("K_MPI_JOB_ROLE".to_owned(), "worker".to_owned());
            assert!(variables(worker).contains(&role));
        }
    });
}

#[test]
fn a_launcher_waits_for_the_workers_in_each_of_its_pods() {
    with(&profile("OpenMPI", false), 3, "", |run, _| {
        let job = to_value(objects::launcher(run).unwrap()).unwrap();
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(pod["restartPolicy"], "Never", "each try is a pod, and waits anew");
        let first: Vec<&str> = pod["initContainers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert_eq!(first, ["nnf-install", "nnf-wait"]);
        let wait = &pod["initContainers"][1];
        let command = ["wait", "--workers=/nnf/config/workers", "--seconds=30"];
        assert_eq!(wait["command"].as_array().unwrap()[1..], command.map(|word| json!(word)));
        assert_eq!(wait["terminationMessagePolicy"], "FallbackToLogsOnError");
    });
}

#[test]
fn keys_are_those_of_the_attempt_and_go_with_its_config_map() {
    with(&profile("OpenMPI", false), 2, "", |run, _| {
        let mut config_map = objects::config_map(run);
        assert_eq!(config_map.metadata.name.as_deref(), Some("demo-1-a2"));
        assert_eq!(objects::keys(run, &config_map), None, "nobody owns them yet");
        config_map.metadata.uid = Some("u".to_owned());
        let secret = to_value(objects::keys(run, &config_map).unwrap()).unwrap();
        assert_eq!(secret["metadata"]["name"], "demo-1-a2-keys");
        assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(secret["immutable"], true);
        assert!(secret["data"].is_null() && secret["stringData"].is_null());
        for job in [objects::launcher(run), objects::job(run, 1)] {
            let pod = to_value(job.unwrap()).unwrap()["spec"]["template"]["spec"].clone();
            let volumes = pod["volumes"].as_array().unwrap();
            let keys = volumes.iter().find(|one| one["name"] == "nnf-keys").unwrap();
            assert_eq!(keys["secret"]["secretName"], "demo-1-a2-keys");
            assert_eq!(keys["secret"]["defaultMode"], 0o440);
            assert_eq!(
                pod["securityContext"]["fsGroup"], 1051,
                "so that the job's user reads them"
            );
        }
    });
}

#[test]
fn no_container_of_ours_has_a_shell_or_runs_as_root() {
    with(&profile("OpenMPI", false), 2, "", |run, _| {
        for job in [objects::launcher(run), objects::job(run, 1)] {
            let pod = to_value(job.unwrap()).unwrap()["spec"]["template"]["spec"].clone();
            let text = pod.to_string();
            assert!(!text.contains("/bin/sh") && !text.contains("bash"), "{text}");
            let containers = ["initContainers", "containers"];
            let all = containers.iter().flat_map(|list| pod[list].as_array().unwrap());
            for one in all {
                let context = &one["securityContext"];
                assert_eq!(context["runAsUser"], 1050, "{one:#}");
                assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
            }
        }
    });
}
