//! Containers that real podman runs, as a NodeContainers asks.

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

/// A bench whose agent runs containers.
async fn bench(podman: &Podman) -> Bench {
    let mut bench = Bench::bare().await;
    bench.site().await;
    bench.podman = Some(podman.program());
    let api: Api<ConfigMap> = Api::namespaced(bench.client.clone(), "default");
    let made = api.create(&PostParams::default(), &files("w-1")).await;
    // A real server has it already.
    assert!(made.is_ok() || bench.server.real().is_some(), "{made:?}");
    bench.start();
    bench
}

/// The files of a run.
fn files(name: &str) -> ConfigMap {
    let data = json!({
        "nodes.json": "[]",
        "passwd": "user:x:1050:1051:user:/tmp:/bin/sh\n", "group": "user:x:1051:\n",
    });
    let object = json!({"metadata": {"name": name, "namespace": "default"}, "data": data});
    serde_json::from_value(object).unwrap()
}

/// One container, whose shell runs this script.
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

fn is(state: NodeContainersState) -> impl Fn(&NodeContainers) -> bool {
    move |object| status(object).state == state
}

fn log(object: &NodeContainers) -> String {
    status(object).logs.into_iter().map(|log| log.text).collect()
}

#[tokio::test]
async fn a_container_finds_names_files_and_variables_and_is_the_user_without_privileges() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    const SCRIPT: &str = "id; hostname; echo node=$NNF_NODE_NAME; cat /nnf/config/nodes.json /etc/group; \
        grep rabbit-1.w /etc/hosts; grep -e CapEff -e CapBnd -e NoNewPrivs /proc/self/status; \
        touch /nnf/config/x /etc/passwd; echo said on stderr >&2";
    let made: NodeContainers = bench.make(RABBIT, containers(&podman.image(), SCRIPT)).await;
    let ended = bench.until(NAME, "ended", is(NodeContainersState::Succeeded)).await;
    assert_eq!(ended.finalizers(), [finalizer::NODE_CONTAINERS]);
    let told = log(&ended);
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
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
    assert_eq!(podman.pods(), [format!("warren-{}-1", made.uid().unwrap())]);
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
    assert!(podman.pods().is_empty());
    let files = bench.directory.path().join("containers");
    assert_eq!(std::fs::read_dir(files).unwrap().count(), 0);
}

/// What a container reads it needs once: a run's files may go before its containers do.
#[tokio::test]
async fn containers_of_an_attempt_share_a_directory_that_the_next_finds_empty_and_nobody_keeps() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    let script = "ls /shared; mkdir /shared/more; exit 1";
    let mut object = containers(&podman.image(), script);
    let spec = &mut object["spec"];
    spec["retryLimit"] = json!(1);
    spec["emptyDirs"] = json!(["v", "unused"]);
    let mount =
        |read_only: bool| json!([{"name": "v", "mountPath": "/shared", "readOnly": read_only}]);
    let mut first = spec["containers"][0].clone();
    first["name"] = json!("first");
    first["args"] =
        json!(["ls -A /shared; ls -ldn /shared | grep -c '^drwx------ .* 1050  *1051 '; \
                echo $NNF_NODE_NAME > /shared/from-the-first"]);
    first["volumeMounts"] = mount(false);
    spec["initContainers"] = json!([first]);
    let mut reader = spec["containers"][0].clone();
    reader["name"] = json!("reader");
    reader["args"] = json!(["cat /shared/from-the-first; touch /shared/y"]);
    reader["volumeMounts"] = mount(true);
    spec["containers"][0]["volumeMounts"] = mount(false);
    spec["containers"].as_array_mut().unwrap().push(reader);
    let made: NodeContainers = bench.make(RABBIT, object).await;
    bench.until(NAME, "over once", |one| !status(one).message.is_empty()).await;
    // 10 s later.
    bench.until(NAME, "begun again", |one| status(one).attempt == 2).await;
    let failed = bench.until(NAME, "failed", is(NodeContainersState::Failed)).await;
    let said = |attempt: i64, container: &str| -> String {
        let logs = status(&failed).logs.into_iter();
        let own = logs.filter(|log| log.attempt == attempt && log.container == container);
        own.map(|log| log.text).collect()
    };
    for attempt in [1, 2] {
        assert_eq!(said(attempt, "first"), "1\n", "attempt {attempt} begins with nothing");
        assert_eq!(said(attempt, "app"), "from-the-first\n");
        let read_only = "rabbit-1\ntouch: /shared/y: Read-only file system\n";
        assert_eq!(said(attempt, "reader"), read_only);
    }
    let place = bench.directory.path().join("containers").join(made.uid().unwrap());
    let left = std::fs::read_dir(place.join("volumes")).unwrap().count();
    assert_eq!(left, 0, "what is over needs no room");
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
    assert!(!place.exists());
}

/// Whoever is killed in between is followed by an agent that finds what is left.
#[tokio::test]
async fn a_directory_that_containers_share_goes_with_them_and_outlives_their_agent() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let mut bench = bench(&podman).await;
    let script = "echo kept > /shared/file; while true; do sleep 0.1; done";
    let mut object = containers(&podman.image(), script);
    object["spec"]["emptyDirs"] = json!(["v"]);
    object["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "v", "mountPath": "/shared"}]);
    let made: NodeContainers = bench.make(RABBIT, object).await;
    let place = bench.directory.path().join("containers").join(made.uid().unwrap());
    let file = place.join("volumes/1/v/file");
    bench.until(NAME, "ready", is(NodeContainersState::Ready)).await;
    while !std::fs::read_to_string(&file).is_ok_and(|text| text == "kept\n") {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bench.stop().await;
    // As an agent leaves it that was killed while it made the next.
    std::fs::create_dir_all(place.join("volumes/2.unfinished/v")).unwrap();
    bench.start();
    bench
        .change::<NodeContainers>(NAME, json!({"spec": {"terminationGracePeriodSeconds": 1}}))
        .await;
    ask(&bench, "03:00:00.000000").await;
    bench.until(NAME, "looked at", |one| answered(one, "03:00:00.000000")).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept\n");
    bench.change::<NodeContainers>(NAME, json!({"spec": {"suspend": true}})).await;
    bench.until(NAME, "ended", is(NodeContainersState::Suspended)).await;
    assert!(!place.join("volumes/1").exists());
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
    assert!(!place.exists() && podman.pods().is_empty());
}

#[tokio::test]
async fn files_are_awaited_with_the_name_of_what_is_missing_and_read_once() {
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
    bench.until(NAME, "ready", is(NodeContainersState::Ready)).await;
    api.delete("late", &DeleteParams::default()).await.unwrap();
    let name = format!("warren-{}-1-app", made.uid().unwrap());
    podman.touch(&name, "/tmp/end");
    let ended = bench.until(NAME, "ended", is(NodeContainersState::Succeeded)).await;
    assert_eq!(log(&ended), "[]");
}

#[tokio::test]
async fn a_failure_is_tried_again_and_told_with_exit_code_and_log() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    let mut object = containers(&podman.image_directory(), "echo no such file >&2; exit 3");
    object["spec"]["retryLimit"] = json!(1);
    bench.make::<NodeContainers>(RABBIT, object).await;
    let once = bench.until(NAME, "failed once", |object| !status(object).logs.is_empty()).await;
    assert_eq!(status(&once).state, NodeContainersState::Starting);
    let failed = bench.until(NAME, "failed", is(NodeContainersState::Failed)).await;
    let status = status(&failed);
    assert_eq!(status.message, "container app exited with 3: no such file");
    let attempts: Vec<i64> = status.logs.iter().map(|log| log.attempt).collect();
    assert_eq!((attempts, status.attempt), (vec![1, 2], 2));
}

#[tokio::test]
async fn what_runs_is_adopted_by_the_next_agent_and_not_started_twice() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let mut bench = bench(&podman).await;
    let script = "echo began; while true; do sleep 0.1; done";
    bench.make::<NodeContainers>(RABBIT, containers(&podman.image(), script)).await;
    bench.until(NAME, "ready", is(NodeContainersState::Ready)).await;
    let before = podman.run(&["ps", "--quiet", "--no-trunc"]);
    bench.stop().await;
    assert_eq!(podman.run(&["ps", "--quiet", "--no-trunc"]), before, "it outlives its agent");
    bench.start();
    // The agent has looked at it once more when it has ended what is late.
    bench.change::<NodeContainers>(NAME, json!({"spec": {"activeDeadlineSeconds": 1}})).await;
    let late = bench.until(NAME, "late", is(NodeContainersState::TooLate)).await;
    assert_eq!(log(&late), "began\n");
    assert_eq!(status(&late).message, "container app was ended by signal 9: began");
    assert!(podman.run(&["ps", "--quiet"]).is_empty());
    assert_eq!(podman.pods().len(), 1);
}

/// A question for logs, asked at this moment of that day.
async fn ask(bench: &Bench, time: &str) {
    let annotations = json!({annotation::LOGS_ASKED: format!("2026-11-27T{time}Z")});
    bench.change::<NodeContainers>(NAME, json!({"metadata": {"annotations": annotations}})).await;
}

async fn until_said(podman: &Podman, container: &str) {
    while podman.run(&["logs", container]).is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn answered(object: &NodeContainers, time: &str) -> bool {
    let answer = status(object).logs_answered.map(|at| at.to_string());
    answer.is_some_and(|answer| answer == format!("2026-11-27T{time}Z"))
}

#[tokio::test]
async fn who_asks_is_told_what_a_container_that_runs_has_said_so_far() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let mut bench = bench(&podman).await;
    let script = "echo began; until test -e /tmp/on; do sleep 0.1; done; echo went on; \
        until test -e /tmp/end; do sleep 0.1; done; echo ended";
    let made: NodeContainers = bench.make(RABBIT, containers(&podman.image(), script)).await;
    let name = format!("warren-{}-1-app", made.uid().unwrap());
    bench.until(NAME, "ready", is(NodeContainersState::Ready)).await;
    until_said(&podman, &name).await;
    assert_eq!(log(&bench.get(NAME).await), "", "nobody asked");
    ask(&bench, "03:00:00.000000").await;
    let told = bench.until(NAME, "told", |one| answered(one, "03:00:00.000000")).await;
    assert_eq!((log(&told).as_str(), status(&told).state), ("began\n", NodeContainersState::Ready));
    podman.touch(&name, "/tmp/on");
    podman.touch(&name, "/tmp/end");
    let ended = bench.until(NAME, "ended", is(NodeContainersState::Succeeded)).await;
    assert_eq!(log(&ended), "began\nwent on\nended\n");
    // The next agent has nothing to write: the question was answered.
    bench.stop().await;
    bench.start();
    ask(&bench, "02:00:00.000000").await;
    ask(&bench, "03:00:01.000000").await;
    let again = bench.until(NAME, "told", |one| answered(one, "03:00:01.000000")).await;
    assert_eq!(status(&again).logs, status(&ended).logs);
}

/// Also where no pass is due: only the question wakes the agent, and an agent that starts finds those that were asked meanwhile.
#[tokio::test]
async fn a_question_that_was_asked_while_no_agent_ran_is_answered_by_the_next_and_once() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let mut bench = bench(&podman).await;
    let script = "echo began; while true; do sleep 0.1; done";
    let made: NodeContainers = bench.make(RABBIT, containers(&podman.image(), script)).await;
    bench.until(NAME, "ready", is(NodeContainersState::Ready)).await;
    until_said(&podman, &format!("warren-{}-1-app", made.uid().unwrap())).await;
    bench.stop().await;
    ask(&bench, "03:00:00.000000").await;
    bench.start();
    let told = bench.until(NAME, "told", |one| answered(one, "03:00:00.000000")).await;
    assert_eq!(log(&told), "began\n");
    let version = told.resource_version();
    bench.stop().await;
    bench.start();
    // What is made after it is looked at after it.
    let mut other = containers("oci-archive:/nowhere/image.tar", "true");
    other["metadata"]["name"] = json!("default-v-1");
    bench.make::<NodeContainers>(RABBIT, other).await;
    bench.until("default-v-1", "tried", |one| !status(one).message.is_empty()).await;
    assert_eq!(bench.get::<NodeContainers>(NAME).await.resource_version(), version);
}

#[tokio::test]
async fn an_end_that_no_agent_saw_is_told_by_the_next() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let mut bench = bench(&podman).await;
    let script = "while ! test -e /tmp/end; do sleep 0.1; done; exit 4";
    let made: NodeContainers = bench.make(RABBIT, containers(&podman.image(), script)).await;
    bench.until(NAME, "ready", is(NodeContainersState::Ready)).await;
    bench.stop().await;
    let name = format!("warren-{}-1-app", made.uid().unwrap());
    podman.touch(&name, "/tmp/end");
    assert_eq!(podman.run(&["wait", &name]), "4\n");
    bench.start();
    let failed = bench.until(NAME, "failed", is(NodeContainersState::Failed)).await;
    assert_eq!(status(&failed).message, "container app exited with 4");
}

#[tokio::test]
async fn those_that_come_first_end_first_and_ports_are_open_on_the_rabbit() {
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
    let ready = bench.until(NAME, "ready", is(NodeContainersState::Ready)).await;
    assert_eq!(log(&ready), "I was first\n");
    // The rabbit's address in the network of its containers.
    let ask = ["busybox", "wget", "-q", "-O", "-", "http://10.88.0.1:5000/nodes.json"];
    let mut answer = podman.in_network(&ask);
    for _ in 0..50 {
        if answer.status.success() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        answer = podman.in_network(&ask);
    }
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "[]", "{answer:?}");
}

#[tokio::test]
async fn what_cannot_be_had_or_is_forbidden_is_told_with_its_remedy() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    let mut object = containers("oci-archive:/nowhere/image.tar", "true");
    object["spec"]["activeDeadlineSeconds"] = json!(3);
    bench.make::<NodeContainers>(RABBIT, object).await;
    let told = |object: &NodeContainers| status(object).message.contains("/nowhere/image.tar");
    bench.until(NAME, "told", told).await;
    bench.until(NAME, "late", is(NodeContainersState::TooLate)).await;
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

/// After a reboot the agent mounts first.
#[tokio::test]
async fn nothing_starts_before_its_storage_is_mounted() {
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
async fn a_global_lustre_that_the_rabbit_lacks_is_told_and_nothing_starts() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    let mut object = containers(&podman.image(), "true");
    // A mount, and none of a Lustre.
    object["spec"]["globalLustre"] = json!(["/proc"]);
    bench.make::<NodeContainers>(RABBIT, object).await;
    let told = |object: &NodeContainers| {
        let message = status(object).message;
        message.contains("/proc") && message.contains("a mount of proc: mount it there")
    };
    bench.until(NAME, "told", told).await;
    assert!(podman.pods().is_empty());
}

const DATA: &[u8] = b"what containers read\n";

/// A package with this content.
fn package(url: &str, bytes: &[u8]) -> Value {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"name": "data", "url": url, "sha256": digest, "size": bytes.len()})
}

fn left(bench: &Bench, part: &str) -> usize {
    let part = bench.directory.path().join("packages").join(part);
    std::fs::read_dir(part).map_or(0, Iterator::count)
}

#[tokio::test]
async fn a_package_is_there_before_its_container_starts_and_goes_with_the_last_that_uses_it() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    let (let_go, held) = hold();
    let server = FileServer::new(move |_, stream| {
        held();
        give(stream, DATA.len(), DATA);
    });
    let script = "cat /nnf/packages/data; touch /nnf/packages/data; ls -l /nnf/packages";
    let mut object = containers(&podman.image(), script);
    object["spec"]["packages"] = json!([package(&server.url(), DATA)]);
    bench.make::<NodeContainers>(RABBIT, object.clone()).await;
    let mut other = object;
    other["metadata"]["name"] = json!("default-v-1");
    bench.make::<NodeContainers>(RABBIT, other).await;
    let told = format!("the rabbit-agent is fetching package data from {}", server.url());
    for name in [NAME, "default-v-1"] {
        bench.until(name, "waiting", |object| status(object).message == told).await;
    }
    assert!(podman.pods().is_empty());
    drop(let_go);
    for name in [NAME, "default-v-1"] {
        let ended = bench.until(name, "ended", is(NodeContainersState::Succeeded)).await;
        let log = log(&ended);
        let read_only = "touch: /nnf/packages/data: Read-only file system\n";
        for part in ["what containers read\n", read_only, "-r-xr-xr-x"] {
            assert!(log.contains(part), "{part:?} is not in {log}");
        }
    }
    assert_eq!(server.asked(), 1, "both have it from one");
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
    assert_eq!((left(&bench, "ready"), left(&bench, "uses")), (1, 1));
    bench.delete::<NodeContainers>("default-v-1").await;
    bench.until_gone::<NodeContainers>("default-v-1").await;
    assert_eq!((left(&bench, "ready"), left(&bench, "uses"), left(&bench, "fetching")), (0, 0, 0));
}

#[tokio::test]
async fn a_package_that_is_another_ends_the_start_at_once_and_for_good() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let mut bench = bench(&podman).await;
    let server = FileServer::of(DATA);
    let mut object = containers(&podman.image(), "true");
    object["spec"]["retryLimit"] = json!(3);
    object["spec"]["packages"] = json!([package(&server.url(), b"what somebody expected")]);
    object["spec"]["packages"][0]["size"] = json!(DATA.len());
    bench.make::<NodeContainers>(RABBIT, object).await;
    let refused = bench.until(NAME, "refused", is(NodeContainersState::Unprepared)).await;
    let message = status(&refused).message;
    assert!(message.contains(&server.url()) && message.contains("its SHA-256 is"), "{message}");
    bench.stop().await;
    bench.start();
    bench.change::<NodeContainers>(NAME, json!({"spec": {"activeDeadlineSeconds": 1}})).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let still: NodeContainers = bench.of(RABBIT).get(NAME).await.unwrap();
    assert_eq!(status(&still), status(&refused));
    assert_eq!((server.asked(), podman.pods().len()), (1, 0));
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
    assert_eq!(left(&bench, "uses"), 0);
}

#[tokio::test]
async fn a_package_that_does_not_come_in_time_is_told_when_it_is_late() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    let server = FileServer::new(|_, stream| say(stream, "404 Not Found"));
    let mut object = containers(&podman.image(), "true");
    object["spec"]["activeDeadlineSeconds"] = json!(4);
    object["spec"]["packages"] = json!([package(&server.url(), DATA)]);
    bench.make::<NodeContainers>(RABBIT, object).await;
    let late = bench.until(NAME, "late", is(NodeContainersState::TooLate)).await;
    let message = status(&late).message;
    assert!(message.contains("package data") && message.contains("404 Not Found"), "{message}");
    assert!(server.asked() > 1, "it was tried again");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(left(&bench, "fetching"), 0);
    let asked = server.asked();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(server.asked(), asked, "nobody waits for it any more");
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
}

/// A rabbit where Kubernetes runs the containers: its agent has no podman.
#[tokio::test]
async fn packages_alone_are_fetched_without_podman_and_told_with_their_paths() {
    let mut bench = Bench::bare().await;
    bench.site().await;
    bench.fetches_packages = true;
    bench.start();
    let (let_go, held) = hold();
    let server = FileServer::new(move |_, stream| {
        held();
        give(stream, DATA.len(), DATA);
    });
    let object = packages_alone(&server.url(), DATA);
    bench.make::<NodeContainers>(RABBIT, object).await;
    let told = format!("the rabbit-agent is fetching package data from {}", server.url());
    let waiting = bench.until(NAME, "waiting", |object| status(object).message == told).await;
    assert_eq!(status(&waiting).state, NodeContainersState::Starting);
    assert!(status(&waiting).packages.is_empty());
    drop(let_go);
    let ready = bench.until(NAME, "in place", is(NodeContainersState::Ready)).await;
    let places = status(&ready).packages;
    assert_eq!((places.len(), places[0].name.as_str()), (1, "data"));
    assert_eq!(std::fs::read(&places[0].path).unwrap(), DATA);
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
    assert_eq!((left(&bench, "ready"), left(&bench, "uses")), (0, 0));
}

#[tokio::test]
async fn packages_alone_that_are_others_or_late_are_told_so() {
    let mut bench = Bench::bare().await;
    bench.site().await;
    bench.fetches_packages = true;
    bench.start();
    let server = FileServer::of(DATA);
    let mut other = packages_alone(&server.url(), b"what somebody expected");
    other["spec"]["packages"][0]["size"] = json!(DATA.len());
    bench.make::<NodeContainers>(RABBIT, other).await;
    let refused = bench.until(NAME, "refused", is(NodeContainersState::Unprepared)).await;
    let message = status(&refused).message;
    assert!(message.contains(&server.url()) && message.contains("its SHA-256 is"), "{message}");
    let away = FileServer::new(|_, stream| say(stream, "404 Not Found"));
    let mut late = packages_alone(&away.url(), b"another");
    late["metadata"]["name"] = json!("default-v-1-packages");
    late["spec"]["activeDeadlineSeconds"] = json!(2);
    bench.make::<NodeContainers>(RABBIT, late).await;
    let name = "default-v-1-packages";
    let late = bench.until(name, "late", is(NodeContainersState::TooLate)).await;
    assert!(status(&late).message.contains("404 Not Found"), "{}", status(&late).message);
    for name in [NAME, name] {
        bench.delete::<NodeContainers>(name).await;
        bench.until_gone::<NodeContainers>(name).await;
    }
    assert_eq!(left(&bench, "uses"), 0);
}

fn packages_alone(url: &str, bytes: &[u8]) -> Value {
    json!({
        "apiVersion": "warren.nnf.cray.hpe.com/v1alpha1", "kind": "NodeContainers",
        "metadata": {"name": NAME, "namespace": RABBIT},
        "spec": {
            "userID": 1050, "groupID": 1051, "hostname": RABBIT, "packages": [package(url, bytes)],
        },
    })
}
