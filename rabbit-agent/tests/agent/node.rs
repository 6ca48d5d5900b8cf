use api::{NnfNode, NnfNodeBlockStorage, names::NNF_NODE, nnf_node::NnfResourceHealth};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::bench::{Bench, NAME, RABBIT, block_ready, block_storage, node_reported};

#[tokio::test]
async fn the_nnf_node_is_created_and_reports_allocations() {
    let bench = Bench::new().await;
    let node: NnfNode = bench.until(NNF_NODE, "told", node_reported).await;
    assert_eq!(
        (node.spec.name.as_str(), node.spec.pod.as_str(), node.spec.state.as_str()),
        (RABBIT, "pod-0", "Enable")
    );
    let status = node.status.unwrap();
    assert_eq!((status.capacity, status.capacity_allocated, status.drives.len()), (2 << 30, 0, 2));
    assert_eq!((status.servers.len(), status.servers[7].hostname.as_str()), (17, "compute-03"));

    // The agent leaves the fencing flag and the LNet address alone.
    let others = json!({"status": {"fenced": true, "lnetNid": "10.0.0.1@tcp"}});
    bench
        .api::<NnfNode>(RABBIT)
        .patch_status(NNF_NODE, &PatchParams::default(), &Patch::Merge(others))
        .await
        .unwrap();
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(1 << 20, &[RABBIT])])).await;
    let used = |node: &NnfNode| {
        node.status.as_ref().is_some_and(|status| status.capacity_allocated == 1 << 20)
    };
    let status = bench.until(NNF_NODE, "used", used).await.status.unwrap();
    assert_eq!(status.capacity, (2 << 30) - (1 << 20));
    assert_eq!((status.fenced, status.lnet_nid.as_str()), (true, "10.0.0.1@tcp"));

    bench.until(NAME, "ready", block_ready).await;
    bench.delete::<NnfNodeBlockStorage>(NAME).await;
    let free =
        |node: &NnfNode| node.status.as_ref().is_some_and(|status| status.capacity_allocated == 0);
    bench.until(NNF_NODE, "free", free).await;
}

#[tokio::test]
async fn unclaimed_namespaces_are_reported_and_kept() {
    let mut bench = Bench::bare().await;
    bench.host.plant_namespace(4096);
    let foreign = bench.host.foreign();
    let mut health = bench.status.health.listen();
    bench.start();
    let warned = |node: &NnfNode| {
        node.status.as_ref().and_then(|status| status.health.clone())
            == Some(NnfResourceHealth::Warning)
    };
    bench.until(NNF_NODE, "warning", warned).await;
    let text = health.wait_for(|health| !health.message.is_empty()).await.unwrap().message.clone();
    assert!(text.contains("1 namespaces belong to no NnfNodeBlockStorage"), "{text}");
    assert_eq!(bench.host.foreign(), foreign);
}

#[tokio::test]
async fn a_deleted_nnf_node_is_created_again() {
    let bench = Bench::new().await;
    let first: NnfNode = bench.until(NNF_NODE, "told", node_reported).await;
    bench.delete::<NnfNode>(NNF_NODE).await;
    bench
        .until(NNF_NODE, "back", |node: &NnfNode| {
            node.metadata.uid != first.metadata.uid && node_reported(node)
        })
        .await;
}
