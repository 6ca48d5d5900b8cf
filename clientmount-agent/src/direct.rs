//! A compute that watches the Kubernetes API itself: one watch on this node's ClientMounts, and patches of them.
//!
//! ```text
//! watch ─► State ─► LinkEvent ─► agent ─► Outbox ─► State ─► pass (patch; read a profile)
//! ```
//! At rest the watch is one idle connection: no bookmarks are asked for, and the server is asked to keep the watch open for
//! about an hour. A profile is read when an object that names it comes or changes: a watch on the profiles of all jobs would
//! wake every compute for each of them.

mod pass;
mod state;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use api::ClientMount;
use apiclient::{Address, plain};
use controller::{Event, Queue, Retry, WatchHealth, Watched, patch::WriteError, watch};
use futures::StreamExt;
use kube::{Client, ResourceExt, api::ApiResource, runtime::watcher::Config};
use storage::desired::NodeName;
use tokio::{sync::mpsc, task::JoinSet, time};

use agent::{
    link::LinkEvent,
    outbox::{News, Outbox},
};
use pass::{Passed, pass};
use state::{State, Todo};

/// Shortest and longest time for which a watch is asked to stay open: all nodes of a machine may start in one second, and
/// must not come back in one.
const WATCH: (Duration, Duration) = (Duration::from_secs(50 * 60), Duration::from_secs(70 * 60));
/// Objects that are written at a time.
const PASSES: usize = 16;

/// How a node watches the API at `address`.
#[must_use]
pub fn watch_config(address: &Address) -> Config {
    // A bookmark would wake the node every minute. Without them a watch that goes on after an hour of silence may be told
    // that it is too late, and then reads one namespace's list.
    let config = Config::default().disable_bookmarks();
    match address {
        // The kernel tells when the other end is gone.
        Address::Unix(_) | Address::InCluster | Address::Server(_) => {
            let (shortest, longest) = WATCH;
            let long = shortest + (longest - shortest).mul_f64(fastrand::f64());
            config.timeout(u32::try_from(long.as_secs()).unwrap_or(u32::MAX))
        }
        // Its connections are not ours to probe: the watch has to be asked for again now and then.
        Address::Kubeconfig(_) => config,
    }
}

/// Carries events and reports between the API and the agent, until nobody listens to events any more.
pub async fn run(
    client: Client,
    config: Config,
    node: NodeName,
    outbox: Arc<Outbox>,
    events: mpsc::Sender<LinkEvent>,
) {
    let resource = ApiResource::erase::<ClientMount>(&());
    let watched = Watched { resource, namespace: Some(node.to_string()), config };
    let mut changes = std::pin::pin!(watch(client.clone(), watched).map(Event::of::<ClientMount>));
    let connection = outbox.begin();
    let mut direct = Direct::new(client, node, outbox);
    if events.send(LinkEvent::Up).await.is_err() {
        return;
    }
    loop {
        direct.start(Instant::now());
        for event in direct.events() {
            if events.send(event).await.is_err() {
                return;
            }
        }
        let due = direct.queue.deadline();
        tokio::select! {
            () = events.closed() => return,
            Some(event) = changes.next() => direct.changed(event),
            Some(news) = direct.outbox.next(connection) => direct.reported(news),
            Some(passed) = direct.passes.join_next() => match passed {
                Ok(passed) => direct.passed(passed, Instant::now()),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            () = time::sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {}
        }
    }
}

struct Direct {
    client: Client,
    outbox: Arc<Outbox>,
    state: State,
    queue: Queue<String>,
    passes: JoinSet<Passed>,
    health: WatchHealth,
    is_watch_broken: bool,
    /// What went wrong since a request worked: an API that is away for a night must not fill the journal.
    said: BTreeSet<String>,
    /// What the API refuses, by object; it refuses in the same words each time.
    refused: BTreeMap<String, String>,
}

impl Direct {
    fn new(client: Client, node: NodeName, outbox: Arc<Outbox>) -> Self {
        Self {
            client,
            outbox,
            state: State::new(node),
            queue: Queue::new(PASSES),
            passes: JoinSet::new(),
            health: WatchHealth::default(),
            is_watch_broken: false,
            said: BTreeSet::new(),
            refused: BTreeMap::new(),
        }
    }

    fn events(&mut self) -> Vec<LinkEvent> {
        let was_synced = self.state.is_synced();
        let events = self.state.events();
        if !was_synced && self.state.is_synced() && !self.is_watch_broken {
            self.hear();
        }
        events
    }

    /// The API is there, and all that it has was read. Everything is reported again: the API may have lost what was written
    /// last.
    fn hear(&self) {
        self.outbox.welcome();
        self.outbox.synced();
    }

    fn changed(&mut self, event: Event<ClientMount>) {
        self.health.log(&event);
        match &event {
            Event::Failing(_) => {
                self.is_watch_broken = true;
                self.outbox.lost();
            }
            Event::Working
                if std::mem::take(&mut self.is_watch_broken) && self.state.is_synced() =>
            {
                self.hear();
            }
            _ => {}
        }
        for name in self.state.take(event) {
            self.queue.wake(name);
        }
    }

    /// The node's health has no place in the API.
    fn reported(&mut self, news: News) {
        if let News::Report(report) = news {
            let name = report.name.clone();
            if self.state.report(report) {
                self.queue.wake(name);
            }
        }
    }

    fn start(&mut self, now: Instant) {
        for name in self.queue.start(now, |_| true) {
            match self.state.todo(&name) {
                Some(todo) => drop(self.passes.spawn(pass(self.client.clone(), todo))),
                None => {
                    self.refused.remove(&name);
                    self.queue.finished(&name, Retry::OnChange, now);
                }
            }
        }
    }

    fn passed(&mut self, passed: Passed, now: Instant) {
        let Passed { done, wrote, read } = passed;
        let name = done.object.name_any();
        let mut retry = Retry::OnChange;
        match wrote {
            Some(Ok(stored)) => {
                self.said.clear();
                self.refused.remove(&name);
                self.state.wrote(&done, stored);
                self.queue.wake(name.clone());
            }
            Some(Err(error)) => retry = self.failed(&done, &error),
            None => {}
        }
        match read {
            Some(Ok(profile)) => {
                self.said.clear();
                let is_found = profile.is_ok();
                self.state.read(&done, profile);
                retry = if is_found { retry } else { Retry::Soon };
            }
            Some(Err(why)) => {
                self.say(&why, &format!("{why}; its ClientMount waits, and the agent tries again"));
                retry = Retry::Soon;
            }
            None => {}
        }
        self.queue.finished(&name, retry, now);
    }

    fn failed(&mut self, done: &Todo, error: &WriteError) -> Retry {
        let name = done.object.name_any();
        match error {
            // The watch brings what was written meanwhile, or that the object is gone.
            WriteError::Conflict { .. } | WriteError::Unknown { .. } => Retry::Soon,
            WriteError::Api { source, .. } | WriteError::Look { source, .. } => {
                let why = plain(source);
                if !is_refusal(source) {
                    let text = format!("{error}: {why}; the agent tries again until it works");
                    self.say(&why, &text);
                    return Retry::Soon;
                }
                if self.refused.insert(name, why.clone()).as_ref() != Some(&why) {
                    log::warn!("{error}: {why}; the agent tries again, at least once a minute");
                }
                self.state.cannot_hold(done);
                Retry::Later
            }
        }
    }

    fn say(&mut self, why: &str, text: &str) {
        if self.said.insert(why.to_owned()) {
            log::warn!("{text}");
        }
    }
}

/// A policy that cannot be evaluated, or a CRD that is older than we are for as long as an upgrade takes.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 413 | 415 | 422))
}

#[cfg(test)]
mod tests;
