use containers::JobPackage;
use serde_json::{from_value, json};

use super::*;
use crate::kinds::container::desired::tests::UID as OBJECT;

fn pod(attempt: i64) -> PodName {
    PodName { uid: OBJECT.parse().unwrap(), attempt }
}

fn container_name() -> ContainerName {
    ContainerName { pod: pod(2), container: "app".to_owned() }
}

fn package(unpack: bool) -> JobPackage {
    let name = if unpack { "tools" } else { "data" };
    let json = json!({"name": name, "url": "/lus/a.tar", "sha256": "0".repeat(64), "size": 1, "unpack": unpack});
    JobPackage::parse(&from_value(json).unwrap()).unwrap()
}

#[test]
fn pod_create_has_host_name_ports_and_the_addresses_of_other_rabbits() {
    let pod = Pod {
        name: pod(2),
        hostname: "rabbit-1".to_owned(),
        hosts: from_value(json!({
            "rabbits": ["rabbit-1", "rabbit-2"], "domains": ["w", "w.default"],
        }))
        .unwrap(),
        ports: vec![5000, 5001],
        has_network: true,
        shares_processes: true,
        memory: Some(4096),
    };
    let addresses = [("rabbit-2".to_owned(), IpAddr::from([10, 0, 0, 2]))].into();
    let expected = format!(
        "pod create --name warren-{OBJECT}-2 --label {UID}={OBJECT} --label {ATTEMPT}=2 \
         --hostname rabbit-1 --share net,ipc,uts,pid --shm-size 4096b --add-host rabbit-1.w:127.0.0.1 \
         --add-host rabbit-1.w.default:127.0.0.1 \
         --add-host rabbit-2.w:10.0.0.2 --add-host rabbit-2.w.default:10.0.0.2 \
         --publish 5000:5000 --publish 5001:5001"
    );
    assert_eq!(make_pod(&pod, &addresses).join(" "), expected);
}

fn paths(names: &[String]) -> ContainerPaths<'_> {
    let [files, keys, volumes] =
        ["/state/x/files", "/state/x/keys", "/state/x/volumes/2"].map(Path::new);
    let [podhelper, packages] = ["/opt/podhelper", "/packages"].map(Path::new);
    let devices = &[DeviceNumber { major: 253, minor: 7 }];
    ContainerPaths { files, names, keys, podhelper, volumes, packages, devices }
}

#[test]
fn a_container_is_created_without_privileges_and_with_its_own_paths() {
    let spec = json!({
        "name": "app", "image": "app:1", "imagePullPolicy": "Never", "command": ["sh", "-c"],
        "args": ["ls; false", "--privileged"], "env": [{"name": "A", "value": "b c\nd"}],
        "workingDir": "/tmp", "cpuMillis": 1500, "memoryBytes": 1024,
        "volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/w", "readOnly": true}],
    });
    let container = Container {
        name: container_name(),
        user: 1001,
        group: 1002,
        storages: vec!["/mnt/nnf/x-0".to_owned()],
        global_lustre: vec!["/lus/polly".to_owned()],
        directories: vec!["/home/project".to_owned()],
        packages: vec![package(false), package(true)],
        has_keys: false,
        pull_seconds: None,
        spec: from_value(spec).unwrap(),
    };
    let names = ["group", "nodes.json", "passwd"].map(str::to_owned);
    let words = make_container(&container, paths(&names));
    let (pod, digest) = (format!("warren-{OBJECT}-2"), "0".repeat(64));
    let expected = [
        "create",
        "--pod",
        &pod,
        "--name",
        &format!("{pod}-app"),
        "--label",
        &format!("{UID}={OBJECT}"),
        "--label",
        &format!("{ATTEMPT}=2"),
        "--label",
        &format!("{CONTAINER}=app"),
        "--user",
        "1001:1002",
        "--cap-drop",
        "all",
        "--security-opt",
        "no-new-privileges",
        "--log-driver",
        "k8s-file",
        "--log-opt",
        "max-size=16mb",
        "--pull",
        "never",
        "--volume",
        "/mnt/nnf/x-0:/mnt/nnf/x-0:rw,rslave",
        "--volume",
        "/lus/polly:/lus/polly:rw,bind",
        "--volume",
        "/home/project:/home/project:rw,bind",
        "--volume",
        "/state/x/volumes/2/v:/v:rw",
        "--volume",
        "/state/x/volumes/2/w:/w:ro",
        "--volume",
        "/state/x/files:/nnf/config:ro",
        "--volume",
        &format!("/packages/ready/{digest}/content:/nnf/packages/data:ro"),
        "--volume",
        &format!("/packages/ready/{digest}-unpacked/content:/nnf/packages/tools:ro"),
        "--volume",
        "/state/x/files/passwd:/etc/passwd:ro",
        "--volume",
        "/state/x/files/group:/etc/group:ro",
        "--device-cgroup-rule",
        "b 253:7 rw",
        "--env",
        "A=b c\nd",
        "--workdir",
        "/tmp",
        "--cpus",
        "1.500",
        "--memory",
        "1024",
        "--entrypoint",
        "[\"sh\",\"-c\"]",
        "app:1",
        "ls; false",
        "--privileged",
    ];
    assert_eq!(words, expected);
    let least = json!({"name": "app", "image": "app:1", "imagePullPolicy": "Always"});
    let spec = from_value(least).unwrap();
    let words = make_container(&Container { spec, ..container }, paths(&names));
    assert!(words.ends_with(&["b 253:7 rw".to_owned(), "app:1".to_owned()]), "{words:?}");
}

#[test]
fn stop_and_remove_pass_the_grace_period() {
    let attempt = Attempt { pod: pod(1), grace: 7 };
    let pod = format!("warren-{OBJECT}-1");
    assert_eq!(stop(&attempt).join(" "), format!("pod stop --time 7 {pod}"));
    assert_eq!(remove(&attempt).join(" "), format!("pod rm --force --time 7 {pod}"));
    assert_eq!(start(&container_name()), ["start".to_owned(), format!("warren-{OBJECT}-2-app")]);
}

#[test]
fn an_mpi_worker_has_keys_hosts_and_podhelper_and_no_network_of_podman() {
    let pod = Pod {
        name: pod(1),
        hostname: "w-worker-0".to_owned(),
        hosts: None,
        ports: Vec::new(),
        has_network: true,
        shares_processes: false,
        memory: None,
    };
    let words = make_pod(&pod, &BTreeMap::new());
    assert!(words.ends_with(&["--network", "none"].map(str::to_owned)), "{words:?}");
    let spec = json!({"name": "app", "image": "app:1", "imagePullPolicy": "Never"});
    let container = Container {
        name: container_name(),
        user: 1001,
        group: 1002,
        storages: Vec::new(),
        global_lustre: Vec::new(),
        directories: Vec::new(),
        packages: Vec::new(),
        has_keys: true,
        pull_seconds: None,
        spec: from_value(spec).unwrap(),
    };
    let words = make_container(
        &container,
        paths(&["discover_hosts.sh", "hostfile", "hosts"].map(str::to_owned)),
    );
    let volumes: Vec<&str> = words
        .windows(2)
        .filter(|pair| pair[0] == "--volume")
        .map(|pair| pair[1].as_str())
        .collect();
    let expected = [
        "/state/x/files:/nnf/config:ro",
        "/state/x/files/hosts:/etc/hosts:ro",
        "/state/x/files/hostfile:/etc/mpi/hostfile:ro",
        "/state/x/files/discover_hosts.sh:/etc/mpi/discover_hosts.sh:ro",
        "/state/x/keys:/nnf/keys:ro",
        "/opt/podhelper:/nnf/bin/podhelper:ro",
        "/opt/podhelper:/nnf/bin/rsh:ro",
    ];
    assert_eq!(volumes, expected);
}
