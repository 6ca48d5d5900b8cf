//! The engine: it reads all objects, plans, and makes its changes at once.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use controller::{Event, Item, Trouble, Unreadable};
use directive::{Presets, Ruleset};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{At, Objects, workflow_key};
use crate::{
    change::Change,
    objects::{sessions::SessionChange, site::Settings},
    plan::{
        Plan, plan_key,
        tests::{agents::act, describe::describe},
    },
    profile::ruleset,
    shipped,
    world::{ForEachKind, Scope, WatchedKind, World},
};

impl Objects {
    /// Makes all changes, and lets the agents answer, until nothing changes.
    #[track_caller]
    pub(crate) fn settle(mut self) -> Self {
        for _ in 0..200 {
            let changes = self.changes();
            changes.iter().for_each(|change| self.make(change));
            if !self.act() && changes.is_empty() {
                return self;
            }
        }
        panic!("the objects never stop changing: {:#?}", self.lines());
    }

    /// Makes all planned changes, and lets the agents answer once.
    pub(crate) fn step(mut self) -> Self {
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
    pub(super) fn make(&mut self, change: &Change) {
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

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + self.seconds).unwrap()
    }

    /// Returns the world of an engine that has just started.
    pub(crate) fn world(&self) -> World {
        let settings =
            Settings { silent_after: Some(Duration::from_secs(60)), ..self.settings.clone() };
        let mut world = World::new(settings);
        let presets = &self.settings.limits.presets;
        world.site.rules = if **presets == Presets::default() {
            shipped_rules()
        } else {
            Arc::new(ruleset([&shipped::rules()]).with_presets(presets.clone()))
        };
        self.settings.kinds(&mut Lists { site: self, world: &mut world });
        let time = |second| Timestamp::from_second(1_800_000_000 + second).unwrap();
        world.site.sessions.begin(time(0));
        for (node, second) in &self.sessionless {
            let at = time(*second);
            world.take_session(SessionChange { node: node.clone(), is_open: false, at });
        }
        for (_, secret) in self.all.iter().filter(|(at, _)| at.0 == "Secret") {
            world.add_keys(&serde_json::from_value(secret.clone()).unwrap());
        }
        world
    }

    /// Returns all changes that the engine plans, of all workflows, rabbits and persistent storage.
    pub(super) fn changes(&self) -> Vec<Change> {
        let world = self.world();
        let plan = |key| plan_key(&world, key, self.now()).changes;
        world.keys().iter().flat_map(plan).collect()
    }

    /// Returns the plan of workflow `w`.
    pub(crate) fn plan(&self) -> Plan {
        plan_key(&self.world(), &workflow_key(), self.now())
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.changes().iter().map(|change| describe(change, &self.all)).collect()
    }

    pub(super) fn item<K: WatchedKind>(&self, at: &At, object: &Value) -> Item<K> {
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
