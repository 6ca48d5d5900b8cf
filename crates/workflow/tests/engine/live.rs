//! Runs the engine in memory: the engine learns of changes by its watches, and plans again only the keys
//! that the changes wake.

use std::collections::{BTreeMap, BTreeSet};

use controller::Event;
use k8s_openapi::jiff::Timestamp;
use workflow::{
    Containers, IndexNames,
    plan::plan_key,
    progress::Outcome,
    world::{ForEachKind, Key, Scope, Wake, WatchedKind, World},
};

use crate::{
    claims::Coordinator,
    site::{At, Site, read},
    stored::Stored,
};

/// The running engine; `None` before it is started.
#[derive(Debug, Default)]
pub(crate) struct Live(Option<Running>);

impl Live {
    /// Returns the world of the running engine if all changes were delivered to it.
    pub(crate) fn world(&self, site: &Site) -> Option<&World> {
        let running = self.0.as_ref().filter(|running| running.delivered == site.objects);
        running.map(|running| &running.world)
    }
}

impl Clone for Live {
    /// A copy of a site has no running engine.
    fn clone(&self) -> Self {
        Self(None)
    }
}

#[derive(Debug)]
struct Running {
    world: World,
    /// Objects that the engine's watches delivered.
    delivered: BTreeMap<At, Stored>,
    /// Objects that were unreadable when the engine started.
    unreadable: Vec<At>,
    /// Where containers run, as the engine's settings say.
    containers: Option<Containers>,
    index_names: IndexNames,
    claims: Coordinator,
    woken: BTreeSet<Key>,
    /// Keys that [`Wake::Waiting`] plans again: those whose last plan has an outcome other than Done. If the value is
    /// true, an outcome is Failed or Queued, and [`Wake::Failing`] plans the key again too.
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
                Wake::Awaiting(_) => unreachable!("this site has no sessions"),
                Wake::Failing => {
                    let failing = self.waiting.iter().filter(|(_, is_failing)| **is_failing);
                    self.woken.extend(failing.map(|(key, _)| key.clone()));
                }
            }
        }
    }

    /// Delivers all changes since the last call.
    fn take_changes(&mut self, site: &Site) {
        // An object of the same name with another uid is a new object.
        let is_gone = |at: &At, object: &Stored| {
            let now = site.objects.get(at);
            now.is_none_or(|now| now["metadata"]["uid"] != object["metadata"]["uid"])
        };
        let gone: Vec<_> =
            self.delivered.extract_if(.., |at, object| is_gone(at, object)).collect();
        let version = |object: &Stored| object["metadata"]["resourceVersion"].clone();
        let differs = |at: &At, object: &Stored| {
            self.delivered.get(at).is_none_or(|delivered| version(delivered) != version(object))
        };
        let changed = site.objects.iter().filter(|(at, object)| differs(at, object));
        let changed: Vec<_> = changed.map(|(at, object)| (at.clone(), object.clone())).collect();
        self.delivered.extend(changed.iter().cloned());
        let deleted = gone.iter().map(|entry| (entry, true));
        let events = deleted.chain(changed.iter().map(|entry| (entry, false)));
        for ((at, object), is_gone) in events {
            let is_readable = !site.unreadable.contains(at);
            let wakes = deliver(&mut self.world, at, object, (is_readable, is_gone));
            self.wake(wakes);
        }
    }
}

fn deliver(
    world: &mut World,
    at: &At,
    object: &Stored,
    (is_readable, is_gone): (bool, bool),
) -> Vec<Wake> {
    if at.0 == "Secret" {
        let secret = || serde_json::from_value((**object).clone()).unwrap();
        return if is_gone { Vec::new() } else { world.add_keys(&secret()) };
    }
    let settings = world.site.settings.clone();
    let mut event = Delivery { world, at, object, is_readable, is_gone, wakes: None };
    settings.kinds(&mut event);
    event.wakes.unwrap_or_else(|| panic!("the engine does not watch {}", at.0))
}

/// An event of the watch of an object's kind.
struct Delivery<'a> {
    world: &'a mut World,
    at: &'a At,
    object: &'a Stored,
    is_readable: bool,
    is_gone: bool,
    /// Keys that the event wakes, once its kind is found.
    wakes: Option<Vec<Wake>>,
}

impl ForEachKind for Delivery<'_> {
    fn kind<K: WatchedKind>(&mut self, _: Scope) {
        if self.at.0 != K::kind(&()) {
            return;
        }
        let item = read::<K>(self.at, self.object, self.is_readable);
        let event = if self.is_gone { Event::Deleted(item) } else { Event::Applied(item) };
        self.wakes = Some(self.world.take(event));
    }
}

impl Site {
    /// Runs until nothing changes. The engine plans only keys that are woken; panics if a newly started engine would
    /// plan changes for other keys.
    pub(crate) fn settle(&mut self) {
        // If the settings or the unreadable objects differ, a new engine starts: it has never read the unreadable
        // objects.
        let is_same = |running: &Running| {
            running.unreadable == self.unreadable
                && running.containers == self.containers
                && running.index_names == self.index_names
                && running.claims == self.claims
        };
        let running = self.live.0.take().filter(is_same);
        let mut running = running.unwrap_or_else(|| self.start_engine());
        for _ in 0..2_000 {
            let changed = self.run(&mut running);
            if !self.act() && !changed {
                let rest = self.plan_all();
                assert!(rest.is_empty(), "nothing woke the engine for {rest:?}");
                self.live = Live(Some(running));
                return;
            }
        }
        panic!("the objects never stop changing: {:?}", running.woken);
    }

    fn start_engine(&self) -> Running {
        let world = self.world();
        let woken = world.keys().into_iter().collect();
        Running {
            world,
            delivered: self.objects.clone(),
            unreadable: self.unreadable.clone(),
            containers: self.containers.clone(),
            index_names: self.index_names,
            claims: self.claims.clone(),
            woken,
            waiting: BTreeMap::new(),
            due: BTreeMap::new(),
        }
    }

    /// Plans all keys that were woken, and makes the changes. Returns true if anything changed.
    fn run(&mut self, running: &mut Running) -> bool {
        let mut changed = false;
        running.take_changes(self);
        running
            .woken
            .extend(running.due.extract_if(.., |_, at| *at <= self.now()).map(|(key, _)| key));
        for key in std::mem::take(&mut running.woken) {
            running.due.remove(&key);
            let plan = plan_key(&running.world, &key, self.now());
            let is_failing = plan
                .outcomes
                .iter()
                .any(|outcome| matches!(outcome, Outcome::Failed(_) | Outcome::Queued(_)));
            if plan.outcomes.iter().all(|outcome| *outcome == Outcome::Done) {
                running.waiting.remove(&key);
            } else {
                running.waiting.insert(key.clone(), is_failing);
            }
            for change in &plan.changes {
                // After a refusal the engine plans the key again.
                match self.make(change) {
                    Ok(()) => changed = true,
                    Err(_) => drop(running.woken.insert(key.clone())),
                }
            }
            if plan.replan_soon {
                running.woken.insert(key.clone());
            }
            running.due.extend(plan.replan_at.map(|at| (key, at)));
            running.take_changes(self);
        }
        changed
    }
}
