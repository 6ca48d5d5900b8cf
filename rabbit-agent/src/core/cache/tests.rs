use super::*;
use crate::samples;
use api::{
    NnfNodeStorageStatus,
    names::{annotation, finalizer},
};

fn cache() -> Cache {
    Cache::new("rabbit-1".parse().unwrap())
}

fn versioned<K: Object>(mut object: K, version: u32) -> K {
    object.meta_mut().resource_version = Some(version.to_string());
    object
}

#[test]
fn objects_of_another_namespace_wake_nothing() {
    let mut cache = cache();
    let mut foreign = samples::client_mount(1);
    foreign.metadata.namespace = Some("rabbit-2".to_owned());
    assert!(cache.apply(Event::Applied(Ok(foreign))).is_empty());
    let mut foreign = samples::block_storage(&[(1, &["rabbit-1"])]);
    foreign.metadata.namespace = Some("default".to_owned());
    assert!(cache.apply(Event::Applied(Ok(foreign))).is_empty());
}

#[test]
fn a_status_of_this_agent_wakes_waiting_objects_but_not_its_own_object() {
    let mut cache = cache();
    cache.apply(Event::Applied(Ok(versioned(samples::node_storage(1, "xfs"), 1))));
    cache.apply(Event::Applied(Ok(versioned(
        samples::block_storage(&[(1 << 30, &["rabbit-1"])]),
        2,
    ))));
    let wakes = cache.wrote(versioned(samples::block_storage_ready(1), 3));
    assert_eq!(wakes, [Wake::Related(Key::NodeStorage(samples::NAME.into()))]);
    assert!(
        cache.apply(Event::Applied(Ok(versioned(samples::block_storage_ready(1), 3)))).is_empty(),
        "the watch brings the agent's own write"
    );
}

/// After a restart the agent mounts a Lustre target as soon as its devices are known again; an XFS needs no work then.
#[test]
fn a_ready_lustre_target_is_woken_when_its_devices_are_known() {
    for (kind, woken) in [("lustre", 1), ("xfs", 0)] {
        let mut cache = cache();
        let mut made = samples::node_storage(1, kind);
        made.status = Some(NnfNodeStorageStatus { ready: true, ..Default::default() });
        cache.apply(Event::Applied(Ok(versioned(made, 1))));
        cache
            .apply(Event::Applied(Ok(versioned(samples::block_storage(&[(1, &["rabbit-1"])]), 2))));
        let wakes = cache.wrote(versioned(samples::block_storage_ready(1), 3));
        assert_eq!(wakes.len(), woken, "{kind}: {wakes:?}");
    }
}

/// Device events make the agent check the ZFS pools of targets that serve. A failed target is retried by the timer
/// alone.
#[test]
fn a_device_event_wakes_lustre_targets_that_serve() {
    let status = |error: Option<&str>| NnfNodeStorageStatus {
        error: error.map(api::ResourceError::new),
        ..Default::default()
    };
    for (kind, reported, woken) in [
        ("lustre", Some(status(None)), true),
        ("lustre", Some(status(Some("x"))), false),
        ("lustre", None, false),
        ("xfs", Some(status(None)), false),
    ] {
        let mut cache = cache();
        let mut storage = samples::node_storage(1, kind);
        storage.status = reported;
        cache.apply(Event::Applied(Ok(versioned(storage, 1))));
        let wake = Wake::Related(Key::NodeStorage(samples::NAME.into()));
        assert_eq!(cache.devices_changed().contains(&wake), woken, "{kind}");
    }
}

#[test]
fn the_mounts_of_a_client_mount_that_disappears_with_the_agents_finalizer_are_removed() {
    let mut cache = cache();
    let mut mount = samples::client_mount(1);
    mount.metadata.finalizers = Some(vec![finalizer::CLIENT_MOUNT.into()]);
    let uid = mount.uid().unwrap();
    cache.apply(Event::Applied(Ok(mount.clone())));
    let wakes = cache.apply(Event::Deleted(Ok(mount.clone())));
    assert!(wakes.contains(&Wake::Related(Key::Vanished(uid.clone()))), "{wakes:?}");
    assert!(cache.vanished(&uid).is_some());
}

#[test]
fn a_client_mount_that_disappears_without_the_agents_finalizer_has_no_mounts_to_remove() {
    let mut cache = cache();
    let mount = samples::client_mount(1);
    cache.apply(Event::Applied(Ok(mount.clone())));
    let wakes = cache.apply(Event::Deleted(Ok(mount)));
    assert!(!wakes.iter().any(|wake| matches!(wake, Wake::Related(Key::Vanished(_)))), "{wakes:?}");
}

#[test]
fn a_client_mount_deleted_without_the_agents_finalizer_frees_its_mount_points() {
    let mut cache = cache();
    let mount = samples::client_mount(1);
    let let_go = Wake::Deleted(mount.name_any(), mount.uid().unwrap());
    cache.apply(Event::Applied(Ok(versioned(mount.clone(), 1))));
    let mut next = versioned(mount.clone(), 2);
    assert!(!cache.apply(Event::Applied(Ok(next.clone()))).contains(&let_go));
    next.metadata.uid = Some("another".to_owned());
    assert!(
        cache.apply(Event::Applied(Ok(versioned(next, 3)))).contains(&let_go),
        "another object has taken the name"
    );
    cache.apply(Event::Applied(Ok(mount.clone())));
    assert!(cache.apply(Event::Deleted(Ok(mount))).contains(&let_go));
}

#[test]
fn a_missing_profile_is_named_and_its_creation_wakes_waiting_objects() {
    let mut cache = cache();
    let storage = samples::node_storage(1, "xfs");
    cache.apply(Event::Applied(Ok(storage.clone())));
    assert!(cache.profile(&storage).unwrap_err().to_string().contains("default/job-7-0"));
    let wakes = cache.apply(Event::Applied(Ok(samples::profile())));
    assert_eq!(wakes, [Wake::Related(Key::NodeStorage(samples::NAME.into()))]);
    assert!(cache.profile(&storage).is_ok());
}

#[test]
fn new_slots_wake_every_block_storage() {
    let mut cache = cache();
    cache.apply(Event::Applied(Ok(samples::block_storage(&[(1, &["rabbit-1"])]))));
    let wakes = cache.apply(Event::Applied(Ok(samples::system())));
    assert_eq!(
        wakes,
        [Wake::Related(Key::BlockStorage(samples::NAME.into())), Wake::Related(Key::Node)]
    );
}

#[test]
fn a_client_mount_with_the_finalizer_may_be_mounted_unless_its_status_denies_it() {
    let reported = |state: &str, ready: bool| Some((state.to_owned(), ready));
    for (finalizer, status, may_be) in [
        (true, None, true),
        (true, reported("mounted", true), true),
        (true, reported("mounted", false), false),
        (true, reported("unmounted", false), true),
        (true, reported("unmounted", true), false),
        (true, reported("moved", false), true),
        (false, None, false),
        (false, reported("mounted", true), false),
    ] {
        let mut cache = cache();
        let mut mount = samples::client_mount(1);
        mount.metadata.finalizers = finalizer.then(|| vec![finalizer::CLIENT_MOUNT.into()]);
        mount.status = status.clone().map(|(state, ready)| {
            let status = serde_json::json!({"allReady": ready, "mounts": [{"state": state, "ready": ready}]});
            serde_json::from_value(status).unwrap()
        });
        cache.apply(Event::Applied(Ok(mount)));
        let named = !cache.mounts_on(samples::NAME).is_empty();
        assert_eq!(named, may_be, "{finalizer} {status:?}");
        assert!(cache.mounts_on("another").is_empty());
    }
}

/// A request for logs is an annotation; no other annotation wakes the object.
#[test]
fn a_request_for_logs_wakes_its_object_once_and_the_answer_does_not_wake_it() {
    let request_version = |version: u32, annotation: &str, at: &str, answered: Option<&str>| {
        let object: NodeContainers = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "w", "namespace": "rabbit-1", "annotations": {annotation: at}},
            "spec": {"userID": 1, "groupID": 1, "hostname": "r"},
            "status": {"state": "Ready", "attempt": 1, "logsAnswered": answered},
        }))
        .unwrap();
        Event::Applied(Ok(versioned(object, version)))
    };
    let (mut cache, ours) = (cache(), annotation::LOGS_ASKED);
    let moments = ["2026-11-27T03:00:00.000000Z", "2026-11-27T03:00:01.000000Z"];
    cache.apply(request_version(1, "other", moments[0], None));
    assert_eq!(cache.apply(request_version(2, "other", moments[1], None)), []);
    let woken = [Wake::Related(Key::Containers("w".into()))];
    assert_eq!(cache.apply(request_version(3, ours, moments[0], None)), woken);
    assert_eq!(cache.apply(request_version(4, ours, moments[0], None)), []);
    let Event::Applied(Ok(answer)) = request_version(5, ours, moments[0], Some(moments[0])) else {
        panic!()
    };
    assert_eq!(cache.wrote(answer), []);
    assert_eq!(cache.apply(request_version(6, ours, moments[1], Some(moments[0]))), woken);
}

#[test]
fn a_movement_that_mpi_carries_out_is_not_the_agents() {
    let object = |labels: serde_json::Value| -> api::NnfDataMovement {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "w-1-0", "namespace": "rabbit-1", "labels": labels},
            "spec": {"userId": 1, "groupId": 1, "source": {"storageReference": {"kind": "Servers"}}},
        }))
        .unwrap()
    };
    let by_agent = object(serde_json::json!({}));
    assert!(by_agent.key().is_some() && crate::kinds::movement::is_wanted(&by_agent));
    let by_mpi = object(serde_json::json!({api::names::movement::MPI_RUN: "w-copy1"}));
    assert!(by_mpi.key().is_none() && !crate::kinds::movement::is_wanted(&by_mpi));
}
