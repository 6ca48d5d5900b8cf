//! Persistent Lustre: file systems, and management targets for a pool.

use serde_json::json;

use super::{create_target, lend_pool, two_rabbits, with_external, with_profile};
use crate::{
    job::STATES,
    site::{Site, at, some_in_any_order},
};

const POOLED: &str = "#DW jobdw type=lustre capacity=20GB name=lus profile=pooled";
const USE: &str = "#DW persistentdw name=kept";

/// Returns a site for each way to get a management target, each with the name of the profile that selects this way.
fn ways() -> Vec<(Site, &'static str)> {
    let mut separate = two_rabbits();
    with_profile(&mut separate, &json!({"combinedMgtMdt": false}));
    let external = with_external();
    let mut pool = two_rabbits();
    lend_pool(&mut pool);
    make(&mut pool, "mgt1", &create_target("mgt1")[0]);
    vec![(two_rabbits(), "default"), (separate, "default"), (external, "default"), (pool, "pooled")]
}

/// Creates persistent storage without computes, and removes the workflow that created it.
fn make(site: &mut Site, name: &str, directive: &str) {
    let maker = format!("make-{name}");
    site.bring(&maker, &[directive.to_owned()], "Teardown", &[]);
    forget(site, &maker);
}

fn forget(site: &mut Site, workflow: &str) {
    site.delete(&at("Workflow", "default", workflow));
    site.settle();
}

/// Destroys persistent storage, and removes the workflow that destroyed the storage.
fn destroy(site: &mut Site, name: &str) {
    site.bring("end", &[format!("#DW destroy_persistent name={name}")], "Teardown", &[]);
    forget(site, "end");
}

fn persistent<'a>(site: &'a Site, name: &str) -> &'a serde_json::Value {
    site.get("PersistentStorageInstance", "default", name)
}

fn holders(site: &Site, name: &str) -> Vec<String> {
    let entries = persistent(site, name)["spec"]["consumerReferences"].as_array();
    let text = |entry: &serde_json::Value| {
        format!("{} {}", entry["kind"].as_str().unwrap(), entry["name"].as_str().unwrap())
    };
    entries.into_iter().flatten().map(text).collect()
}

#[test]
fn persistent_lustre_outlives_its_workflow_and_is_mounted_by_jobs() {
    for (mut site, profile) in ways() {
        let create =
            format!("#DW create_persistent type=lustre capacity=20GB name=kept profile={profile}");
        make(&mut site, "kept", &create);
        let kept = persistent(&site, "kept");
        assert_eq!(kept["status"]["state"], "Active", "{kept:#}");
        assert!(
            site.names("ClientMount").is_empty(),
            "the mount for the change of owner is removed"
        );
        let targets = site.names("NnfNodeStorage");
        let is_object = |at: &&String| at.ends_with("/default-kept-ost-0");
        assert_eq!(targets.iter().filter(is_object).count(), 1, "{targets:?}");
        let jobs = [("one", ["c1", "d1"]), ("two", ["c1", "d2"])];
        for (name, computes) in jobs {
            site.bring(name, &[USE.to_owned()], "PreRun", &computes);
            let uid = site.workflow(name)["metadata"]["uid"].as_str().unwrap().to_owned();
            let env = &site.workflow(name)["status"]["env"];
            assert_eq!(env["DW_PERSISTENT_kept"], format!("/mnt/nnf/{uid}-0"), "{env:#}");
            // The mounts are on the two computes and on the rabbit with the object target.
            let mounts = site.names("ClientMount");
            let own = mounts.iter().filter(|at| at.contains(&format!("default-{name}-0-")));
            assert_eq!(own.count(), 3, "{mounts:?}");
        }
        assert_eq!(holders(&site, "kept"), ["Workflow one-0", "Workflow two-0"]);
        for (name, _) in jobs {
            for state in ["PostRun", "DataOut", "Teardown"] {
                site.request_state_and_settle(name, state);
                assert!(site.is_ready(name, state), "{:?}", site.status_of(name));
            }
            forget(&mut site, name);
        }
        destroy(&mut site, "kept");
        if profile == "pooled" {
            destroy(&mut site, "mgt1");
        }
        site.assert_clean();
    }
}

/// Runs three workflows at once: one makes a member of a pool, one makes a file system that uses the pool, and one
/// runs a job on this file system. Of each plan only the changes that `cut` chooses are made.
fn life(cut: &impl Fn(usize) -> Vec<usize>) {
    let mut site = two_rabbits();
    lend_pool(&mut site);
    let through = |site: &mut Site, names: &[&str], to: &[&str]| {
        for state in to {
            names.iter().for_each(|name| site.request_state(name, state));
            site.settle_with(cut);
            names.iter().for_each(|name| {
                assert!(site.is_ready(name, state), "{:?}", site.status_of(name));
            });
        }
    };
    let forget = |site: &mut Site, name: &str| {
        site.delete(&at("Workflow", "default", name));
        site.settle_with(cut);
    };
    site.create("make", &create_target("mgt1"));
    site.settle_with(cut);
    through(&mut site, &["make"], &STATES[1..]);
    forget(&mut site, "make");
    let create = "#DW create_persistent type=lustre capacity=20GB name=kept profile=pooled";
    site.create("make", &[create.to_owned()]);
    site.create("job", &[POOLED.to_owned()]);
    site.settle_with(cut);
    site.fill_computes("job", &["c1", "d1"]);
    through(&mut site, &["make", "job"], &STATES[1..4]);
    assert_eq!(holders(&site, "mgt1").len(), 2);
    through(&mut site, &["make", "job"], &STATES[4..]);
    assert_eq!(holders(&site, "mgt1"), ["Servers kept"]);
    forget(&mut site, "make");
    forget(&mut site, "job");
    for name in ["kept", "mgt1"] {
        site.create("end", &[format!("#DW destroy_persistent name={name}")]);
        site.settle_with(cut);
        through(&mut site, &["end"], &STATES[1..]);
        forget(&mut site, "end");
    }
    site.assert_clean();
}

#[test]
fn a_restarted_engine_makes_and_destroys_persistent_lustre() {
    life(&|length| (0..length).collect());
    life(&|length| (0..length.min(1)).collect());
    life(&|length| (length.saturating_sub(1)..length).collect());
    for seed in 0..3 {
        let random = std::cell::RefCell::new(fastrand::Rng::with_seed(seed));
        life(&|length| some_in_any_order(&mut random.borrow_mut(), length));
    }
}
