use api::{ErrorType, NnfNodeBlockStorage, Severity, SystemConfiguration};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use storage::{Desired, Host, Step, desired::Endpoint};

use crate::bench::{Bench, NAME, RABBIT, block_failed, block_ready, block_storage, system};

const MIB: i64 = 1 << 20;

fn access_of(object: &NnfNodeBlockStorage, allocation: usize) -> Vec<(String, String)> {
    let status = object.status.as_ref().unwrap();
    let accesses = status.allocations[allocation].accesses.iter();
    accesses.map(|(node, access)| (node.clone(), access.storage_group_id.clone())).collect()
}

fn access_patch(access: &[&str]) -> serde_json::Value {
    json!({"spec": {"allocations": [{"capacity": MIB, "access": access}]}})
}

#[tokio::test]
async fn access_is_granted_at_the_slot_of_the_compute_and_withdrawn() {
    let bench = Bench::new().await;
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(MIB, &[RABBIT])])).await;
    let object: NnfNodeBlockStorage = bench.until(NAME, "ready", block_ready).await;
    assert_eq!(access_of(&object, 0), [(RABBIT.to_owned(), format!("{NAME}-0-0"))]);
    assert!(object.status.as_ref().unwrap().pod_start_time.is_some());

    bench.change::<NnfNodeBlockStorage>(NAME, access_patch(&[RABBIT, "compute-03"])).await;
    let object = bench
        .until(NAME, "granted", |block: &NnfNodeBlockStorage| access_of(block, 0).len() == 2)
        .await;
    assert_eq!(access_of(&object, 0)[0], ("compute-03".to_owned(), format!("{NAME}-0-7")));
    let to_slot_6 =
        |step: &Step| matches!(step, Step::Attach { endpoint: Endpoint::Compute(6), .. });
    assert!(bench.host.applied().iter().any(to_slot_6));

    bench.change::<NnfNodeBlockStorage>(NAME, access_patch(&[RABBIT])).await;
    bench
        .until(NAME, "withdrawn", |block: &NnfNodeBlockStorage| access_of(block, 0).len() == 1)
        .await;
    bench.delete::<NnfNodeBlockStorage>(NAME).await;
    bench.until_gone::<NnfNodeBlockStorage>(NAME).await;
    assert!(bench.host.is_clean());
}

#[tokio::test]
async fn a_compute_that_moved_has_access_only_at_its_new_slot() {
    let bench = Bench::new().await;
    let new_object = block_storage(NAME, &[(MIB, &[RABBIT, "compute-03"])]);
    bench.make::<NnfNodeBlockStorage>(RABBIT, new_object).await;
    bench.until(NAME, "ready", block_ready).await;
    let computes = system(&[("compute-01", 0), ("compute-02", 6), ("compute-03", 3)]);
    let patch = json!({"spec": {"storageNodes": computes["spec"]["storageNodes"]}});
    let systems = bench.api::<SystemConfiguration>("default");
    systems.patch("default", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let there = ("compute-03".to_owned(), format!("{NAME}-0-4"));
    bench.until(NAME, "moved", |block: &NnfNodeBlockStorage| access_of(block, 0)[0] == there).await;
    let seen = bench.host.observe(&Desired::Inventory).unwrap();
    let reached = seen
        .namespaces
        .iter()
        .flat_map(|namespace| &namespace.access)
        .filter_map(|access| access.endpoint);
    assert_eq!(reached.collect::<Vec<_>>(), [Endpoint::Rabbit, Endpoint::Compute(3)]);
}

#[tokio::test]
async fn nothing_is_made_for_an_object_with_an_unknown_compute_until_the_compute_is_configured() {
    let bench = Bench::new().await;
    let new_object = block_storage(NAME, &[(MIB, &[RABBIT]), (MIB, &[RABBIT, "compute-77"])]);
    bench.make::<NnfNodeBlockStorage>(RABBIT, new_object).await;
    let object: NnfNodeBlockStorage = bench.until(NAME, "refused", block_failed).await;
    let error = object.status.unwrap().error.unwrap();
    let user = error.user_message.unwrap();
    assert_eq!((error.severity, error.error_type), (Severity::Fatal, ErrorType::User));
    assert!(
        user.contains("spec.allocations[1].access[1]") && user.contains("compute-77"),
        "{user}"
    );
    assert!(bench.host.applied().is_empty());

    let patch =
        json!({"spec": {"storageNodes": system(&[("compute-77", 3)])["spec"]["storageNodes"]}});
    let systems = bench.api::<SystemConfiguration>("default");
    systems.patch("default", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let object: NnfNodeBlockStorage = bench.until(NAME, "ready", block_ready).await;
    assert_eq!(object.status.as_ref().unwrap().error, None);
    assert!(access_of(&object, 1).contains(&("compute-77".to_owned(), format!("{NAME}-1-4"))));
}

#[tokio::test]
async fn the_error_for_a_capacity_below_1_names_the_field() {
    let bench = Bench::new().await;
    for (name, capacity) in [("zero", 0), ("negative", -4096)] {
        bench
            .make::<NnfNodeBlockStorage>(RABBIT, block_storage(name, &[(capacity, &[RABBIT])]))
            .await;
        let object: NnfNodeBlockStorage = bench.until(name, "refused", block_failed).await;
        let user = object.status.unwrap().error.unwrap().user_message.unwrap();
        assert!(
            user.contains(&format!("spec.allocations[0].capacity is {capacity} bytes")),
            "{user}"
        );
    }
    assert!(bench.host.applied().is_empty());
    bench.delete::<NnfNodeBlockStorage>("zero").await;
    bench.until_gone::<NnfNodeBlockStorage>("zero").await;
}

#[tokio::test]
async fn a_full_rabbit_keeps_no_part_of_an_object_s_allocations_until_there_is_room_for_all() {
    let bench = Bench::new().await;
    bench
        .make::<NnfNodeBlockStorage>(
            RABBIT,
            block_storage("first", &[(700 * MIB, &[RABBIT][..]); 2]),
        )
        .await;
    bench.until::<NnfNodeBlockStorage>("first", "ready", block_ready).await;
    let before = bench.host.applied().len();

    bench
        .make::<NnfNodeBlockStorage>(
            RABBIT,
            block_storage(NAME, &[(MIB, &[RABBIT]), (500 * MIB, &[RABBIT])]),
        )
        .await;
    let object: NnfNodeBlockStorage = bench.until(NAME, "refused", block_failed).await;
    let status = object.status.unwrap();
    let error = status.error.unwrap();
    let user = error.user_message.unwrap();
    assert_eq!((error.severity, error.error_type), (Severity::Fatal, ErrorType::Wlm));
    assert!(
        user.starts_with("rabbit-1: insufficient capacity available") && user.contains("524288000"),
        "{user}"
    );
    assert!(
        !status.ready && status.allocations.iter().all(|allocation| allocation.devices.is_empty())
    );
    let since: Vec<_> = bench.host.applied().into_iter().skip(before).collect();
    let created = since.iter().filter(|step| matches!(step, Step::CreateNamespace { .. })).count();
    let deleted = since.iter().filter(|step| matches!(step, Step::DeleteNamespace { .. })).count();
    assert_eq!(
        created, deleted,
        "all that was made for the refused object was released: {since:#?}"
    );

    bench.delete::<NnfNodeBlockStorage>("first").await;
    let object: NnfNodeBlockStorage = bench.until(NAME, "served", block_ready).await;
    assert_eq!(object.status.unwrap().error, None);
}

#[tokio::test]
async fn objects_of_another_kubernetes_namespace_are_ignored() {
    let bench = Bench::new().await;
    let mut foreign = block_storage(NAME, &[(MIB, &[RABBIT])]);
    foreign["metadata"]["namespace"] = json!("rabbit-2");
    bench.make::<NnfNodeBlockStorage>("rabbit-2", foreign).await;
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage("ours", &[(MIB, &[RABBIT])])).await;
    bench.until::<NnfNodeBlockStorage>("ours", "ready", block_ready).await;
    let untouched = bench.api::<NnfNodeBlockStorage>("rabbit-2").get(NAME).await.unwrap();
    assert_eq!((untouched.status, untouched.metadata.finalizers), (None, None));
}

#[tokio::test]
async fn the_report_of_a_full_disk_beneath_file_drives_has_its_free_bytes() {
    let bench = Bench::new().await;
    bench.host.set_room(5 << 20);
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(100 * MIB, &[RABBIT])])).await;
    let object: NnfNodeBlockStorage = bench.until(NAME, "refused", block_failed).await;
    let user = object.status.unwrap().error.unwrap().user_message.unwrap();
    assert!(user.contains("insufficient capacity available") && user.contains("5242880"), "{user}");
    assert!(bench.host.is_clean());
}

#[tokio::test]
async fn namespaces_without_record_are_adopted_from_the_status_and_unclaimed_namespaces_stay() {
    let mut bench = Bench::new().await;
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(MIB, &[RABBIT])])).await;
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage("going", &[(MIB, &[RABBIT])])).await;
    bench.until::<NnfNodeBlockStorage>("going", "ready", block_ready).await;
    let made: NnfNodeBlockStorage = bench.until(NAME, "ready", block_ready).await;
    bench.stop().await;
    bench.host.lose_records();
    bench.host.plant_namespace(4096);
    bench.host.reboot();
    bench.delete::<NnfNodeBlockStorage>("going").await;
    let before = bench.host.applied().len();
    bench.start();
    bench.until_gone::<NnfNodeBlockStorage>("going").await;
    bench.change::<NnfNodeBlockStorage>(NAME, access_patch(&[RABBIT, "compute-03"])).await;
    let adopted = bench
        .until(NAME, "granted", |block: &NnfNodeBlockStorage| access_of(block, 0).len() == 2)
        .await;
    let devices =
        |block: &NnfNodeBlockStorage| block.status.as_ref().unwrap().allocations[0].devices.clone();
    assert_eq!(devices(&adopted), devices(&made));
    let since: Vec<_> =
        bench.host.applied().into_iter().skip(before).map(|step| step.kind()).collect();
    let times = |kind: &str| since.iter().filter(|applied| **applied == kind).count();
    let counted = ["create-namespace", "adopt-namespace", "delete-namespace"].map(times);
    assert_eq!(
        counted,
        [0, 2, 1],
        "a deleted object's namespaces are adopted before they are released: {since:?}"
    );
    bench.delete::<NnfNodeBlockStorage>(NAME).await;
    bench.until_gone::<NnfNodeBlockStorage>(NAME).await;
    let left = bench.host.observe(&storage::Desired::Inventory).unwrap().namespaces;
    assert_eq!(left.len(), 1, "an unclaimed namespace is not deleted: {left:?}");
    assert!(matches!(left[0].owner, storage::observed::NamespaceOwner::Foreign(_)), "{left:?}");
}

#[tokio::test]
async fn a_drive_that_refuses_commands_fails_only_the_allocation_on_it() {
    let bench = Bench::new().await;
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage("first", &[(MIB, &[RABBIT])])).await;
    bench.until::<NnfNodeBlockStorage>("first", "ready", block_ready).await;
    let before = bench.host.observe(&storage::Desired::Inventory).unwrap();
    bench.host.set_refusing(1, true);
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(MIB, &[RABBIT])])).await;
    let object: NnfNodeBlockStorage = bench.until(NAME, "failed", block_failed).await;
    let error = object.status.unwrap().error.unwrap();
    assert_eq!(error.severity, Severity::Major);
    assert!(error.debug_message.contains("drive-1"), "{}", error.debug_message);
    assert_eq!(bench.host.observe(&storage::Desired::Inventory).unwrap(), before);
    bench.host.set_refusing(1, false);
    bench.until::<NnfNodeBlockStorage>(NAME, "ready", block_ready).await;
}

/// A drive may take an hour to erase a namespace that it deletes. More passes delete here than may run at the same
/// time.
#[tokio::test]
async fn allocations_do_not_wait_for_erasures() {
    let bench = Bench::new().await;
    let going: Vec<_> = (0..34).map(|number| format!("going-{number}")).collect();
    for name in &going {
        bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(name, &[(MIB, &[RABBIT])])).await;
    }
    for name in &going {
        bench.until(name, "ready", block_ready).await;
    }
    let jammed = bench.jam(|step| matches!(step, Step::DeleteNamespace { .. }));
    for name in &going {
        bench.delete::<NnfNodeBlockStorage>(name).await;
    }
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(MIB, &[RABBIT])])).await;
    bench.until(NAME, "ready", block_ready).await;
    drop(jammed);
    for name in &going {
        bench.until_gone::<NnfNodeBlockStorage>(name).await;
    }
}
