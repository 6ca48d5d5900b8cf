use std::fs;

use api::{
    ClientMount, NnfNodeBlockStorage, NnfNodeStorage, SystemConfiguration, names::finalizer,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use storage::{
    Host, Step,
    desired::{AllocationId, HookPoint, NamespaceId},
    fake::{FakeHost, Fault},
};

use crate::bench::{
    Bench, MOUNT, NAME, RABBIT, block_failed, block_ready, block_storage, client_mount, in_tree,
    mount_failed, mount_ready, node_storage, path, storage_ready, system,
};

fn count_mounts(bench: &Bench) -> usize {
    let applied = bench.host.applied();
    let made = applied.iter().filter(|step| matches!(step, Step::Mount { .. })).count();
    made - applied.iter().filter(|step| matches!(step, Step::Unmount { .. })).count()
}

#[tokio::test]
async fn a_stop_leaves_mounts_and_a_start_repeats_nothing() {
    let mut bench = Bench::new().await;
    bench.file_systems(2).await;
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &["compute-01", "compute-02"])).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    bench.stop().await;
    assert_eq!(count_mounts(&bench), 2);
    let (steps, version) = (
        bench.host.applied().len(),
        bench.get::<ClientMount>(MOUNT).await.metadata.resource_version,
    );

    bench.start();
    // The agent works on the next object only after it has handled all objects that existed.
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage("next", &[(1 << 20, &[RABBIT])])).await;
    bench.make::<NnfNodeStorage>(RABBIT, node_storage("next", 0)).await;
    bench.until("next", "ready", storage_ready).await;
    let since: Vec<_> = bench.host.applied().into_iter().skip(steps).collect();
    let of_next = |step: &Step| matches!(step, Step::CreateNamespace { .. } | Step::Attach { .. });
    assert!(since.iter().all(of_next), "{since:#?}");
    assert_eq!(bench.get::<ClientMount>(MOUNT).await.metadata.resource_version, version);
}

#[tokio::test]
async fn a_reboot_mounts_everything_again_without_errors() {
    let mut bench = Bench::new().await;
    bench.file_systems(2).await;
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &["compute-01", "compute-02"])).await;
    let mounted = bench.until(MOUNT, "mounted", mount_ready).await;
    bench.stop().await;
    bench.host.reboot();
    let before = bench.host.applied().len();
    let history = bench.history(&mounted);
    bench.start();
    // Two mounts for the set-up, two of the index tree, and after the reboot the two of the index tree again.
    bench.until_mounts(6).await;
    bench.delete::<ClientMount>(MOUNT).await;
    let seen = history.await.unwrap();
    assert!(!seen.iter().any(mount_failed), "{seen:#?}");
    let since: Vec<_> = bench.host.applied().into_iter().skip(before).collect();
    assert!(
        !since
            .iter()
            .any(|step| matches!(step, Step::MakeFileSystem { .. } | Step::CreateNamespace { .. })),
        "{since:#?}"
    );
}

/// Removes the namespaces of these allocations while no agent runs, as if a pool of drives were lost.
fn lose_namespaces(bench: &Bench, block: &NnfNodeBlockStorage, allocations: &[u32]) {
    let status = block.status.as_ref().unwrap();
    for index in allocations {
        let device = &status.allocations[*index as usize].devices[0];
        let id = NamespaceId::parse(&device.nqn, &device.namespace_id).unwrap();
        let owner = block.metadata.uid.as_deref().unwrap().parse().unwrap();
        bench.host.apply(&Step::Detach { id: id.clone(), node: RABBIT.parse().unwrap() }).unwrap();
        let allocation = AllocationId { owner, index: *index };
        bench.host.apply(&Step::EraseNamespace { id: id.clone(), allocation }).unwrap();
        bench.host.apply(&Step::DeleteNamespace { id, allocation }).unwrap();
    }
}

/// Deletes a block storage with two allocations while its file systems still need it, removes the namespaces of
/// `allocations`, and starts a new agent.
async fn lose_while_held(allocations: &[u32]) -> (Bench, usize) {
    let mut bench = Bench::new().await;
    let (block, _) = bench.file_systems(2).await;
    bench.stop().await;
    bench.host.reboot();
    lose_namespaces(&bench, &block, allocations);
    let old = Patch::Merge(json!({"status": {"podStartTime": OLD}}));
    let blocks = bench.api::<NnfNodeBlockStorage>(RABBIT);
    blocks.patch_status(NAME, &PatchParams::default(), &old).await.unwrap();
    bench.delete::<NnfNodeBlockStorage>(NAME).await;
    let before = bench.host.applied().len();
    bench.start();
    (bench, before)
}

/// A time at which no agent of these tests had started yet.
const OLD: &str = "2020-01-01T00:00:00Z";

fn is_observed_again(object: &NnfNodeBlockStorage) -> bool {
    let started = object.status.as_ref().and_then(|status| status.pod_start_time.as_ref());
    started.is_some_and(|at| at.0.to_string() != OLD)
}

fn count_created(bench: &Bench, before: usize) -> usize {
    let applied = bench.host.applied().into_iter().skip(before);
    applied.filter(|step| matches!(step, Step::CreateNamespace { .. })).count()
}

#[tokio::test]
async fn a_deleted_block_storage_gets_no_new_namespaces() {
    let (bench, before) = lose_while_held(&[0, 1]).await;
    let block: NnfNodeBlockStorage = bench.until(NAME, "observed again", is_observed_again).await;
    let status = block.status.unwrap();
    assert!(
        !status.ready && status.allocations.iter().all(|allocation| allocation.devices.is_empty())
    );
    bench.delete::<NnfNodeStorage>(NAME).await;
    bench.until_gone::<NnfNodeStorage>(NAME).await;
    bench.until_gone::<NnfNodeBlockStorage>(NAME).await;
    assert_eq!(count_created(&bench, before), 0);
}

#[tokio::test]
async fn a_deleted_block_storage_keeps_its_namespaces_until_the_tear_down() {
    let (bench, before) = lose_while_held(&[0]).await;
    let block: NnfNodeBlockStorage = bench.until(NAME, "observed again", is_observed_again).await;
    let status = block.status.unwrap();
    assert!(!status.ready && status.allocations[0].devices.is_empty());
    assert_eq!(status.allocations[1].accesses[RABBIT].device_paths.len(), 1);
    bench.delete::<NnfNodeStorage>(NAME).await;
    bench.until_gone::<NnfNodeStorage>(NAME).await;
    bench.until_gone::<NnfNodeBlockStorage>(NAME).await;
    let torn_down = bench.host.applied().into_iter().skip(before).filter(
        |step| matches!(step, Step::RunHook { id, .. } if id.phase == HookPoint::PreTeardown),
    );
    assert_eq!((torn_down.count(), count_created(&bench, before)), (1, 0));
}

/// Creates two file systems, each on a drive of its own, stops the agent, reboots the node, and lets `go` change the
/// first drive.
///
/// The second file system is created only after the first exists, and so gets the other drive, which has more free
/// bytes: if both were created at once, both could get the same drive.
async fn without_a_drive(go: fn(&FakeHost, u32)) -> Bench {
    let mut bench = Bench::new().await;
    let allocation = (1 << 20, &[RABBIT][..]);
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[allocation])).await;
    bench.until(NAME, "ready with its first allocation", block_ready).await;
    let both = block_storage(NAME, &[allocation, allocation]);
    bench.change::<NnfNodeBlockStorage>(NAME, json!({"spec": both["spec"]})).await;
    bench.make::<NnfNodeStorage>(RABBIT, node_storage(NAME, 2)).await;
    bench.until(NAME, "ready", storage_ready).await;
    bench.stop().await;
    bench.host.reboot();
    go(&bench.host, 0);
    bench
}

async fn delete_both(bench: &Bench) {
    bench.delete::<NnfNodeStorage>(NAME).await;
    bench.delete::<NnfNodeBlockStorage>(NAME).await;
}

#[tokio::test]
async fn storage_with_a_replaced_drive_is_torn_down_and_released() {
    let mut bench = without_a_drive(FakeHost::swap_drive).await;
    bench.start();
    let block: NnfNodeBlockStorage =
        bench.until(NAME, "with an error about its first allocation", block_failed).await;
    let status = block.status.unwrap();
    let paths =
        status.allocations.iter().map(|allocation| allocation.accesses[RABBIT].device_paths.len());
    assert_eq!(paths.collect::<Vec<_>>(), [0, 1]);
    delete_both(&bench).await;
    bench.until_gone::<NnfNodeStorage>(NAME).await;
    bench.until_gone::<NnfNodeBlockStorage>(NAME).await;
}

#[tokio::test]
async fn deleted_storage_waits_for_its_missing_drive() {
    let mut bench = without_a_drive(FakeHost::pull_drive).await;
    delete_both(&bench).await;
    bench.start();
    bench.until_gone::<NnfNodeStorage>(NAME).await;
    let waits = |block: &NnfNodeBlockStorage| {
        let error = block.status.as_ref().and_then(|status| status.error.as_ref());
        let user = error.and_then(|error| error.user_message.as_ref());
        user.is_some_and(|user| user.contains("give back allocation 0"))
    };
    let block: NnfNodeBlockStorage = bench.until(NAME, "waiting", waits).await;
    assert_eq!(block.finalizers(), [finalizer::NNF_NODE_BLOCK_STORAGE]);
    bench.host.put_drive_back(0);
    bench.status.health.request_check();
    bench.until_gone::<NnfNodeBlockStorage>(NAME).await;
    assert!(bench.host.is_clean());
}

#[tokio::test]
async fn a_tear_down_reports_what_it_waits_for() {
    let mut bench = without_a_drive(|_, _| {}).await;
    let patch = json!({"spec": {"allocations": [
        {"capacity": 1 << 20, "access": [RABBIT, "compute-77"]}, {"capacity": 1 << 20, "access": [RABBIT]}]}});
    bench.change::<NnfNodeBlockStorage>(NAME, patch).await;
    delete_both(&bench).await;
    bench.start();
    let waits = |storage: &NnfNodeStorage| {
        let error = storage.status.as_ref().and_then(|status| status.error.as_ref());
        let user = error.and_then(|error| error.user_message.as_ref());
        user.is_some_and(|user| user.contains(NAME) && user.contains("compute-77"))
    };
    bench.until::<NnfNodeStorage>(NAME, "waiting", waits).await;
    let computes = system(&[("compute-77", 3)]);
    let patch = Patch::Merge(json!({"spec": {"storageNodes": computes["spec"]["storageNodes"]}}));
    let systems = bench.api::<SystemConfiguration>("default");
    systems.patch("default", &PatchParams::default(), &patch).await.unwrap();
    bench.until_gone::<NnfNodeStorage>(NAME).await;
    bench.until_gone::<NnfNodeBlockStorage>(NAME).await;
}

/// Returns a bench with a stopped agent and a mount whose ClientMount no longer exists.
async fn leave_mount() -> Bench {
    let mut bench = Bench::new().await;
    bench.file_systems(1).await;
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &["compute-01"])).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    bench.stop().await;
    let api = bench.api::<ClientMount>(RABBIT);
    let strip = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch(MOUNT, &PatchParams::default(), &strip).await.unwrap();
    api.delete(MOUNT, &DeleteParams::default()).await.unwrap();
    bench
}

#[tokio::test]
async fn mounts_of_objects_deleted_without_a_running_agent_are_removed_before_new_mounts() {
    for loses_records in [false, true] {
        let mut bench = leave_mount().await;
        assert_eq!(count_mounts(&bench), 1);
        if loses_records {
            #[expect(clippy::disallowed_methods, reason = "the test planted this tree")]
            fs::remove_dir_all(bench.directory.path().join("mounts")).unwrap();
        }
        bench.start();
        bench.make::<ClientMount>(RABBIT, client_mount("next", &["compute-01"])).await;
        bench.until("next", "mounted", mount_ready).await;
        assert_eq!(count_mounts(&bench), 1);
    }
}

#[tokio::test]
async fn an_unwanted_busy_mount_is_removed_when_it_is_released() {
    let mut bench = leave_mount().await;
    bench.host.hold(&path(&in_tree("node-0")));
    bench.start();
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage("next", &[(1 << 20, &[RABBIT])])).await;
    bench.until("next", "ready", block_ready).await;
    assert_eq!(count_mounts(&bench), 1, "the busy mount delays nothing else");
    bench.host.let_go(&path(&in_tree("node-0")));
    bench.until_unmounts(2).await;
    assert_eq!(count_mounts(&bench), 0);
}

/// Creates and deletes a block storage and its file system six times. Each time another step is the first to fail.
async fn make_and_delete_with(fault: Fault) {
    for after in 0..6 {
        let bench = Bench::new().await;
        bench.host.fail(after, fault);
        bench.file_systems(1).await;
        bench.delete::<NnfNodeStorage>(NAME).await;
        bench.delete::<NnfNodeBlockStorage>(NAME).await;
        bench.until_gone::<NnfNodeBlockStorage>(NAME).await;
        assert!(bench.host.is_clean(), "{fault:?} after {after}");
    }
}

#[tokio::test]
async fn a_step_that_fails_before_it_begins_is_retried() {
    make_and_delete_with(Fault::Before).await;
}

#[tokio::test]
async fn a_step_that_fails_halfway_is_retried() {
    make_and_delete_with(Fault::Halfway).await;
}

#[tokio::test]
async fn a_step_that_fails_after_its_work_is_retried() {
    make_and_delete_with(Fault::After).await;
}
