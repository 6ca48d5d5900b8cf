//! Containers that use a global Lustre file system of the site.

use std::collections::BTreeMap;

use api::LustreFileSystem;
use controller::{Event, Trouble};
use serde_json::{Value, json};
use workflow::{
    Settings,
    world::{Wake, World},
};

use super::{on_rabbits, profile};
use crate::{job::directive, site::Site};

const CLAIM: &str = "polly-default-readwritemany-pvc";

/// Returns a LustreFileSystem that gives the namespace `default` this access mode.
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

/// Returns the storage volumes of a pod, and their mounts in its first container.
fn storage_of(pod: &Value) -> (Vec<Value>, Vec<Value>) {
    let is_storage = |entry: &&Value| entry["name"].as_str().unwrap().starts_with("storage-");
    let storage = |list: &Value| -> Vec<Value> {
        list.as_array().unwrap().iter().filter(is_storage).cloned().collect()
    };
    (storage(&pod["volumes"]), storage(&pod["containers"][0]["volumeMounts"]))
}

fn variable(env: &Value) -> Value {
    let env = env.as_array().unwrap();
    env.iter().find(|entry| entry["name"] == "DW_GLOBAL_lus").unwrap()["value"].clone()
}

#[test]
fn pods_mount_the_claim_of_a_global_lustre_at_its_root() {
    let mut site = with_polly(super::site());
    site.bring_towards("w", &lines("/lus/polly/in"), "PreRun");
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
fn mpi_pods_mount_a_global_lustre() {
    let mut site = with_polly(super::site());
    super::mpi::with_profile(&mut site);
    site.edit("NnfContainerProfile", "nnf-system", "app", |profile| {
        profile["data"]["storages"] = json!([{"name": "DW_GLOBAL_lus"}]);
    });
    let line = "#DW container name=beside profile=app DW_GLOBAL_lus=/lus/polly";
    site.bring_towards("w", &[line.to_owned()], "PreRun");
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
fn agents_get_the_root_of_a_global_lustre() {
    // Without Kubernetes there are no PersistentVolumeClaims, so the agents ignore the namespaces of a
    // LustreFileSystem.
    let mut site = with_polly(on_rabbits::site());
    site.edit("LustreFileSystem", "lus", "polly", |object| {
        object["spec"]["namespaces"] = json!({});
    });
    site.bring_towards("w", &lines("/lus/polly"), "PreRun");
    for rabbit in ["r", "s"] {
        let spec = &site.get("NodeContainers", rabbit, "default-w-1")["spec"];
        assert_eq!(spec["globalLustre"], json!(["/lus/polly"]), "{}", site.message("w"));
        assert_eq!(spec["storages"].as_array().unwrap().len(), 1);
        assert_eq!(variable(&spec["containers"][0]["env"]), "/lus/polly");
    }
    site.remove_after_teardown();
}

#[test]
fn a_path_selects_the_lustre_with_the_longest_root_and_then_one_that_gives_pods_the_access_mode() {
    let mut site = with_polly(super::site());
    site.put(polly("outer", "/lus", "ReadWriteMany"));
    site.put(polly("also", "/lus/polly/", "ReadOnlyMany"));
    site.put(polly("zulu", "/lus/polly", "ReadOnlyMany"));
    site.bring_towards("w", &lines("/lus/polly/in"), "PreRun");
    let pod = &site.get("Job", "default", "w-r")["spec"]["template"]["spec"];
    assert_eq!(storage_of(pod).0[1]["persistentVolumeClaim"], json!({"claimName": CLAIM}));
}

#[test]
fn the_first_list_of_lustrefilesystems_wakes_waiting_workflows() {
    let mut world = World::new(Settings::default());
    let refused = Event::Failing(Trouble::Kind("forbidden".to_owned()));
    assert!(world.take::<LustreFileSystem>(refused).is_empty() && world.site.lustre.is_none());
    let wakes = world.take::<LustreFileSystem>(Event::Listed(Vec::new()));
    assert_eq!((wakes, world.site.lustre), (vec![Wake::Waiting], Some(BTreeMap::new())));
}

impl Site {
    fn remove_after_teardown(&mut self) {
        self.request_state("w", "Teardown");
        self.settle();
        assert!(self.is_ready("w", "Teardown"), "{:?}", self.status_of("w"));
        self.remove("w");
    }
}
