use api::{NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile, Severity, names::finalizer};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use storage::{
    Step,
    desired::{HookPoint, NamespaceId},
    observed::Signature,
};

use crate::bench::{
    Bench, NAME, RABBIT, block_failed, block_ready, block_storage, node_storage, profile,
    storage_failed, storage_ready, system,
};

#[tokio::test]
async fn file_systems_are_set_up_and_torn_down() {
    let bench = Bench::new().await;
    let (block, storage) = bench.file_systems(3).await;
    let status = serde_json::to_value(storage.status.unwrap()).unwrap();
    let healthy = json!({"health": "Healthy", "ready": true});
    assert_eq!(
        status,
        json!({"allocations": [healthy, healthy, healthy], "health": "Healthy", "ready": true})
    );
    assert_eq!(
        block.finalizers(),
        [finalizer::NNF_NODE_BLOCK_STORAGE, finalizer::NNF_NODE_STORAGE]
    );
    let hooks = |phase: HookPoint| {
        let applied = bench.host.applied();
        applied
            .iter()
            .filter(|step| matches!(step, Step::RunHook { id, .. } if id.phase == phase))
            .count()
    };
    assert_eq!((hooks(HookPoint::PostSetup), hooks(HookPoint::PreTeardown)), (3, 0));

    // The block storage is deleted first. It stays until its file systems are gone.
    bench.delete::<NnfNodeBlockStorage>(NAME).await;
    bench.delete::<NnfNodeStorage>(NAME).await;
    bench.until_gone::<NnfNodeStorage>(NAME).await;
    bench.until_gone::<NnfNodeBlockStorage>(NAME).await;
    assert_eq!((hooks(HookPoint::PostSetup), hooks(HookPoint::PreTeardown)), (3, 3));
    assert!(bench.host.is_clean());
}

#[tokio::test]
async fn a_file_system_takes_three_writes_to_the_api() {
    let bench = Bench::new().await;
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(1 << 20, &[RABBIT])])).await;
    let made = bench.make::<NnfNodeStorage>(RABBIT, node_storage(NAME, 1)).await;
    let history = bench.history(&made);
    bench.until(NAME, "ready", storage_ready).await;
    bench.delete::<NnfNodeStorage>(NAME).await;
    let seen = history.await.unwrap();
    let (_, living) = seen.split_last().unwrap();
    let reported: Vec<_> = living
        .iter()
        .map(|object| {
            (
                object.finalizers().len(),
                storage_ready(object),
                object.metadata.deletion_timestamp.is_some(),
            )
        })
        .collect();
    // The versions in order: with the finalizer, ready, and deleted by this test. When the finalizer is removed, the
    // object disappears.
    assert_eq!(reported, [(1, false, false), (1, true, false), (1, true, true)]);
}

#[tokio::test]
async fn a_file_system_that_waits_for_its_devices_reports_no_error() {
    let bench = Bench::bare().await;
    bench.make::<NnfStorageProfile>("default", profile()).await;
    let mut bench = bench;
    bench.start();
    bench
        .make::<NnfNodeBlockStorage>(
            RABBIT,
            block_storage(NAME, &[(1 << 20, &[RABBIT, "compute-01"])]),
        )
        .await;
    bench.make::<NnfNodeStorage>(RABBIT, node_storage(NAME, 1)).await;
    let block = bench.until(NAME, "waiting for slots", block_failed).await;
    assert_eq!(block.status.unwrap().error.unwrap().severity, Severity::Minor);
    let storage: NnfNodeStorage = bench
        .until(NAME, "with a finalizer", |storage: &NnfNodeStorage| {
            !storage.finalizers().is_empty()
        })
        .await;
    assert_eq!(storage.status, None);
    bench.make::<api::SystemConfiguration>("default", system(&[("compute-01", 0)])).await;
    let storage = bench.until(NAME, "ready", storage_ready).await;
    assert_eq!(storage.status.unwrap().error, None);
}

#[tokio::test]
async fn file_systems_wait_for_a_missing_block_storage_or_profile_and_report_it() {
    let mut bench = Bench::bare().await;
    bench.start();
    bench.make::<NnfNodeStorage>(RABBIT, node_storage(NAME, 1)).await;
    let storage: NnfNodeStorage = bench.until(NAME, "failed", storage_failed).await;
    let error = storage.status.unwrap().error.unwrap();
    let text = format!(
        "could not find storage allocation: NnfNodeBlockStorage {RABBIT}/{NAME} does not exist"
    );
    assert_eq!(error.user_message.unwrap(), format!("{RABBIT}: {text}"));
    assert_eq!(error.debug_message, text);

    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(1 << 20, &[RABBIT])])).await;
    let has_profile_error = |storage: &NnfNodeStorage| {
        let error = storage.status.as_ref().and_then(|status| status.error.as_ref());
        error
            .and_then(|error| error.user_message.as_ref())
            .is_some_and(|text| text.contains("NnfStorageProfile default/job-7-0"))
    };
    bench.until(NAME, "failed for its profile", has_profile_error).await;
    bench.make::<NnfStorageProfile>("default", profile()).await;
    let storage = bench.until(NAME, "ready", storage_ready).await;
    assert_eq!(storage.status.unwrap().error, None);
}

#[tokio::test]
async fn an_object_without_file_systems_is_deleted_without_its_profile() {
    let mut bench = Bench::bare().await;
    bench.start();
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(1 << 20, &[RABBIT])])).await;
    bench.make::<NnfNodeStorage>(RABBIT, node_storage(NAME, 1)).await;
    let storage: NnfNodeStorage = bench.until(NAME, "refused", storage_failed).await;
    assert_eq!(storage.status.unwrap().error.unwrap().severity, Severity::Fatal);
    bench.delete::<NnfNodeStorage>(NAME).await;
    bench.until_gone::<NnfNodeStorage>(NAME).await;
    bench.delete::<NnfNodeBlockStorage>(NAME).await;
    bench.until_gone::<NnfNodeBlockStorage>(NAME).await;
    assert!(bench.host.is_clean());
}

#[tokio::test]
async fn an_unpinned_profile_is_rejected() {
    let mut bench = Bench::bare().await;
    let mut loose = profile();
    loose["data"]["pinned"] = json!(false);
    bench.make::<NnfStorageProfile>("default", loose).await;
    bench.start();
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(1 << 20, &[RABBIT])])).await;
    bench.until(NAME, "ready", block_ready).await;
    let before = bench.host.applied().len();
    bench.make::<NnfNodeStorage>(RABBIT, node_storage(NAME, 1)).await;
    let storage: NnfNodeStorage = bench.until(NAME, "refused", storage_failed).await;
    let user = storage.status.unwrap().error.unwrap().user_message.unwrap();
    assert!(user.contains("default/job-7-0 is not pinned: set data.pinned to true"), "{user}");
    assert_eq!(bench.host.applied().len(), before);
    let pin = Patch::Merge(json!({"data": {"pinned": true}}));
    let profiles = bench.api::<NnfStorageProfile>("default");
    profiles.patch("job-7-0", &PatchParams::default(), &pin).await.unwrap();
    let storage = bench.until(NAME, "ready", storage_ready).await;
    assert_eq!(storage.status.unwrap().error, None);
}

#[tokio::test]
async fn a_foreign_file_system_on_the_device_is_never_formatted() {
    let bench = Bench::new().await;
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(1 << 20, &[RABBIT])])).await;
    let block = bench.until(NAME, "ready", block_ready).await;
    let device = block.status.unwrap().allocations[0].devices[0].clone();
    let namespace = NamespaceId::parse(&device.nqn, &device.namespace_id).unwrap();
    bench.host.plant_signature(
        &namespace,
        Signature::Foreign { kind: "ext4".into(), uuid: Some("4711".into()) },
    );
    let before = bench.host.applied().len();
    bench.make::<NnfNodeStorage>(RABBIT, node_storage(NAME, 1)).await;
    let storage: NnfNodeStorage = bench.until(NAME, "refused", storage_failed).await;
    let error = storage.status.unwrap().error.unwrap();
    let user = error.user_message.unwrap();
    assert!(
        user.contains("file system 0") && user.contains("ext4") && user.contains("4711"),
        "{user}"
    );
    assert_eq!((error.severity, bench.host.applied().len()), (Severity::Fatal, before));
}
