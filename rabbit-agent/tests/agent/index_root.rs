//! Trees beneath the index root from rabbits' mounts as central controllers make them: without the computes' names.

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

/// The rabbit's ClientMount, as central controllers write it.
fn of_rabbit() -> Value {
    let mut object = client_mount(MOUNT, &["", ""]);
    for (index, mount) in object["spec"]["mounts"].as_array_mut().unwrap().iter_mut().enumerate() {
        mount["mountPath"] = json!(in_tree(&format!("{RABBIT}-{index}")));
        mount.as_object_mut().unwrap().remove("compute");
    }
    object
}

/// A compute's ClientMount, with one allocation.
async fn mounts(bench: &Bench, compute: &str, name: &str, allocation: u32, workflow: &str) {
    let mut object = client_mount(name, &[""]);
    object["metadata"]["namespace"] = json!(compute);
    object["metadata"]["labels"]["dataworkflowservices.github.io/workflow.uid"] = json!(workflow);
    object["spec"]["node"] = json!(compute);
    object["spec"]["mounts"][0]["device"]["deviceReference"]["data"] = json!(allocation);
    object["spec"]["mounts"][0].as_object_mut().unwrap().remove("compute");
    bench.make::<ClientMount>(compute, object).await;
}

fn workflow() -> String {
    let labels = &of_rabbit()["metadata"]["labels"];
    labels["dataworkflowservices.github.io/workflow.uid"].as_str().unwrap().to_owned()
}

async fn give(bench: &Bench, first: &str, second: &str) {
    let access = block_storage(NAME, &[(MIB, &[RABBIT, first]), (MIB, &[RABBIT, second])]);
    bench.change::<NnfNodeBlockStorage>(NAME, json!({"spec": access["spec"]})).await;
}

/// Links that were made and not removed since.
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
async fn each_compute_has_a_link_to_the_allocation_that_its_own_object_names() {
    let bench = bench().await;
    bench.file_systems(2).await;
    bench.make::<ClientMount>(RABBIT, of_rabbit()).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    assert!(links(&bench).is_empty(), "nobody mounts them yet");
    mounts(&bench, "compute-03", COMPUTES, 0, &workflow()).await;
    mounts(&bench, "compute-01", COMPUTES, 1, &workflow()).await;
    // Another job's mount of the same storage does not belong to this tree.
    mounts(&bench, "compute-02", COMPUTES, 1, "11111111-2222-4333-8444-555555555555").await;
    give(&bench, "compute-03", "compute-01").await;
    until_links(&bench, &["compute-03 -> node-0", "compute-01 -> node-1"]).await;
}

#[tokio::test]
async fn computes_that_are_given_it_and_not_yet_told_of_are_waited_for() {
    let bench = bench().await;
    bench.file_systems(2).await;
    give(&bench, "compute-02", "compute-01").await;
    bench.make::<ClientMount>(RABBIT, of_rabbit()).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    mounts(&bench, "compute-02", COMPUTES, 1, &workflow()).await;
    until_links(&bench, &["compute-02 -> node-1"]).await;
    mounts(&bench, "compute-01", COMPUTES, 0, &workflow()).await;
    until_links(&bench, &["compute-01 -> node-0", "compute-02 -> node-1"]).await;
}

#[tokio::test]
async fn links_stay_and_mounts_are_made_while_nobody_can_be_asked() {
    let bench = bench().await;
    bench.file_systems(2).await;
    mounts(&bench, "compute-03", COMPUTES, 0, &workflow()).await;
    bench.make::<ClientMount>(RABBIT, of_rabbit()).await;
    until_links(&bench, &["compute-03 -> node-0"]).await;

    let asks = |path: &str| path.contains("/namespaces/compute-01/clientmounts");
    bench.refuse(move |request| {
        asks(request.uri().path()).then_some(Refused::Status(403, "forbidden"))
    });
    let before = bench.asked().iter().filter(|(_, path)| asks(path)).count();
    give(&bench, "compute-03", "compute-01").await;
    mounts(&bench, "compute-01", COMPUTES, 1, &workflow()).await;
    bench.until_asked(before + 2, |_, path| asks(path)).await;
    until_links(&bench, &["compute-03 -> node-0"]).await;
    assert!(mount_ready(&bench.get(MOUNT).await));
    bench.admit();
    until_links(&bench, &["compute-03 -> node-0", "compute-01 -> node-1"]).await;
}
