use api::NnfContainerProfileData;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, from_value, json};

use super::*;
use crate::{
    objects,
    run::{Rabbit, StoragePath, StorageSource},
};

fn with_run(profile: Value, check: impl FnOnce(&Run<'_>)) {
    let profile: NnfContainerProfileData = from_value(profile).unwrap();
    let metadata = ObjectMeta {
        namespace: Some("default".to_owned()),
        owner_references: Some(vec![OwnerReference::default()]),
        ..ObjectMeta::default()
    };
    let path = "/mnt/nnf/25cfbc9a-0".to_owned();
    let variable = "DW_JOB_scratch".to_owned();
    let storages = [StoragePath { variable, path, source: StorageSource::Rabbit }];
    let rabbit = |name: &str| Rabbit { name: name.to_owned(), computes: Vec::new() };
    check(&Run {
        workflow: "w",
        service: "w",
        name: "w-1",
        metadata,
        user: 1050,
        group: 1051,
        profile: &profile,
        storages: &storages,
        packages: &BTreeMap::new(),
        devices: &BTreeMap::new(),
        placement: &[rabbit("rabbit-1"), rabbit("rabbit-2")],
        ports: &[5000, 5001],
        network_port: None,
        attempt: None,
        cluster_domain: "cluster.local",
    });
}

fn app(more: &Value) -> Value {
    let mut container = json!({"name": "app", "image": "i:1"});
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"spec": {"containers": [container]}, "numPorts": 2})
}

#[test]
fn the_object_for_a_rabbit_has_the_containers_of_the_kubernetes_pod() {
    with_run(app(&json!({"workingDir": "/tmp", "command": ["a"], "args": ["b"]})), |run| {
        let ours = containers(run, 1).unwrap();
        let job = objects::job(run, 1).unwrap().spec.unwrap();
        let pod = job.template.spec.unwrap();
        assert_eq!(ours.metadata.name.as_deref(), Some("default-w-1"));
        assert_eq!(ours.metadata.namespace.as_deref(), Some("rabbit-2"));
        assert_eq!(ours.metadata.owner_references, None);
        assert_eq!(Some(&ours.spec.hostname), pod.hostname.as_ref());
        let files = objects::config_map(run).metadata;
        let source = ours.spec.files.unwrap();
        assert_eq!((Some(source.namespace), Some(source.name)), (files.namespace, files.name));
        assert_eq!(ours.spec.active_deadline_seconds, job.active_deadline_seconds);
        let (mine, its) = (&ours.spec.containers[0], &pod.containers[0]);
        assert_eq!((&*mine.command, &*mine.args), (&["a".to_owned()][..], &["b".to_owned()][..]));
        let reference = its.env.as_ref().unwrap();
        assert_eq!(mine.env.len(), reference.len());
        for (mine, its) in mine.env.iter().zip(reference) {
            let value = its.value.as_deref().unwrap_or("rabbit-2");
            assert_eq!((&*mine.name, &*mine.value), (&*its.name, value));
        }
        let ports = its.ports.iter().flatten().map(|port| port.host_port.unwrap());
        assert!(mine.ports.iter().map(|port| i32::try_from(*port).unwrap()).eq(ports));
        let paths = pod.volumes.iter().flatten().filter_map(|volume| volume.host_path.as_ref());
        assert!(ours.spec.storages.iter().eq(paths.map(|host| &host.path)));
        let hosts = ours.spec.hosts.unwrap();
        assert_eq!(hosts.rabbits, ["rabbit-1", "rabbit-2"]);
        assert_eq!(hosts.domains, ["w", "w.default.svc.cluster.local"]);
    });
}

#[test]
fn an_object_lists_its_shared_directories_and_each_container_its_mounts() {
    let mounts = json!([{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/w", "readOnly": true}]);
    let mut profile = app(&json!({"volumeMounts": mounts}));
    profile["spec"]["volumes"] =
        json!([{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]);
    with_run(profile, |run| {
        let spec = containers(run, 0).unwrap().spec;
        assert_eq!(spec.empty_dirs, ["v", "w"]);
        let mounts = spec.containers[0].volume_mounts.iter();
        let mounts: Vec<_> =
            mounts.map(|mount| (&*mount.name, &*mount.mount_path, mount.read_only)).collect();
        assert_eq!(mounts, [("v", "/v", false), ("w", "/w", true)]);
    });
}

/// Each rabbit has its own object; the ConfigMap contains the files, which are the same for all rabbits.
#[test]
fn the_object_for_a_rabbit_has_less_than_20_kb_in_a_run_with_4096_computes() {
    with_run(app(&json!({})), |run| {
        let rabbit = |place: usize| Rabbit {
            name: format!("rabbit-node-{place}"),
            computes: (0..16)
                .map(|at| (place * 16 + at, format!("compute-{place}-{at}")))
                .collect(),
        };
        let placement: Vec<Rabbit> = (0..256).map(rabbit).collect();
        let run = &Run { placement: &placement, ..run.clone() };
        let size = |object: Value| object.to_string().len();
        let own = size(serde_json::to_value(containers(run, 7).unwrap()).unwrap());
        let files = size(serde_json::to_value(objects::config_map(run)).unwrap());
        assert!(files > 200_000 && own < 20_000, "{own} and {files} bytes");
    });
}

#[test]
fn containers_are_numbered_over_all_rabbits_of_a_run() {
    let mut profile = app(&json!({}));
    let more = json!({"name": "more", "image": "i:1"});
    profile["spec"]["containers"].as_array_mut().unwrap().push(more);
    profile["spec"]["initContainers"] = json!([{"name": "first", "image": "i:1"}]);
    with_run(profile, |run| {
        let number = |container: &NodeContainer| {
            let variable =
                container.env.iter().find(|variable| variable.name == "NNF_CONTAINER_WORKER");
            variable.map(|variable| variable.value.clone())
        };
        let rabbits = (0..2).map(|index| containers(run, index).unwrap().spec);
        let rabbits: Vec<NodeContainersSpec> = rabbits.collect();
        let numbers = rabbits.iter().flat_map(|spec| &spec.containers).map(number);
        let numbers: Vec<String> = numbers.map(Option::unwrap).collect();
        assert_eq!(numbers, ["0", "1", "2", "3"]);
        assert_eq!(number(&rabbits[1].init_containers[0]), None);
    });
}

#[test]
fn a_rabbits_object_lists_the_job_packages() {
    let package =
        json!({"name": "data", "url": "/lus/data.tar", "sha256": "0".repeat(64), "size": 1});
    let mut profile = app(&json!({}));
    profile["packages"] = json!([package]);
    with_run(profile, |run| {
        assert_eq!(containers(run, 0).unwrap().spec.packages, run.profile.packages);
        assert_eq!(run.profile.packages[0].url, "/lus/data.tar");
    });
}

#[test]
fn values_and_arguments_are_expanded_with_earlier_variables() {
    let env = json!([{"name": "OWN", "value": "$(DW_JOB_scratch)/$(LATER)"}, {"name": "LATER", "value": "x"}]);
    let profile = app(
        &json!({"env": env, "command": ["ls", "$(OWN)"], "args": ["$(NNF_NODE_NAME)", "$(LATER)"]}),
    );
    with_run(profile, |run| {
        let container = containers(run, 0).unwrap().spec.containers[0].clone();
        assert_eq!(container.command[1], "/mnt/nnf/25cfbc9a-0/$(LATER)");
        assert_eq!(container.args, ["rabbit-1", "x"]);
    });
}

#[test]
fn limits_and_pull_policies_follow_kubernetes() {
    let limits = json!({"limits": {"cpu": "500m", "memory": "1Gi"}});
    with_run(app(&json!({"resources": limits})), |run| {
        let container = containers(run, 0).unwrap().spec.containers[0].clone();
        assert_eq!((container.cpu_millis, container.memory_bytes), (Some(500), Some(1 << 30)));
    });
    for (image, policy) in [
        ("registry.example:5000/app", ImagePullPolicy::Always),
        ("registry.example/app:latest", ImagePullPolicy::Always),
        ("registry.example/app:3", ImagePullPolicy::IfNotPresent),
        ("app@sha256:0", ImagePullPolicy::IfNotPresent),
        ("oci-archive:/images/app.tar", ImagePullPolicy::IfNotPresent),
        ("oci:/images/app", ImagePullPolicy::IfNotPresent),
    ] {
        with_run(app(&json!({"image": image})), |run| {
            let container = containers(run, 0).unwrap().spec.containers[0].clone();
            assert_eq!(container.image_pull_policy, policy, "{image}");
        });
    }
}
