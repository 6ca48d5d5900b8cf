//! Tests index trees beneath the index root: directories with a link from the name of each compute to its mount. The
//! rabbits' ClientMounts here are as central controllers create them: without the computes' names.

use std::{collections::BTreeSet, time::Duration};

use agent::site::IndexRoot;
use api::{ClientMount, NnfNodeBlockStorage};
use serde_json::{Value, json};
use storage::Step;

use crate::bench::{
    Bench, MOUNT, NAME, PATIENCE, RABBIT, Refused, block_storage, client_mount, in_tree,
    mount_ready,
};

const COMPUTES: &str = "default-job-7-0-computes";
const MIB: i64 = 1 << 20;

async fn bench() -> Bench {
    let mut bench = Bench::bare().await;
    bench.site().await;
    bench.index_root = Some(IndexRoot::new("/mnt/index".into()).unwrap());
    bench.start();
    bench
}

/// Returns the rabbit's ClientMount, as central controllers write it.
fn rabbit_mount() -> Value {
    let mut object = client_mount(MOUNT, &["", ""]);
    for (index, mount) in object["spec"]["mounts"].as_array_mut().unwrap().iter_mut().enumerate() {
        mount["mountPath"] = json!(in_tree(&format!("{RABBIT}-{index}")));
        mount.as_object_mut().unwrap().remove("compute");
    }
    object
}

/// Creates a compute's ClientMount that mounts one allocation.
async fn create_mount(bench: &Bench, compute: &str, name: &str, allocation: u32, workflow: &str) {
    let mut object = client_mount(name, &[""]);
    object["metadata"]["namespace"] = json!(compute);
    object["metadata"]["labels"]["dataworkflowservices.github.io/workflow.uid"] = json!(workflow);
    object["spec"]["node"] = json!(compute);
    object["spec"]["mounts"][0]["device"]["deviceReference"]["data"] = json!(allocation);
    object["spec"]["mounts"][0].as_object_mut().unwrap().remove("compute");
    bench.make::<ClientMount>(compute, object).await;
}

fn workflow() -> String {
    let labels = &rabbit_mount()["metadata"]["labels"];
    labels["dataworkflowservices.github.io/workflow.uid"].as_str().unwrap().to_owned()
}

async fn grant(bench: &Bench, first: &str, second: &str) {
    let access = block_storage(NAME, &[(MIB, &[RABBIT, first]), (MIB, &[RABBIT, second])]);
    bench.change::<NnfNodeBlockStorage>(NAME, json!({"spec": access["spec"]})).await;
}

/// Returns the links that exist: those that were made and not removed since.
fn links(bench: &Bench) -> BTreeSet<String> {
    let mut links = BTreeSet::new();
    for step in bench.host.applied() {
        match step {
            Step::Link { root, link } => drop(links.insert(format!("{root}: {link}"))),
            Step::Unlink { root, name } => {
                let gone = format!("{root}: {name} ->");
                links.retain(|link| !link.starts_with(&gone));
            }
            _ => {}
        }
    }
    links
}

async fn until_links(bench: &Bench, expected: &[&str]) {
    let root = in_tree("").replace("/mnt/nnf/", "/mnt/index/");
    let root = root.trim_end_matches('/');
    let expected: BTreeSet<_> = expected.iter().map(|entry| format!("{root}: {entry}")).collect();
    let reached = async {
        while links(bench) != expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let reached = tokio::time::timeout(PATIENCE, reached).await;
    assert!(reached.is_ok(), "{:#?}", links(bench));
}

#[tokio::test]
async fn each_compute_has_a_link_to_the_allocation_it_mounts() {
    let bench = bench().await;
    bench.file_systems(2).await;
    bench.make::<ClientMount>(RABBIT, rabbit_mount()).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    assert!(links(&bench).is_empty(), "no compute mounts an allocation yet");
    create_mount(&bench, "compute-03", COMPUTES, 0, &workflow()).await;
    create_mount(&bench, "compute-01", COMPUTES, 1, &workflow()).await;
    // Another job's mount of the same storage does not belong to this tree.
    create_mount(&bench, "compute-02", COMPUTES, 1, "11111111-2222-4333-8444-555555555555").await;
    grant(&bench, "compute-03", "compute-01").await;
    until_links(&bench, &["compute-03 -> node-0", "compute-01 -> node-1"]).await;
}

#[tokio::test]
async fn a_compute_with_access_gets_its_link_once_its_client_mount_exists() {
    let bench = bench().await;
    bench.file_systems(2).await;
    grant(&bench, "compute-02", "compute-01").await;
    bench.make::<ClientMount>(RABBIT, rabbit_mount()).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    create_mount(&bench, "compute-02", COMPUTES, 1, &workflow()).await;
    until_links(&bench, &["compute-02 -> node-1"]).await;
    create_mount(&bench, "compute-01", COMPUTES, 0, &workflow()).await;
    until_links(&bench, &["compute-01 -> node-0", "compute-02 -> node-1"]).await;
}

#[tokio::test]
async fn links_stay_while_the_api_does_not_list_client_mounts() {
    let bench = bench().await;
    bench.file_systems(2).await;
    create_mount(&bench, "compute-03", COMPUTES, 0, &workflow()).await;
    bench.make::<ClientMount>(RABBIT, rabbit_mount()).await;
    until_links(&bench, &["compute-03 -> node-0"]).await;

    let asks = |path: &str| path.contains("/namespaces/compute-01/clientmounts");
    bench.refuse(move |request| {
        asks(request.uri().path()).then_some(Refused::Status(403, "forbidden"))
    });
    let before = bench.requests().iter().filter(|(_, path)| asks(path)).count();
    grant(&bench, "compute-03", "compute-01").await;
    create_mount(&bench, "compute-01", COMPUTES, 1, &workflow()).await;
    bench.until_requested(before + 2, |_, path| asks(path)).await;
    until_links(&bench, &["compute-03 -> node-0"]).await;
    assert!(mount_ready(&bench.get(MOUNT).await));
    bench.admit();
    until_links(&bench, &["compute-03 -> node-0", "compute-01 -> node-1"]).await;
}
