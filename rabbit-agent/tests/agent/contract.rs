//! Tests the behaviour on which central controllers rely, and a switch to the Go daemon and back.

use api::{ClientMount, NnfNode, NnfNodeBlockStorage, NnfNodeStorage, names::finalizer};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use storage::{Step, desired::HookPoint};

use crate::bench::{
    Bench, MOUNT, NAME, RABBIT, block_ready, block_storage, client_mount, in_tree, mount_failed,
    mount_ready, node_storage, storage_failed, storage_ready,
};
use controller::Object as Kind;

fn has<K: Kind>(finalizer: &'static str) -> impl Fn(&K) -> bool {
    move |object| object.finalizers().iter().any(|name| name == finalizer)
}

async fn write_status<K: Kind>(bench: &Bench, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    bench.api::<K>(RABBIT).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

/// Creates a job on this rabbit: block storage, file systems, mounts.
async fn job(bench: &Bench, count: usize) {
    bench.file_systems(count).await;
    let computes = ["compute-01", "compute-02", "compute-03"];
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &computes[..count])).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
}

#[tokio::test]
async fn an_invalid_object_gets_a_finalizer_too() {
    let bench = Bench::new().await;
    let mut mount = client_mount(MOUNT, &["compute-01"]);
    mount["metadata"]["labels"] = json!({});
    mount["spec"]["mounts"][0]["mountPath"] = json!("../../etc");
    mount["spec"]["mounts"][0]["type"] = json!("lustre");
    bench.make::<ClientMount>(RABBIT, mount).await;
    let mut storage = node_storage(NAME, 0);
    storage["metadata"]["labels"] = json!({});
    storage["spec"]["fileSystemType"] = json!("lustre");
    storage["spec"]["lustreStorage"] = json!({"lustreComponents": {}});
    storage["spec"]["blockReference"] = json!({});
    bench.make::<NnfNodeStorage>(RABBIT, storage).await;
    bench
        .make::<NnfNodeBlockStorage>(RABBIT, block_storage("none", &[(-5, &["nobody", ""])]))
        .await;
    bench.until(MOUNT, "with its finalizer", has::<ClientMount>(finalizer::CLIENT_MOUNT)).await;
    bench
        .until(NAME, "with its finalizer", has::<NnfNodeStorage>(finalizer::NNF_NODE_STORAGE))
        .await;
    bench
        .until(
            "none",
            "with its finalizer",
            has::<NnfNodeBlockStorage>(finalizer::NNF_NODE_BLOCK_STORAGE),
        )
        .await;
    bench.until(MOUNT, "refused", mount_failed).await;
    bench.until(NAME, "refused", storage_failed).await;
    // An invalid object disappears when it is deleted.
    bench.delete::<ClientMount>(MOUNT).await;
    bench.delete::<NnfNodeStorage>(NAME).await;
    bench.delete::<NnfNodeBlockStorage>("none").await;
    bench.until_gone::<ClientMount>(MOUNT).await;
    bench.until_gone::<NnfNodeStorage>(NAME).await;
    bench.until_gone::<NnfNodeBlockStorage>("none").await;
}

#[tokio::test]
async fn a_finalizer_removed_from_a_living_object_is_added_again() {
    let bench = Bench::new().await;
    job(&bench, 1).await;
    let none = json!({"metadata": {"finalizers": null}});
    bench.change::<ClientMount>(MOUNT, none.clone()).await;
    bench
        .until(MOUNT, "with its finalizer again", has::<ClientMount>(finalizer::CLIENT_MOUNT))
        .await;
    bench.change::<NnfNodeStorage>(NAME, none.clone()).await;
    bench
        .until(NAME, "with its finalizer again", has::<NnfNodeStorage>(finalizer::NNF_NODE_STORAGE))
        .await;
    bench.change::<NnfNodeBlockStorage>(NAME, none).await;
    bench
        .until(
            NAME,
            "with the finalizer of the NnfNodeStorage again",
            has::<NnfNodeBlockStorage>(finalizer::NNF_NODE_STORAGE),
        )
        .await;
    bench
        .until(
            NAME,
            "with its finalizer again",
            has::<NnfNodeBlockStorage>(finalizer::NNF_NODE_BLOCK_STORAGE),
        )
        .await;
    assert_eq!(
        *bench.unmounted.borrow(),
        1,
        "the only unmount was part of setting up the file system"
    );
}

#[tokio::test]
async fn a_block_storage_deleted_first_waits_for_its_file_systems() {
    let bench = Bench::new().await;
    bench.file_systems(1).await;
    let block = bench
        .until(
            NAME,
            "with the finalizer of the NnfNodeStorage",
            has::<NnfNodeBlockStorage>(finalizer::NNF_NODE_STORAGE),
        )
        .await;
    assert!(block.finalizers().iter().any(|name| name == finalizer::NNF_NODE_BLOCK_STORAGE));
    bench.delete::<NnfNodeBlockStorage>(NAME).await;
    bench.delete::<NnfNodeStorage>(NAME).await;
    bench.until_gone::<NnfNodeStorage>(NAME).await;
    bench.until_gone::<NnfNodeBlockStorage>(NAME).await;
    let steps = bench.host.applied();
    let at = |wanted: fn(&Step) -> bool| steps.iter().rposition(wanted).unwrap();
    let hook =
        at(|step| matches!(step, Step::RunHook { id, .. } if id.phase == HookPoint::PreTeardown));
    let deleted = at(|step| matches!(step, Step::DeleteNamespace { .. }));
    assert!(hook < deleted, "{steps:#?}");
}

/// Writes statuses that another daemon may leave: with another state, with another number of elements, or
/// with an old error.
async fn leave_stale(bench: &Bench) {
    let error =
        json!({"debugMessage": "x", "userMessage": "x", "type": "Internal", "severity": "Major"});
    let entry = json!({"state": "unmounted", "ready": true});
    let mounts = json!({"mounts": [entry, entry, entry], "allReady": true, "error": error});
    write_status::<ClientMount>(bench, MOUNT, mounts).await;
    let entry = json!({"ready": false, "health": "Degraded"});
    let storage = json!({"allocations": [entry, entry, entry], "ready": false, "health": "Degraded", "error": error});
    write_status::<NnfNodeStorage>(bench, NAME, storage).await;
    let block: NnfNodeBlockStorage = bench.get(NAME).await;
    let mut allocations = serde_json::to_value(block.status.unwrap().allocations).unwrap();
    allocations[0]["accesses"][RABBIT]["devicePaths"] = json!(["/dev/nvme9n9"]);
    allocations[0]["accesses"]["compute-02"] = json!({"storageGroupId": "never-granted"});
    let block =
        json!({"allocations": allocations, "podStartTime": "2020-01-01T00:00:00Z", "error": error});
    write_status::<NnfNodeBlockStorage>(bench, NAME, block).await;
}

async fn until_true_again(bench: &Bench) {
    let mount = bench
        .until(MOUNT, "corrected", |mount: &ClientMount| {
            mount
                .status
                .as_ref()
                .is_some_and(|status| status.mounts.len() == 2 && status.error.is_none())
        })
        .await;
    let reported = serde_json::to_value(mount.status.unwrap()).unwrap();
    let entry = json!({"state": "mounted", "ready": true});
    assert_eq!(reported, json!({"mounts": [entry, entry], "allReady": true}));
    let storage = bench
        .until(NAME, "corrected", |storage: &NnfNodeStorage| {
            storage.status.as_ref().is_some_and(|status| status.ready && status.error.is_none())
        })
        .await;
    let reported = serde_json::to_value(storage.status.unwrap()).unwrap();
    let entry = json!({"ready": true, "health": "Healthy"});
    assert_eq!(
        reported,
        json!({"allocations": [entry, entry], "ready": true, "health": "Healthy"})
    );
    let block = bench
        .until(NAME, "corrected", |block: &NnfNodeBlockStorage| {
            block.status.as_ref().is_some_and(|status| status.error.is_none())
        })
        .await;
    let status = block.status.unwrap();
    assert!(*"2020-01-01T00:00:01Z" < *status.pod_start_time.unwrap().0.to_string());
    let accesses = &status.allocations[0].accesses;
    assert_eq!(accesses.keys().collect::<Vec<_>>(), [RABBIT]);
    assert_ne!(accesses[RABBIT].device_paths, ["/dev/nvme9n9"]);
}

#[tokio::test]
async fn a_status_of_another_daemon_is_corrected_at_the_start() {
    let mut bench = Bench::new().await;
    job(&bench, 2).await;
    bench.stop().await;
    leave_stale(&bench).await;
    let mounts = *bench.mounted.borrow();
    bench.start();
    until_true_again(&bench).await;
    assert_eq!(*bench.mounted.borrow(), mounts, "nothing was mounted again");
}

#[tokio::test]
async fn a_status_that_another_daemon_writes_while_the_agent_runs_is_corrected() {
    let bench = Bench::new().await;
    job(&bench, 2).await;
    leave_stale(&bench).await;
    until_true_again(&bench).await;
}

#[tokio::test]
async fn each_status_of_a_new_job_is_written_once() {
    let bench = Bench::new().await;
    job(&bench, 1).await;
    bench.until("nnf-nlc", "reported", crate::bench::node_reported).await;
    // The agent has handled all earlier events once it has done this later work.
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage("later", &[(1, &[RABBIT])])).await;
    bench.until("later", "ready", block_ready).await;
    let requests = bench.requests();
    let count_writes = |end: String| {
        requests.iter().filter(|(method, path)| method == "PATCH" && path.ends_with(&end)).count()
    };
    for end in [
        format!("nnfnodestorages/{NAME}/status"),
        format!("nnfnodeblockstorages/{NAME}/status"),
        format!("clientmounts/{MOUNT}/status"),
    ] {
        assert_eq!(count_writes(end.clone()), 1, "{end}: {requests:#?}");
    }
}

#[tokio::test]
async fn fields_that_other_programs_write_into_the_nnf_node_stay() {
    let bench = Bench::new().await;
    bench.until("nnf-nlc", "reported", crate::bench::node_reported).await;
    write_status::<NnfNode>(&bench, "nnf-nlc", json!({"fenced": true, "lnetNid": "10.0.0.1@tcp"}))
        .await;
    // Another allocation makes the agent report the capacity again.
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(1 << 20, &[RABBIT])])).await;
    let node: NnfNode = bench
        .until("nnf-nlc", "reported again", |node: &NnfNode| {
            node.status.as_ref().is_some_and(|status| status.capacity_allocated > 0)
        })
        .await;
    let status = node.status.unwrap();
    assert_eq!((status.fenced, &*status.lnet_nid), (true, "10.0.0.1@tcp"));
}

#[tokio::test]
async fn reported_namespaces_that_are_missing_are_not_created_again() {
    let mut bench = Bench::new().await;
    bench.stop().await;
    let object = block_storage(NAME, &[(1 << 20, &[RABBIT]), (1 << 20, &[RABBIT])]);
    bench.make::<NnfNodeBlockStorage>(RABBIT, object).await;
    bench.make::<NnfNodeStorage>(RABBIT, node_storage(NAME, 2)).await;
    // Another daemon, which saw other drives, left this status: the first allocation has a device, and the second was
    // not made.
    let device = json!({"NQN": "nqn.2019-10.com.kioxia:KCM7DRJE1T92:7DQ0A0100N3", "namespaceId": "3", "capacityAllocated": 1 << 20});
    let group = json!({"storageGroupId": "g", "devicePaths": ["/dev/nvme1n3"]});
    let reported = json!({"devices": [device], "accesses": {RABBIT: group}, "storagePoolId": "p", "capacityAllocated": 1 << 20});
    let status = json!({"ready": true, "podStartTime": "2026-06-01T07:12:09Z", "allocations": [reported, {}]});
    write_status::<NnfNodeBlockStorage>(&bench, NAME, status).await;
    bench.start();
    let block = bench
        .until(NAME, "refused", |block: &NnfNodeBlockStorage| {
            block.status.as_ref().is_some_and(|status| status.error.is_some())
        })
        .await;
    let status = block.status.unwrap();
    let error = status.error.unwrap();
    assert!(error.user_message.unwrap().contains("namespace 3 of nqn.2019-10.com.kioxia"));
    assert_eq!(
        status.allocations[0].devices[0].nqn,
        "nqn.2019-10.com.kioxia:KCM7DRJE1T92:7DQ0A0100N3"
    );
    assert_eq!(
        status.allocations[1].devices.len(),
        1,
        "an allocation that was never reported is made"
    );
    let failed = |storage: &NnfNodeStorage| {
        storage.status.as_ref().is_some_and(|status| status.error.is_some())
    };
    let storage: NnfNodeStorage =
        bench.until(NAME, "with an error about its first file system", failed).await;
    let status = storage.status.unwrap();
    let user = status.error.unwrap().user_message.unwrap();
    assert!(user.contains("file system 0") && !user.contains("file system 1"), "{user}");
    let ready: Vec<_> = status.allocations.iter().map(|allocation| allocation.ready).collect();
    assert_eq!(ready, [false, true]);
    let steps = bench.host.applied();
    let count = |matches: fn(&Step) -> bool| steps.iter().filter(|step| matches(step)).count();
    assert_eq!(count(|step| matches!(step, Step::CreateNamespace { .. })), 1);
    assert_eq!(count(|step| matches!(step, Step::MakeFileSystem { .. })), 1, "{steps:#?}");
}

#[tokio::test]
async fn an_object_in_another_kubernetes_namespace_is_not_mounted() {
    let bench = Bench::new().await;
    bench.file_systems(1).await;
    let mut elsewhere = client_mount(MOUNT, &["compute-01"]);
    elsewhere["metadata"]["namespace"] = json!("rabbit-2");
    bench.make::<ClientMount>("rabbit-2", elsewhere).await;
    let mut own = client_mount("own", &["compute-01"]);
    own["spec"]["mounts"][0]["mountPath"] = json!(in_tree("own"));
    bench.make::<ClientMount>(RABBIT, own).await;
    bench.until("own", "mounted", mount_ready).await;
    let foreign = bench.api::<ClientMount>("rabbit-2").get(MOUNT).await.unwrap();
    assert!(foreign.status.is_none() && foreign.finalizers().is_empty());
}

#[tokio::test]
async fn the_agent_is_ready_and_has_counted_passes_after_its_first_work() {
    let mut bench = Bench::bare().await;
    bench.site().await;
    assert!(!bench.status.is_ready());
    bench.start();
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(1 << 20, &[RABBIT])])).await;
    bench.until(NAME, "ready", block_ready).await;
    assert!(bench.status.is_ready());
    let text = bench.status.metrics();
    let count =
        text.lines().find_map(|line| line.strip_prefix("nnf_node_block_storage_reconciles_total "));
    assert!(count.unwrap().parse::<u32>().unwrap() > 0, "{text}");
    bench.make::<NnfNodeStorage>(RABBIT, node_storage(NAME, 1)).await;
    bench.until(NAME, "ready", storage_ready).await;
}
