//! Tests NodeContainers with real podman.

mod logs;
mod packages;
mod volumes;

use std::time::Duration;

use api::{
    NodeContainers, NodeContainersStatus, Severity,
    names::{annotation, finalizer},
    node_containers::NodeContainersState,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use tests::{
    file_server::{FileServer, give, hold, say},
    podman::Podman,
};

use crate::bench::{Bench, RABBIT};

const NAME: &str = "default-w-1";

/// Starts a bench whose agent runs containers.
async fn bench(podman: &Podman) -> Bench {
    let mut bench = Bench::bare().await;
    bench.site().await;
    bench.podman = Some(podman.program());
    let api: Api<ConfigMap> = Api::namespaced(bench.client.clone(), "default");
    let made = api.create(&PostParams::default(), &files("w-1")).await;
    // A real API server may still have the ConfigMap of an earlier test.
    assert!(made.is_ok() || bench.server.real().is_some(), "{made:?}");
    bench.start();
    bench
}

/// Returns the ConfigMap with the files of a run.
fn files(name: &str) -> ConfigMap {
    let data = json!({
        "nodes.json": "[]",
        "passwd": "user:x:1050:1051:user:/tmp:/bin/sh\n", "group": "user:x:1051:\n",
    });
    let object = json!({"metadata": {"name": name, "namespace": "default"}, "data": data});
    serde_json::from_value(object).unwrap()
}

/// Returns an object with one container that runs this shell script.
fn containers(image: &str, script: &str) -> Value {
    json!({
        "apiVersion": "warren.nnf.cray.hpe.com/v1alpha1", "kind": "NodeContainers",
        "metadata": {"name": NAME, "namespace": RABBIT},
        "spec": {
            "userID": 1050, "groupID": 1051, "hostname": RABBIT, "retryLimit": 0,
            "terminationGracePeriodSeconds": 0,
            "hosts": {"rabbits": [RABBIT], "domains": ["w", "w.default.svc.cluster.local"]},
            "files": {"namespace": "default", "name": "w-1"},
            "containers": [{
                "name": "app", "image": image, "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c"], "args": [script],
                "env": [{"name": "NNF_NODE_NAME", "value": RABBIT}],
            }],
        },
    })
}

fn status(object: &NodeContainers) -> NodeContainersStatus {
    object.status.clone().unwrap_or_default()
}

fn has_state(state: NodeContainersState) -> impl Fn(&NodeContainers) -> bool {
    move |object| status(object).state == state
}

fn log(object: &NodeContainers) -> String {
    status(object).logs.into_iter().map(|log| log.text).collect()
}

/// Sets the deadline to 1 s after the start.
async fn let_deadline_pass(bench: &Bench, name: &str) {
    bench.change::<NodeContainers>(name, json!({"spec": {"activeDeadlineSeconds": 1}})).await;
}

#[tokio::test]
async fn a_container_has_its_files_and_variables_and_no_privileges() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    const SCRIPT: &str = "id; hostname; echo node=$NNF_NODE_NAME; cat /nnf/config/nodes.json /etc/group; \
        grep rabbit-1.w /etc/hosts; grep -e CapEff -e CapBnd -e NoNewPrivs /proc/self/status; \
        touch /nnf/config/x /etc/passwd; echo said on stderr >&2";
    let made: NodeContainers = bench.make(RABBIT, containers(&podman.image(), SCRIPT)).await;
    let ended = bench.until(NAME, "ended", has_state(NodeContainersState::Succeeded)).await;
    assert_eq!(ended.finalizers(), [finalizer::NODE_CONTAINERS]);
    let output = log(&ended);
    for part in [
        "uid=1050(user) gid=1051(user) groups=1051(user)\n",
        "\nrabbit-1\n",
        "node=rabbit-1\n",
        "[]user:x:1051:\n",
        "127.0.0.1\trabbit-1.w\n",
        "CapBnd:\t0000000000000000\n",
        "CapEff:\t0000000000000000\n",
        "NoNewPrivs:\t1\n",
        "touch: /nnf/config/x: Read-only file system\n",
        "said on stderr\n",
    ] {
        assert!(output.contains(part), "{part:?} is not in {output}");
    }
    assert_eq!(podman.pods(), [format!("warren-{}-1", made.uid().unwrap())]);
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
    assert!(podman.pods().is_empty());
    let files = bench.directory.path().join("containers");
    assert_eq!(std::fs::read_dir(files).unwrap().count(), 0);
}

#[tokio::test]
async fn containers_wait_for_a_missing_config_map_that_the_status_names() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    let script = "until test -e /tmp/end; do sleep 0.1; done; cat /nnf/config/nodes.json";
    let mut object = containers(&podman.image(), script);
    object["spec"]["files"]["name"] = json!("late");
    let made: NodeContainers = bench.make(RABBIT, object).await;
    let why = "the files of these containers are gone: there is no ConfigMap default/late";
    bench.until(NAME, "waiting", |object| status(object).message.contains(why)).await;
    let api: Api<ConfigMap> = Api::namespaced(bench.client.clone(), "default");
    api.create(&PostParams::default(), &files("late")).await.unwrap();
    bench.until(NAME, "ready", has_state(NodeContainersState::Ready)).await;
    // The agent has read the files already, so the ConfigMap may be deleted before the containers end.
    api.delete("late", &DeleteParams::default()).await.unwrap();
    let name = format!("warren-{}-1-app", made.uid().unwrap());
    podman.touch(&name, "/tmp/end");
    let ended = bench.until(NAME, "ended", has_state(NodeContainersState::Succeeded)).await;
    assert_eq!(log(&ended), "[]");
}

#[tokio::test]
async fn a_failure_is_retried_and_reported_with_exit_code_and_log() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    let mut object = containers(&podman.image_directory(), "echo no such file >&2; exit 3");
    object["spec"]["retryLimit"] = json!(1);
    bench.make::<NodeContainers>(RABBIT, object).await;
    let once = bench.until(NAME, "failed once", |object| !status(object).logs.is_empty()).await;
    // On a busy machine the second attempt may have failed before the test read the status.
    if status(&once).logs.len() == 1 {
        assert_eq!(status(&once).state, NodeContainersState::Starting);
        assert_eq!(status(&once).end_time, None);
    }
    let failed = bench.until(NAME, "failed", has_state(NodeContainersState::Failed)).await;
    let status = status(&failed);
    assert_eq!(status.message, "container app exited with 3: no such file");
    let attempts: Vec<i64> = status.logs.iter().map(|log| log.attempt).collect();
    assert_eq!((attempts, status.attempt), (vec![1, 2], 2));
    assert!(status.end_time > status.start_time, "{status:?}");
}

#[tokio::test]
async fn a_running_container_is_adopted_by_the_next_agent() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let mut bench = bench(&podman).await;
    let script = "echo began; while true; do sleep 0.1; done";
    bench.make::<NodeContainers>(RABBIT, containers(&podman.image(), script)).await;
    let made = bench.until(NAME, "ready", has_state(NodeContainersState::Ready)).await;
    logs::until_output(&podman, &format!("warren-{}-1-app", made.uid().unwrap())).await;
    let before = podman.run(&["ps", "--quiet", "--no-trunc"]);
    bench.stop().await;
    assert_eq!(
        podman.run(&["ps", "--quiet", "--no-trunc"]),
        before,
        "the container outlives its agent"
    );
    bench.start();
    // Only an agent that has handled the object ends its container at the deadline.
    let_deadline_pass(&bench, NAME).await;
    let late = bench.until(NAME, "late", has_state(NodeContainersState::TooLate)).await;
    assert_eq!(log(&late), "began\n");
    assert_eq!(status(&late).message, "container app was ended by signal 9: began");
    assert!(podman.run(&["ps", "--quiet"]).is_empty());
    assert_eq!(podman.pods().len(), 1);
}

#[tokio::test]
async fn init_containers_end_first_and_ports_are_published() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    let serve = "cd /nnf/config && exec httpd -f -p 5000";
    let mut object = containers(&podman.image(), serve);
    object["spec"]["containers"][0]["ports"] = json!([5000]);
    let mut first = object["spec"]["containers"][0].clone();
    first["name"] = json!("first");
    first["ports"] = json!([]);
    first["args"] = json!(["echo I was first"]);
    object["spec"]["initContainers"] = json!([first]);
    bench.make::<NodeContainers>(RABBIT, object).await;
    let ready = bench.until(NAME, "ready", has_state(NodeContainersState::Ready)).await;
    assert_eq!(log(&ready), "I was first\n");
    // The rabbit's address in podman's network.
    let ask = ["busybox", "wget", "-q", "-O", "-", "http://10.88.0.1:5000/nodes.json"];
    let mut answer = podman.in_network(&ask);
    // The container begins to listen a little after its start.
    while !answer.status.success() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        answer = podman.in_network(&ask);
    }
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "[]", "{answer:?}");
}

#[tokio::test]
async fn a_missing_image_and_a_forbidden_storage_are_reported() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    let object = containers("oci-archive:/nowhere/image.tar", "true");
    bench.make::<NodeContainers>(RABBIT, object).await;
    let is_reported =
        |object: &NodeContainers| status(object).message.contains("/nowhere/image.tar");
    bench.until(NAME, "reported", is_reported).await;
    let_deadline_pass(&bench, NAME).await;
    bench.until(NAME, "late", has_state(NodeContainersState::TooLate)).await;
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
    let mut object = containers(&podman.image(), "true");
    object["spec"]["storages"] = json!(["/etc"]);
    bench.make::<NodeContainers>(RABBIT, object).await;
    let refused = bench.until(NAME, "refused", |object| status(object).error.is_some()).await;
    let error = status(&refused).error.unwrap();
    assert_eq!(error.severity, Severity::Fatal);
    assert!(error.debug_message.contains("spec.storages[0]"), "{error:?}");
    assert!(podman.pods().is_empty());
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
}

/// After a reboot the agent must mount the storage before it starts the container.
#[tokio::test]
async fn no_container_starts_before_its_storage_is_mounted() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    let mut object = containers(&podman.image(), "true");
    object["spec"]["storages"] = json!(["/mnt/nnf/3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21-0"]);
    bench.make::<NodeContainers>(RABBIT, object).await;
    let waits = |object: &NodeContainers| status(object).message.contains("is not mounted");
    bench.until(NAME, "waiting", waits).await;
    assert!(podman.pods().is_empty());
}

#[tokio::test]
async fn a_missing_global_lustre_is_reported_and_no_container_starts() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    let mut object = containers(&podman.image(), "true");
    // `/proc` is a mount, but not of a Lustre file system.
    object["spec"]["globalLustre"] = json!(["/proc"]);
    bench.make::<NodeContainers>(RABBIT, object).await;
    let is_reported = |object: &NodeContainers| {
        let message = status(object).message;
        message.contains("/proc") && message.contains("a mount of proc: mount the Lustre")
    };
    bench.until(NAME, "reported", is_reported).await;
    assert!(podman.pods().is_empty());
}
