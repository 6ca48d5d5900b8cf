//! The engine as it runs: it hears of changes by its watches, and plans again what they wake and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use controller::Event;
use k8s_openapi::jiff::Timestamp;
use workflow::{
    Containers, IndexNames,
    plan::plan_key,
    progress::Outcome,
    world::{ForEachKind, Kept, Key, Scope, Wake, World},
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
    /// Keys that the engine plans again at a certain time.
    due: BTreeMap<Key, Timestamp>,
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

fn tell(
    world: &mut World,
    at: &At,
    object: &Stored,
    (is_readable, is_gone): (bool, bool),
) -> Vec<Wake> {
    if at.0 == "Secret" {
        let secret = || serde_json::from_value((**object).clone()).unwrap();
        return if is_gone { Vec::new() } else { world.keys_made(&secret()) };
    }
    let settings = world.site.settings.clone();
    let mut event = Tell { world, at, object, is_readable, is_gone, wakes: None };
    settings.kinds(&mut event);
    event.wakes.unwrap_or_else(|| panic!("the engine does not watch {}", at.0))
}

/// An event of the watch of an object's kind.
struct Tell<'a> {
    world: &'a mut World,
    at: &'a At,
    object: &'a Stored,
    is_readable: bool,
    is_gone: bool,
    /// What it wakes, once the kind is found.
    wakes: Option<Vec<Wake>>,
}

impl ForEachKind for Tell<'_> {
    fn kind<K: Kept>(&mut self, _: Scope) {
        if self.at.0 != K::kind(&()) {
            return;
        }
        let item = read::<K>(self.at, self.object, self.is_readable);
        let event = if self.is_gone { Event::Deleted(item) } else { Event::Applied(item) };
        self.wakes = Some(self.world.take(event));
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
            due: BTreeMap::new(),
        }
    }

    /// Plans all that was woken, and makes it; whether anything was changed.
    fn run(&mut self, running: &mut Running) -> bool {
        let mut changed = false;
        running.hear(self);
        running
            .woken
            .extend(running.due.extract_if(.., |_, at| *at <= self.now()).map(|one| one.0));
        for key in std::mem::take(&mut running.woken) {
            running.due.remove(&key);
            let plan = plan_key(&running.world, &key, self.now());
            let is_failing = plan
                .outcomes
                .iter()
                .any(|one| matches!(one, Outcome::Failed(_) | Outcome::Queued(_)));
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
            if plan.replan_soon {
                running.woken.insert(key.clone());
            }
            running.due.extend(plan.replan_at.map(|at| (key, at)));
            running.hear(self);
        }
        changed
    }
}
