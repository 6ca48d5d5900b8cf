//! The creation of persistent storage is a transaction, even if the engine is stopped or an object
//! deleted after any change.

use serde_json::json;

use super::{create, destroy, uses};
use crate::{
    job::{GIB, STATES},
    lustre::{create_target, lend_pool, with_profile},
    site::{At, Site, at, some_in_any_order},
};

/// Returns true if all objects of the storage exist; panics if only some do.
fn is_whole(site: &Site, case: &str) -> bool {
    let count = |kind: &str| site.names(kind).len();
    let profiles = site.names("NnfStorageProfile");
    let each = count("NnfNodeStorage").max(1);
    let parts = [
        count("PersistentStorageInstance"),
        count("Servers"),
        count("NnfNodeBlockStorage") / each,
        count("NnfNodeStorage") / each,
        profiles.iter().filter(|name| name.starts_with("default/")).count(),
    ];
    assert!(parts == [1; 5] || parts == [0; 5], "{case}: {parts:?}");
    // The NnfLustreMGT exists only together with the other objects.
    assert!(count("NnfLustreMGT") <= parts[0], "{case}");
    assert_eq!(count("ClientMount") + count("DirectiveBreakdown") + count("Computes"), 0, "{case}");
    parts == [1; 5]
}

/// Returns for each kind of storage a site, and the directive that creates the storage there.
fn kinds() -> [(Site, Vec<String>); 4] {
    let site = || Site::new(2, 100 * GIB);
    let (mut lustre, mut target) = (site(), site());
    with_profile(&mut lustre, &json!({"combinedMgtMdt": false}));
    lend_pool(&mut target);
    [
        (site(), create("xfs", "kept")),
        (site(), create("gfs2", "kept")),
        (lustre, create("lustre", "kept")),
        (target, create_target("kept")),
    ]
}

#[test]
fn a_create_persistent_that_ends_after_any_change_leaves_all_or_nothing() {
    for (mut site, directive) in kinds() {
        site.create("w", &directive);
        let (mut whole, mut nothing) = (0, 0);
        site.after_each_change("w", &["c1"], |now| {
            let is_whole = [false, true].map(|torn_down| end_workflow(now.clone(), torn_down));
            assert_eq!(is_whole[0], is_whole[1], "{directive:?}, {:?}", now.status_of("w"));
            if is_whole[0] {
                whole += 1;
            } else {
                nothing += 1;
                assert_eq!(
                    whole,
                    0,
                    "{directive:?}, {:?}: complete storage stays",
                    now.status_of("w")
                );
            }
        });
        assert!(whole > 5 && nothing > 10, "{directive:?}: {whole} {nothing}");
        site.delete(&at("Workflow", "default", "w"));
        site.settle();
        // A management target is no file system, so no job can mount it.
        if !directive[0].contains("profile=target") {
            site.bring("use", &uses("kept"), "Teardown", &["c1"]);
            site.delete(&at("Workflow", "default", "use"));
            site.settle();
        }
        site.end("kept");
    }
}

/// Ends the workflow, after Teardown if `torn_down`, and returns true if its storage is complete and has stayed.
fn end_workflow(mut site: Site, torn_down: bool) -> bool {
    let case = format!("{:?}, torn down: {torn_down}", site.status_of("w"));
    if torn_down {
        site.request_state("w", "Teardown");
        site.settle();
        assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    }
    site.delete(&at("Workflow", "default", "w"));
    site.settle();
    let is_whole = is_whole(&site, &case);
    if is_whole {
        assert_eq!(site.instance("kept")["status"]["state"], "Active", "{case}");
    } else {
        site.assert_clean();
    }
    is_whole
}

#[test]
fn persistent_storage_outlives_its_creator_only_if_setup_completed_it() {
    let mut site = Site::new(1, 100 * GIB);
    site.create("w", &create("xfs", "kept"));
    site.settle();
    site.fill_computes("w", &["c1"]);
    site.agents_sleep = true;
    site.request_state("w", "Setup");
    site.settle();
    assert_eq!(site.instance("kept")["status"]["state"], "Creating");
    // Forcing the state ready does not complete the storage.
    site.edit("Workflow", "default", "w", |object| object["spec"]["forceReady"] = json!(true));
    site.settle();
    assert_eq!(site.status_of("w").3, "Forced Ready");
    site.agents_sleep = false;
    site.request_state("w", "Teardown");
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    assert!(!has_instance(&site));
    site.remove("w");
}

fn has_instance(site: &Site) -> bool {
    !site.names("PersistentStorageInstance").is_empty()
}

#[test]
fn a_failed_creation_is_reported_and_leaves_nothing() {
    let mut site = Site::new(1, 100 * GIB);
    site.create("w", &create("xfs", "kept"));
    site.settle();
    site.fill_computes("w", &["c1"]);
    site.errors.insert(
        "NnfNodeStorage".to_owned(),
        json!({"debugMessage": "mkfs: no", "userMessage": "mkfs failed", "type": "Internal", "severity": "Fatal"}),
    );
    site.request_state("w", "Setup");
    site.settle();
    assert!(site.status_of("w").3.contains("mkfs failed"), "{:?}", site.status_of("w"));
    assert_eq!(site.instance("kept")["status"]["state"], "Creating");
    site.request_state("w", "Teardown");
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn a_creator_removed_by_force_leaves_nothing_unless_setup_was_complete() {
    for (to, stays) in [("Proposal", false), ("Setup", true)] {
        let mut site = Site::new(1, 100 * GIB);
        site.bring("w", &create("xfs", "kept"), to, &["c1"]);
        site.edit("Workflow", "default", "w", |object| {
            object["metadata"]["finalizers"] = json!([]);
        });
        site.delete(&at("Workflow", "default", "w"));
        site.settle();
        assert_eq!(is_whole(&site, to), stays);
    }
}

/// Creates storage, uses it in two workflows at once, and destroys it. Of each plan only the changes that
/// `cut` chooses are made.
fn life((mut site, directive): (Site, Vec<String>), cut: &impl Fn(usize) -> Vec<usize>) {
    let end = |site: &mut Site, name: &str| {
        site.delete(&at("Workflow", "default", name));
        site.settle_with(cut);
    };
    let through = |site: &mut Site, names: &[&str], to: &[&str]| {
        for state in to {
            for name in names {
                site.request_state(name, state);
            }
            site.settle_with(cut);
        }
    };
    site.create("make", &directive);
    site.settle_with(cut);
    site.fill_computes("make", &["c1", "c2"]);
    through(&mut site, &["make"], &STATES[1..]);
    assert!(site.is_ready("make", "Teardown"), "{:?}", site.status_of("make"));
    end(&mut site, "make");
    for name in ["one", "two"] {
        site.create(name, &uses("kept"));
    }
    site.settle_with(cut);
    site.fill_computes("one", &["c1"]);
    site.fill_computes("two", &["c1", "c2"]);
    through(&mut site, &["one", "two"], &["Setup", "DataIn"]);
    site.request_state("two", "PreRun");
    site.step(cut);
    site.request_state("one", "PreRun");
    site.settle_with(cut);
    let (first, second) =
        if site.is_ready("two", "PreRun") { ("two", "one") } else { ("one", "two") };
    assert!(site.is_ready(first, "PreRun"), "{:?}", site.status_of(first));
    through(&mut site, &[first], &["PostRun"]);
    assert!(site.is_ready(second, "PreRun"), "{:?}", site.status_of(second));
    through(&mut site, &[second], &["PostRun"]);
    through(&mut site, &[first, second], &["DataOut", "Teardown"]);
    for name in ["one", "two"] {
        assert!(site.is_ready(name, "Teardown"), "{:?}", site.status_of(name));
        end(&mut site, name);
    }
    site.create("end", &destroy("kept"));
    site.settle_with(cut);
    through(&mut site, &["end"], &STATES[1..]);
    assert!(site.is_ready("end", "Teardown"), "{:?}", site.status_of("end"));
    end(&mut site, "end");
    site.assert_clean();
}

#[test]
fn a_restarted_engine_creates_uses_and_destroys_persistent_storage() {
    let [xfs, gfs2, lustre, _] = kinds();
    for (kind, seeds) in [(xfs, 0..3), (gfs2, 3..5), (lustre, 5..7)] {
        life(kind.clone(), &|length| (0..length).collect());
        life(kind.clone(), &|length| (0..length.min(1)).collect());
        life(kind.clone(), &|length| (length.saturating_sub(1)..length).collect());
        for seed in seeds {
            let random = std::cell::RefCell::new(fastrand::Rng::with_seed(seed));
            life(kind.clone(), &|length| some_in_any_order(&mut random.borrow_mut(), length));
        }
    }
}

#[test]
fn deleted_parts_of_persistent_storage_in_use_are_reported_and_teardown_completes() {
    let kinds_of_storage = [
        "PersistentStorageInstance",
        "Servers",
        "NnfNodeStorage",
        "NnfNodeBlockStorage",
        "NnfLustreMGT",
        "ClientMount",
    ];
    // The rabbit mounts gfs2 and Lustre too. Lustre has two more targets and the NnfLustreMGT.
    for (kind, storage, mounts) in [("xfs", 4, 1), ("gfs2", 4, 2), ("lustre", 4 + 3, 2)] {
        for (state, mounts) in [("Setup", 0), ("PreRun", mounts), ("PostRun", mounts)] {
            let mut site = Site::new(1, 100 * GIB);
            site.keep(kind, "kept", &["c1"]);
            site.bring("use", &uses("kept"), state, &["c1"]);
            let places =
                site.objects.keys().filter(|at| kinds_of_storage.contains(&&*at.0)).cloned();
            let places: Vec<_> = places.collect();
            assert_eq!(places.len(), storage + mounts, "{state}: {places:?}");
            places.iter().for_each(|place| delete_one(site.clone(), place));
        }
    }
}

/// Deletes one object of storage in use.
fn delete_one(mut site: Site, place: &At) {
    site.delete(place);
    site.settle();
    if place.0.starts_with("NnfNode") {
        assert_eq!(site.instance("kept")["status"]["state"], "Degraded", "{place:?}");
        let error = site.instance("kept")["status"]["error"]["userMessage"].to_string();
        assert!(error.contains("does not exist: it was deleted, with its data"), "{error}");
    }
    if site.is_ready("use", "PreRun") {
        site.go("use", "PostRun");
    }
    site.request_state("use", "Teardown");
    site.settle();
    assert!(site.is_ready("use", "Teardown"), "{place:?}: {:?}", site.status_of("use"));
    site.delete(&at("Workflow", "default", "use"));
    site.settle();
    site.create("end", &destroy("kept"));
    site.settle();
    site.go("end", "Teardown");
    assert!(site.is_ready("end", "Teardown"), "{place:?}: {:?}", site.status_of("end"));
    site.remove("end");
}

#[test]
fn computes_keep_access_to_persistent_storage_while_the_engine_cannot_read_a_clientmount() {
    let mut site = Site::new(2, 100 * GIB);
    site.keep("raw", "kept", &["c1", "c2"]);
    site.bring("use", &uses("kept"), "PreRun", &["c1", "c2"]);
    let place = site.objects.keys().find(|at| at.0 == "ClientMount" && at.1 == "c2").cloned();
    site.unreadable = vec![place.unwrap()];
    site.go("use", "PostRun");
    assert!(site.status_of("use").3.contains("cannot be read"), "{:?}", site.status_of("use"));
    site.request_state("use", "Teardown");
    site.settle();
    assert!(site.status_of("use").3.contains("cannot be read"), "{:?}", site.status_of("use"));
    let access = site.get("NnfNodeBlockStorage", "r", "default-kept-raw-0")["spec"].to_string();
    assert!(access.contains("c2"), "{access}");
    assert_eq!(site.consumers("kept"), ["use-0"]);
    site.unreadable.clear();
    site.settle();
    assert!(site.is_ready("use", "Teardown"), "{:?}", site.status_of("use"));
    site.delete(&at("Workflow", "default", "use"));
    site.settle();
    site.end("kept");
}
