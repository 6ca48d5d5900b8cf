//! The objects of a site in memory, and an engine that plans from them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use controller::{Event, Item, Trouble, Unreadable};
use directive::Ruleset;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{GIB, agents::act, describe::describe};
use crate::{
    change::Change,
    objects::site::Settings,
    plan::{Plan, plan_key},
    profile::ruleset,
    progress::Outcome,
    shipped,
    world::{ForEachKind, Key, Scope, Wake, WatchedKind, World},
};

/// Kind, namespace and name of an object.
pub(super) type At = (String, String, String);

const STATES: [&str; 7] =
    ["Proposal", "Setup", "DataIn", "PreRun", "PostRun", "DataOut", "Teardown"];

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
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
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

    /// Lets time pass since the workflow requested its present state.
    pub(super) fn after(mut self, seconds: i64) -> Self {
        self.seconds += seconds;
        self
    }

    /// Creates workflow `w` of user 1001, and carries out its Proposal.
    pub(super) fn propose(self, lines: &[&str]) -> Self {
        self.request("w", 1001, lines).settle()
    }

    /// Creates a workflow of a user. Its Proposal is not carried out yet: the status shows only that it has begun.
    pub(super) fn request(self, name: &str, user: u32, lines: &[&str]) -> Self {
        let spec = json!({"desiredState": "Proposal", "wlmID": "test", "jobID": 7, "userID": user,
            "groupID": 1002, "hurry": false, "forceReady": false, "dwDirectives": lines});
        let mut site = self.put(&format!("Workflow default/{name}"), json!({"spec": spec}));
        site.begin(name);
        site
    }

    /// Clears the message of workflow `w`, so that the next plan writes it again.
    pub(super) fn forget(self) -> Self {
        self.edit("Workflow default/w", &json!({"status": {"message": ""}}))
    }

    /// Names the computes of workflow `w`.
    pub(super) fn computes(self, names: &[&str]) -> Self {
        let names: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        self.edit("Computes default/w", &json!({"data": names}))
    }

    /// Fills the Servers of directive 0 of workflow `w`: label and size of each set, rabbits with their counts.
    pub(super) fn servers(self, sets: &[(&str, i64, &[(&str, i64)])]) -> Self {
        let set = |(label, size, on): &(&str, i64, &[(&str, i64)])| {
            let on = on.iter().map(|(name, count)| json!({"name": name, "allocationCount": count}));
            json!({"label": label, "allocationSize": size, "storage": on.collect::<Vec<_>>()})
        };
        let sets: Vec<Value> = sets.iter().map(set).collect();
        self.edit("Servers default/w-0", &json!({"spec": {"allocationSets": sets}}))
    }

    /// Brings workflow `w` to the beginning of a state: the states before it are carried out, and the status shows that
    /// this state has begun.
    #[track_caller]
    pub(super) fn reach(self, state: &str) -> Self {
        self.bring("w", state)
    }

    #[track_caller]
    pub(super) fn bring(mut self, name: &str, state: &str) -> Self {
        let at = format!("Workflow default/{name}");
        loop {
            let workflow = self.get(&at);
            let now = workflow["status"]["state"].as_str().unwrap_or_default().to_owned();
            if now == state {
                return self;
            }
            if workflow["status"]["ready"] != true {
                self = self.settle();
            }
            let workflow = self.get(&at);
            assert_eq!(workflow["status"]["ready"], true, "{:#}", workflow["status"]);
            let next = STATES.iter().position(|known| *known == now).unwrap() + 1;
            self = self.edit(&at, &json!({"spec": {"desiredState": STATES[next]}}));
            self.begin(name);
            if STATES[next] != state {
                self = self.settle();
            }
        }
    }

    /// Adds persistent storage of user 1001 with an allocation for each of these computes, and no workflow.
    pub(super) fn keep(self, kind: &str, name: &str, computes: &[&str]) -> Self {
        let line = format!("#DW create_persistent type={kind} capacity=1GiB name={name}");
        let site = self.with("make", &line, computes, "Teardown");
        site.delete("Workflow default/make").settle()
    }

    /// Brings a workflow with one directive and these computes to the end of a state.
    pub(super) fn with(self, name: &str, line: &str, computes: &[&str], state: &str) -> Self {
        let names: Vec<Value> = computes.iter().map(|name| json!({"name": name})).collect();
        self.request(name, 1001, &[line])
            .settle()
            .edit(&format!("Computes default/{name}"), &json!({"data": names}))
            .bring(name, state)
            .settle()
    }

    /// Requests a state of workflow `w`, whatever state it is in now.
    pub(super) fn reach_by_force(mut self, state: &str) -> Self {
        self = self.edit("Workflow default/w", &json!({"spec": {"desiredState": state}}));
        self.begin("w");
        self
    }

    /// Removes an object whatever finalizers it has, and the objects that it owns.
    pub(super) fn vanish(mut self, at: &str) -> Self {
        self.all.remove(&parse_at(at));
        self.collect();
        self
    }

    /// Makes only those changes of a workflow that begin its desired state.
    fn begin(&mut self, name: &str) {
        self.seconds = 0;
        let key = Key::Workflow(("default".to_owned(), name.to_owned()));
        for _ in 0..2 {
            let plan = plan_key(&self.world(), &key, self.now());
            let own =
                plan.changes.iter().find(|change| change.target().resource.kind == "Workflow");
            if let Some(change) = own {
                self.make(change);
            }
            if self.all[&parse_at(&format!("Workflow default/{name}"))]["status"]["state"]
                .is_string()
            {
                break;
            }
        }
        self.seconds = 10;
    }

    /// Makes all changes, and lets the agents answer, until nothing changes.
    #[track_caller]
    pub(super) fn settle(mut self) -> Self {
        for _ in 0..200 {
            let changes = self.changes();
            changes.iter().for_each(|change| self.make(change));
            if !self.act() && changes.is_empty() {
                return self;
            }
        }
        panic!("the objects never stop changing: {:#?}", self.lines());
    }

    /// Removes deleted objects that no finalizer holds any more.
    pub(super) fn collected(mut self) -> Self {
        self.collect();
        self
    }

    /// Makes all planned changes, and lets the agents answer once.
    pub(super) fn step(mut self) -> Self {
        self.changes().iter().for_each(|change| self.make(change));
        self.act();
        self
    }

    fn act(&mut self) -> bool {
        let dead = self.dead.clone();
        let changed = act(&mut self.all, &|node| dead.contains(node));
        self.collect();
        changed
    }

    /// Makes a change as the API does.
    fn make(&mut self, change: &Change) {
        let target = change.target();
        let at = (target.resource.kind.clone(), target.namespace.clone(), target.name.clone());
        match change.inner() {
            Change::Create(_, object) | Change::CreateKeys(_, object) => {
                let mut object = json!(object);
                if at.0 != "Workflow" {
                    object.as_object_mut().unwrap().remove("status");
                }
                let separator = if at.1.is_empty() { "" } else { "/" };
                let path = format!("{} {}{separator}{}", at.0, at.1, at.2);
                *self = std::mem::take(self).put(&path, object);
            }
            Change::Patch(_, patch) | Change::Status(_, patch) => {
                json_patch::patch(self.all.get_mut(&at).unwrap(), patch).unwrap();
            }
            Change::Delete(..) => {
                self.all.get_mut(&at).unwrap()["metadata"]["deletionTimestamp"] =
                    json!("2026-11-20T12:00:00Z");
            }
            Change::IfClaimed(..) => {}
        }
        self.collect();
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

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + self.seconds).unwrap()
    }

    /// Returns the world of an engine that has just started.
    pub(super) fn world(&self) -> World {
        let mut world = World::new(self.settings.clone());
        world.site.rules = shipped_rules();
        self.settings.kinds(&mut Lists { site: self, world: &mut world });
        for (_, secret) in self.all.iter().filter(|(at, _)| at.0 == "Secret") {
            world.add_keys(&serde_json::from_value(secret.clone()).unwrap());
        }
        world
    }

    /// Returns all changes that the engine plans, of all workflows, rabbits and persistent storage.
    fn changes(&self) -> Vec<Change> {
        let world = self.world();
        let plan = |key| plan_key(&world, key, self.now()).changes;
        world.keys().iter().flat_map(plan).collect()
    }

    /// Returns the plan of workflow `w`.
    pub(super) fn plan(&self) -> Plan {
        plan_key(&self.world(), &workflow_key(), self.now())
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.changes().iter().map(|change| describe(change, &self.all)).collect()
    }

    /// Fails unless the engine plans exactly these changes.
    #[track_caller]
    pub(super) fn plans(self, expected: &[&str]) -> Self {
        let lines = self.lines();
        assert!(lines.iter().eq(expected), "planned: {lines:#?}\nexpected: {expected:#?}");
        self
    }

    /// Fails unless the planned changes write this status of a workflow; says nothing about other changes.
    #[track_caller]
    pub(super) fn reports(self, expected: &str) -> Self {
        let changes = self.changes();
        let mut own = changes.iter().filter(|change| change.target().resource.kind == "Workflow");
        let line = own.next().map(|change| describe(change, &self.all)).unwrap_or_default();
        assert_eq!(line, expected);
        self
    }

    /// Fails unless all states up to the present one are complete, and nothing is left to do.
    #[track_caller]
    pub(super) fn is_done(self) -> Self {
        let status = &self.get("Workflow default/w")["status"];
        assert!(status["ready"] == true && status["status"] == "Completed", "{status:#}");
        self.plans(&[])
    }

    /// Edits an object while the engine runs, and fails if this does not wake workflow `w`.
    #[track_caller]
    pub(super) fn then(self, at: &str, patch: &Value) -> Self {
        let before = self.clone();
        let after = self.edit(at, patch);
        after.assert_woken(&before, at);
        after
    }

    /// Removes an object while the engine runs, and fails if this does not wake workflow `w`.
    #[track_caller]
    pub(super) fn then_without(self, at: &str) -> Self {
        let before = self.clone();
        let after = self.without(at);
        after.assert_woken(&before, at);
        after
    }

    #[track_caller]
    fn assert_woken(&self, before: &Self, at: &str) {
        let mut world = before.world();
        let outcomes = plan_key(&world, &workflow_key(), before.now()).outcomes;
        let at = parse_at(at);
        let mut event =
            Delivery { before, after: self, at: &at, world: &mut world, wakes: Vec::new() };
        self.settings.kinds(&mut event);
        let is_failing =
            |outcome: &Outcome| matches!(outcome, Outcome::Failed(_) | Outcome::Queued(_));
        let wakes = event.wakes.iter().any(|wake| match wake {
            Wake::Key(key) => *key == workflow_key(),
            Wake::Waiting => outcomes.iter().any(|outcome| *outcome != Outcome::Done),
            Wake::Failing => outcomes.iter().any(is_failing),
        });
        assert!(wakes, "{at:?} wakes only {:?}; the outcomes are {outcomes:?}", event.wakes);
    }

    /// Creates an object while the engine runs, and fails if this does not wake workflow `w`.
    #[track_caller]
    pub(super) fn then_put(self, at: &str, object: Value) -> Self {
        let before = self.clone();
        let after = self.put(at, object);
        after.assert_woken(&before, at);
        after
    }

    fn item<K: WatchedKind>(&self, at: &At, object: &Value) -> Item<K> {
        if self.unreadable.contains(at) {
            let metadata = serde_json::from_value(object["metadata"].clone()).unwrap();
            return Err(Unreadable { metadata, why: "for the test".to_owned() });
        }
        Ok(K::deserialize(object).unwrap_or_else(|error| panic!("{at:?}: {error}: {object:#}")))
    }
}

/// Returns the shipped rules, whose patterns take milliseconds to compile.
fn shipped_rules() -> Arc<Ruleset> {
    static RULES: LazyLock<Arc<Ruleset>> = LazyLock::new(|| Arc::new(ruleset([&shipped::rules()])));
    RULES.clone()
}

fn workflow_key() -> Key {
    Key::Workflow(("default".to_owned(), "w".to_owned()))
}

/// Delivers a complete list of each kind.
struct Lists<'a> {
    site: &'a Objects,
    world: &'a mut World,
}

impl ForEachKind for Lists<'_> {
    fn kind<K: WatchedKind>(&mut self, _: Scope) {
        if self.site.unlisted.contains(&*K::kind(&())) {
            self.world.take::<K>(Event::Failing(Trouble::Kind("forbidden".to_owned())));
            return;
        }
        // A list without rules would replace the shipped rules.
        if &*K::kind(&()) == "DWDirectiveRule" {
            return;
        }
        let objects = self.site.all.iter().filter(|((kind, ..), _)| *kind == *K::kind(&()));
        let items = objects.map(|(at, object)| self.site.item::<K>(at, object)).collect();
        self.world.take(Event::Listed(items));
    }
}

/// Delivers one changed or removed object to a running engine.
struct Delivery<'a> {
    before: &'a Objects,
    after: &'a Objects,
    at: &'a At,
    world: &'a mut World,
    wakes: Vec<Wake>,
}

impl ForEachKind for Delivery<'_> {
    fn kind<K: WatchedKind>(&mut self, _: Scope) {
        if self.at.0 != K::kind(&()) {
            return;
        }
        self.wakes = self.world.take::<K>(match self.after.all.get(self.at) {
            Some(object) => Event::Applied(self.after.item(self.at, object)),
            None => Event::Deleted(self.before.item(self.at, &self.before.all[self.at])),
        });
    }
}
