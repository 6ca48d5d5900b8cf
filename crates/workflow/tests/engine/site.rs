//! A site in memory: an API that behaves as kube-apiserver was observed to behave, and agents that act as the objects
//! request. After every change the site checks invariants, for example that no storage is removed while it is mounted.

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
    world::{ForEachKind, Key, Scope, WatchedKind, World},
};

use crate::{claims::Coordinator, live::Live, rules, stored::Stored, volumes};

/// Kind, namespace and name of an object.
pub(crate) type At = (String, String, String);

/// All objects of a site, and how its API and agents behave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Site {
    pub(crate) objects: BTreeMap<At, Stored>,
    version: u64,
    /// Number of the engine's writes that were stored.
    pub(crate) writes: usize,
    /// If true, agents do nothing.
    pub(crate) agents_sleep: bool,
    /// Health of file systems that agents report.
    pub(crate) health: &'static str,
    /// Errors that agents report instead of their work, by kind.
    pub(crate) errors: BTreeMap<String, Value>,
    /// Nodes whose agents are dead.
    pub(crate) dead: Vec<String>,
    /// Where containers run; `None` where they are switched off.
    pub(crate) containers: Option<Containers>,
    /// The coordinator that runs the engine, and the coordinators whose Leases have expired.
    pub(crate) claims: Coordinator,
    /// Names of the directories in a rabbit's index tree.
    pub(crate) index_names: IndexNames,
    /// Kinds that the engine has no right to list.
    pub(crate) unlisted: Vec<&'static str>,
    /// If true, suspended and deleted containers do not end.
    pub(crate) pods_stay: bool,
    /// Secrets that the running engine knows of, because it created them or found them.
    known_keys: BTreeMap<At, Value>,
    /// How often the engine found a Secret that it was about to create.
    pub(crate) keys_found: usize,
    /// Objects that cannot be decoded as their kind.
    pub(crate) unreadable: Vec<At>,
    /// The running engine, unless the test restarts it with each step.
    pub(crate) live: Live,
}

pub(crate) fn at(kind: &str, namespace: &str, name: &str) -> At {
    (kind.to_owned(), namespace.to_owned(), name.to_owned())
}

impl Site {
    /// Returns a site with one rabbit that serves this number of computes and has this number of bytes on its drives.
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

    /// Adds a rabbit that serves these computes.
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

    /// Stores an object as if a client created it.
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

    /// Changes an object as another client would.
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

    /// Deletes an object. The object disappears at once, or with its last finalizer.
    pub(crate) fn delete(&mut self, at: &At) {
        let Some(object) = self.objects.get_mut(at) else { return };
        mark(object, &mut self.version);
        self.collect();
    }

    /// Removes deleted objects without finalizers, and objects whose owner is gone.
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

    /// Makes a change of the engine, or refuses it as the API does.
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
                    .ok_or_else(|| format!("{place:?} does not exist"))?
                    .clone();
                let mut new = (*old).clone();
                json_patch::patch(&mut new, patch).map_err(|error| error.to_string())?;
                if new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"] {
                    return Err(format!("{place:?} has changed since"));
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
            Change::IfClaimed(claim, change) => {
                self.check_claim(claim)?;
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

    /// Keeps a deleted Job until its pods have ended, as an API server and its garbage collector do after a foreground
    /// deletion.
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

    /// Starts or removes containers, as a rabbit's agent does.
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

    /// Panics if a change breaks an invariant.
    fn check(&self, change: &Change, place: &At) {
        let owner_uid = |object: &Value| {
            object["metadata"]["labels"]["dataworkflowservices.github.io/owner.uid"].clone()
        };
        let whose = self.objects.get(place).map(|object| owner_uid(object));
        let mounted: Vec<&str> = self
            .objects
            .iter()
            .filter(|((kind, ..), object)| {
                let is_asked = object["spec"]["desiredState"] == "mounted";
                let is_reported = object["status"]["mounts"][0]["state"] == "mounted";
                kind == "ClientMount" && (is_asked || is_reported)
            })
            .filter(|(_, object)| whose == Some(owner_uid(object)) && is_for_block(object, place))
            .map(|((_, node, _), _)| node.as_str())
            .filter(|node| !self.dead.iter().any(|dead| dead == node))
            .collect();
        self.check_containers(change, place);
        self.check_movements(change, place);
        self.check_volumes(change, place);
        match change {
            Change::Delete(..) if matches!(&*place.0, "NnfNodeStorage" | "NnfNodeBlockStorage") => {
                assert!(mounted.is_empty(), "{change} while the storage is mounted on {mounted:?}");
            }
            Change::Patch(_, patch) if place.0 == "NnfNodeBlockStorage" => {
                let mut after = (*self.objects[place]).clone();
                json_patch::patch(&mut after, patch).unwrap();
                let access = after["spec"]["allocations"].to_string();
                assert_eq!(after["spec"]["allocations"][0]["access"][0], place.1);
                let mut here = mounted.iter().filter(|node| self.has_mounted(node, place));
                let cut = here.find(|node| !access.contains(&format!("{node:?}")));
                assert_eq!(
                    cut, None,
                    "{change} withdraws access from a node that has the storage mounted"
                );
            }
            Change::Create(_, object) if place.0 == "ClientMount" => {
                let mount = &serde_json::to_value(object).unwrap()["spec"]["mounts"][0];
                self.check_xfs(mount, place);
            }
            _ => {}
        }
        self.check_lustre(change, place);
    }

    /// Panics if a change takes a mount away from a rabbit whose containers may use it.
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
        let on_rabbit = self.objects.iter().filter(|((kind, rabbit, _), object)| {
            let ends = ["Succeeded", "Failed", "TooLate", "Suspended"].map(|state| json!(state));
            kind == "NodeContainers"
                && *rabbit == place.1
                && object["spec"]["containers"].is_array()
                && !ends.contains(&object["status"]["state"])
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

    /// Returns true if a node mounts an allocation of this block storage.
    fn has_mounted(&self, node: &str, block: &At) -> bool {
        let of_block = |mount: &Value| {
            let reference = &mount["device"]["deviceReference"]["objectReference"];
            reference["name"] == block.2 && reference["namespace"] == block.1
        };
        let mounts = self
            .objects
            .iter()
            .filter(|((kind, namespace, _), _)| kind == "ClientMount" && namespace == node);
        let mut all = mounts.flat_map(|(_, object)| object["spec"]["mounts"].as_array()).flatten();
        all.any(of_block)
    }

    /// Panics if a node mounts an XFS that another node may have mounted.
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

    /// Returns the world of an engine that has just started.
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
        self.claims.deliver_leases(&mut world);
        if self.containers.is_some() {
            for secret in self.known_keys.values() {
                world.add_keys(&serde_json::from_value(secret.clone()).unwrap());
            }
        }
        assert!(world.is_complete());
        world
    }

    /// Returns the time, which advances by one second with each change.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + i64::try_from(self.version).unwrap()).unwrap()
    }

    /// Returns all changes that the engine would make now.
    pub(crate) fn plan_all(&self) -> Vec<Change> {
        let world = self.world();
        let mut changes = Vec::new();
        for key in world.keys() {
            changes.extend(plan_key(&world, &key, self.now()).changes);
        }
        changes
    }

    pub(crate) fn pass_time(&mut self, seconds: u64) {
        self.version += seconds;
    }

    /// Returns when the engine plans for a workflow again without an event.
    pub(crate) fn replan_time(&self, name: &str) -> Option<Timestamp> {
        let key = Key::Workflow(("default".to_owned(), name.to_owned()));
        plan_key(&self.world(), &key, self.now()).replan_at
    }

    /// Plans all keys, and makes those changes that `cut` chooses. Returns true if anything changed.
    pub(crate) fn step(&mut self, cut: impl Fn(usize) -> Vec<usize>) -> bool {
        let planned = self.plan_all();
        let chosen = cut(planned.len());
        let (is_stopped, mut changed) = (chosen.len() < planned.len(), false);
        for index in chosen {
            changed |= self.make(&planned[index]).is_ok();
        }
        if is_stopped {
            // An engine forgets the Secrets when it stops, and no watch delivers them to the next engine.
            self.known_keys.clear();
        }
        let acted = self.act();
        changed || acted
    }

    /// Repeats [`Self::step`] until nothing changes. If `cut` leaves out changes of a plan, a new engine
    /// starts after this plan.
    pub(crate) fn settle_with(&mut self, cut: impl Fn(usize) -> Vec<usize>) {
        for _ in 0..2_000 {
            if !self.step(&cut) {
                let rest: Vec<String> = self.plan_all().iter().map(ToString::to_string).collect();
                assert!(rest.is_empty(), "these changes are planned again and again: {rest:?}");
                return;
            }
        }
        panic!(
            "the objects never stop changing: {:?}",
            self.plan_all().iter().map(ToString::to_string).collect::<Vec<_>>()
        );
    }

    /// Acts as the agents do. Returns true if anything changed.
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
                "NnfDataMovement" => self.act_on_movement(&place),
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
        let report = match self.errors.get(kind) {
            Some(error) => json!({"ready": false, "allReady": false, "mounts": [], "error": error}),
            None => status(object),
        };
        if is_held && object["status"] == report {
            return false;
        }
        self.edit(kind, namespace, name, |object| {
            object["metadata"]["finalizers"] = json!([finalizer]);
            object["status"] = report;
        });
        true
    }

    /// Returns the namespaces and names of all objects of a kind.
    pub(crate) fn names(&self, kind: &str) -> Vec<String> {
        let keys = self.objects.keys().filter(|(known, ..)| known == kind);
        keys.map(|(_, namespace, name)| format!("{namespace}/{name}")).collect()
    }
}

/// Delivers a complete list of each kind that an engine acts on.
struct Lists<'a> {
    site: &'a Site,
    world: &'a mut World,
}

impl ForEachKind for Lists<'_> {
    fn kind<K: WatchedKind>(&mut self, _: Scope) {
        if self.site.unlisted.contains(&&*K::kind(&())) {
            self.world.take::<K>(Event::Failing(Trouble::Kind("forbidden".to_owned())));
            return;
        }
        let objects = self.site.objects.iter().filter(|((kind, ..), _)| *kind == *K::kind(&()));
        let is_readable = |at: &At| !self.site.unreadable.contains(at);
        let read = objects.map(|(at, object)| read::<K>(at, object, is_readable(at)));
        self.world.take(Event::Listed(read.collect()));
    }
}

/// Returns true if a mount is of this block storage. A mount of Lustre names no device, so it counts as a mount
/// of every block storage.
fn is_for_block(mount: &Value, place: &At) -> bool {
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

/// Returns an object as the engine's watch delivers it.
pub(crate) fn read<K: WatchedKind>(at: &At, object: &Stored, is_readable: bool) -> Item<K> {
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

/// Returns some of the indexes up to `length` in any order, at least one.
pub(crate) fn some_in_any_order(random: &mut fastrand::Rng, length: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    random.shuffle(&mut order);
    order.truncate(random.usize(..=length).max(length.min(1)));
    order
}
