use std::{collections::BTreeSet, time::Duration};

use api::{ClientMount, ErrorType, NnfNodeStorage, NnfStorageProfile, Severity, names::finalizer};
use http::Method;
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;
use storage::{Desired, Host, Step, desired::MountPoint, observed::MountedThing};

use crate::bench::{
    Bench, MOUNT, NAME, RABBIT, Refused, client_mount, in_tree, mount_failed, mount_ready, path,
};

/// The pinned profile of `bench::profile`.
const PROFILE: &str = "job-7-0";
const COMPUTES: [&str; 3] = ["compute-01", "compute-02", "compute-03"];

fn user_message(object: &ClientMount) -> String {
    let error = object.status.as_ref().and_then(|status| status.error.clone());
    error.and_then(|error| error.user_message).unwrap_or_default()
}

#[tokio::test]
async fn an_index_tree_is_mounted_and_unmounted_with_four_writes_to_the_api() {
    let bench = Bench::new().await;
    bench.file_systems(3).await;
    let made = bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &COMPUTES)).await;
    let history = bench.history(&made);
    let object = bench.until(MOUNT, "mounted", mount_ready).await;
    let entry = json!({"state": "mounted", "ready": true});
    let expected = json!({"mounts": [entry, entry, entry], "allReady": true});
    assert_eq!(serde_json::to_value(object.status.unwrap()).unwrap(), expected);
    let links: Vec<_> =
        bench.host.applied().into_iter().filter(|step| matches!(step, Step::Link { .. })).collect();
    assert_eq!(links.len(), 3, "{links:#?}");

    bench.change::<ClientMount>(MOUNT, json!({"spec": {"desiredState": "unmounted"}})).await;
    let unmounted = |mount: &ClientMount| {
        mount.status.as_ref().is_some_and(|status| {
            status.all_ready && status.mounts[0].state.as_str() == "unmounted"
        })
    };
    bench.until(MOUNT, "unmounted", unmounted).await;
    bench.delete::<ClientMount>(MOUNT).await;
    let seen = history.await.unwrap();
    // The versions in order: with the finalizer, mounted, changed by this test, unmounted, deleted by this test, and
    // without the finalizer.
    assert_eq!(seen.len(), 6, "{seen:#?}");
    let mounts =
        bench.host.applied().iter().filter(|step| matches!(step, Step::Mount { .. })).count();
    assert_eq!(mounts, 6, "three mounts for the set-up, three for the tree");
}

/// The unmount command is in the profile. When the agent's watch has not delivered the profile and the API refuses to
/// say whether it exists, the agent must not unmount without the command.
#[tokio::test]
async fn a_mount_stays_while_the_existence_of_its_profile_is_unknown() {
    let mut bench = Bench::new().await;
    bench.file_systems(1).await;
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &COMPUTES[..1])).await;
    bench.until::<ClientMount>(MOUNT, "mounted", mount_ready).await;
    let before = bench.host.applied().len();
    bench.stop().await;
    let reads_profile = |method: &Method, at: &str| *method == Method::GET && at.ends_with(PROFILE);
    bench.refuse(move |request| {
        let refused = reads_profile(request.method(), request.uri().path());
        refused.then_some(Refused::Status(403, "forbidden"))
    });
    let profiles = bench.api::<NnfStorageProfile>("default");
    drop(profiles.delete(PROFILE, &DeleteParams::default()).await.unwrap());
    bench.delete::<ClientMount>(MOUNT).await;
    bench.start();
    bench.until_requested(2, reads_profile).await;
    assert_eq!(bench.host.applied().len(), before);
    bench.admit();
    bench.until_gone::<ClientMount>(MOUNT).await;
    assert!(bench.host.applied().len() > before);
}

#[tokio::test]
async fn one_invalid_path_rejects_the_whole_object() {
    let bench = Bench::new().await;
    bench.file_systems(2).await;
    let before = bench.host.applied().len();
    for (bad, expected) in [
        ("mnt/nnf/x", "is not absolute"),
        ("/mnt/nnf/../x", "contains '..'"),
        ("/etc/x", "is not beneath an allowed root"),
        ("/mnt/temp/x", "is not beneath an allowed root"),
    ] {
        let mut object = client_mount(MOUNT, &COMPUTES[..2]);
        object["spec"]["mounts"][1]["mountPath"] = json!(bad);
        bench.make::<ClientMount>(RABBIT, object).await;
        let object: ClientMount = bench.until(MOUNT, "refused", mount_failed).await;
        let user = user_message(&object);
        assert!(
            user.contains("spec.mounts[1].mountPath")
                && user.contains(expected)
                && user.contains(bad),
            "{user}"
        );
        let error = object.status.unwrap().error.unwrap();
        assert_eq!((error.severity, error.error_type), (Severity::Fatal, ErrorType::User));
        bench.delete::<ClientMount>(MOUNT).await;
        bench.until_gone::<ClientMount>(MOUNT).await;
    }
    assert_eq!(bench.host.applied().len(), before);
}

#[tokio::test]
async fn a_mount_for_another_node_and_an_occupied_path_are_rejected() {
    let bench = Bench::new().await;
    bench.file_systems(1).await;
    let mut object = client_mount("elsewhere", &COMPUTES[..1]);
    object["spec"]["node"] = json!("rabbit-2");
    bench.make::<ClientMount>(RABBIT, object).await;
    let object: ClientMount = bench.until("elsewhere", "refused", mount_failed).await;
    assert!(user_message(&object).contains("spec.node"), "{}", user_message(&object));

    bench.host.plant_mount(&path(&in_tree("node-0")), "/dev/sdz", "ext4");
    let foreign = bench.host.foreign();
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &COMPUTES[..1])).await;
    let object: ClientMount = bench.until(MOUNT, "refused", mount_failed).await;
    assert!(user_message(&object).contains("/dev/sdz"), "{}", user_message(&object));
    assert_eq!(bench.host.foreign(), foreign);
}

#[tokio::test]
async fn the_second_object_for_a_path_waits_for_the_first() {
    let bench = Bench::new().await;
    bench.file_systems(1).await;
    bench.make::<ClientMount>(RABBIT, client_mount("a-first", &COMPUTES[..1])).await;
    bench.until("a-first", "mounted", mount_ready).await;
    bench.make::<ClientMount>(RABBIT, client_mount("second", &COMPUTES[..1])).await;
    let object = bench
        .until("second", "contested", |mount: &ClientMount| {
            mount_failed(mount)
                || (mount_ready(mount)
                    && mount.status.as_ref().is_some_and(|status| status.error.is_none()))
        })
        .await;
    // If two objects were created within one second, the uid decides which of the two keeps the mount point.
    let (loser, winner) =
        if mount_failed(&object) { ("second", "a-first") } else { ("a-first", "second") };
    let object: ClientMount = bench.until(loser, "contested", mount_failed).await;
    assert!(user_message(&object).contains(winner), "{}", user_message(&object));
    bench.delete::<ClientMount>(winner).await;
    let object = bench.until(loser, "mounted", mount_ready).await;
    assert_eq!(object.status.unwrap().error, None);
}

#[tokio::test]
async fn an_object_deleted_before_it_gets_its_finalizer_frees_its_path() {
    let bench = Bench::new().await;
    bench.file_systems(1).await;
    bench.refuse(|request| {
        let is_patch = request.method() == Method::PATCH && request.uri().path().ends_with(MOUNT);
        is_patch.then_some(Refused::Status(403, "cannot patch"))
    });
    let first = bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &COMPUTES[..1])).await;
    bench
        .until_requested(1, |method, path| *method == Method::PATCH && path.ends_with(MOUNT))
        .await;
    bench.delete::<ClientMount>(MOUNT).await;
    bench.admit();
    // If two objects were created within one second, either may come first: the test waits until the second is over.
    let mut other = client_mount("other", &COMPUTES[..1]);
    other["spec"]["mounts"][0]["mountPath"] = json!(in_tree("other"));
    let created = |mount: &ClientMount| mount.creation_timestamp().map(|at| at.0);
    while {
        let other = bench.make::<ClientMount>(RABBIT, other.clone()).await;
        bench.delete::<ClientMount>("other").await;
        bench.until_gone::<ClientMount>("other").await;
        created(&other) == created(&first)
    } {}
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &COMPUTES[..1])).await;
    let object: ClientMount = bench.until(MOUNT, "mounted", mount_ready).await;
    assert_eq!(object.status.unwrap().error, None);
}

#[tokio::test]
async fn a_mount_waits_for_its_devices() {
    let bench = Bench::new().await;
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &COMPUTES[..1])).await;
    let object: ClientMount = bench.until(MOUNT, "waiting", mount_failed).await;
    assert_eq!(object.status.as_ref().unwrap().error.as_ref().unwrap().severity, Severity::Minor);
    assert!(user_message(&object).contains(NAME), "{}", user_message(&object));
    bench.file_systems(1).await;
    let object = bench.until(MOUNT, "mounted", mount_ready).await;
    assert_eq!(object.status.unwrap().error, None);
}

#[tokio::test]
async fn a_busy_mount_is_reported_until_it_is_released() {
    let bench = Bench::new().await;
    bench.file_systems(1).await;
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &COMPUTES[..1])).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    bench.host.hold(&path(&in_tree("node-0")));
    bench.delete::<ClientMount>(MOUNT).await;
    let object: ClientMount = bench.until(MOUNT, "busy", mount_failed).await;
    assert!(user_message(&object).contains("node-0"), "{}", user_message(&object));
    bench.host.let_go(&path(&in_tree("node-0")));
    bench.until_gone::<ClientMount>(MOUNT).await;
}

#[tokio::test]
async fn an_object_that_never_owned_its_path_unmounts_nothing() {
    let bench = Bench::new().await;
    bench.file_systems(1).await;
    bench.make::<ClientMount>(RABBIT, client_mount("one", &COMPUTES[..1])).await;
    bench.until("one", "mounted", mount_ready).await;
    let unmounts = |bench: &Bench| {
        bench.host.applied().iter().filter(|step| matches!(step, Step::Unmount { .. })).count()
    };
    let before = unmounts(&bench);
    let mut second = client_mount("two", &COMPUTES[..1]);
    second["spec"]["node"] = json!("rabbit-2");
    bench.make::<ClientMount>(RABBIT, second).await;
    bench.until("two", "refused", mount_failed).await;
    // The second object now asks for the first object's mount point, and is deleted without ever getting it.
    let unmounted = json!({"spec": {"node": RABBIT, "desiredState": "unmounted"}});
    bench.change::<ClientMount>("two", unmounted).await;
    let object = bench.until("two", "unmounted", mount_ready).await;
    assert_eq!(object.status.unwrap().mounts[0].state.as_str(), "unmounted");
    bench.delete::<ClientMount>("two").await;
    bench.until_gone::<ClientMount>("two").await;
    assert_eq!(unmounts(&bench), before);
    let object: ClientMount = bench.get("one").await;
    assert!(mount_ready(&object) && !mount_failed(&object), "{object:#?}");
}

#[tokio::test]
async fn the_mounts_of_a_disappeared_object_are_removed() {
    let bench = Bench::new().await;
    bench.file_systems(1).await;
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &COMPUTES[..1])).await;
    let object = bench.until(MOUNT, "mounted", mount_ready).await;
    assert_eq!(object.finalizers(), [finalizer::CLIENT_MOUNT]);
    let target = path(&in_tree("node-0"));
    bench.host.hold(&target);
    bench.delete::<ClientMount>(MOUNT).await;
    bench.until(MOUNT, "busy", mount_failed).await;
    // Central controllers remove the finalizers from the objects of a node that they consider down.
    bench.change::<ClientMount>(MOUNT, json!({"metadata": {"finalizers": null}})).await;
    bench.until_gone::<ClientMount>(MOUNT).await;
    bench.host.let_go(&target);
    // The next object gets the mount point only after the first object's mount is gone.
    let next = bench.make::<ClientMount>(RABBIT, client_mount("next", &COMPUTES[..1])).await;
    bench.until("next", "mounted", mount_ready).await;
    let applied = bench.host.applied();
    let last_two: Vec<_> = applied
        .iter()
        .filter(|step| matches!(step, Step::Mount { .. } | Step::Unmount { .. }))
        .rev()
        .take(2)
        .collect();
    assert!(
        matches!(last_two[..], [Step::Mount { .. }, Step::Unmount { .. }]),
        "{next:#?} {last_two:#?}"
    );
}

/// The NnfNodeStorage waits for an earlier version of the ClientMount, whose mounts only a pass over the ClientMount
/// can remove.
#[tokio::test]
async fn an_object_changed_and_deleted_before_it_gets_its_finalizer_blocks_no_storage() {
    let bench = Bench::new().await;
    bench.file_systems(1).await;
    bench.refuse(|request| {
        let is_patch = request.method() == Method::PATCH && request.uri().path().ends_with(MOUNT);
        is_patch.then_some(Refused::Away)
    });
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &COMPUTES[..1])).await;
    let moved = client_mount(MOUNT, &COMPUTES[..2])["spec"]["mounts"][1].clone();
    bench.change::<ClientMount>(MOUNT, json!({"spec": {"mounts": [moved]}})).await;
    bench
        .until_requested(1, |method, path| *method == Method::PATCH && path.ends_with(MOUNT))
        .await;
    bench.delete::<ClientMount>(MOUNT).await;
    bench.until_gone::<ClientMount>(MOUNT).await;
    bench.admit();
    bench.delete::<NnfNodeStorage>(NAME).await;
    bench.until_gone::<NnfNodeStorage>(NAME).await;
}

#[tokio::test]
async fn the_agent_s_own_writes_do_not_wake_it() {
    let bench = Bench::new().await;
    bench.file_systems(1).await;
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &COMPUTES[..1])).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    // Events of one kind arrive in order: once the second object is refused, the watch has brought all writes to the
    // first object.
    let mut other = client_mount("other", &COMPUTES[..1]);
    other["spec"]["node"] = json!("rabbit-2");
    bench.make::<ClientMount>(RABBIT, other).await;
    bench.until("other", "refused", mount_failed).await;
    let observations = bench.observations.lock().unwrap();
    let of_mounts = observations
        .iter()
        .filter(|desired| matches!(desired, Desired::Mounted(_) | Desired::IndexTree(_)));
    assert_eq!(
        of_mounts.count(),
        4,
        "the mount and its tree are each observed twice: for the plan, and after its steps"
    );
}

#[tokio::test]
async fn a_missing_compute_leaves_a_gap_in_the_tree() {
    let bench = Bench::new().await;
    bench.file_systems(16).await;
    let names: Vec<_> = (1..=16).map(|number| format!("compute-{number:02}")).collect();
    let computes: Vec<_> = names.iter().map(String::as_str).collect();
    let mut object = client_mount(MOUNT, &computes);
    object["spec"]["mounts"].as_array_mut().unwrap().remove(4);
    bench.make::<ClientMount>(RABBIT, object).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    let links: BTreeSet<_> = bench
        .host
        .applied()
        .into_iter()
        .filter_map(|step| match step {
            Step::Link { .. } => Some(step.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(links.len(), 15);
    assert!(
        links.iter().any(|link| link.ends_with("compute-06 -> node-5")),
        "no other compute is renumbered: {links:#?}"
    );
    assert!(!links.iter().any(|link| link.contains("compute-05")), "{links:#?}");
}

#[tokio::test]
async fn a_hostile_compute_name_is_rejected() {
    let bench = Bench::new().await;
    bench.file_systems(1).await;
    let before = bench.host.applied().len();
    for hostile in ["../../etc", "node-7", "a b", "/etc"] {
        bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &[hostile])).await;
        let object: ClientMount = bench.until(MOUNT, "refused", mount_failed).await;
        let user = user_message(&object);
        assert!(user.contains("spec.mounts[0].compute") && user.contains(hostile), "{user}");
        bench.delete::<ClientMount>(MOUNT).await;
        bench.until_gone::<ClientMount>(MOUNT).await;
    }
    assert_eq!(bench.host.applied().len(), before);
}

/// Returns the mounts: the last component of each mount point, and the namespace of its device.
fn mounted_namespaces(bench: &Bench) -> BTreeSet<(String, String)> {
    let seen = bench.host.observe(&Desired::OnlyMounts(Vec::new())).unwrap().mounts;
    let name = |at: &MountPoint| at.below().file_name().unwrap().display().to_string();
    let on = |there: &MountedThing| there.namespace.as_ref().unwrap().to_string();
    seen.iter().map(|(at, there)| (name(at), on(there))).collect()
}

async fn until_mounted(bench: &Bench, wanted: &BTreeSet<(String, String)>) {
    let waited = async {
        while mounted_namespaces(bench) != *wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), waited).await;
    assert!(ended.is_ok(), "{wanted:?}, and not {:?}", mounted_namespaces(bench));
}

/// Mounts `node-0` and `node-1`. The returned function builds a spec that mounts the allocations with these indexes at
/// mount points with these names.
async fn mount_two(bench: &Bench) -> impl Fn(&[(&str, usize)]) -> serde_json::Value + use<> {
    bench.file_systems(2).await;
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &COMPUTES[..2])).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    |mounts| {
        let spec = client_mount(MOUNT, &COMPUTES[..2])["spec"]["mounts"].clone();
        let at = |(name, index): &(&str, usize)| {
            let mut mount = spec[*index].clone();
            mount["mountPath"] = json!(in_tree(name));
            mount
        };
        json!({"spec": {"mounts": mounts.iter().map(at).collect::<Vec<_>>()}})
    }
}

#[tokio::test]
async fn mounts_that_a_changed_spec_drops_are_unmounted_and_mounts_can_swap_their_paths() {
    let cases: [&[(&str, usize)]; 3] =
        [&[("node-9", 0), ("node-1", 1)], &[("node-1", 1)], &[("node-1", 0), ("node-0", 1)]];
    for after in cases {
        let bench = Bench::new().await;
        let asking = mount_two(&bench).await;
        let before: Vec<_> = mounted_namespaces(&bench).into_iter().map(|(_, on)| on).collect();
        bench.change::<ClientMount>(MOUNT, asking(after)).await;
        let at = |(name, index): &(&str, usize)| ((*name).to_owned(), before[*index].clone());
        until_mounted(&bench, &after.iter().map(at).collect()).await;
        let all = |mount: &ClientMount| {
            mount_ready(mount) && mount.status.as_ref().unwrap().mounts.len() == after.len()
        };
        bench.until(MOUNT, "changed", all).await;
        bench.delete::<ClientMount>(MOUNT).await;
        bench.until_gone::<ClientMount>(MOUNT).await;
        assert!(mounted_namespaces(&bench).is_empty(), "{after:?}");
    }
}

/// The agent may see the change while it runs, or only when it starts again.
#[tokio::test]
async fn an_object_stays_while_a_dropped_mount_is_busy() {
    for restarts in [false, true] {
        let mut bench = Bench::new().await;
        let asking = mount_two(&bench).await;
        let target = path(&in_tree("node-0"));
        bench.host.hold(&target);
        if restarts {
            bench.stop().await;
        }
        bench.change::<ClientMount>(MOUNT, asking(&[("node-1", 1)])).await;
        if restarts {
            bench.delete::<ClientMount>(MOUNT).await;
            bench.start();
        }
        let held = |mount: &ClientMount| mount_failed(mount) && !mount_ready(mount);
        let object: ClientMount = bench.until(MOUNT, "busy", held).await;
        assert!(user_message(&object).contains("node-0"), "{}", user_message(&object));
        bench.delete::<ClientMount>(MOUNT).await;
        bench
            .until(MOUNT, "busy", |mount: &ClientMount| {
                held(mount) && mount.metadata.deletion_timestamp.is_some()
            })
            .await;
        bench.host.let_go(&target);
        bench.until_gone::<ClientMount>(MOUNT).await;
        assert!(mounted_namespaces(&bench).is_empty());
    }
}
