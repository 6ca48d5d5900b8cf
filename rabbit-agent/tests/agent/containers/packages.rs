//! Tests that job packages are fetched before containers start.

use super::*;

const DATA: &[u8] = b"what containers read\n";

/// Returns a job package with this content.
fn package(url: &str, bytes: &[u8]) -> Value {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"name": "data", "url": url, "sha256": digest, "size": bytes.len()})
}

fn count_in(bench: &Bench, part: &str) -> usize {
    let part = bench.directory.path().join("packages").join(part);
    std::fs::read_dir(part).map_or(0, Iterator::count)
}

#[tokio::test]
async fn a_job_package_is_fetched_before_the_start_and_removed_after_its_last_use() {
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
    let message = format!("the rabbit-agent is fetching job package data from {}", server.url());
    for name in [NAME, "default-v-1"] {
        bench.until(name, "waiting", |object| status(object).message == message).await;
    }
    assert!(podman.pods().is_empty());
    drop(let_go);
    for name in [NAME, "default-v-1"] {
        let ended = bench.until(name, "ended", has_state(NodeContainersState::Succeeded)).await;
        let log = log(&ended);
        let read_only = "touch: /nnf/packages/data: Read-only file system\n";
        for part in ["what containers read\n", read_only, "-r-xr-xr-x"] {
            assert!(log.contains(part), "{part:?} is not in {log}");
        }
    }
    assert_eq!(server.requests(), 1, "one download serves both objects");
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
    assert_eq!((count_in(&bench, "ready"), count_in(&bench, "uses")), (1, 1));
    bench.delete::<NodeContainers>("default-v-1").await;
    bench.until_gone::<NodeContainers>("default-v-1").await;
    assert_eq!(
        (count_in(&bench, "ready"), count_in(&bench, "uses"), count_in(&bench, "fetching")),
        (0, 0, 0)
    );
}

#[tokio::test]
async fn no_container_starts_if_a_job_package_has_another_digest() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let mut bench = bench(&podman).await;
    let server = FileServer::serving(DATA);
    let mut object = containers(&podman.image(), "true");
    object["spec"]["retryLimit"] = json!(3);
    object["spec"]["packages"] = json!([package(&server.url(), b"other expected content")]);
    object["spec"]["packages"][0]["size"] = json!(DATA.len());
    bench.make::<NodeContainers>(RABBIT, object).await;
    let refused = bench.until(NAME, "refused", has_state(NodeContainersState::Unprepared)).await;
    let message = status(&refused).message;
    assert!(
        message.contains(&server.url()) && message.contains("the SHA-256 of the file is"),
        "{message}"
    );
    bench.stop().await;
    bench.start();
    let_deadline_pass(&bench, NAME).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let still: NodeContainers = bench.api(RABBIT).get(NAME).await.unwrap();
    assert_eq!(status(&still), status(&refused));
    assert_eq!((server.requests(), podman.pods().len()), (1, 0));
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
    assert_eq!(count_in(&bench, "uses"), 0);
}

#[tokio::test]
async fn a_job_package_missing_at_the_deadline_is_reported() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    let server = FileServer::new(|_, stream| say(stream, "404 Not Found"));
    let mut object = containers(&podman.image(), "true");
    object["spec"]["packages"] = json!([package(&server.url(), DATA)]);
    bench.make::<NodeContainers>(RABBIT, object).await;
    while server.requests() < 2 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let_deadline_pass(&bench, NAME).await;
    let late = bench.until(NAME, "late", has_state(NodeContainersState::TooLate)).await;
    let message = status(&late).message;
    assert!(message.contains("package data") && message.contains("404 Not Found"), "{message}");
    while count_in(&bench, "fetching") > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let requests_before = server.requests();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(server.requests(), requests_before, "no object waits for the package any more");
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
}

/// Kubernetes runs the containers on this rabbit, so the agent has no podman.
#[tokio::test]
async fn job_packages_are_fetched_without_podman_and_reported_with_their_paths() {
    let mut bench = Bench::bare().await;
    bench.site().await;
    bench.fetches_packages = true;
    bench.start();
    let (let_go, held) = hold();
    let server = FileServer::new(move |_, stream| {
        held();
        give(stream, DATA.len(), DATA);
    });
    let object = packages_only(&server.url(), DATA);
    bench.make::<NodeContainers>(RABBIT, object).await;
    let message = format!("the rabbit-agent is fetching job package data from {}", server.url());
    let waiting = bench.until(NAME, "waiting", |object| status(object).message == message).await;
    assert_eq!(status(&waiting).state, NodeContainersState::Starting);
    assert!(status(&waiting).packages.is_empty());
    drop(let_go);
    let ready = bench.until(NAME, "in place", has_state(NodeContainersState::Ready)).await;
    let packages = status(&ready).packages;
    assert_eq!((packages.len(), packages[0].name.as_str()), (1, "data"));
    assert_eq!(std::fs::read(&packages[0].path).unwrap(), DATA);
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
    assert_eq!((count_in(&bench, "ready"), count_in(&bench, "uses")), (0, 0));
}

#[tokio::test]
async fn job_packages_that_are_wrong_or_missing_at_the_deadline_are_reported_without_podman_too() {
    let mut bench = Bench::bare().await;
    bench.site().await;
    bench.fetches_packages = true;
    bench.start();
    let server = FileServer::serving(DATA);
    let mut other = packages_only(&server.url(), b"other expected content");
    other["spec"]["packages"][0]["size"] = json!(DATA.len());
    bench.make::<NodeContainers>(RABBIT, other).await;
    let refused = bench.until(NAME, "refused", has_state(NodeContainersState::Unprepared)).await;
    let message = status(&refused).message;
    assert!(
        message.contains(&server.url()) && message.contains("the SHA-256 of the file is"),
        "{message}"
    );
    let away = FileServer::new(|_, stream| say(stream, "404 Not Found"));
    let mut late = packages_only(&away.url(), b"another");
    late["metadata"]["name"] = json!("default-v-1-packages");
    bench.make::<NodeContainers>(RABBIT, late).await;
    let name = "default-v-1-packages";
    let is_reported = |object: &NodeContainers| status(object).message.contains("404 Not Found");
    bench.until(name, "reported", is_reported).await;
    let_deadline_pass(&bench, name).await;
    let late = bench.until(name, "late", has_state(NodeContainersState::TooLate)).await;
    assert!(status(&late).message.contains("404 Not Found"), "{}", status(&late).message);
    for name in [NAME, name] {
        bench.delete::<NodeContainers>(name).await;
        bench.until_gone::<NodeContainers>(name).await;
    }
    assert_eq!(count_in(&bench, "uses"), 0);
}

fn packages_only(url: &str, bytes: &[u8]) -> Value {
    json!({
        "apiVersion": "warren.nnf.cray.hpe.com/v1alpha1", "kind": "NodeContainers",
        "metadata": {"name": NAME, "namespace": RABBIT},
        "spec": {
            "userID": 1050, "groupID": 1051, "hostname": RABBIT, "packages": [package(url, bytes)],
        },
    })
}
