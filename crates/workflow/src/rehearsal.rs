//! Rehearses a job: plans its states on a copy of the engine's objects, up to the point at which rabbits and computes
//! would have to act. Does no I/O: nothing reaches the API.

use std::collections::BTreeMap;

use api::{Computes, RabbitLabels, Servers, Workflow, WorkflowState};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::{SignedDuration, Timestamp},
};
use kube::{Resource, api::DynamicObject, core::TypeMeta};
use serde_json::{Value, json};

use crate::{
    admit::{admit, complete},
    change::{Change, Target},
    plan::plan_key,
    progress::Outcome,
    world::{Key, World},
};

/// Maximum number of plans for one state. A state needs fewer: after each plan the objects have changed as the plan
/// said.
const PLANS: usize = 16;

/// Time between two plans. The engine reports some errors only after a workload manager had the time to correct its
/// request.
const PAUSE: SignedDuration = SignedDuration::from_secs(60);

/// First resource version of the rehearsal's objects: later than each version of the API.
const FIRST_VERSION: u64 = u64::MAX / 2;

/// The result of a rehearsal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rehearsal {
    pub storage: Vec<RehearsedStorage>,
    /// Objects that the engine would create for rabbits and computes, in the order of their creation.
    pub objects: Vec<DynamicObject>,
    /// What would fail or wait for other jobs, each with the number of its directive; `None` for the whole Workflow.
    pub failures: Vec<(Option<usize>, String)>,
}

/// Allocations of one directive on one rabbit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RehearsedStorage {
    pub directive: usize,
    pub rabbit: String,
    /// Label of the allocation set: `xfs`, `gfs2`, `raw`, `ost`, `mdt`, `mgt` or `mgtmdt`.
    pub label: String,
    pub count: u64,
    /// Size of each allocation in bytes.
    pub bytes: u64,
    /// Free bytes of the rabbit before these allocations.
    pub free: u64,
}

/// Plans the states Proposal and Setup of a new Workflow on this copy of all objects.
#[must_use]
pub fn rehearse(world: World, workflow: &Workflow, computes: &[String]) -> Rehearsal {
    let free = free_bytes(&world);
    let at = Target::from_object(workflow);
    let mut stage =
        Stage { world, now: Timestamp::now(), version: FIRST_VERSION, created: Vec::new(), at };
    let mut failures = stage.submit(workflow);
    if failures.is_empty() {
        failures = stage.settle();
    }
    if failures.is_empty() {
        stage.request_setup(computes);
        failures = stage.settle();
    }
    stage.rehearsal(failures, &free)
}

/// Returns the free bytes of each rabbit, as its NnfNode reports them.
fn free_bytes(world: &World) -> BTreeMap<String, u64> {
    let free = |(rabbit, node): (&String, &std::sync::Arc<api::NnfNode>)| {
        let bytes = node.status.as_ref().map_or(0, |status| status.capacity);
        (rabbit.clone(), u64::try_from(bytes).unwrap_or_default())
    };
    world.site.nodes.iter().map(free).collect()
}

/// The copy of all objects, and what the rehearsal has created in it.
struct Stage {
    world: World,
    /// Time of the next plan.
    now: Timestamp,
    version: u64,
    /// Created objects, in order.
    created: Vec<Target>,
    /// The Workflow.
    at: Target,
}

type Failures = Vec<(Option<usize>, String)>;

impl Stage {
    /// Puts the new Workflow into the copy, as the API would store it.
    fn submit(&mut self, workflow: &Workflow) -> Failures {
        let rules = self.world.rules().cloned();
        let new = serde_json::to_value(workflow).unwrap_or_default();
        if self.world.find(&self.at).is_some() {
            return vec![(None, format!("{} exists already: give another --name", self.at))];
        }
        let completed = complete(&new, rules.as_deref(), self.now).unwrap_or(new);
        if let Err(refusal) = admit(None, &completed, rules.as_deref()) {
            return vec![(None, refusal)];
        }
        self.create(&self.at.clone(), completed);
        Vec::new()
    }

    /// Names the computes and requests Setup, as a workload manager does.
    fn request_setup(&mut self, computes: &[String]) {
        let names: Vec<_> = computes.iter().map(|name| json!({"name": name})).collect();
        let computes = Target { resource: resource::<Computes>(), ..self.at.clone() };
        self.edit(&computes, |object| object["data"] = names.into());
        let state = WorkflowState::Setup;
        self.edit(&self.at.clone(), |object| {
            object["spec"]["desiredState"] = state.as_str().into();
        });
    }

    /// Plans and makes the planned changes in the copy until a plan contains no more of them. Returns what fails.
    fn settle(&mut self) -> Failures {
        let key = Key::Workflow((self.at.namespace.clone(), self.at.name.clone()));
        let mut outcomes = Vec::new();
        let mut is_quiet = false;
        for _ in 0..PLANS {
            let plan = plan_key(&self.world, &key, self.now);
            outcomes = plan.outcomes;
            let before = self.version;
            plan.changes.iter().for_each(|change| self.make(change.inner()));
            self.now += PAUSE;
            if self.version == before && std::mem::replace(&mut is_quiet, true) {
                break;
            }
        }
        let failure = |(index, outcome)| match outcome {
            Outcome::Failed(error) => {
                Some((Some(index), error.user_message.unwrap_or(error.debug_message)))
            }
            Outcome::Queued(what) => Some((Some(index), format!("it would wait for {what}"))),
            Outcome::Done | Outcome::Working | Outcome::Wait(_) => None,
        };
        outcomes.into_iter().enumerate().filter_map(failure).collect()
    }

    /// Makes a change in the copy. A patch that changes nothing but the status of the Workflow is not a reason to plan
    /// again for ever: the number of plans is limited.
    fn make(&mut self, change: &Change) {
        match change {
            Change::Create(target, object) => {
                self.create(target, serde_json::to_value(object).unwrap_or_default());
            }
            Change::Patch(target, patch) | Change::Status(target, patch) => {
                self.edit(target, |object| {
                    // The copy has the version that the plan saw, so the patch fits.
                    let _ = json_patch::patch(object, patch);
                });
            }
            Change::CreateKeys(..) | Change::Delete(..) | Change::IfClaimed(..) => {}
        }
    }

    fn create(&mut self, target: &Target, mut object: Value) {
        self.version += 1;
        let metadata = &mut object["metadata"];
        metadata["uid"] =
            format!("00000000-0000-4000-8000-{:012x}", self.version & 0xffff_ffff).into();
        metadata["resourceVersion"] = self.version.to_string().into();
        metadata["generation"] = 1.into();
        metadata["creationTimestamp"] = json!(Time(self.now));
        let lists = self.world.lists();
        self.store(target, object, Some(lists));
        self.created.push(target.clone());
    }

    fn edit(&mut self, target: &Target, edit: impl FnOnce(&mut Value)) {
        let Some(before) = self.world.find(target) else { return };
        let before = serde_json::to_value(&before).unwrap_or_default();
        let mut object = before.clone();
        edit(&mut object);
        if object != before {
            self.version += 1;
            object["metadata"]["resourceVersion"] = self.version.to_string().into();
            self.store(target, object, None);
        }
    }

    fn store(&mut self, target: &Target, object: Value, is_new: Option<u64>) {
        let (api_version, kind) =
            (target.resource.api_version.clone(), target.resource.kind.clone());
        if let Ok(object) = serde_json::from_value::<DynamicObject>(object) {
            let object = DynamicObject { types: Some(TypeMeta { api_version, kind }), ..object };
            self.world.take_stored(object, is_new);
        }
    }

    fn rehearsal(mut self, failures: Failures, free: &BTreeMap<String, u64>) -> Rehearsal {
        let created = std::mem::take(&mut self.created);
        let (mut storage, mut objects) = (Vec::new(), Vec::new());
        for target in &created {
            let Some(object) = self.world.find(target) else { continue };
            if target.resource.kind == Servers::kind(&()) {
                storage.extend(object.try_parse().iter().flat_map(|it| rehearsed(it, free)));
            } else if target.namespace != self.at.namespace {
                objects.push(object);
            }
        }
        Rehearsal { storage, objects, failures }
    }
}

fn resource<K: Resource<DynamicType = ()>>() -> kube::api::ApiResource {
    kube::api::ApiResource::erase::<K>(&())
}

/// Returns the allocations that a filled Servers places on rabbits.
fn rehearsed(servers: &Servers, free: &BTreeMap<String, u64>) -> Vec<RehearsedStorage> {
    let directive = servers.directive_index().and_then(|index| index.parse().ok());
    let number = |value: i64| u64::try_from(value).unwrap_or_default();
    let sets = servers.spec.allocation_sets.iter();
    let storage = sets.flat_map(|set| set.storage.iter().map(move |storage| (set, storage)));
    let storage = storage.map(|(set, storage)| RehearsedStorage {
        directive: directive.unwrap_or_default(),
        rabbit: storage.name.clone(),
        label: set.label.clone(),
        count: number(storage.allocation_count),
        bytes: number(set.allocation_size),
        free: free.get(&storage.name).copied().unwrap_or_default(),
    });
    storage.collect()
}
