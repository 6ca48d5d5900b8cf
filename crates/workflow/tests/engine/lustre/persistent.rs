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

#[test]
fn computes_must_reach_persistent_lustre_by_the_network() {
    let mut site = two_rabbits();
    make(&mut site, "kept", "#DW create_persistent type=lustre capacity=20GB name=kept");
    site.create("use", &[USE.to_owned()]);
    site.settle();
    let breakdown = site.get("DirectiveBreakdown", "default", "use-0");
    let location = breakdown["status"]["compute"]["constraints"]["location"].as_array().unwrap();
    assert_eq!(location.len(), 2, "one for each set of the Servers: {location:#?}");
    for constraint in location {
        assert_eq!(constraint["access"], json!([{"type": "network", "priority": "mandatory"}]));
        assert_eq!(constraint["reference"]["name"], "kept");
    }
}

#[test]
fn a_management_target_joins_its_pool_when_complete_and_stays_while_in_use() {
    let mut site = two_rabbits();
    lend_pool(&mut site);
    site.create("w", &[POOLED.to_owned()]);
    site.settle();
    site.fill_computes("w", &["c1"]);
    site.request_state_and_settle("w", "Setup");
    assert!(
        site.status_of("w").3.contains("no persistent storage is in the pool"),
        "{:?}",
        site.status_of("w")
    );
    site.create("maker", &create_target("mgt1"));
    site.settle();
    site.dead = vec!["r".to_owned(), "s".to_owned()];
    site.request_state_and_settle("maker", "Setup");
    let label = "nnf.cray.hpe.com/standalone_mgt";
    assert_eq!(persistent(&site, "mgt1")["metadata"]["labels"][label], json!(null));
    site.dead.clear();
    site.settle();
    assert!(site.is_ready("maker", "Setup"), "{:?}", site.status_of("maker"));
    let mgt1 = persistent(&site, "mgt1");
    assert_eq!(
        (&mgt1["metadata"]["labels"][label], &mgt1["status"]["state"]),
        (&json!("pool"), &json!("Active"))
    );
    // The waiting workflow was woken, and got its name from the new member.
    assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
    assert_eq!(site.names("NnfLustreMGT").len(), 1);
    let rabbit = site.names("NnfLustreMGT")[0].split('/').next().unwrap().to_owned();
    let mgt = site.get("NnfLustreMGT", &rabbit, "mgt1");
    assert_eq!(site.name_and_address("w").1, mgt["spec"]["addresses"][0].as_str().unwrap());
    let commands = mgt["spec"]["commandList"].as_array().unwrap();
    assert_eq!(commands.len(), 1, "a management target alone runs no commands: {mgt:#}");
    assert_eq!(
        commands[0]["commands"],
        json!([format!("lctl x {}", site.name_and_address("w").0)])
    );
    assert_eq!(holders(&site, "mgt1"), ["Servers w-0"]);
    forget(&mut site, "maker");
    // A management target is no file system, and cannot be destroyed while a file system has its name there.
    site.create("use", &["#DW persistentdw name=mgt1".to_owned()]);
    site.settle();
    assert!(
        site.status_of("use").3.contains("mgt1 is a Lustre management target"),
        "{:?}",
        site.status_of("use")
    );
    forget(&mut site, "use");
    site.bring("end", &["#DW destroy_persistent name=mgt1".to_owned()], "DataOut", &[]);
    site.request_state_and_settle("end", "Teardown");
    assert!(
        site.status_of("end").3.contains("mgt1 is used by Servers w-0"),
        "{:?}",
        site.status_of("end")
    );
    site.request_state_and_settle("w", "Teardown");
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    assert!(site.is_ready("end", "Teardown"), "{:?}", site.status_of("end"));
    forget(&mut site, "end");
    site.remove("w");
}

#[test]
fn a_member_without_its_nnflustremgt_is_degraded_and_not_chosen() {
    let mut site = two_rabbits();
    lend_pool(&mut site);
    make(&mut site, "mgt1", &create_target("mgt1")[0]);
    let place = site.objects.keys().find(|at| at.0 == "NnfLustreMGT").cloned().unwrap();
    site.delete(&place);
    site.settle();
    let status = &persistent(&site, "mgt1")["status"];
    assert_eq!(status["state"], "Degraded");
    assert!(
        status["error"]["userMessage"].to_string().contains("its NnfLustreMGT was deleted"),
        "{status:#}"
    );
    site.create("w", &[POOLED.to_owned()]);
    site.settle();
    site.fill_computes("w", &["c1"]);
    site.request_state_and_settle("w", "Setup");
    assert!(
        site.status_of("w").3.contains("for example mgt1: it has no NnfLustreMGT"),
        "{:?}",
        site.status_of("w")
    );
    site.delete(&at("Workflow", "default", "w"));
    destroy(&mut site, "mgt1");
    site.assert_clean();
}

#[test]
fn members_of_a_pool_get_different_rabbits_and_a_member_without_a_free_rabbit_waits() {
    let mut site = two_rabbits();
    lend_pool(&mut site);
    for name in ["mgt1", "mgt2"] {
        make(&mut site, name, &create_target(name)[0]);
    }
    let rabbits: Vec<String> = site.names("NnfLustreMGT");
    assert_eq!(rabbits.len(), 2);
    assert_ne!(rabbits[0].split('/').next(), rabbits[1].split('/').next());
    site.create("third", &create_target("mgt3"));
    site.settle();
    site.request_state_and_settle("third", "Setup");
    assert!(
        site.status_of("third").3.contains("pending a rabbit without a management target"),
        "{:?}",
        site.status_of("third")
    );
    destroy(&mut site, "mgt1");
    assert!(site.is_ready("third", "Setup"), "{:?}", site.status_of("third"));
    forget(&mut site, "third");
    for name in ["mgt2", "mgt3"] {
        destroy(&mut site, name);
    }
    site.assert_clean();
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
