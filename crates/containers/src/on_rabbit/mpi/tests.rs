use std::collections::{BTreeMap, BTreeSet};

use api::NnfContainerProfileData;
use k8s_openapi::{api::batch::v1::Job, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde_json::{Value, from_value, json};

use super::*;
use crate::{objects, run::Rabbit};

/// Calls `check` with a run on two rabbits; `edit` may change the run's profile first.
fn with_run(edit: impl FnOnce(&mut Value), check: impl FnOnce(&Run<'_>)) {
    let launcher = json!({"name": "mpi", "image": "i:1", "command": ["mpirun"], "args": ["$(K)"],
        "env": [{"name": "K", "value": "$(OMPI_MCA_plm_rsh_agent)"}]});
    let worker = json!({"name": "mpi", "image": "i:1"});
    let mut profile = json!({"numPorts": 1, "preRunTimeoutSeconds": 60, "retryLimit": 2,
        "mpiSpec": {"launcher": {"containers": [launcher]}, "worker": {"containers": [worker]}, "slotsPerWorker": 2}});
    edit(&mut profile);
    let profile: NnfContainerProfileData = from_value(profile).unwrap();
    let metadata = ObjectMeta { namespace: Some("default".to_owned()), ..ObjectMeta::default() };
    let attempt =
        Attempt { number: 1, name: "w-1-a1".to_owned(), keys: "w-1-a1-k".to_owned(), image: None };
    let rabbit = |name: &str| Rabbit { name: name.to_owned(), computes: Vec::new() };
    check(&Run {
        workflow: "w",
        service: "w",
        name: "w-1-a1",
        metadata,
        user: 1050,
        group: 1051,
        profile: &profile,
        storages: &[],
        packages: &BTreeMap::new(),
        devices: &BTreeMap::new(),
        placement: &[rabbit("r"), rabbit("s")],
        ports: &[5000],
        network_port: Some(5001),
        attempt: Some(&attempt),
        cluster_domain: "cluster.local",
    });
}

fn all_pods(run: &Run<'_>) -> [NodeContainers; 3] {
    [launcher(run), worker(run, 0), worker(run, 1)].map(Option::unwrap)
}

/// Returns the variables of a container. If a variable occurs twice, its last value wins.
fn environment(container: &NodeContainer) -> std::collections::BTreeMap<&str, &str> {
    container.env.iter().map(|variable| (variable.name.as_str(), variable.value.as_str())).collect()
}

#[test]
fn each_pod_equals_the_kubernetes_pod_and_is_in_the_network_of_the_run() {
    with_run(
        |_| {},
        |run| {
            let jobs: [Job; 3] =
                [objects::launcher(run), objects::job(run, 0), objects::job(run, 1)]
                    .map(Option::unwrap);
            let names = ["w-launcher", "w-worker-0", "w-worker-1"];
            for (place, (ours, job)) in all_pods(run).iter().zip(&jobs).enumerate() {
                let pod = job.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
                assert_eq!(ours.metadata.name, Some(format!("default.{}", names[place])));
                assert_eq!(ours.metadata.namespace.as_deref(), Some(["r", "r", "s"][place]));
                let role = |labels: &Option<std::collections::BTreeMap<String, String>>| {
                    labels.as_ref().unwrap()[label::ROLE].clone()
                };
                assert_eq!(role(&ours.metadata.labels), role(&job.metadata.labels));
                assert_eq!(Some(&ours.spec.hostname), pod.hostname.as_ref());
                let network = ours.spec.network.as_ref().unwrap();
                assert_eq!((network.port, network.place), (5001, i64::try_from(place).unwrap()));
                assert_eq!(network.rabbits, ["r", "r", "s"]);
                let (mine, its) = (&ours.spec.containers[0], &pod.containers[0]);
                assert_eq!(mine.command, *its.command.as_ref().unwrap());
                let names: BTreeSet<&str> =
                    mine.env.iter().map(|variable| variable.name.as_str()).collect();
                let expected = its.env.iter().flatten().map(|variable| variable.name.as_str());
                assert_eq!(
                    expected.filter(|name| !names.contains(name)).collect::<Vec<_>>(),
                    [""; 0]
                );
            }
        },
    );
}

#[test]
fn the_launcher_waits_for_the_workers_and_has_the_ports() {
    with_run(
        |_| {},
        |run| {
            let [launcher, worker, _] = all_pods(run);
            let wait = &launcher.spec.init_containers[0];
            let command =
                ["/nnf/bin/podhelper", "wait", "--workers=/nnf/config/workers", "--seconds=30"];
            assert_eq!(
                (&*wait.name, &*wait.command, wait.args.len()),
                ("nnf-wait", &command.map(str::to_owned)[..], 0)
            );
            assert_eq!(environment(wait)["NNF_MPI_KEYS"], "/nnf/keys");
            assert_eq!(environment(&launcher.spec.containers[0])["NNF_CONTAINER_PORTS"], "5000");
            assert_eq!(launcher.spec.containers[0].ports, [5000]);
            assert_eq!(
                launcher.spec.containers[0].args,
                ["/nnf/bin/rsh"],
                "arguments may refer to MPI's variables"
            );
            assert!(
                worker.spec.containers[0].ports.is_empty()
                    && worker.spec.init_containers.is_empty()
            );
        },
    );
}

#[test]
fn the_hosts_file_has_each_name_of_every_host() {
    with_run(
        |mpi| mpi["mpiSpec"]["runLauncherAsWorker"] = json!(true),
        |run| {
            let config_map = objects::config_map(run);
            let files = all_pods(run).map(|pod| pod.spec.files.unwrap().name);
            assert!(files.iter().all(|name| Some(name) == config_map.metadata.name.as_ref()));
            let files = config_map.data.unwrap();
            let expected = "127.0.0.1\tlocalhost\n\
            198.18.0.1\tw-launcher.w.default.svc.cluster.local w-launcher.w w-launcher\n\
            198.18.0.2\tw-worker-0.w.default.svc.cluster.local w-worker-0.w w-worker-0\n\
            198.18.0.3\tw-worker-1.w.default.svc.cluster.local w-worker-1.w w-worker-1\n";
            assert_eq!(files["hosts"], expected);
            for host in files["hostfile"].lines() {
                assert!(expected.contains(host.split(' ').next().unwrap()), "{host}");
            }
            assert_eq!(files["hostfile"].lines().count(), 3, "the launcher runs ranks too");
        },
    );
}

#[test]
fn a_pod_beyond_the_end_of_the_address_block_has_no_address() {
    let address = |place| network::address(place).map(|address| address.to_string());
    assert_eq!(address(254).as_deref(), Some("198.18.0.255"));
    assert_eq!(address((1 << 17) - 3).as_deref(), Some("198.19.255.254"));
    assert_eq!((address((1 << 17) - 2), address(u32::MAX)), (None, None));
}

#[test]
fn the_container_that_waits_for_the_workers_mounts_no_volumes_of_the_profile() {
    let shares = |profile: &mut Value| {
        let launcher = &mut profile["mpiSpec"]["launcher"];
        launcher["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
        launcher["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    };
    with_run(shares, |run| {
        let [launcher, worker, _] = all_pods(run).map(|pod| pod.spec);
        assert_eq!((launcher.empty_dirs.len(), worker.empty_dirs.len()), (1, 0));
        assert_eq!(launcher.containers[0].volume_mounts.len(), 1);
        assert!(launcher.init_containers[0].volume_mounts.is_empty());
    });
}
