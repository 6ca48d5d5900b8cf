//! Compares Warren's pods with the MPI operator's pods, and checks the parts that differ on purpose.

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};

use super::*;
use crate::{objects, outcome};

/// Variables of the operator's pods that Warren's pods do not have: they set options of ssh, which Warren's remote
/// shell does not need.
const OF_SSH: [&str; 3] =
    ["OMPI_MCA_plm_rsh_args", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "HYDRA_LAUNCH_EXTRA_ARGS"];

fn variables(container: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = container["env"].as_array().unwrap().iter();
    all.map(|variable| (text(&variable["name"]), text(&variable["value"]))).collect()
}

#[test]
fn a_launcher_equals_the_launcher_of_the_mpi_operator_except_for_ssh_options() {
    for (case, implementation, is_worker) in CASES {
        let reference: Value = from_str(&golden(&format!("{case}/50-job-launcher.json"))).unwrap();
        with_run(&profile(implementation, is_worker), 3, "", |run, _| {
            let ours = to_value(objects::launcher(run).unwrap()).unwrap();
            assert_eq!(ours["metadata"]["name"], reference["metadata"]["name"]);
            assert_eq!(
                ours["spec"]["podReplacementPolicy"],
                reference["spec"]["podReplacementPolicy"]
            );
            let [ours, reference] = [&ours, &reference].map(|job| &job["spec"]["template"]["spec"]);
            assert_eq!(ours["hostname"], reference["hostname"]);
            assert_eq!(ours["subdomain"], reference["subdomain"]);
            let own = variables(&ours["containers"][0]);
            for (name, value) in variables(&reference["containers"][0]) {
                let is_there = own.contains(&(name.clone(), value.clone()));
                assert_eq!(is_there, !OF_SSH.contains(&&*name), "{case}: {name}={value}");
            }
            assert_eq!(own.last().unwrap().0, "OMPI_MCA_btl", "the profile's variables come last");
            assert_eq!(ours["nodeSelector"]["kubernetes.io/hostname"], "rabbit-0");
        });
    }
}

#[test]
fn each_mpirun_gets_the_path_of_warrens_remote_shell() {
    for (implementation, names) in [
        ("OpenMPI", &["OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"][..]),
        ("Intel", &["I_MPI_HYDRA_BOOTSTRAP_EXEC"]),
        ("MPICH", &["HYDRA_LAUNCHER_EXEC"]),
    ] {
        with_run(&profile(implementation, false), 65, "", |run, _| {
            let job = to_value(objects::launcher(run).unwrap()).unwrap();
            let own = variables(&job["spec"]["template"]["spec"]["containers"][0]);
            for name in names {
                let agent = (name.to_string(), "/nnf/bin/rsh".to_owned());
                assert!(own.contains(&agent), "{implementation}: {own:?}");
            }
            let flat = ("OMPI_MCA_plm_rsh_no_tree_spawn".to_owned(), "1".to_owned());
            assert_eq!(own.contains(&flat), implementation == "OpenMPI", "{own:?}");
        });
    }
}

#[test]
fn worker_i_is_bound_to_rabbit_i_and_its_readiness_probe_checks_that_it_answers() {
    with_run(&profile("OpenMPI", false), 3, "", |run, _| {
        for index in 0..3 {
            let reference = golden(&format!("openmpi/40-pod-worker-{index}.json"));
            let reference: Value = from_str(&reference).unwrap();
            let ours = to_value(objects::job(run, index).unwrap()).unwrap();
            assert_eq!(ours["metadata"]["name"], reference["metadata"]["name"]);
            let pod = &ours["spec"]["template"]["spec"];
            assert_eq!(pod["hostname"], reference["spec"]["hostname"]);
            assert_eq!(pod["subdomain"], reference["spec"]["subdomain"]);
            let rabbit = format!("rabbit-{index}");
            assert_eq!(pod["nodeSelector"]["kubernetes.io/hostname"], *rabbit);
            let worker = &pod["containers"][0];
            assert_eq!(worker["command"], json!(["/nnf/bin/podhelper", "worker"]));
            let probe_command =
                json!(["/nnf/bin/podhelper", "wait", "--worker=localhost", "--seconds=5"]);
            assert_eq!(worker["readinessProbe"]["exec"]["command"], probe_command);
            let role = ("K_MPI_JOB_ROLE".to_owned(), "worker".to_owned());
            assert!(variables(worker).contains(&role));
        }
    });
}

#[test]
fn a_launcher_waits_for_the_workers_in_each_of_its_pods() {
    with_run(&profile("OpenMPI", false), 3, "", |run, _| {
        let job = to_value(objects::launcher(run).unwrap()).unwrap();
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(
            pod["restartPolicy"], "Never",
            "the Job creates a pod for each try, and each pod waits"
        );
        let first: Vec<&str> = pod["initContainers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|container| container["name"].as_str().unwrap())
            .collect();
        assert_eq!(first, ["nnf-install", "nnf-wait"]);
        let wait = &pod["initContainers"][1];
        let command = ["wait", "--workers=/nnf/config/workers", "--seconds=30"];
        assert_eq!(wait["command"].as_array().unwrap()[1..], command.map(|word| json!(word)));
        assert_eq!(wait["terminationMessagePolicy"], "FallbackToLogsOnError");
    });
}

#[test]
fn keys_belong_to_the_attempt_and_are_deleted_with_its_config_map() {
    with_run(&profile("OpenMPI", false), 2, "", |run, _| {
        let mut config_map = objects::config_map(run);
        assert_eq!(config_map.metadata.name.as_deref(), Some("demo-1-a2"));
        assert_eq!(objects::keys(run, &config_map), None, "the owner has no uid yet");
        config_map.metadata.uid = Some("u".to_owned());
        let secret = to_value(objects::keys(run, &config_map).unwrap()).unwrap();
        assert_eq!(secret["metadata"]["name"], "demo-1-a2-keys");
        assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(secret["immutable"], true);
        assert!(secret["data"].is_null() && secret["stringData"].is_null());
        for job in [objects::launcher(run), objects::job(run, 1)] {
            let pod = to_value(job.unwrap()).unwrap()["spec"]["template"]["spec"].clone();
            let volumes = pod["volumes"].as_array().unwrap();
            let keys = volumes.iter().find(|volume| volume["name"] == "nnf-keys").unwrap();
            assert_eq!(keys["secret"]["secretName"], "demo-1-a2-keys");
            assert_eq!(keys["secret"]["defaultMode"], 0o440);
            assert_eq!(pod["securityContext"]["fsGroup"], 1051, "the job's user reads the keys");
        }
    });
}

#[test]
fn no_container_of_warren_has_a_shell_or_runs_as_root() {
    with_run(&profile("OpenMPI", false), 2, "", |run, _| {
        for job in [objects::launcher(run), objects::job(run, 1)] {
            let pod = to_value(job.unwrap()).unwrap()["spec"]["template"]["spec"].clone();
            let text = pod.to_string();
            assert!(!text.contains("/bin/sh") && !text.contains("bash"), "{text}");
            let containers = ["initContainers", "containers"];
            let all = containers.iter().flat_map(|list| pod[list].as_array().unwrap());
            for container in all {
                let context = &container["securityContext"];
                assert_eq!(context["runAsUser"], 1050, "{container:#}");
                assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
            }
        }
    });
}

/// Returns the pod that a Job creates.
fn pod_of(job: Option<Job>) -> Pod {
    let template = job.unwrap().spec.unwrap().template;
    Pod { metadata: template.metadata.unwrap(), spec: template.spec, ..Pod::default() }
}

#[test]
fn only_the_launcher_has_the_ports_of_the_run() {
    for is_worker in [false, true] {
        with_run(&profile("OpenMPI", is_worker), 2, "", |run, _| {
            let [launcher, worker] = [pod_of(objects::launcher(run)), pod_of(objects::job(run, 0))];
            let rabbit = outcome::rabbit_of_pod(&launcher);
            assert_eq!(rabbit, outcome::rabbit_of_pod(&worker), "both pods are on the same rabbit");
            let ports = |pod: Pod| to_value(&pod.spec.unwrap().containers[0].ports).unwrap();
            assert_eq!(ports(launcher), json!([{"containerPort": 5000, "hostPort": 5000}]));
            assert_eq!(
                ports(worker),
                Value::Null,
                "the worker would wait for the launcher's port for ever"
            );
        });
    }
}

#[test]
fn short_names_resolve_beneath_the_runs_service() {
    with_run(&profile("MPICH", false), 2, "cluster.local", |run, _| {
        let reference: Value = from_str(&golden("openmpi/40-pod-worker-0.json")).unwrap();
        for job in [objects::launcher(run), objects::job(run, 0), objects::job(run, 1)] {
            let ours = to_value(pod_of(job)).unwrap();
            assert_eq!(ours["spec"]["dnsConfig"], reference["spec"]["dnsConfig"]);
        }
    });
    with_run(&profile("MPICH", false), 2, "site.example", |run, mpi| {
        let pod = to_value(pod_of(objects::job(run, 1))).unwrap();
        let search = pod["spec"]["dnsConfig"]["searches"][0].as_str().unwrap().to_owned();
        let short = pod["spec"]["hostname"].as_str().unwrap();
        assert!(hostfile(run, mpi).contains(&format!("{short}.{search}:3\n")), "{search}");
    });
}

#[test]
fn a_pod_names_its_role_and_its_rabbit() {
    with_run(&profile("OpenMPI", false), 2, "", |run, _| {
        let jobs = [
            (objects::launcher(run), "launcher", "rabbit-0"),
            (objects::job(run, 0), "worker", "rabbit-0"),
            (objects::job(run, 1), "worker", "rabbit-1"),
        ];
        for (job, role, rabbit) in jobs {
            let labels = job.as_ref().unwrap().metadata.labels.clone().unwrap();
            let pod = pod_of(job);
            assert_eq!(
                pod.metadata.labels.as_ref(),
                Some(&labels),
                "the pod has the labels of its Job"
            );
            assert_eq!(labels[label::ROLE], role);
            assert_eq!(outcome::rabbit_of_pod(&pod), rabbit);
        }
    });
}

#[test]
fn only_pods_of_the_run_may_connect_to_its_workers() {
    let selects = |selector: &Value, pod: &Pod| {
        let labels = to_value(pod.metadata.labels.as_ref().unwrap()).unwrap();
        let wanted = selector["matchLabels"].as_object().unwrap();
        wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
    };
    with_run(&profile("OpenMPI", false), 2, "", |run, _| {
        let own = |uid: &str, index: &str| {
            let mut run = run.clone();
            let labels = run.metadata.labels.get_or_insert_default();
            labels.insert(label::WORKFLOW_UID.to_owned(), uid.to_owned());
            labels.insert(label::DIRECTIVE_INDEX.to_owned(), index.to_owned());
            run
        };
        let run = own("u", "1");
        let policy = to_value(objects::network_policy(&run)).unwrap();
        let (to, rules) = (&policy["spec"]["podSelector"], &policy["spec"]["ingress"]);
        assert_eq!(rules.as_array().unwrap().len(), 1, "{policy:#}");
        let from = &rules[0]["from"];
        assert_eq!(from.as_array().unwrap().len(), 1, "{policy:#}");
        let from = &from[0]["podSelector"];
        let (launcher, worker) = (pod_of(objects::launcher(&run)), pod_of(objects::job(&run, 1)));
        assert!(selects(to, &worker) && !selects(to, &launcher), "computes call the launcher");
        assert!(selects(from, &worker) && selects(from, &launcher));
        for other in [own("v", "1"), own("u", "2")] {
            let pods = [pod_of(objects::launcher(&other)), pod_of(objects::job(&other, 0))];
            assert!(
                pods.iter().all(|pod| !selects(from, pod)),
                "pods of another run do not reach the workers"
            );
        }
    });
}

#[test]
fn pods_and_computes_get_the_names_of_all_hosts() {
    with_run(&profile("OpenMPI", false), 2, "", |run, _| {
        let environment = crate::environment::compute_variables(run);
        assert_eq!(
            environment["NNF_CONTAINER_HOSTNAMES"],
            "demo-launcher,demo-worker-0,demo-worker-1"
        );
        assert_eq!(environment["NNF_CONTAINER_NODES"], "rabbit-0 rabbit-1");
        assert_eq!(environment["NNF_CONTAINER_LAUNCHER"], "rabbit-0");
        let pods = [objects::launcher(run), objects::job(run, 0), objects::job(run, 1)].map(pod_of);
        let hosts: Vec<String> =
            pods.iter().filter_map(|pod| pod.spec.as_ref()?.hostname.clone()).collect();
        assert_eq!(
            environment["NNF_CONTAINER_HOSTNAMES"],
            hosts.join(","),
            "the host names of the pods"
        );
        for pod in pods {
            let container = to_value(&pod.spec.unwrap().containers[0]).unwrap();
            let hosts = environment["NNF_CONTAINER_HOSTNAMES"].clone();
            let variable = ("NNF_CONTAINER_HOSTNAMES".to_owned(), hosts);
            assert!(variables(&container).contains(&variable), "{container:#}");
        }
    });
}
