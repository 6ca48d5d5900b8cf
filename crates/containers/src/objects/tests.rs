use api::NnfContainerProfile;
use serde_json::{Value, from_value, json, to_value};

use super::*;
use crate::run::{Rabbit, StoragePath, StorageSource};

const PATH: &str = "/mnt/nnf/25cfbc9a-86b8-450a-baa5-9e29c57ca4c2-0";

fn read(path: &str) -> Value {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// An object as the sites' controllers made it for the workflow `cweb`; names of nodes were rewritten, and devices of the
/// machine that it was captured on taken out below.
fn captured(name: &str) -> Value {
    read(&format!("captured/{name}.yaml"))
}

fn profile() -> NnfContainerProfile {
    from_value(read("../api/captured/nnfcontainerprofile.yaml")).unwrap()
}

fn with(profile: &NnfContainerProfile, check: impl FnOnce(&Run<'_>)) {
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

/// Whether everything that is in `theirs` is in `ours`.
fn is_within(theirs: &Value, ours: &Value) -> bool {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => theirs
            .iter()
            .all(|(name, value)| ours.get(name).is_some_and(|ours| is_within(value, ours))),
        (Value::Array(theirs), Value::Array(ours)) => {
            theirs.iter().all(|value| ours.iter().any(|ours| is_within(value, ours)))
        }
        (theirs, ours) => theirs == ours,
    }
}

/// What ours do not have: the second column says what is in its place.
const APART: [(&str, &str); 9] = [
    (
        "/spec/template/spec/initContainers",
        "the user's entries come from the ConfigMap, without a shell",
    ),
    ("/spec/template/spec/dnsPolicy", "what a server fills in"),
    ("/spec/template/spec/schedulerName", "what a server fills in"),
    ("/spec/template/spec/terminationGracePeriodSeconds", "what a server fills in"),
    ("/spec/selector", "what a server fills in"),
    ("/spec/completions", "what a server fills in"),
    ("/spec/podReplacementPolicy", "Failed: two pods of a Job never run side by side"),
    ("/spec/template/spec/containers/0/terminationMessagePolicy", "the last lines of the log"),
    ("/spec/template/spec/containers/0/resources", "what a server fills in"),
];

#[test]
fn a_job_has_what_the_sites_controllers_give_it_but_for_named_differences() {
    let mut theirs = captured("job");
    for (path, _) in APART {
        let (parent, name) = path.rsplit_once('/').unwrap();
        let gone = theirs.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
        assert!(gone.is_some(), "{path} is not in the captured Job any more");
    }
    // The variable of a development set-up, the passwd and shadow of a shell script, and simulated devices.
    let pod = theirs.pointer("/spec/template/spec").unwrap().clone();
    let named = |list: &Value, kept: &[&str]| -> Vec<Value> {
        let all = list.as_array().unwrap().iter();
        all.filter(|one| kept.iter().any(|name| one["name"] == *name)).cloned().collect()
    };
    let env = pod["containers"][0]["env"].as_array().unwrap();
    let env: Vec<&Value> = env.iter().filter(|one| one["name"] != "ENVIRONMENT").collect();
    assert_eq!(env.len(), 9);
    let storage = named(&pod["volumes"], &["scratch"]);
    let mount = named(&pod["containers"][0]["volumeMounts"], &["scratch"]);

    with(&profile(), |run| {
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
            let value = |of: &Value| {
                of.as_array().unwrap().iter().find(|one| one["name"] == variable["name"]).cloned()
            };
            let mine = value(&mine["env"]).unwrap_or_else(|| panic!("{variable} is missing"));
            // Theirs ran on one rabbit.
            if variable["name"] == "NNF_CONTAINER_HOSTNAMES" {
                assert_eq!(mine["value"], "rabbit-1,rabbit-2");
            } else {
                assert_eq!(mine, *variable);
            }
        }
        let shown = |of: &Value, path: &str| {
            of.as_array().unwrap().iter().any(|one| one.pointer(path) == Some(&json!(PATH)))
        };
        assert!(
            storage[0]["hostPath"]["path"] == PATH && shown(&ours["volumes"], "/hostPath/path")
        );
        assert!(mount[0]["mountPath"] == PATH && shown(&mine["volumeMounts"], "/mountPath"));
    });
}

#[test]
fn a_pod_has_nothing_of_its_host_but_the_storage_and_no_token() {
    with(&profile(), |run| {
        let pod = to_value(job(run, 1).unwrap()).unwrap()["spec"]["template"]["spec"].clone();
        assert_eq!(pod["automountServiceAccountToken"], false);
        let volumes = pod["volumes"].as_array().unwrap();
        let of_host: Vec<&Value> = volumes.iter().filter_map(|one| one.get("hostPath")).collect();
        assert_eq!(of_host, [&json!({"path": PATH, "type": "Directory"})]);
        assert_eq!(pod["hostname"], "rabbit-2");
        assert_eq!(pod["priorityClassName"], Value::Null);
    });
    let mut profile = to_value(profile()).unwrap();
    profile["data"]["spec"]["priorityClassName"] = json!("low");
    with(&from_value(profile).unwrap(), |run| {
        let pod = job(run, 1).unwrap().spec.unwrap().template.spec.unwrap();
        assert_eq!(pod.priority_class_name.as_deref(), Some("low"));
    });
}

#[test]
fn names_resolve_before_anything_is_ready() {
    with(&profile(), |run| {
        let ours = to_value(service(run)).unwrap();
        let theirs = captured("service");
        for field in ["clusterIP", "selector"] {
            assert_eq!(ours["spec"][field], theirs["spec"][field], "{field}");
        }
        assert_eq!(ours["metadata"]["name"], theirs["metadata"]["name"]);
        assert_eq!(ours["spec"]["publishNotReadyAddresses"], true);
    });
}

#[test]
fn pods_are_reached_by_their_run_and_by_everybody_on_their_ports_alone() {
    let spec = |run: &Run<'_>| to_value(network_policy(run)).unwrap()["spec"].clone();
    with(&profile(), |run| {
        let (all, closed) = (spec(run), spec(&Run { ports: &[], ..run.clone() }));
        let own = json!({"from": [{"podSelector": all["podSelector"]}]});
        let ports: Vec<Value> = run.ports.iter().map(|port| json!({"port": port})).collect();
        assert!(!ports.is_empty());
        assert_eq!(all["ingress"], json!([own, {"ports": ports}]));
        assert_eq!(closed["ingress"], json!([own]), "no rule that opens all ports");
    });
}

#[test]
fn files_tell_the_same_on_every_rabbit() {
    with(&profile(), |run| {
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
fn ports_are_cut_evenly_in_the_order_of_containers() {
    let mut profile = profile();
    let spec = profile.spec.data.spec.as_mut().unwrap();
    let second = api::nnf_container_profile::NnfContainer {
        name: "my-writer".to_owned(),
        ..spec.containers[0].clone()
    };
    spec.containers.push(second);
    with(&profile, |run| {
        let run = Run { ports: &[5000, 5001, 5003, 5004], ..run.clone() };
        let told = crate::environment::of_computes(&run);
        assert_eq!(told["NNF_CONTAINER_PORTS"], "5000,5001,5003,5004");
        assert_eq!(told["NNF_CONTAINER_PORTS_reader"], "5000,5001");
        assert_eq!(told["NNF_CONTAINER_PORTS_my_writer"], "5003,5004");
        let pod = to_value(job(&run, 0).unwrap()).unwrap()["spec"]["template"]["spec"].clone();
        assert_eq!(pod["containers"][1]["ports"][0]["hostPort"], 5003);
        let run = Run { ports: &[], ..run };
        assert!(!crate::environment::of_computes(&run).contains_key("NNF_CONTAINER_PORTS"));
    });
}

#[test]
fn the_deadline_of_the_start_is_the_profiles() {
    for (given, expected) in [(None, Some(300)), (Some(0), None), (Some(60), Some(60))] {
        let mut profile = profile();
        profile.spec.data.pre_run_timeout_seconds = given;
        with(&profile, |run| {
            let spec = job(run, 0).unwrap().spec.unwrap();
            assert_eq!(spec.active_deadline_seconds, expected);
            assert_eq!(spec.backoff_limit, Some(3));
        });
    }
}

#[test]
fn a_global_lustre_is_a_claim_that_is_mounted_once_and_told_by_every_variable() {
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
        let at: Vec<_> = mounts.iter().filter(|one| one["mountPath"] == "/lus/polly").collect();
        assert_eq!(at, [&json!({"name": "storage-1", "mountPath": "/lus/polly"})]);
        for name in ["DW_GLOBAL_lus", "DW_GLOBAL_too"] {
            let told = json!({"name": name, "value": "/lus/polly"});
            assert!(container["env"].as_array().unwrap().contains(&told), "{name}");
        }
        let there = crate::on_rabbit::containers(run, 0).unwrap().spec;
        assert_eq!(
            (there.storages, there.global_lustre),
            (vec![PATH.to_owned()], vec!["/lus/polly".to_owned()])
        );
    });
}
