use api::NnfContainerProfile;
use serde_json::{Value, from_value, json, to_value};

use super::*;
use crate::run::{Rabbit, StoragePath, StorageSource};

const PATH: &str = "/mnt/nnf/25cfbc9a-86b8-450a-baa5-9e29c57ca4c2-0";

fn read(path: &str) -> Value {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns an object that the Go controllers created for the workflow `cweb`. The names of its nodes were replaced in
/// the recording. The test removes the simulated devices of the machine on which the object was recorded.
fn read_captured(name: &str) -> Value {
    read(&format!("captured/{name}.yaml"))
}

fn profile() -> NnfContainerProfile {
    from_value(read("../api/captured/nnfcontainerprofile.yaml")).unwrap()
}

fn with_run(profile: &NnfContainerProfile, check: impl FnOnce(&Run<'_>)) {
    with_storages(profile, &[storage("DW_JOB_scratch", PATH, StorageSource::Rabbit)], check);
}

fn storage(variable: &str, path: &str, source: StorageSource) -> StoragePath {
    StoragePath { variable: variable.to_owned(), path: path.to_owned(), source }
}

fn with_storages(
    profile: &NnfContainerProfile,
    storages: &[StoragePath],
    check: impl FnOnce(&Run<'_>),
) {
    let metadata = ObjectMeta {
        namespace: Some("default".to_owned()),
        labels: Some([(label::CONTAINER.to_owned(), "cweb".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let compute = |global: usize, name: &str| (global, name.to_owned());
    let placement = [
        Rabbit {
            name: "rabbit-1".to_owned(),
            computes: vec![compute(0, "compute-01"), compute(2, "compute-02")],
        },
        Rabbit { name: "rabbit-2".to_owned(), computes: vec![compute(1, "compute-17")] },
    ];
    check(&Run {
        workflow: "cweb",
        service: "cweb",
        name: "cweb-1",
        metadata,
        user: 1050,
        group: 1051,
        profile: profile.data(),
        storages,
        packages: &BTreeMap::new(),
        devices: &BTreeMap::new(),
        placement: &placement,
        ports: &[5000],
        network_port: None,
        attempt: None,
        cluster_domain: "cluster.local",
    });
}

/// Returns whether `ours` contains all values of `reference`.
fn is_within(reference: &Value, ours: &Value) -> bool {
    match (reference, ours) {
        (Value::Object(reference), Value::Object(ours)) => reference
            .iter()
            .all(|(name, value)| ours.get(name).is_some_and(|ours| is_within(value, ours))),
        (Value::Array(reference), Value::Array(ours)) => {
            reference.iter().all(|value| ours.iter().any(|ours| is_within(value, ours)))
        }
        (reference, ours) => reference == ours,
    }
}

/// Fields of the recorded Job that Warren's Job does not have. The second column gives the
/// reason, or Warren's replacement.
const DIFFERENCES: [(&str, &str); 9] = [
    (
        "/spec/template/spec/initContainers",
        "the ConfigMap has the user's entries of passwd and group; no shell script writes them",
    ),
    ("/spec/template/spec/dnsPolicy", "a default of the API server"),
    ("/spec/template/spec/schedulerName", "a default of the API server"),
    ("/spec/template/spec/terminationGracePeriodSeconds", "a default of the API server"),
    ("/spec/selector", "a default of the API server"),
    ("/spec/completions", "a default of the API server"),
    ("/spec/podReplacementPolicy", "Failed: two pods of a Job never run side by side"),
    (
        "/spec/template/spec/containers/0/terminationMessagePolicy",
        "FallbackToLogsOnError: the pod's status has the last lines of a failed container's log",
    ),
    ("/spec/template/spec/containers/0/resources", "a default of the API server"),
];

#[test]
fn a_job_equals_the_job_of_the_go_controllers_except_for_listed_differences() {
    let mut reference = read_captured("job");
    for (path, _) in DIFFERENCES {
        let (parent, name) = path.rsplit_once('/').unwrap();
        let gone = reference.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
        assert!(gone.is_some(), "{path} is not in the captured Job any more");
    }
    // The recorded Job also has a variable of a development set-up, the passwd and shadow files that a shell script
    // writes, and simulated devices.
    let pod = reference.pointer("/spec/template/spec").unwrap().clone();
    let with_names = |list: &Value, kept: &[&str]| -> Vec<Value> {
        let all = list.as_array().unwrap().iter();
        all.filter(|item| kept.iter().any(|name| item["name"] == *name)).cloned().collect()
    };
    let env = pod["containers"][0]["env"].as_array().unwrap();
    let env: Vec<&Value> =
        env.iter().filter(|variable| variable["name"] != "ENVIRONMENT").collect();
    assert_eq!(env.len(), 9);
    let storage = with_names(&pod["volumes"], &["scratch"]);
    let mount = with_names(&pod["containers"][0]["volumeMounts"], &["scratch"]);

    with_run(&profile(), |run| {
        let ours = to_value(job(run, 0).unwrap()).unwrap();
        assert_eq!(ours["metadata"]["name"], "cweb-rabbit-1");
        let ours = &ours["spec"]["template"]["spec"];
        for field in [
            "hostname",
            "subdomain",
            "nodeSelector",
            "tolerations",
            "restartPolicy",
            "securityContext",
        ] {
            assert_eq!(ours[field], pod[field], "{field}");
        }
        let (mine, its) = (&ours["containers"][0], &pod["containers"][0]);
        for field in ["name", "image", "imagePullPolicy", "command", "securityContext"] {
            assert!(
                is_within(&its[field], &mine[field]),
                "{field}: {} {}",
                its[field],
                mine[field]
            );
        }
        assert_eq!(mine["ports"], json!([{"containerPort": 5000, "hostPort": 5000}]));
        assert_eq!(mine["securityContext"]["capabilities"], json!({"drop": ["ALL"]}));
        for variable in env {
            let value = |list: &Value| {
                list.as_array()
                    .unwrap()
                    .iter()
                    .find(|other| other["name"] == variable["name"])
                    .cloned()
            };
            let mine = value(&mine["env"]).unwrap_or_else(|| panic!("{variable} is missing"));
            // The recorded Job ran on a single rabbit.
            if variable["name"] == "NNF_CONTAINER_HOSTNAMES" {
                assert_eq!(mine["value"], "rabbit-1,rabbit-2");
            } else {
                assert_eq!(mine, *variable);
            }
        }
        let has_path = |list: &Value, path: &str| {
            list.as_array().unwrap().iter().any(|item| item.pointer(path) == Some(&json!(PATH)))
        };
        assert!(
            storage[0]["hostPath"]["path"] == PATH && has_path(&ours["volumes"], "/hostPath/path")
        );
        assert!(mount[0]["mountPath"] == PATH && has_path(&mine["volumeMounts"], "/mountPath"));
    });
}

#[test]
fn a_pod_sees_only_the_storage_of_its_host_and_has_no_token() {
    with_run(&profile(), |run| {
        let pod = to_value(job(run, 1).unwrap()).unwrap()["spec"]["template"]["spec"].clone();
        assert_eq!(pod["automountServiceAccountToken"], false);
        let volumes = pod["volumes"].as_array().unwrap();
        let host_paths: Vec<&Value> =
            volumes.iter().filter_map(|volume| volume.get("hostPath")).collect();
        assert_eq!(host_paths, [&json!({"path": PATH, "type": "Directory"})]);
        assert_eq!(pod["hostname"], "rabbit-2");
        assert_eq!(pod["priorityClassName"], Value::Null);
    });
    let mut profile = to_value(profile()).unwrap();
    profile["data"]["spec"]["priorityClassName"] = json!("low");
    with_run(&from_value(profile).unwrap(), |run| {
        let pod = job(run, 1).unwrap().spec.unwrap().template.spec.unwrap();
        assert_eq!(pod.priority_class_name.as_deref(), Some("low"));
    });
}

#[test]
fn host_names_resolve_before_any_container_is_ready() {
    with_run(&profile(), |run| {
        let ours = to_value(service(run)).unwrap();
        let reference = read_captured("service");
        for field in ["clusterIP", "selector"] {
            assert_eq!(ours["spec"][field], reference["spec"][field], "{field}");
        }
        assert_eq!(ours["metadata"]["name"], reference["metadata"]["name"]);
        assert_eq!(ours["spec"]["publishNotReadyAddresses"], true);
    });
}

#[test]
fn a_runs_pods_accept_each_other_on_all_ports_and_other_hosts_only_on_the_runs_ports() {
    let spec = |run: &Run<'_>| to_value(network_policy(run)).unwrap()["spec"].clone();
    with_run(&profile(), |run| {
        let (all, closed) = (spec(run), spec(&Run { ports: &[], ..run.clone() }));
        let own = json!({"from": [{"podSelector": all["podSelector"]}]});
        let ports: Vec<Value> = run.ports.iter().map(|port| json!({"port": port})).collect();
        assert!(!ports.is_empty());
        assert_eq!(all["ingress"], json!([own, {"ports": ports}]));
        assert_eq!(
            closed["ingress"],
            json!([own]),
            "a run without ports has no rule for other hosts: a rule that names no port opens all"
        );
    });
}

#[test]
fn the_config_map_has_the_names_of_rabbits_and_computes_and_the_user_entries() {
    with_run(&profile(), |run| {
        let files = to_value(config_map(run)).unwrap()["data"].clone();
        assert_eq!(files["nnfContainerNodes"], "rabbit-1 rabbit-2");
        assert_eq!(files["nnfContainerSubdomain"], "cweb");
        assert_eq!(files["nnfContainerDomain"], "default.svc.cluster.local");
        let nodes: Value = serde_json::from_str(files["nodes.json"].as_str().unwrap()).unwrap();
        assert_eq!(
            nodes,
            json!([
                {"rabbit": "rabbit-1", "index": 0, "computes": [
                    {"host": "compute-01", "local": 0, "global": 0}, {"host": "compute-02", "local": 1, "global": 2}]},
                {"rabbit": "rabbit-2", "index": 1, "computes": [{"host": "compute-17", "local": 0, "global": 1}]},
            ])
        );
        assert!(files["passwd"].as_str().unwrap().contains("\nuser:x:1050:1051:"));
        assert!(files["group"].as_str().unwrap().contains("\nuser:x:1051:"));
    });
}

#[test]
fn the_ports_are_divided_evenly_among_the_containers_in_their_order() {
    let mut profile = profile();
    let spec = profile.spec.data.spec.as_mut().unwrap();
    let second = api::nnf_container_profile::NnfContainer {
        name: "my-writer".to_owned(),
        ..spec.containers[0].clone()
    };
    spec.containers.push(second);
    with_run(&profile, |run| {
        let run = Run { ports: &[5000, 5001, 5003, 5004], ..run.clone() };
        let variables = crate::environment::compute_variables(&run);
        assert_eq!(variables["NNF_CONTAINER_PORTS"], "5000,5001,5003,5004");
        assert_eq!(variables["NNF_CONTAINER_PORTS_reader"], "5000,5001");
        assert_eq!(variables["NNF_CONTAINER_PORTS_my_writer"], "5003,5004");
        let pod = to_value(job(&run, 0).unwrap()).unwrap()["spec"]["template"]["spec"].clone();
        assert_eq!(pod["containers"][1]["ports"][0]["hostPort"], 5003);
        let run = Run { ports: &[], ..run };
        assert!(!crate::environment::compute_variables(&run).contains_key("NNF_CONTAINER_PORTS"));
    });
}

#[test]
fn a_job_gets_the_start_deadline_of_its_profile() {
    for (given, expected) in [(None, Some(300)), (Some(0), None), (Some(60), Some(60))] {
        let mut profile = profile();
        profile.spec.data.pre_run_timeout_seconds = given;
        with_run(&profile, |run| {
            let spec = job(run, 0).unwrap().spec.unwrap();
            assert_eq!(spec.active_deadline_seconds, expected);
            assert_eq!(spec.backoff_limit, Some(3));
        });
    }
}

#[test]
fn two_variables_for_one_global_lustre_share_one_volume_and_one_mount() {
    let global = || StorageSource::Global { claim: "polly-default-readwritemany-pvc".to_owned() };
    let storages = [
        storage("DW_JOB_scratch", PATH, StorageSource::Rabbit),
        storage("DW_GLOBAL_lus", "/lus/polly", global()),
        storage("DW_GLOBAL_too", "/lus/polly", global()),
    ];
    with_storages(&profile(), &storages, |run| {
        let pod = to_value(job(run, 0).unwrap().spec.unwrap().template.spec.unwrap()).unwrap();
        let claim = json!({"name": "storage-1", "persistentVolumeClaim": {"claimName": "polly-default-readwritemany-pvc"}});
        let volumes = pod["volumes"].as_array().unwrap();
        assert!(volumes.contains(&claim), "{volumes:#?}");
        let container = &pod["containers"][0];
        let mounts = container["volumeMounts"].as_array().unwrap();
        let at: Vec<_> = mounts.iter().filter(|mount| mount["mountPath"] == "/lus/polly").collect();
        assert_eq!(at, [&json!({"name": "storage-1", "mountPath": "/lus/polly"})]);
        for name in ["DW_GLOBAL_lus", "DW_GLOBAL_too"] {
            let variable = json!({"name": name, "value": "/lus/polly"});
            assert!(container["env"].as_array().unwrap().contains(&variable), "{name}");
        }
        let on_rabbit = crate::on_rabbit::containers(run, 0).unwrap().spec;
        assert_eq!(
            (on_rabbit.storages, on_rabbit.global_lustre),
            (vec![PATH.to_owned()], vec!["/lus/polly".to_owned()])
        );
    });
}
