//! The engine as it runs: it hears of changes by its watches, and plans again what they wake and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    ClientMount, Computes, ContainerRun, DWDirectiveRule, DirectiveBreakdown, NnfContainerProfile,
    NnfLustreMgt, NnfNode, NnfNodeBlockStorage, NnfNodeStorage, NnfPortManager, NnfStorageProfile,
    NodeContainers, PersistentStorageInstance, Servers, Storage, SystemConfiguration, SystemStatus,
    Workflow,
};
use controller::Event;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Pod, Service},
    networking::v1::NetworkPolicy,
};
use workflow::{
    Containers, IndexNames,
    plan::plan_key,
    progress::Outcome,
    world::{Kept, Key, Wake, World},
};

use crate::{
    claims::Claimed,
    site::{At, Site, read},
    stored::Stored,
};

/// An engine that runs, unless it was not started yet.
#[derive(Debug, Default)]
pub(crate) struct Live(Option<Running>);

impl Live {
    /// What the engine that runs knows, if it has heard of everything.
    pub(crate) fn world(&self, site: &Site) -> Option<&World> {
        let running = self.0.as_ref().filter(|running| running.seen == site.objects);
        running.map(|running| &running.world)
    }
}

impl Clone for Live {
    /// The copy of a site starts an engine of its own.
    fn clone(&self) -> Self {
        Self(None)
    }
}

#[derive(Debug)]
struct Running {
    world: World,
    /// What its watches brought.
    seen: BTreeMap<At, Stored>,
    /// What it could not read when it started.
    unreadable: Vec<At>,
    /// Where it was told to run containers.
    containers: Option<Containers>,
    index_names: IndexNames,
    claims: Claimed,
    woken: BTreeSet<Key>,
    /// Whose last plan left something to wait for, and whether something was wrong.
    waiting: BTreeMap<Key, bool>,
}

impl Running {
    fn wake(&mut self, wakes: Vec<Wake>) {
        for wake in wakes {
            match wake {
                Wake::Key(key) => drop(self.woken.insert(key)),
                Wake::Waiting => self.woken.extend(self.waiting.keys().cloned()),
                Wake::Failing => {
                    let failing = self.waiting.iter().filter(|(_, is_failing)| **is_failing);
                    self.woken.extend(failing.map(|(key, _)| key.clone()));
                }
            }
        }
    }

    /// Takes in what changed since it was last asked.
    fn hear(&mut self, site: &Site) {
        // One of the same name is another object.
        let is_gone = |at: &At, object: &Stored| {
            let now = site.objects.get(at);
            now.is_none_or(|now| now["metadata"]["uid"] != object["metadata"]["uid"])
        };
        let gone: Vec<_> = self.seen.extract_if(.., |at, object| is_gone(at, object)).collect();
        let version = |object: &Stored| object["metadata"]["resourceVersion"].clone();
        let differs = |at: &At, object: &Stored| {
            self.seen.get(at).is_none_or(|seen| version(seen) != version(object))
        };
        let changed = site.objects.iter().filter(|(at, object)| differs(at, object));
        let changed: Vec<_> = changed.map(|(at, object)| (at.clone(), object.clone())).collect();
        self.seen.extend(changed.iter().cloned());
        let told = gone.iter().map(|one| (one, true)).chain(changed.iter().map(|one| (one, false)));
        for ((at, object), is_gone) in told {
            let is_readable = !site.unreadable.contains(at);
            let wakes = tell(&mut self.world, at, object, (is_readable, is_gone));
            self.wake(wakes);
        }
    }
}

fn tell(world: &mut World, at: &At, object: &Stored, how: (bool, bool)) -> Vec<Wake> {
    fn of<K: Kept>(
        world: &mut World,
        at: &At,
        object: &Stored,
        (is_readable, is_gone): (bool, bool),
    ) -> Vec<Wake> {
        let item = read::<K>(at, object, is_readable);
        world.take(if is_gone { Event::Deleted(item) } else { Event::Applied(item) })
    }
    match &*at.0 {
        "Workflow" => of::<Workflow>(world, at, object, how),
        "Computes" => of::<Computes>(world, at, object, how),
        "DirectiveBreakdown" => of::<DirectiveBreakdown>(world, at, object, how),
        "Servers" => of::<Servers>(world, at, object, how),
        "ClientMount" => of::<ClientMount>(world, at, object, how),
        "NnfLustreMGT" => of::<NnfLustreMgt>(world, at, object, how),
        "NnfNodeBlockStorage" => of::<NnfNodeBlockStorage>(world, at, object, how),
        "NnfNodeStorage" => of::<NnfNodeStorage>(world, at, object, how),
        "NnfStorageProfile" => of::<NnfStorageProfile>(world, at, object, how),
        "NnfNode" => of::<NnfNode>(world, at, object, how),
        "Storage" => of::<Storage>(world, at, object, how),
        "SystemConfiguration" => of::<SystemConfiguration>(world, at, object, how),
        "SystemStatus" => of::<SystemStatus>(world, at, object, how),
        "PersistentStorageInstance" => of::<PersistentStorageInstance>(world, at, object, how),
        "DWDirectiveRule" => of::<DWDirectiveRule>(world, at, object, how),
        "NnfContainerProfile" => of::<NnfContainerProfile>(world, at, object, how),
        "NnfPortManager" => of::<NnfPortManager>(world, at, object, how),
        "NodeContainers" => of::<NodeContainers>(world, at, object, how),
        "ContainerRun" => of::<ContainerRun>(world, at, object, how),
        "Job" => of::<Job>(world, at, object, how),
        "Pod" => of::<Pod>(world, at, object, how),
        "Service" => of::<Service>(world, at, object, how),
        "NetworkPolicy" => of::<NetworkPolicy>(world, at, object, how),
        "ConfigMap" => of::<ConfigMap>(world, at, object, how),
        "Secret" if how.1 => Vec::new(),
        "Secret" => world.keys_made(&serde_json::from_value((**object).clone()).unwrap()),
        other => panic!("the engine does not watch {other}"),
    }
}

impl Site {
    /// Until nothing changes any more. The engine plans only what it is woken for; whatever it would change after a start now,
    /// it was not woken for.
    pub(crate) fn settle(&mut self) {
        // What it has read once it knows, whatever becomes of it: what cannot be read is there when it starts.
        let is_same = |running: &Running| {
            running.unreadable == self.unreadable
                && running.containers == self.containers
                && running.index_names == self.index_names
                && running.claims == self.claims
        };
        let running = self.live.0.take().filter(is_same);
        let mut running = running.unwrap_or_else(|| self.started());
        for _ in 0..2_000 {
            let changed = self.run(&mut running);
            if !self.act() && !changed {
                let rest = self.planned();
                assert!(rest.is_empty(), "nothing woke the engine for {rest:?}");
                self.live = Live(Some(running));
                return;
            }
        }
        panic!("it never settles: {:?}", running.woken);
    }

    fn started(&self) -> Running {
        let world = self.world();
        let woken = world.keys().into_iter().collect();
        Running {
            world,
            seen: self.objects.clone(),
            unreadable: self.unreadable.clone(),
            containers: self.containers.clone(),
            index_names: self.index_names,
            claims: self.claims.clone(),
            woken,
            waiting: BTreeMap::new(),
        }
    }

    /// Plans all that was woken, and makes it; whether anything was changed.
    fn run(&mut self, running: &mut Running) -> bool {
        let mut changed = false;
        running.hear(self);
        for key in std::mem::take(&mut running.woken) {
            let plan = plan_key(&running.world, &key, self.now());
            let is_failing = plan.outcomes.iter().any(|one| matches!(one, Outcome::Failed(_)));
            if plan.outcomes.iter().all(|one| *one == Outcome::Done) {
                running.waiting.remove(&key);
            } else {
                running.waiting.insert(key.clone(), is_failing);
            }
            for change in &plan.changes {
                // Who is refused plans again soon.
                match self.make(change) {
                    Ok(()) => changed = true,
                    Err(_) => drop(running.woken.insert(key.clone())),
                }
            }
            if plan.is_to_tell {
                running.woken.insert(key);
            }
            running.hear(self);
        }
        changed
    }
}
