//! A site in memory: an API as kube-apiserver was seen to behave, and agents that do what the objects ask of them. After every
//! change it checks what must never happen.

use std::collections::BTreeMap;

use api::names::finalizer;
use controller::{Event, Item, Trouble, Unreadable};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use workflow::{
    Containers, IndexNames, Settings,
    change::Change,
    plan::plan_key,
    shipped,
    world::{ForEachKind, Kept, Key, Scope, World},
};

use crate::{claims::Claimed, live::Live, rules, stored::Stored, volumes};

/// Kind, namespace, name.
pub(crate) type At = (String, String, String);

/// The whole site.
#[derive(Clone, Debug, Default)]
pub(crate) struct Site {
    pub(crate) objects: BTreeMap<At, Stored>,
    version: u64,
    /// Writes of the engine that were stored.
    pub(crate) writes: usize,
    /// Agents do nothing.
    pub(crate) agents_sleep: bool,
    /// What agents say of the health of file systems.
    pub(crate) health: &'static str,
    /// What agents report in the place of work, by kind.
    pub(crate) errors: BTreeMap<String, Value>,
    /// Nodes whose agents are dead.
    pub(crate) dead: Vec<String>,
    /// Where containers run, if any do.
    pub(crate) containers: Option<Containers>,
    /// Which coordinator the engine is, and those whose Leases have expired.
    pub(crate) claims: Claimed,
    /// How a rabbit's tree of allocations is named.
    pub(crate) index_names: IndexNames,
    /// Kinds that the engine has no right to list.
    pub(crate) unlisted: Vec<&'static str>,
    /// Containers that are asked to end do not.
    pub(crate) pods_stay: bool,
    /// Secrets that the engine of this moment knows of, as it made them or found them there.
    known_keys: BTreeMap<At, Value>,
    /// How often an engine found a Secret there that it was about to make.
    pub(crate) keys_found: usize,
    /// Objects that do not read as what they should be.
    pub(crate) unreadable: Vec<At>,
    /// The engine that runs, where nobody says that it dies.
    pub(crate) live: Live,
}

pub(crate) fn at(kind: &str, namespace: &str, name: &str) -> At {
    (kind.to_owned(), namespace.to_owned(), name.to_owned())
}

impl Site {
    /// One rabbit with so many computes, and these bytes on its drives.
    pub(crate) fn new(computes: usize, bytes: i64) -> Self {
        let mut site = Self { health: "Healthy", ..Self::default() };
        site.put(json!({
            "kind": "SystemConfiguration", "metadata": {"name": "default", "namespace": "default"},
            "spec": {"storageNodes": [], "portsCooldownInSeconds": 0},
        }));
        let names: Vec<String> = (1..=computes).map(|number| format!("c{number}")).collect();
        site.add_rabbit("r", &names, bytes);
        site.put(serde_json::to_value(shipped::rules()).unwrap());
        site.put(serde_json::to_value(shipped::profile()).unwrap());
        site.settle();
        site
    }

    /// One more rabbit.
    pub(crate) fn add_rabbit(&mut self, rabbit: &str, names: &[String], bytes: i64) {
        let access = names.iter().enumerate();
        let access: Vec<Value> =
            access.map(|(index, name)| json!({"name": name, "index": index})).collect();
        let node = json!({"type": "Rabbit", "name": rabbit, "computesAccess": access});
        self.edit("SystemConfiguration", "default", "default", |object| {
            object["spec"]["storageNodes"].as_array_mut().unwrap().push(node);
        });
        let nid = self.objects.keys().filter(|at| at.0 == "NnfNode").count() + 1;
        let ports = names.iter().enumerate().map(|(index, name)| {
            json!({"hostname": name, "id": (index + 1).to_string(), "status": "Ready"})
        });
        let ports: Vec<Value> = [json!({"hostname": rabbit, "id": "0", "status": "Ready"})]
            .into_iter()
            .chain(ports)
            .collect();
        self.put(json!({
            "kind": "NnfNode", "metadata": {"name": "nnf-nlc", "namespace": rabbit}, "spec": {"state": "Enable"},
            "status": {"status": "Ready", "capacity": bytes, "servers": ports, "lnetNid": format!("10.0.0.{nid}@tcp")},
        }));
    }

    /// Stores an object as a client would create it.
    pub(crate) fn put(&mut self, mut object: Value) {
        self.version += 1;
        let kind = object["kind"].as_str().unwrap().to_owned();
        let group = match kind.as_str() {
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
        };
        object["apiVersion"] = json!(group);
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!(format!("00000000-0000-4000-8000-{:012x}", self.version));
        metadata["resourceVersion"] = json!(self.version.to_string());
        metadata["generation"] = json!(1);
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        let place = at(&kind, namespace, metadata["name"].as_str().unwrap());
        self.objects.insert(place, object.into());
    }

    pub(crate) fn get(&self, kind: &str, namespace: &str, name: &str) -> &Value {
        let at = at(kind, namespace, name);
        self.objects
            .get(&at)
            .unwrap_or_else(|| panic!("{at:?} is not among {:?}", self.objects.keys()))
    }

    /// Changes an object as somebody else would.
    pub(crate) fn edit(
        &mut self,
        kind: &str,
        namespace: &str,
        name: &str,
        edit: impl FnOnce(&mut Value),
    ) {
        self.version += 1;
        let version = json!(self.version.to_string());
        let object = self.objects.get_mut(&at(kind, namespace, name)).unwrap();
        edit(object);
        object["metadata"]["resourceVersion"] = version;
    }

    /// Deletes an object: it goes at once, or when its last finalizer does.
    pub(crate) fn delete(&mut self, at: &At) {
        let Some(object) = self.objects.get_mut(at) else { return };
        mark(object, &mut self.version);
        self.collect();
    }

    /// Removes what nothing holds, and what its owner left behind.
    pub(crate) fn collect(&mut self) {
        loop {
            let is_free = |object: &Value| {
                object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)
            };
            let uids: Vec<Value> =
                self.objects.values().map(|object| object["metadata"]["uid"].clone()).collect();
            let is_orphan = |object: &Value| {
                let owners = object["metadata"]["ownerReferences"].as_array();
                owners
                    .is_some_and(|owners| owners.iter().all(|owner| !uids.contains(&owner["uid"])))
            };
            let before = self.objects.len();
            for object in self.objects.values_mut().filter(|object| is_orphan(object)) {
                mark(object, &mut self.version);
            }
            self.objects.retain(|_, object| {
                object["metadata"]["deletionTimestamp"].is_null() || !is_free(object)
            });
            if self.objects.len() == before {
                return;
            }
        }
    }

    /// Makes a change of the engine, or refuses it as an API does.
    pub(crate) fn make(&mut self, change: &Change) -> Result<(), String> {
        let target = change.target();
        let place = at(&target.resource.kind, &target.namespace, &target.name);
        self.check(change, &place);
        match change {
            Change::Create(_, object) => {
                if self.objects.contains_key(&place) {
                    return Err(format!("{place:?} already exists"));
                }
                let mut object = serde_json::to_value(object).unwrap();
                if place.0 != "Workflow" {
                    object.as_object_mut().unwrap().remove("status");
                }
                volumes::protect(&place.0, &mut object);
                rules::check(change, None, &object);
                self.put(object);
            }
            Change::CreateKeys(_, secret) => {
                let secret = serde_json::to_value(secret).unwrap();
                if self.objects.contains_key(&place) {
                    self.keys_found += 1;
                } else {
                    self.put(secret.clone());
                }
                self.known_keys.insert(place, secret);
            }
            Change::Patch(_, patch) | Change::Status(_, patch) => {
                let old = self
                    .objects
                    .get(&place)
                    .ok_or_else(|| format!("{place:?} is not there"))?
                    .clone();
                let mut new = (*old).clone();
                json_patch::patch(&mut new, patch).map_err(|error| error.to_string())?;
                if new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"] {
                    return Err(format!("{place:?} moved on"));
                }
                if place.0 == "Workflow" {
                    workflow::admit(Some(&old), &new, None)?;
                }
                if place.0 == "ContainerRun" {
                    self.admit_run(change, &old, &new)?;
                }
                rules::check(change, Some(&old), &new);
                self.edit(&place.0, &place.1, &place.2, |object| *object = new);
                self.collect();
            }
            Change::IfClaimed(hold, change) => {
                self.check_claim(hold)?;
                return self.make(change);
            }
            Change::Delete(_, uid) => {
                if self.objects.get(&place).is_some_and(|object| object["metadata"]["uid"] == **uid)
                {
                    if place.0 == "Job" {
                        self.hold_job(&place);
                    }
                    self.delete(&place);
                }
            }
        }
        self.writes += 1;
        Ok(())
    }

    /// A Job is deleted in the foreground: it stays until its pods have ended, as a real server and its garbage collector were
    /// seen to do (`kube` of the whole-system tests).
    fn hold_job(&mut self, place: &At) {
        self.edit(&place.0, &place.1, &place.2, |job| {
            job["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
        });
    }

    fn act_on_job(&mut self, place: &At) -> bool {
        let is_going = |job: &Value| !job["metadata"]["deletionTimestamp"].is_null();
        if self.pods_stay || !self.objects.get(place).is_some_and(|job| is_going(job)) {
            return false;
        }
        self.edit(&place.0, &place.1, &place.2, |job| job["metadata"]["finalizers"] = json!([]));
        self.collect();
        true
    }

    /// A rabbit's agent takes containers up, and removes them.
    fn act_on_containers(&mut self, place: &At) -> bool {
        let Some(object) = self.objects.get(place) else { return false };
        let is_going = !object["metadata"]["deletionTimestamp"].is_null();
        let is_new = object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        if is_going == is_new || is_going && self.pods_stay {
            return false;
        }
        let now = self.now().to_string();
        self.edit(&place.0, &place.1, &place.2, |object| {
            if is_going {
                object["metadata"]["finalizers"] = json!([]);
            } else {
                object["metadata"]["finalizers"] = json!([finalizer::NODE_CONTAINERS]);
                object["status"] = json!({"state": "Starting", "attempt": 1, "startTime": now});
            }
        });
        self.collect();
        true
    }

    /// What must never happen.
    fn check(&self, change: &Change, place: &At) {
        let of = |object: &Value| {
            object["metadata"]["labels"]["dataworkflowservices.github.io/owner.uid"].clone()
        };
        let whose = self.objects.get(place).map(|object| of(object));
        let mounted: Vec<&str> = self
            .objects
            .iter()
            .filter(|((kind, ..), object)| {
                let is_asked = object["spec"]["desiredState"] == "mounted";
                let is_told = object["status"]["mounts"][0]["state"] == "mounted";
                kind == "ClientMount" && (is_asked || is_told)
            })
            .filter(|(_, object)| whose == Some(of(object)) && is_of(object, place))
            .map(|((_, node, _), _)| node.as_str())
            .filter(|node| !self.dead.iter().any(|dead| dead == node))
            .collect();
        self.check_containers(change, place);
        self.check_volumes(change, place);
        match change {
            Change::Delete(..) if matches!(&*place.0, "NnfNodeStorage" | "NnfNodeBlockStorage") => {
                assert!(mounted.is_empty(), "{change} while it is mounted on {mounted:?}");
            }
            Change::Patch(_, patch) if place.0 == "NnfNodeBlockStorage" => {
                let mut after = (*self.objects[place]).clone();
                json_patch::patch(&mut after, patch).unwrap();
                let access = after["spec"]["allocations"].to_string();
                assert_eq!(after["spec"]["allocations"][0]["access"][0], place.1);
                let mut here = mounted.iter().filter(|node| self.has_mounted(node, place));
                let cut = here.find(|node| !access.contains(&format!("{node:?}")));
                assert_eq!(cut, None, "{change} while it is mounted there");
            }
            Change::Create(_, object) if place.0 == "ClientMount" => {
                let mount = &serde_json::to_value(object).unwrap()["spec"]["mounts"][0];
                self.check_xfs(mount, place);
            }
            _ => {}
        }
        self.check_lustre(change, place);
    }

    /// Nothing is taken from a rabbit whose containers may use it.
    fn check_containers(&self, change: &Change, place: &At) {
        let is_taken = match change {
            Change::Delete(..) => true,
            Change::Patch(_, patch) => {
                serde_json::to_string(patch).unwrap().contains("\"unmounted\"")
            }
            Change::Create(..)
            | Change::CreateKeys(..)
            | Change::Status(..)
            | Change::IfClaimed(..) => false,
        };
        let is_shown = place.0 == "ClientMount" && place.2.ends_with("-servers");
        if !is_taken || !is_shown {
            return;
        }
        let on_rabbit = self.objects.iter().filter(|((kind, rabbit, _), one)| {
            let ends = ["Succeeded", "Failed", "TooLate", "Suspended"].map(|state| json!(state));
            kind == "NodeContainers"
                && *rabbit == place.1
                && one["spec"]["containers"].is_array()
                && !ends.contains(&one["status"]["state"])
        });
        assert_eq!(on_rabbit.count(), 0, "{change} while a container runs there");
        let runs = self.objects.iter().filter(|((kind, ..), job)| {
            let conditions = job["status"]["conditions"].as_array();
            kind == "Job"
                && job["spec"]["template"]["spec"]["nodeSelector"]["kubernetes.io/hostname"]
                    == place.1
                && conditions.is_none_or(Vec::is_empty)
        });
        assert_eq!(runs.count(), 0, "{change} while a container runs there");
    }

    /// Whether a node has a mount of what this block storage is for.
    fn has_mounted(&self, node: &str, block: &At) -> bool {
        let of_block = |mount: &Value| {
            let reference = &mount["device"]["deviceReference"]["objectReference"];
            reference["name"] == block.2 && reference["namespace"] == block.1
        };
        let mounts =
            self.objects.iter().filter(|((kind, of, _), _)| kind == "ClientMount" && of == node);
        let mut all = mounts.flat_map(|(_, object)| object["spec"]["mounts"].as_array()).flatten();
        all.any(of_block)
    }

    /// One node at a time has an XFS mounted, and access to it.
    fn check_xfs(&self, mount: &Value, place: &At) {
        let reference = &mount["device"]["deviceReference"];
        if mount["type"] != "xfs" {
            return;
        }
        let others = self.objects.iter().filter(|((kind, node, _), other)| {
            let is_unmounted = other["spec"]["desiredState"] == "unmounted"
                && other["status"]["mounts"][0]["state"] == "unmounted";
            kind == "ClientMount"
                && *node != place.1
                && other["spec"]["mounts"][0]["device"]["deviceReference"] == *reference
                && !is_unmounted
        });
        let others: Vec<_> = others.map(|(at, _)| at).collect();
        assert!(others.is_empty(), "{place:?} mounts what {others:?} have mounted");
    }

    /// All there is, as the engine sees it after a start.
    pub(crate) fn world(&self) -> World {
        let containers = self.containers.clone();
        let settings = Settings {
            containers,
            index_names: self.index_names,
            claims_as: self.claims.me.clone(),
            ..Settings::default()
        };
        let mut world = World::new(settings);
        let settings = world.site.settings.clone();
        settings.kinds(&mut Lists { site: self, world: &mut world });
        self.claims.tell(&mut world);
        if self.containers.is_some() {
            for secret in self.known_keys.values() {
                world.keys_made(&serde_json::from_value(secret.clone()).unwrap());
            }
        }
        assert!(world.is_complete());
        world
    }

    /// A second later with each change.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + i64::try_from(self.version).unwrap()).unwrap()
    }

    /// What the engine would change now.
    pub(crate) fn planned(&self) -> Vec<Change> {
        let world = self.world();
        let mut changes = Vec::new();
        for key in world.keys() {
            changes.extend(plan_key(&world, &key, self.now()).changes);
        }
        changes
    }

    /// Lets time pass.
    pub(crate) fn pass_time(&mut self, seconds: u64) {
        self.version += seconds;
    }

    /// Whether the engine plans for a workflow again though nothing changes.
    pub(crate) fn looks_again(&self, name: &str) -> bool {
        let key = Key::Workflow(("default".to_owned(), name.to_owned()));
        plan_key(&self.world(), &key, self.now()).replan_soon
    }

    /// When the engine plans for a workflow again though nothing changes.
    pub(crate) fn next_look(&self, name: &str) -> Option<Timestamp> {
        let key = Key::Workflow(("default".to_owned(), name.to_owned()));
        plan_key(&self.world(), &key, self.now()).replan_at
    }

    /// Plans, and makes all of it or as much as `cut` leaves; whether anything was changed.
    pub(crate) fn step(&mut self, cut: impl Fn(usize) -> Vec<usize>) -> bool {
        let planned = self.planned();
        let chosen = cut(planned.len());
        let (is_stopped, mut changed) = (chosen.len() < planned.len(), false);
        for index in chosen {
            changed |= self.make(&planned[index]).is_ok();
        }
        if is_stopped {
            // No watch tells the next engine of Secrets: what this one made and found is forgotten with it.
            self.known_keys.clear();
        }
        let acted = self.act();
        changed || acted
    }

    /// Until nothing changes any more, where of each plan only what `cut` chooses is made before the engine starts anew.
    pub(crate) fn settle_with(&mut self, cut: impl Fn(usize) -> Vec<usize>) {
        for _ in 0..2_000 {
            if !self.step(&cut) {
                let rest: Vec<String> = self.planned().iter().map(ToString::to_string).collect();
                assert!(rest.is_empty(), "planned for ever: {rest:?}");
                return;
            }
        }
        panic!(
            "it never settles: {:?}",
            self.planned().iter().map(ToString::to_string).collect::<Vec<_>>()
        );
    }

    /// What the agents do; whether anything changed.
    pub(crate) fn act(&mut self) -> bool {
        if self.agents_sleep {
            return false;
        }
        let mut changed = false;
        let health = self.health;
        let places: Vec<At> = self.objects.keys().cloned().collect();
        for place in places {
            if self.dead.contains(&place.1) {
                continue;
            }
            changed |= match &*place.0 {
                "NnfNodeBlockStorage" => self.act_on(&place, "nnf_node_block_storage", block_status),
                "NnfNodeStorage" => self.act_on(&place, "nnf_node_storage", |object| {
                    let count = object["spec"]["count"].as_u64().unwrap();
                    json!({"ready": true, "health": health, "allocations": (0..count).map(|_| json!({"ready": true})).collect::<Vec<_>>()})
                }),
                "Job" => self.act_on_job(&place),
                "NodeContainers" => self.act_on_containers(&place),
                "PersistentVolume" | "PersistentVolumeClaim" => self.act_on_volume(&place),
                "NnfLustreMGT" if place.1 != "nnf-system" => self.act_on_mgt(&place),
                "ClientMount" => self.act_on(&place, "nnf_clientmount", |object| {
                    let state = &object["spec"]["desiredState"];
                    let mounts = object["spec"]["mounts"].as_array().unwrap();
                    let mounts: Vec<Value> = mounts.iter().map(|_| json!({"state": state, "ready": true})).collect();
                    json!({"allReady": true, "mounts": mounts})
                }),
                _ => false,
            };
        }
        changed
    }

    fn act_on(&mut self, place: &At, finalizer: &str, status: impl Fn(&Value) -> Value) -> bool {
        let Some(object) = self.objects.get(place) else { return false };
        let finalizer = format!("nnf.cray.hpe.com/{finalizer}");
        let is_held = object["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|all| all.contains(&json!(finalizer)));
        let (kind, namespace, name) = place;
        if !object["metadata"]["deletionTimestamp"].is_null() {
            if kind == "NnfNodeBlockStorage"
                && self.objects.contains_key(&at("NnfNodeStorage", namespace, name))
            {
                return false;
            }
            self.edit(kind, namespace, name, |object| object["metadata"]["finalizers"] = json!([]));
            self.collect();
            return true;
        }
        let told = match self.errors.get(kind) {
            Some(error) => json!({"ready": false, "allReady": false, "mounts": [], "error": error}),
            None => status(object),
        };
        if is_held && object["status"] == told {
            return false;
        }
        self.edit(kind, namespace, name, |object| {
            object["metadata"]["finalizers"] = json!([finalizer]);
            object["status"] = told;
        });
        true
    }

    /// Names of what is there of these kinds.
    pub(crate) fn names(&self, kind: &str) -> Vec<String> {
        let of = self.objects.keys().filter(|(of, ..)| of == kind);
        of.map(|(_, namespace, name)| format!("{namespace}/{name}")).collect()
    }
}

/// Lists each kind that an engine acts on.
struct Lists<'a> {
    site: &'a Site,
    world: &'a mut World,
}

impl ForEachKind for Lists<'_> {
    fn kind<K: Kept>(&mut self, _: Scope) {
        if self.site.unlisted.contains(&&*K::kind(&())) {
            self.world.take::<K>(Event::Failing(Trouble::Kind("forbidden".to_owned())));
            return;
        }
        let of = self.site.objects.iter().filter(|((kind, ..), _)| *kind == *K::kind(&()));
        let is_readable = |at: &At| !self.site.unreadable.contains(at);
        let read = of.map(|(at, object)| read::<K>(at, object, is_readable(at)));
        self.world.take(Event::Listed(read.collect()));
    }
}

/// Whether a mount is of what this object is of: each rabbit has its own.
fn is_of(mount: &Value, place: &At) -> bool {
    let device = &mount["spec"]["mounts"][0]["device"]["deviceReference"]["objectReference"];
    device["kind"] != "NnfNodeStorage"
        || device["namespace"] == place.1 && device["name"] == place.2
}

/// Marks an object as deleted.
fn mark(object: &mut Value, version: &mut u64) {
    let metadata = &mut object["metadata"];
    if metadata["deletionTimestamp"].is_null() {
        *version += 1;
        metadata["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
        metadata["resourceVersion"] = json!(version.to_string());
    }
}

/// An object as the engine's watch brings it.
pub(crate) fn read<K: Kept>(at: &At, object: &Stored, is_readable: bool) -> Item<K> {
    if !is_readable {
        let metadata = serde_json::from_value(object["metadata"].clone()).unwrap();
        return Err(Unreadable { metadata, why: "for the test".to_owned() });
    }
    Ok(object.decode().unwrap_or_else(|error| panic!("{at:?}: {error}")))
}

fn block_status(object: &Value) -> Value {
    let allocations = object["spec"]["allocations"].as_array().unwrap().iter().enumerate();
    let allocations = allocations.map(|(index, allocation)| {
        let access = allocation["access"].as_array().unwrap().iter();
        let access: BTreeMap<String, Value> = access
            .map(|node| {
                (node.as_str().unwrap().to_owned(), json!({"storageGroupId": format!("g-{index}")}))
            })
            .collect();
        json!({
            "accesses": access, "capacityAllocated": allocation["capacity"],
            "devices": [{"NQN": "nqn.2026-11.test:d", "namespaceId": (index + 1).to_string()}],
        })
    });
    json!({"ready": true, "allocations": allocations.collect::<Vec<_>>()})
}

/// Some of so many changes, at least one, in any order.
pub(crate) fn some_in_any_order(random: &mut fastrand::Rng, length: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    random.shuffle(&mut order);
    order.truncate(random.usize(..=length).max(length.min(1)));
    order
}
