//! The objects of a site in memory, and an engine that plans from them.

mod engine;
mod requests;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

pub(super) use self::requests::AllocationSet;
use super::GIB;
use crate::{objects::site::Settings, shipped, world::Key};

/// Kind, namespace and name of an object.
pub(super) type At = (String, String, String);

/// All objects of a site.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    pub(super) all: BTreeMap<At, Value>,
    pub(super) settings: Settings,
    /// Objects that the engine cannot decode.
    unreadable: BTreeSet<At>,
    /// Kinds that the engine has no right to list.
    pub(super) unlisted: BTreeSet<&'static str>,
    /// Nodes whose agents do nothing.
    dead: BTreeSet<String>,
    /// Nodes whose sessions ended, each with the second at which it ended.
    pub(super) sessionless: BTreeMap<String, i64>,
    /// Number of edits, from which edited objects get their resource version.
    version: u64,
    /// Seconds since the workflow requested its present state.
    seconds: i64,
}

/// Parses `KIND NAMESPACE/NAME`, or `KIND NAME` for a kind that is in no namespace.
fn parse_at(text: &str) -> At {
    let (kind, path) = text.split_once(' ').unwrap();
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    (kind.to_owned(), namespace.to_owned(), name.to_owned())
}

fn group_of(kind: &str) -> &'static str {
    match kind {
        "Job" => "batch/v1",
        "NetworkPolicy" => "networking.k8s.io/v1",
        "Pod"
        | "Service"
        | "ConfigMap"
        | "Secret"
        | "PersistentVolume"
        | "PersistentVolumeClaim" => "v1",
        "NodeContainers" | "ContainerRun" => "warren.nnf.cray.hpe.com/v1alpha1",
        "LustreFileSystem" => "lus.cray.hpe.com/v1beta1",
        kind if kind.starts_with("Nnf") => "nnf.cray.hpe.com/v1alpha11",
        _ => "dataworkflowservices.github.io/v1alpha7",
    }
}

impl Objects {
    /// Returns a site with the shipped rules and profile and two rabbits: `r` serves the computes `c1`, `c2`
    /// and `c3`, `s` serves `d1`. Each rabbit has 100 GiB.
    pub(super) fn site() -> Self {
        let rabbit = |name: &str, computes: &[&str]| {
            let access = computes.iter().enumerate();
            let access: Vec<Value> =
                access.map(|(index, name)| json!({"name": name, "index": index})).collect();
            json!({"type": "Rabbit", "name": name, "computesAccess": access})
        };
        let mut site = Self::default()
            .put(
                "SystemConfiguration default/default",
                json!({"spec": {"storageNodes": [rabbit("r", &["c1", "c2", "c3"]), rabbit("s", &["d1"])],
                    "portsCooldownInSeconds": 60}}),
            )
            .put("NnfStorageProfile nnf-system/default", json!(shipped::profile()));
        for (rabbit, nid) in [("r", "10.0.0.1@tcp"), ("s", "10.0.0.2@tcp")] {
            let server = json!({"hostname": rabbit, "id": "0", "status": "Ready"});
            site = site.put(
                &format!("NnfNode {rabbit}/nnf-nlc"),
                json!({"spec": {"state": "Enable"}, "status": {"status": "Ready",
                    "capacity": 100 * GIB, "servers": [server], "lnetNid": nid}}),
            );
        }
        site.settle()
    }

    /// Stores an object.
    pub(super) fn put(mut self, at: &str, mut object: Value) -> Self {
        let at = parse_at(at);
        object["apiVersion"] = json!(group_of(&at.0));
        object["kind"] = json!(at.0);
        let uid = format!("{}-{}", at.0.to_lowercase(), at.2);
        let uid = uid.strip_prefix("workflow-").unwrap_or(&uid);
        let name = json!({"name": at.2, "uid": uid, "resourceVersion": "1", "generation": 1});
        json_patch::merge(&mut object["metadata"], &name);
        if !at.1.is_empty() {
            object["metadata"]["namespace"] = json!(at.1);
        }
        self.all.insert(at, object);
        self
    }

    pub(super) fn get(&self, at: &str) -> &Value {
        let at = parse_at(at);
        self.all.get(&at).unwrap_or_else(|| panic!("no {at:?} among {:#?}", self.all.keys()))
    }

    /// Applies a JSON merge patch to an object.
    #[track_caller]
    pub(super) fn edit(mut self, at: &str, patch: &Value) -> Self {
        self.version += 1;
        let object = self.all.get_mut(&parse_at(at)).unwrap_or_else(|| panic!("no {at}"));
        json_patch::merge(object, patch);
        // New objects have version 1.
        object["metadata"]["resourceVersion"] = json!((self.version + 1).to_string());
        self
    }

    /// Applies a JSON merge patch to all objects of a kind.
    pub(super) fn edit_all(self, kind: &str, patch: &Value) -> Self {
        let places: Vec<At> = self.all.keys().filter(|at| at.0 == kind).cloned().collect();
        assert!(!places.is_empty(), "no {kind} among {:#?}", self.all.keys());
        places.iter().fold(self, |site, at| site.edit(&format!("{kind} {}/{}", at.1, at.2), patch))
    }

    /// Returns namespace and name of all objects of a kind.
    pub(super) fn names(&self, kind: &str) -> Vec<String> {
        let places = self.all.keys().filter(|at| at.0 == kind);
        places.map(|(_, namespace, name)| format!("{namespace}/{name}")).collect()
    }

    /// Removes an object.
    #[track_caller]
    pub(super) fn without(mut self, at: &str) -> Self {
        assert!(self.all.remove(&parse_at(at)).is_some(), "no {at} among {:#?}", self.all.keys());
        self
    }

    /// Marks an object as deleted, and removes an object that has no finalizer.
    pub(super) fn delete(mut self, at: &str) -> Self {
        let at = parse_at(at);
        let object = self.all.get_mut(&at).unwrap_or_else(|| panic!("no {at:?}"));
        object["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
        self.collect();
        self
    }

    /// Replaces an object by one that the engine cannot decode.
    pub(super) fn unreadable(mut self, at: &str) -> Self {
        self.unreadable.insert(parse_at(at));
        self
    }

    /// Stops the agents of a node.
    pub(super) fn dead(mut self, node: &str) -> Self {
        self.dead.insert(node.to_owned());
        self
    }

    /// Starts the agents of a node again.
    pub(super) fn alive(mut self, node: &str) -> Self {
        self.dead.remove(node);
        self
    }

    /// Stops the agents of a node, whose session ends now.
    pub(super) fn disconnected(mut self, node: &str) -> Self {
        self.sessionless.insert(node.to_owned(), self.seconds);
        self.dead(node)
    }

    /// Lets time pass since the workflow requested its present state.
    pub(super) fn after(mut self, seconds: i64) -> Self {
        self.seconds += seconds;
        self
    }

    /// Removes an object whatever finalizers it has, and the objects that it owns.
    pub(super) fn vanish(mut self, at: &str) -> Self {
        self.all.remove(&parse_at(at));
        self.collect();
        self
    }

    /// Removes deleted objects that no finalizer holds any more.
    pub(super) fn collected(mut self) -> Self {
        self.collect();
        self
    }

    /// Removes deleted objects without finalizers, and objects whose owner is gone.
    fn collect(&mut self) {
        loop {
            let count = self.all.len();
            let uids: BTreeSet<String> =
                self.all.values().map(|object| object["metadata"]["uid"].to_string()).collect();
            for object in self.all.values_mut() {
                let owners = object["metadata"]["ownerReferences"].as_array();
                let is_orphan = owners.is_some_and(|owners| {
                    owners.iter().all(|owner| !uids.contains(&owner["uid"].to_string()))
                });
                if is_orphan {
                    object["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
                }
            }
            self.all.retain(|_, object| {
                let metadata = &object["metadata"];
                metadata["deletionTimestamp"].is_null()
                    || metadata["finalizers"].as_array().is_some_and(|all| !all.is_empty())
            });
            if self.all.len() == count {
                return;
            }
        }
    }
}

fn workflow_key() -> Key {
    Key::Workflow(("default".to_owned(), "w".to_owned()))
}
