//! Containers that see a Lustre of the site's own.

use std::collections::BTreeMap;

use api::LustreFileSystem;
use controller::{Event, Trouble};
use serde_json::{Value, json};
use workflow::{
    Settings,
    world::{Wake, World},
};

use super::{on_rabbits, profile};
use crate::{
    job::directive,
    site::{Site, at},
};

const CLAIM: &str = "polly-default-readwritemany-pvc";

/// A LustreFileSystem whose claims are made in `default` in this mode.
pub(crate) fn polly(name: &str, root: &str, mode: &str) -> Value {
    json!({
        "kind": "LustreFileSystem", "metadata": {"name": name, "namespace": "lus"},
        "spec": {
            "name": "polly", "mgsNids": "10.0.0.9@tcp", "mountRoot": root,
            "namespaces": {"default": {"modes": [mode]}},
        },
    })
}

fn with_polly(mut site: Site) -> Site {
    let mut profile = profile();
    let storages = profile["data"]["storages"].as_array_mut().unwrap();
    storages.push(json!({"name": "DW_GLOBAL_lus", "optional": true}));
    site.put(profile);
    site.put(polly("polly", "/lus/polly", "ReadWriteMany"));
    site.settle();
    site
}

fn lines(path: &str) -> Vec<String> {
    let container =
        format!("#DW container name=beside profile=app DW_JOB_data=scratch DW_GLOBAL_lus={path}");
    vec![directive("gfs2", "scratch"), container]
}

/// The volumes of a pod, and where its first container has those of storage.
fn storage_of(pod: &Value) -> (Vec<Value>, Vec<Value>) {
    let is_storage = |one: &&Value| one["name"].as_str().unwrap().starts_with("storage-");
    let those = |list: &Value| -> Vec<Value> {
        list.as_array().unwrap().iter().filter(is_storage).cloned().collect()
    };
    (those(&pod["volumes"]), those(&pod["containers"][0]["volumeMounts"]))
}

fn variable(env: &Value) -> Value {
    let env = env.as_array().unwrap();
    env.iter().find(|one| one["name"] == "DW_GLOBAL_lus").unwrap()["value"].clone()
}

#[test]
fn pods_have_its_claim_at_its_root() {
    let mut site = with_polly(super::site());
    site.towards("w", &lines("/lus/polly/in"), "PreRun");
    for job in ["w-r", "w-s"] {
        let pod = &site.get("Job", "default", job)["spec"]["template"]["spec"];
        let (volumes, mounts) = storage_of(pod);
        assert_eq!(volumes.len(), 2, "{volumes:?}");
        assert!(volumes[0]["hostPath"].is_object(), "{volumes:?}");
        assert_eq!(volumes[1]["persistentVolumeClaim"], json!({"claimName": CLAIM}));
        assert_eq!(mounts[1], json!({"name": "storage-1", "mountPath": "/lus/polly"}));
        assert_eq!(variable(&pod["containers"][0]["env"]), "/lus/polly");
    }
    site.remove_after_teardown();
}

#[test]
fn the_pods_of_mpi_have_it_too() {
    let mut site = with_polly(super::site());
    super::mpi::with_profile(&mut site);
    site.edit("NnfContainerProfile", "nnf-system", "app", |profile| {
        profile["data"]["storages"] = json!([{"name": "DW_GLOBAL_lus"}]);
    });
    let line = "#DW container name=beside profile=app DW_GLOBAL_lus=/lus/polly";
    site.towards("w", &[line.to_owned()], "PreRun");
    let jobs: Vec<_> = site.objects.keys().filter(|at| at.0 == "Job").cloned().collect();
    assert!(!jobs.is_empty(), "{}", site.message("w"));
    for at in jobs {
        let (volumes, mounts) =
            storage_of(&site.get(&at.0, &at.1, &at.2)["spec"]["template"]["spec"]);
        assert_eq!(volumes[0]["persistentVolumeClaim"], json!({"claimName": CLAIM}), "{at:?}");
        assert_eq!(mounts[0]["mountPath"], "/lus/polly", "{at:?}");
    }
}

#[test]
fn rabbits_are_told_where_it_is() {
    // Nobody makes claims there, so the namespaces say nothing.
    let mut site = with_polly(on_rabbits::site());
    site.edit("LustreFileSystem", "lus", "polly", |object| {
        object["spec"]["namespaces"] = json!({});
    });
    site.towards("w", &lines("/lus/polly"), "PreRun");
    for rabbit in ["r", "s"] {
        let spec = &site.get("NodeContainers", rabbit, "default-w-1")["spec"];
        assert_eq!(spec["globalLustre"], json!(["/lus/polly"]), "{}", site.message("w"));
        assert_eq!(spec["storages"].as_array().unwrap().len(), 1);
        assert_eq!(variable(&spec["containers"][0]["env"]), "/lus/polly");
    }
    site.remove_after_teardown();
}

#[test]
fn a_path_elsewhere_or_a_namespace_without_the_mode_is_refused_with_the_remedy() {
    type Edit = fn(&mut Site);
    let told = |edit: Edit, path: &str| {
        let mut site = with_polly(super::site());
        edit(&mut site);
        site.create("w", &lines(path));
        site.settle();
        site.message("w")
    };
    let read_only: Edit = |site| {
        site.edit("NnfContainerProfile", "nnf-system", "app", |profile| {
            profile["data"]["storages"][2]["pvcMode"] = json!("ReadOnlyMany");
        });
    };
    let gone: Edit = |site| site.delete(&at("LustreFileSystem", "lus", "polly"));
    let cases: [(Edit, &str, &str); 4] = [
        (
            |_| {},
            "/lus/pollyanna",
            "no global Lustre is mounted there; write a path beneath /lus/polly",
        ),
        (|_| {}, "/home", "argument DW_GLOBAL_lus=/home: no global Lustre is mounted there"),
        (gone, "/lus/polly", "no global Lustre is mounted there; the site has none"),
        (
            read_only,
            "/lus/polly",
            "argument DW_GLOBAL_lus=/lus/polly: LustreFileSystem lus/polly does not give the namespace default the mode ReadOnlyMany; the administrator adds it to spec.namespaces.default.modes",
        ),
    ];
    for (edit, path, part) in cases {
        let message = told(edit, path);
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn of_several_the_longest_root_wins_and_of_equal_ones_that_which_pods_may_have() {
    let mut site = with_polly(super::site());
    site.put(polly("outer", "/lus", "ReadWriteMany"));
    site.put(polly("also", "/lus/polly/", "ReadOnlyMany"));
    site.put(polly("zulu", "/lus/polly", "ReadOnlyMany"));
    site.towards("w", &lines("/lus/polly/in"), "PreRun");
    let pod = &site.get("Job", "default", "w-r")["spec"]["template"]["spec"];
    assert_eq!(storage_of(pod).0[1]["persistentVolumeClaim"], json!({"claimName": CLAIM}));
}

/// As after an upgrade whose ClusterRole was forgotten.
#[test]
fn while_nobody_may_list_them_only_those_wait_who_name_one() {
    // A copy has an engine of its own, which starts then.
    let mut site = with_polly(super::site()).clone();
    site.unlisted.push("LustreFileSystem");
    site.create("w", &lines("/lus/polly"));
    site.create("other", &super::lines("gfs2"));
    site.settle();
    assert!(site.is_ready("other", "Proposal"), "{:?}", site.told("other"));
    let (_, _, status, message) = site.told("w");
    assert_eq!(status, "TransientCondition", "{message}");
    assert!(message.contains("LustreFileSystems cannot be listed"), "{message}");
    let mut site = site.clone();
    site.unlisted.clear();
    site.settle();
    assert!(site.is_ready("w", "Proposal"), "{:?}", site.told("w"));
}

#[test]
fn who_waits_for_a_list_is_woken_when_it_comes() {
    let mut world = World::new(Settings::default());
    let refused = Event::Failing(Trouble::Kind("forbidden".to_owned()));
    assert!(world.take::<LustreFileSystem>(refused).is_empty() && world.site.lustre.is_none());
    let wakes = world.take::<LustreFileSystem>(Event::Listed(Vec::new()));
    assert_eq!((wakes, world.site.lustre), (vec![Wake::Waiting], Some(BTreeMap::new())));
}

#[test]
fn nothing_starts_while_it_is_gone_and_all_goes_on_when_it_is_back() {
    for mut site in [super::site(), on_rabbits::site()].map(with_polly) {
        site.towards("w", &lines("/lus/polly"), "DataIn");
        site.delete(&at("LustreFileSystem", "lus", "polly"));
        site.ask("w", "PreRun");
        site.settle();
        assert!(site.message("w").contains("mounted there any more"), "{}", site.message("w"));
        assert_eq!(site.told("w").2, "TransientCondition", "it may come back");
        assert!(site.names("Job").is_empty() && site.names("NodeContainers").is_empty());
        site.put(polly("polly", "/lus/polly", "ReadWriteMany"));
        site.settle();
        let there = site.names("Job").len() + site.names("NodeContainers").len();
        assert_eq!(there, 2, "{}", site.message("w"));
        site.remove_after_teardown();
    }
}

impl Site {
    fn remove_after_teardown(&mut self) {
        self.ask("w", "Teardown");
        self.settle();
        assert!(self.is_ready("w", "Teardown"), "{:?}", self.told("w"));
        self.remove("w");
    }
}
