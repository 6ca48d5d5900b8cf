//! Packages that are there before containers start.

use super::*;

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
    let told = format!("the rabbit-agent is fetching job package data from {}", server.url());
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
    assert_eq!(server.requests(), 1, "both have it from one");
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
    let server = FileServer::serving(DATA);
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
    is_late(&bench, NAME).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let still: NodeContainers = bench.of(RABBIT).get(NAME).await.unwrap();
    assert_eq!(status(&still), status(&refused));
    assert_eq!((server.requests(), podman.pods().len()), (1, 0));
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
    object["spec"]["packages"] = json!([package(&server.url(), DATA)]);
    bench.make::<NodeContainers>(RABBIT, object).await;
    while server.requests() < 2 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    is_late(&bench, NAME).await;
    let late = bench.until(NAME, "late", is(NodeContainersState::TooLate)).await;
    let message = status(&late).message;
    assert!(message.contains("package data") && message.contains("404 Not Found"), "{message}");
    while left(&bench, "fetching") > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let asked = server.requests();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(server.requests(), asked, "nobody waits for it any more");
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
    let told = format!("the rabbit-agent is fetching job package data from {}", server.url());
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
    let server = FileServer::serving(DATA);
    let mut other = packages_alone(&server.url(), b"what somebody expected");
    other["spec"]["packages"][0]["size"] = json!(DATA.len());
    bench.make::<NodeContainers>(RABBIT, other).await;
    let refused = bench.until(NAME, "refused", is(NodeContainersState::Unprepared)).await;
    let message = status(&refused).message;
    assert!(message.contains(&server.url()) && message.contains("its SHA-256 is"), "{message}");
    let away = FileServer::new(|_, stream| say(stream, "404 Not Found"));
    let mut late = packages_alone(&away.url(), b"another");
    late["metadata"]["name"] = json!("default-v-1-packages");
    bench.make::<NodeContainers>(RABBIT, late).await;
    let name = "default-v-1-packages";
    let told = |object: &NodeContainers| status(object).message.contains("404 Not Found");
    bench.until(name, "told", told).await;
    is_late(&bench, name).await;
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
