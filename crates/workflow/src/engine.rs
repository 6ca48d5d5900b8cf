//! The engine: takes in what the watches bring, plans, and has the changes made. No state of it matters: everything it goes by
//! is in the objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Instant,
};

use api::{
    ClientMount, Computes, DWDirectiveRule, DirectiveBreakdown, NnfContainerProfile, NnfLustreMgt,
    NnfNode, NnfNodeBlockStorage, NnfNodeStorage, NnfPortManager, NnfStorageProfile,
    PersistentStorageInstance, RabbitLabels, Servers, Storage, SystemConfiguration, SystemStatus,
    Workflow, names::label,
};
use controller::{ObjectKey, Queue, Retry, WatchHealth, Watched, watch};
use futures::{
    FutureExt, StreamExt,
    stream::{self, BoxStream},
};
use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{ConfigMap, Pod, Service},
        networking::v1::NetworkPolicy,
    },
    jiff::Timestamp,
};
use kube::{
    Client,
    api::{ApiResource, DynamicObject},
    runtime::watcher::Config,
};
use tokio::task::{JoinError, JoinSet};

use crate::{
    admit::Rules,
    change::Change,
    execute::{Made, Stored, execute},
    plan::{Plan, plan_key},
    progress::Outcome,
    site::Settings,
    world::{Kept, Key, Wake, World},
};

/// Plans that are carried out at the same time.
const SIDE_BY_SIDE: usize = 64;
/// What watches bring and that is taken in before anything is planned again.
const AT_ONCE: usize = 4096;

/// Drives all workflows until dropped.
pub async fn run(client: Client, settings: Settings, rules: Rules) {
    let mut events = watch_all(&client);
    if let Some(containers) = &settings.containers {
        events = stream::select(events, watch_containers(&client, &containers.namespace)).boxed();
    }
    Engine::new(client, settings, rules).run(events).await;
}

/// What a watch brought.
struct Update(Box<Take>);

type Take = dyn FnOnce(&mut World) -> Vec<Wake> + Send;

impl fmt::Debug for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Update").finish_non_exhaustive()
    }
}

fn watch_all(client: &Client) -> BoxStream<'static, Update> {
    let health = WatchHealth::default();
    let (client, health) = (client, &health);
    stream::select_all([
        watch_one::<Workflow>(client, health),
        watch_one::<Computes>(client, health),
        watch_one::<DirectiveBreakdown>(client, health),
        watch_one::<Servers>(client, health),
        watch_one::<ClientMount>(client, health),
        watch_one::<NnfLustreMgt>(client, health),
        watch_one::<NnfNodeBlockStorage>(client, health),
        watch_one::<NnfNodeStorage>(client, health),
        watch_one::<NnfStorageProfile>(client, health),
        watch_one::<NnfNode>(client, health),
        watch_one::<Storage>(client, health),
        watch_one::<SystemConfiguration>(client, health),
        watch_one::<SystemStatus>(client, health),
        watch_one::<PersistentStorageInstance>(client, health),
        watch_one::<DWDirectiveRule>(client, health),
        watch_one::<NnfContainerProfile>(client, health),
    ])
    .boxed()
}

/// Watches what containers are made from, in their namespace, and the ports of rabbits.
fn watch_containers(client: &Client, namespace: &str) -> BoxStream<'static, Update> {
    let health = &WatchHealth::default();
    stream::select_all([
        watch_one::<NnfPortManager>(client, health),
        watch_labelled::<Job>(client, health, namespace),
        watch_labelled::<Pod>(client, health, namespace),
        watch_labelled::<Service>(client, health, namespace),
        watch_labelled::<NetworkPolicy>(client, health, namespace),
        watch_labelled::<ConfigMap>(client, health, namespace),
    ])
    .boxed()
}

fn watch_labelled<K: Kept>(
    client: &Client,
    health: &WatchHealth,
    namespace: &str,
) -> BoxStream<'static, Update> {
    let config = Config::default().labels(label::CONTAINER);
    watch_as::<K>(client, health, Some(namespace.to_owned()), config)
}

fn watch_one<K: Kept>(client: &Client, health: &WatchHealth) -> BoxStream<'static, Update> {
    watch_as::<K>(client, health, None, Config::default())
}

fn watch_as<K: Kept>(
    client: &Client,
    health: &WatchHealth,
    namespace: Option<String>,
    config: Config,
) -> BoxStream<'static, Update> {
    let watched = Watched { resource: ApiResource::erase::<K>(&()), namespace, config };
    let health = health.clone();
    let events = watch(client.clone(), watched).map(move |event| {
        let event = event.of::<K>();
        health.log(&event);
        Update(Box::new(move |world| world.take(event)))
    });
    events.boxed()
}

struct Engine {
    client: Client,
    world: World,
    rules: Rules,
    queue: Queue<Key>,
    passes: JoinSet<Pass>,
    /// Whose last plan left something to wait for, and whether something was wrong.
    waiting: BTreeMap<Key, bool>,
    /// Who fills a Servers now. One at a time: the next must know what the one before took.
    placing: Option<Key>,
    after_placing: BTreeSet<Key>,
    /// What the API did not do, as last logged.
    refused: BTreeMap<Key, Vec<String>>,
    is_started: bool,
}

/// What became of the changes of one plan.
#[derive(Debug)]
struct Pass {
    key: Key,
    /// How many lists the watches had brought when it began.
    lists: u64,
    /// Block storage that the API was asked to create.
    blocks: Vec<ObjectKey>,
    made: Made,
}

impl Engine {
    fn new(client: Client, settings: Settings, rules: Rules) -> Self {
        Self {
            client,
            world: World::new(settings),
            rules,
            queue: Queue::new(SIDE_BY_SIDE),
            passes: JoinSet::new(),
            waiting: BTreeMap::new(),
            placing: None,
            after_placing: BTreeSet::new(),
            refused: BTreeMap::new(),
            is_started: false,
        }
    }

    async fn run(mut self, mut events: BoxStream<'static, Update>) {
        loop {
            let due = self.queue.deadline().map(tokio::time::Instant::from_std);
            tokio::select! {
                Some(update) = events.next() => self.take_in(update, &mut events),
                Some(ended) = self.passes.join_next() => self.ended(ended),
                () = sleep_until(due) => {}
            }
            if !self.world.is_complete() {
                continue;
            }
            if !std::mem::replace(&mut self.is_started, true) {
                self.world.keys().into_iter().for_each(|key| self.queue.wake(key));
            }
            self.start();
        }
    }

    /// Takes in an update, and all that came meanwhile: a plan looks at a whole workflow, and all of its nodes report at once.
    fn take_in(&mut self, first: Update, events: &mut BoxStream<'static, Update>) {
        self.update(first);
        for _ in 1..AT_ONCE {
            match events.next().now_or_never() {
                Some(Some(update)) => self.update(update),
                _ => return,
            }
        }
    }

    fn update(&mut self, update: Update) {
        let wakes = (update.0)(&mut self.world);
        if let Some(rules) = self.world.rules() {
            self.rules.set(rules);
        }
        self.wake(wakes);
    }

    fn wake(&mut self, wakes: Vec<Wake>) {
        for wake in wakes {
            match wake {
                Wake::Key(key) => self.queue.wake(key),
                Wake::Waiting => self.wake_waiting(|_| true),
                Wake::Failing => self.wake_waiting(|is_failing| is_failing),
            }
        }
    }

    fn wake_waiting(&mut self, which: impl Fn(bool) -> bool) {
        let keys = self.waiting.iter().filter(|(_, is_failing)| which(**is_failing));
        keys.for_each(|(key, _)| self.queue.wake(key.clone()));
    }

    fn start(&mut self) {
        loop {
            let keys = self.queue.start(Instant::now(), |_| true);
            if keys.is_empty() {
                return;
            }
            keys.into_iter().for_each(|key| self.begin(key));
        }
    }

    fn begin(&mut self, key: Key) {
        let Plan { changes, is_to_tell, .. } = self.plan(&key);
        let places = changes.iter().any(fills_servers);
        if places && self.placing.as_ref().is_some_and(|other| *other != key) {
            self.after_placing.insert(key.clone());
            self.queue.finished(&key, Retry::OnChange, Instant::now());
            return;
        }
        if changes.is_empty() {
            self.refused.remove(&key);
            let retry = if is_to_tell { Retry::Soon } else { Retry::OnChange };
            self.queue.finished(&key, retry, Instant::now());
            return;
        }
        if places {
            self.placing = Some(key.clone());
        }
        self.make(key, changes);
    }

    /// Has changes made. What is to be created counts from now on: whoever is planned next must know what is taken.
    fn make(&mut self, key: Key, changes: Vec<Change>) {
        let mut blocks = Vec::new();
        for (at, owner) in changes.iter().filter_map(new_block) {
            self.world.site.ledger.begin(at.clone(), owner);
            blocks.push(at);
        }
        let (client, lists) = (self.client.clone(), self.world.lists());
        self.passes.spawn(async move {
            let made = execute(&client, changes).await;
            Pass { key, lists, blocks, made }
        });
    }

    fn plan(&mut self, key: &Key) -> Plan {
        let plan = plan_key(&self.world, key, Timestamp::now());
        let outcomes = &plan.outcomes;
        let is_failing = outcomes.iter().any(|one| matches!(one, Outcome::Failed(_)));
        if outcomes.iter().all(|outcome| *outcome == Outcome::Done) {
            self.waiting.remove(key);
        } else {
            self.waiting.insert(key.clone(), is_failing);
        }
        plan
    }

    fn ended(&mut self, ended: Result<Pass, JoinError>) {
        let Pass { key, lists, blocks, made } = match ended {
            Ok(ended) => ended,
            // A defect of the executor: the coordinator ends with it, and starts anew.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        for stored in made.stored {
            let wakes = self.stored(stored, lists);
            self.wake(wakes);
        }
        blocks.iter().for_each(|at| self.world.site.ledger.end(at));
        if self.placing.as_ref() == Some(&key) {
            self.placing = None;
            std::mem::take(&mut self.after_placing)
                .into_iter()
                .for_each(|key| self.queue.wake(key));
        }
        let retry = made.failures.iter().map(|(_, retry)| *retry).min().unwrap_or(Retry::OnChange);
        self.log_refused(&key, made.failures.into_iter().map(|(text, _)| text).collect());
        self.queue.finished(&key, retry, Instant::now());
    }

    /// Logs what the API did not do, unless that was logged.
    fn log_refused(&mut self, key: &Key, failures: Vec<String>) {
        if failures.is_empty() {
            self.refused.remove(key);
            return;
        }
        if self.refused.get(key) != Some(&failures) {
            failures.iter().for_each(|text| log::warn!("{key}: {text}; trying again"));
        }
        self.refused.insert(key.clone(), failures);
    }

    /// Takes in what the API answered, ahead of the watch.
    fn stored(&mut self, Stored { object, is_new }: Stored, lists: u64) -> Vec<Wake> {
        let is_new = is_new.then_some(lists);
        let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
        let world = &mut self.world;
        match kind.as_str() {
            "Workflow" => take::<Workflow>(world, object, is_new),
            "Computes" => take::<Computes>(world, object, is_new),
            "DirectiveBreakdown" => take::<DirectiveBreakdown>(world, object, is_new),
            "Servers" => take::<Servers>(world, object, is_new),
            "ClientMount" => take::<ClientMount>(world, object, is_new),
            "NnfLustreMGT" => take::<NnfLustreMgt>(world, object, is_new),
            "PersistentStorageInstance" => take::<PersistentStorageInstance>(world, object, is_new),
            "NnfNodeBlockStorage" => take::<NnfNodeBlockStorage>(world, object, is_new),
            "NnfNodeStorage" => take::<NnfNodeStorage>(world, object, is_new),
            "NnfStorageProfile" => take::<NnfStorageProfile>(world, object, is_new),
            "Storage" => take::<Storage>(world, object, is_new),
            "NnfContainerProfile" => take::<NnfContainerProfile>(world, object, is_new),
            "NnfPortManager" => take::<NnfPortManager>(world, object, is_new),
            "Job" => take::<Job>(world, object, is_new),
            "Service" => take::<Service>(world, object, is_new),
            "NetworkPolicy" => take::<NetworkPolicy>(world, object, is_new),
            "ConfigMap" => take::<ConfigMap>(world, object, is_new),
            "Secret" => {
                object.try_parse().map(|secret| world.keys_made(&secret)).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }
}

fn take<K: Kept>(world: &mut World, object: DynamicObject, is_new: Option<u64>) -> Vec<Wake> {
    match (object.try_parse::<K>(), is_new) {
        (Ok(object), Some(lists)) => world.created(object, lists),
        (Ok(object), None) => world.patched(object),
        (Err(_), _) => Vec::new(),
    }
}

/// The place of block storage that a change creates, and its Servers.
fn new_block(change: &Change) -> Option<(ObjectKey, ObjectKey)> {
    let Change::Create(target, object) = change else { return None };
    if target.resource.kind != "NnfNodeBlockStorage" {
        return None;
    }
    let owner = object.owner()?;
    let at = (target.namespace.clone(), target.name.clone());
    Some((at, (owner.namespace.to_owned(), owner.name.to_owned())))
}

/// Whether a change says where allocations go, or who has which ports.
fn fills_servers(change: &Change) -> bool {
    let (Change::Patch(target, patch) | Change::Status(target, patch)) = change else {
        return false;
    };
    let field = match target.resource.kind.as_str() {
        "Servers" => "/spec",
        "NnfPortManager" => "/status",
        _ => return false,
    };
    patch.0.iter().any(|operation| operation.path().as_str().starts_with(field))
}

async fn sleep_until(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn engine() -> Engine {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        Engine::new(client, Settings::default(), Rules::default())
    }

    fn place(name: &str) -> ObjectKey {
        ("default".to_owned(), name.to_owned())
    }

    fn servers(name: &str, since: &str) -> Servers {
        from_value(json!({
            "metadata": {"name": name, "namespace": "default", "creationTimestamp": since},
            "spec": {"allocationSets": [{"label": "xfs", "allocationSize": 60,
                "storage": [{"name": "r", "allocationCount": 1}]}]},
        }))
        .unwrap()
    }

    /// A workload manager may fill an older Servers at that moment: it would be promised the same bytes.
    #[tokio::test]
    async fn what_is_being_created_counts_until_the_api_refused_it() {
        let mut engine = engine();
        let (older, younger) = (place("older"), place("younger"));
        let ledger = &mut engine.world.site.ledger;
        ledger.promise(&older, Some(&servers("older", "2026-11-24T10:00:00Z")));
        ledger.promise(&younger, Some(&servers("younger", "2026-11-24T10:00:01Z")));
        let node: NnfNode = from_value(json!({
            "metadata": {"name": "nnf-nlc", "namespace": "r"}, "spec": {"state": "Enable"},
            "status": {"capacity": 100, "capacityAllocated": 0},
        }))
        .unwrap();
        let block: NnfNodeBlockStorage = from_value(json!({
            "metadata": {"name": "b", "namespace": "r", "labels": {
                label::OWNER_KIND: "Servers", label::OWNER_NAME: "younger", label::OWNER_NAMESPACE: "default",
                label::OWNER_UID: "u"}},
            "spec": {"sharedAllocation": true, "allocations": []},
        }))
        .unwrap();
        let free = |engine: &Engine| engine.world.site.ledger.space("r", &node, &older).free;
        assert_eq!(free(&engine), 100);
        engine.make(Key::Workflow(place("w")), vec![Change::create(&block)]);
        assert_eq!(free(&engine), 40);
        let ended = engine.passes.join_next().await.unwrap();
        assert_eq!(ended.as_ref().unwrap().made.failures.len(), 1);
        engine.ended(ended);
        assert_eq!(free(&engine), 100);
    }

    #[tokio::test]
    async fn a_thousand_reports_at_once_are_planned_for_once() {
        let mut engine = engine();
        let report = |_| {
            let key = Key::Workflow(("default".to_owned(), "w".to_owned()));
            Update(Box::new(move |_| vec![Wake::Key(key)]))
        };
        let mut events = stream::iter(1..1000).map(report).boxed();
        engine.take_in(report(0), &mut events);
        assert!(events.next().await.is_none(), "all were taken in");
        assert_eq!(engine.queue.start(Instant::now(), |_| true).len(), 1);
        assert!(engine.queue.start(Instant::now(), |_| true).is_empty());
    }
}
