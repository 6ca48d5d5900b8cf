//! The engine: takes in events of the watches, plans, and carries out the changes. The engine keeps no state of its
//! own: every decision follows from the objects.

mod watches;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use api::RabbitLabels;
use controller::{ObjectKey, Queue, Retry, describe, events::Events};
use futures::{
    FutureExt, StreamExt,
    stream::{self, BoxStream},
};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use tokio::{
    sync::mpsc::UnboundedReceiver,
    task::{JoinError, JoinSet},
};
use tokio_stream::wrappers::UnboundedReceiverStream;

use self::watches::{Update, watch_all};
use crate::{
    admit::Rules,
    change::Change,
    claims::{self, SharedLease},
    execute::{ExecutedChanges, Refusal, Stored, execute},
    metrics::Metrics,
    notes::note,
    objects::{sessions::SessionChange, site::Settings},
    plan::{Plan, plan_key},
    progress::Outcome,
    rehearsal::rehearse,
    requests::{EngineRequests, Request},
    world::{Key, Wake, World},
};

/// Maximum number of plans that are carried out at the same time.
const SIDE_BY_SIDE: usize = 64;
/// Maximum number of watch events that are taken in before the engine plans again.
const AT_ONCE: usize = 4096;

/// The channels between the engine and the other tasks of the coordinator.
#[derive(Debug)]
pub struct Channels {
    /// Requests that the engine answers.
    pub requests: EngineRequests,
    /// Sessions of nodes that were opened or ended.
    pub sessions: UnboundedReceiver<SessionChange>,
    /// Publisher of the Events of Workflows.
    pub events: Events,
}

/// Drives all workflows and answers requests for metrics, until this future is dropped.
pub async fn run(client: Client, settings: Settings, rules: Rules, channels: Channels) {
    let Channels { requests, sessions, events: published } = channels;
    let sessions = UnboundedReceiverStream::new(sessions)
        .map(|change| Update::new(move |world: &mut World| world.take_session(change)));
    let mut events = stream::select(watch_all(&client, &settings), sessions).boxed();
    let lease = SharedLease::default();
    if let Some(me) = settings.claims_as.clone() {
        let namespace =
            settings.containers.as_ref().and_then(|containers| containers.namespace.clone());
        let leases = claims::renew_and_watch(client.clone(), namespace, me, lease.clone());
        let leases =
            leases.map(|states| Update::new(move |world: &mut World| world.take_leases(&states)));
        events = stream::select(events, leases).boxed();
    }
    let engine = Engine { lease, events: published, ..Engine::new(client, settings, rules) };
    engine.run(events, requests).await;
}

struct Engine {
    client: Client,
    world: World,
    rules: Rules,
    queue: Queue<Key>,
    passes: JoinSet<Pass>,
    /// Keys that [`Wake::Waiting`] plans again: those whose last plan has an outcome other than Done. If the value is
    /// true, an outcome is Failed or Queued, and [`Wake::Failing`] plans the key again too.
    waiting: BTreeMap<Key, bool>,
    /// The nodes whose agents have to act, for each key that waits for some.
    awaited: BTreeMap<Key, BTreeSet<String>>,
    /// The key whose changes take capacity, ports or names now: one key at a time, because the next plan must know
    /// which capacity, ports and names are taken.
    placing: Option<Key>,
    after_placing: BTreeSet<Key>,
    /// The Lease under which this coordinator claims the runs of containers.
    lease: SharedLease,
    is_started: bool,
    metrics: Metrics,
    events: Events,
}

/// The result of the changes of one plan.
#[derive(Debug)]
struct Pass {
    key: Key,
    /// How many complete lists of objects the watches had delivered when the changes began. If the number has grown
    /// since, a newer list may lack an object that these changes created, so the world does not keep that object
    /// ([`World::take_created`]).
    lists: u64,
    /// Block storage that these changes create; it counts as allocated until the API has answered.
    blocks: Vec<ObjectKey>,
    executed: ExecutedChanges,
}

impl Engine {
    fn new(client: Client, settings: Settings, rules: Rules) -> Self {
        let mut world = World::new(settings);
        world.site.sessions.begin(Timestamp::now());
        Self {
            client,
            world,
            rules,
            queue: Queue::new(SIDE_BY_SIDE),
            passes: JoinSet::new(),
            waiting: BTreeMap::new(),
            awaited: BTreeMap::new(),
            placing: None,
            after_placing: BTreeSet::new(),
            lease: SharedLease::default(),
            is_started: false,
            metrics: Metrics::default(),
            events: Events::default(),
        }
    }

    async fn run(mut self, mut events: BoxStream<'static, Update>, mut requests: EngineRequests) {
        loop {
            let due = self.queue.deadline().map(tokio::time::Instant::from_std);
            tokio::select! {
                Some(update) = events.next() => self.take_in(update, &mut events),
                Some(joined) = self.passes.join_next() => self.finish_pass(joined),
                Some(request) = requests.0.recv() => self.answer(request),
                () = sleep_until(due) => {}
            }
            if !self.world.is_complete() {
                continue;
            }
            if !std::mem::replace(&mut self.is_started, true) {
                self.world.keys().into_iter().for_each(|key| self.queue.wake(key));
            }
            self.start_due_keys();
        }
    }

    /// Answers a request. The requester may no longer wait for the answer.
    fn answer(&self, request: Request) {
        match request {
            Request::Metrics(answer) => {
                let _ = answer.send(self.metrics.text(&self.world.count(Timestamp::now())));
            }
            Request::Rehearse(workflow, computes, answer) => {
                let world = self.world.clone();
                let rehearse = move || answer.send(rehearse(world, &workflow, &computes));
                drop(tokio::task::spawn_blocking(rehearse));
            }
        }
    }

    /// Takes in an update and all other updates that are ready: all nodes of a workflow may report at once, and one
    /// plan then answers all of these reports.
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
        let wakes = update.apply(&mut self.world);
        self.publish_changes();
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
                Wake::Awaiting(node) => {
                    let awaits = |awaited: &BTreeSet<String>| awaited.contains(&node);
                    let keys = self.awaited.iter().filter(|(_, awaited)| awaits(awaited));
                    keys.for_each(|(key, _)| self.queue.wake(key.clone()));
                }
            }
        }
    }

    fn wake_waiting(&mut self, which: impl Fn(bool) -> bool) {
        let keys = self.waiting.iter().filter(|(_, is_failing)| which(**is_failing));
        keys.for_each(|(key, _)| self.queue.wake(key.clone()));
    }

    fn start_due_keys(&mut self) {
        loop {
            let keys = self.queue.start(Instant::now(), |_| true);
            if keys.is_empty() {
                return;
            }
            keys.into_iter().for_each(|key| self.plan_and_start(key));
        }
    }

    fn plan_and_start(&mut self, key: Key) {
        let Plan { changes, replan_soon, replan_at, .. } = self.plan(&key);
        let is_limited = self.world.site.settings.limits.counts_others();
        let places = changes.iter().any(|change| takes_turn(change, is_limited));
        if places && self.placing.as_ref().is_some_and(|other| *other != key) {
            self.after_placing.insert(key.clone());
            self.queue.finished(&key, Retry::OnChange, Instant::now());
            return;
        }
        if changes.is_empty() {
            self.world.set_refused(&key, Vec::new());
            let retry = if replan_soon { Retry::Soon } else { Retry::OnChange };
            let now = Instant::now();
            self.queue.finished(&key, retry, now);
            if let Some(at) = replan_at {
                let until = at.duration_since(Timestamp::now());
                let until = Duration::try_from(until).unwrap_or_default();
                self.queue.wake_at(&key, now + until, now);
            }
            return;
        }
        if places {
            self.placing = Some(key.clone());
        }
        self.start_changes(key, changes);
    }

    /// Starts to make changes. Block storage that the changes create counts as allocated from now on, so that the next
    /// plan does not give the same bytes to another workflow.
    fn start_changes(&mut self, key: Key, changes: Vec<Change>) {
        let mut blocks = Vec::new();
        for (at, owner) in changes.iter().filter_map(new_block) {
            self.world.site.reservations.begin_creation(at.clone(), owner);
            blocks.push(at);
        }
        let (client, lists) = (self.client.clone(), self.world.lists());
        let lease = self.lease.clone();
        self.passes.spawn(async move {
            let executed = execute(&client, changes, &lease).await;
            Pass { key, lists, blocks, executed }
        });
    }

    fn plan(&mut self, key: &Key) -> Plan {
        let mut plan = plan_key(&self.world, key, Timestamp::now());
        let awaited = std::mem::take(&mut plan.awaited);
        if awaited.is_empty() {
            self.awaited.remove(key);
        } else {
            self.awaited.insert(key.clone(), awaited);
        }
        let outcomes = &plan.outcomes;
        let is_failing = outcomes
            .iter()
            .any(|outcome| matches!(outcome, Outcome::Failed(_) | Outcome::Queued(_)));
        if outcomes.iter().all(|outcome| *outcome == Outcome::Done) {
            self.waiting.remove(key);
        } else {
            self.waiting.insert(key.clone(), is_failing);
        }
        plan
    }

    fn finish_pass(&mut self, joined: Result<Pass, JoinError>) {
        let Pass { key, lists, blocks, executed } = match joined {
            Ok(joined) => joined,
            // A panic of the executor is a defect: the coordinator ends with the same panic, and its supervisor
            // restarts it.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        self.metrics.count_failures(executed.failures.len(), executed.lost_claims);
        for Stored { object, is_new } in executed.stored {
            let wakes = self.world.take_stored(object, is_new.then_some(lists));
            self.wake(wakes);
        }
        self.publish_changes();
        blocks.iter().for_each(|at| self.world.site.reservations.end_creation(at));
        if self.placing.as_ref() == Some(&key) {
            self.placing = None;
            std::mem::take(&mut self.after_placing)
                .into_iter()
                .for_each(|key| self.queue.wake(key));
        }
        let behind = executed.is_behind.then_some(Retry::Soon);
        let retry = executed.failures.iter().map(|(_, retry)| *retry).chain(behind).min();
        let retry = retry.unwrap_or(Retry::OnChange);
        let failures: Vec<_> = executed.failures.into_iter().map(|(refusal, _)| refusal).collect();
        self.log_refused(&key, failures);
        self.queue.finished(&key, retry, Instant::now());
    }

    /// Updates metrics, log and Events after the statuses of Workflows changed.
    fn publish_changes(&mut self) {
        for (before, after) in self.world.changed_workflows() {
            self.metrics.observe_ready(&before, &after);
            let Some(note) = note(&before, &after) else { continue };
            if note.is_warning {
                log::warn!("{}: {}", describe(&*after), note.text());
            }
            self.events.queue(&*after, [note]);
        }
    }

    /// Logs the changes that the API refused, unless the same refusals were logged before.
    fn log_refused(&mut self, key: &Key, failures: Vec<Refusal>) {
        let texts: Vec<String> = failures.iter().map(|refusal| refusal.text.clone()).collect();
        if self.world.set_refused(key, failures) {
            texts.iter().for_each(|text| log::warn!("{key}: {text}; the coordinator tries again"));
        }
    }
}

/// Returns the key of the block storage that a change creates, and the key of its Servers.
fn new_block(change: &Change) -> Option<(ObjectKey, ObjectKey)> {
    let Change::Create(target, object) = change.inner() else { return None };
    if target.resource.kind != "NnfNodeBlockStorage" {
        return None;
    }
    let owner = object.owner()?;
    let at = (target.namespace.clone(), target.name.clone());
    Some((at, (owner.namespace.to_owned(), owner.name.to_owned())))
}

/// Returns true if a change places allocations, takes ports, or gives a file system its name; and where users and projects
/// have limits (`is_limited`), if it admits a request. The engine makes such changes for one key at a time
/// ([`Engine::placing`]).
fn takes_turn(change: &Change, is_limited: bool) -> bool {
    let bare = change.inner();
    if let Change::Create(target, _) = bare {
        return match target.resource.kind.as_str() {
            "NnfLustreMGT" => true,
            "PersistentStorageInstance" | "DirectiveBreakdown" => is_limited,
            _ => false,
        };
    }
    let (Change::Patch(target, patch) | Change::Status(target, patch)) = bare else {
        return false;
    };
    let field = match target.resource.kind.as_str() {
        "Servers" => "/spec",
        "NnfPortManager" | "NnfLustreMGT" if matches!(bare, Change::Status(..)) => "/status",
        "NnfLustreMGT" => "/spec/claimList",
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
mod tests;
