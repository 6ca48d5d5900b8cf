//! Tests the deletion of the rabbit's Kubernetes namespace while a job uses the rabbit.

use api::{ClientMount, NnfNode, NnfNodeBlockStorage, NnfNodeStorage};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::DeleteParams, runtime::wait::await_condition};
use storage::{Step, desired::HookPoint};

use crate::bench::{
    Bench, MOUNT, NAME, PATIENCE, RABBIT, client_mount, in_tree, mount_ready, node_reported, path,
};

#[tokio::test]
async fn a_deleted_kubernetes_namespace_tears_down_in_order_and_is_created_again() {
    let bench = Bench::new().await;
    bench.file_systems(2).await;
    let computes = ["compute-01", "compute-02"];
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &computes)).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    // The mount is busy, so none of the following deletions can end at once.
    let held = path(&in_tree("node-0"));
    bench.host.hold(&held);
    let namespaces: Api<Namespace> = Api::all(bench.client.clone());
    let first = namespaces.get(RABBIT).await.unwrap().uid();
    namespaces.delete(RABBIT, &DeleteParams::default()).await.unwrap();
    bench.until(MOUNT, "reported as busy", crate::bench::mount_failed).await;
    let steps = bench.host.applied();
    let torn_down = |step: &Step| match step {
        Step::RunHook { id, .. } => id.phase == HookPoint::PreTeardown,
        step => matches!(step, Step::DeleteNamespace { .. } | Step::Detach { .. }),
    };
    assert!(!steps.iter().any(torn_down), "{steps:#?}");
    bench.host.let_go(&held);
    bench.until_gone::<ClientMount>(MOUNT).await;
    bench.until_gone::<NnfNodeStorage>(NAME).await;
    bench.until_gone::<NnfNodeBlockStorage>(NAME).await;
    let steps = bench.host.applied();
    let last = |wanted: fn(&Step) -> bool| steps.iter().rposition(wanted).unwrap();
    let first_deleted = steps.iter().position(|step| matches!(step, Step::DeleteNamespace { .. }));
    assert!(last(|step| matches!(step, Step::Unmount { .. })) < first_deleted.unwrap());
    assert!(
        last(|step| matches!(step, Step::RunHook { id, .. } if id.phase == HookPoint::PreTeardown))
            < first_deleted.unwrap()
    );
    // The agent goes on after its namespace is gone, and creates its NnfNode in a new namespace. Kubernetes deletes the
    // objects of the old namespace kind by kind, so the test waits for the new namespace first.
    let another =
        |namespace: Option<&Namespace>| namespace.is_some_and(|namespace| namespace.uid() != first);
    let anew = await_condition(namespaces.clone(), RABBIT, another);
    tokio::time::timeout(PATIENCE, anew).await.unwrap().unwrap();
    bench.until("nnf-nlc", "reported again", node_reported).await;
    let node: NnfNode = bench.get("nnf-nlc").await;
    assert_eq!(node.status.unwrap().capacity_allocated, 0);
    bench.file_systems(1).await;
}
