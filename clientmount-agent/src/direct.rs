//! Direct mode: a compute watches its ClientMounts in the Kubernetes API and patches them
//! itself, without a coordinator.
//!
//! ```text
//! watch ─► State ─► LinkEvent ─► agent ─► Outbox ─► State ─► pass (patches the object, reads a profile)
//! ```
//! `State` decides which objects the agent receives, and which writes the agent's reports need.
//!
//! At rest the watch is one idle connection: the agent requests a watch without bookmarks that stays open for about an
//! hour. The agent does not watch profiles, because such a watch would wake every compute for every job's profile. The
//! agent reads a profile when an object that names the profile is new or changed.

mod pass;
mod questions;
mod state;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use api::ClientMount;
use apiclient::{Address, is_refusal, plain};
use controller::{Event, Queue, Retry, WatchHealth, Watched, patch::WriteError, watch};
use futures::StreamExt;
use kube::{Client, ResourceExt, api::ApiResource, runtime::watcher::Config};
use storage::desired::NodeName;
use tokio::{sync::mpsc, task::JoinSet};

use agent::{
    link::LinkEvent,
    outbox::{Outbox, OutboxMessage},
};
pub(crate) use pass::read as read_profile;
use pass::{Passed, pass};
use questions::Questions;
use state::{ApiRequests, State};

/// Shortest and longest time for which the agent asks the API to keep a watch open. Each node picks a random time,
/// because all nodes of a machine may start in the same second and must not reconnect in the same second.
const WATCH_TIMEOUT: (Duration, Duration) =
    (Duration::from_secs(50 * 60), Duration::from_secs(70 * 60));
/// How many passes may run at the same time.
const PASSES: usize = 16;

/// Returns the configuration of a node's watch on the API at `address`.
pub fn watch_config(address: &Address) -> Config {
    // A bookmark would wake the node every minute. Without bookmarks the API may refuse to continue a watch after an
    // hour of silence; the agent then lists the ClientMounts of its namespace again.
    let config = Config::default().disable_bookmarks();
    match address {
        // On these connections the kernel notices that the API server is gone: it closes a unix socket, and checks TCP by
        // keepalive. So these watches may stay open for long.
        Address::Unix(_) | Address::InCluster | Address::Server(_) => {
            let (shortest, longest) = WATCH_TIMEOUT;
            let long = shortest + (longest - shortest).mul_f64(fastrand::f64());
            config.timeout(u32::try_from(long.as_secs()).unwrap_or(u32::MAX))
        }
        // kube sets no keepalive on these connections, so kube's own timeout restarts the watch every few minutes.
        Address::Kubeconfig(_) => config,
    }
}

/// Carries events and reports between the API and the agent, until the agent stops.
pub async fn run(
    client: Client,
    config: Config,
    node: NodeName,
    outbox: Arc<Outbox>,
    events: mpsc::Sender<LinkEvent>,
) {
    let resource = ApiResource::erase::<ClientMount>(&());
    let watched = Watched { resource, namespace: Some(node.to_string()), config };
    let mut changes =
        std::pin::pin!(watch(client.clone(), watched).map(Event::into_kind::<ClientMount>));
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
        direct.answer();
        let due = direct.queue.deadline();
        tokio::select! {
            () = events.closed() => return,
            Some(event) = changes.next() => direct.handle_change(event),
            Some(message) = direct.outbox.next(connection) => direct.handle_report(message),
            () = direct.questions.wait_for_change() => {}
            Some(passed) = direct.passes.join_next() => match passed {
                Ok(passed) => direct.end_pass(passed, Instant::now()),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            () = daemon::sleep_until(due) => {}
        }
    }
}

struct Direct {
    client: Client,
    node: NodeName,
    outbox: Arc<Outbox>,
    state: State,
    questions: Questions,
    queue: Queue<String>,
    passes: JoinSet<Passed>,
    health: WatchHealth,
    is_watch_broken: bool,
    /// Failures logged since a request last succeeded. Each failure is logged once, so that an API that is unreachable
    /// for a night does not fill the journal.
    logged: BTreeSet<String>,
    /// Why the API refused the last write to an object, by the object's name; each reason is logged once.
    refused: BTreeMap<String, String>,
}

impl Direct {
    fn new(client: Client, node: NodeName, outbox: Arc<Outbox>) -> Self {
        Self {
            questions: Questions::new(client.clone()),
            client,
            outbox,
            state: State::new(node.clone()),
            node,
            queue: Queue::new(PASSES),
            passes: JoinSet::new(),
            health: WatchHealth::default(),
            is_watch_broken: false,
            logged: BTreeSet::new(),
            refused: BTreeMap::new(),
        }
    }

    fn events(&mut self) -> Vec<LinkEvent> {
        let was_synced = self.state.is_synced();
        let events = self.state.events();
        if !was_synced && self.state.is_synced() && !self.is_watch_broken {
            self.accept_reports();
        }
        events
    }

    /// Lets the agent send its reports. The caller calls this once the API answers and the agent has received every
    /// object. The agent sends all reports again, because the API may have lost the last writes, for example by a
    /// restore from a backup.
    fn accept_reports(&self) {
        self.outbox.welcome();
        self.outbox.resend_all();
    }

    fn handle_change(&mut self, event: Event<ClientMount>) {
        self.health.log(&event);
        match &event {
            Event::Failing(_) => {
                self.is_watch_broken = true;
                self.outbox.disconnect();
                self.questions.forget_answers();
            }
            Event::Working
                if std::mem::take(&mut self.is_watch_broken) && self.state.is_synced() =>
            {
                self.accept_reports();
            }
            _ => {}
        }
        for name in self.state.take(event) {
            self.queue.wake(name);
        }
    }

    /// Takes a message of the agent. Drops reports on the node's health, because no object of the API has them, and
    /// plans, because only a coordinator asks for them.
    fn handle_report(&mut self, message: OutboxMessage) {
        match message {
            OutboxMessage::Report(report) => {
                let name = report.name.clone();
                if self.state.report(report) {
                    self.queue.wake(name);
                }
            }
            OutboxMessage::Question(message) => self.questions.take(message),
            OutboxMessage::Health(_) | OutboxMessage::Plan(_) => {}
        }
    }

    /// Answers the open questions. Does nothing while the watch is broken, because the agent then does not know what
    /// the API stores.
    fn answer(&mut self) {
        if self.state.is_synced() && !self.is_watch_broken {
            self.questions.answer(self.node.as_str(), &self.outbox, &self.state.objects());
        }
    }

    fn start(&mut self, now: Instant) {
        for name in self.queue.start(now, |_| true) {
            match self.state.requests(&name) {
                Some(requests) => drop(self.passes.spawn(pass(self.client.clone(), requests))),
                None => {
                    self.refused.remove(&name);
                    self.queue.finished(&name, Retry::OnChange, now);
                }
            }
        }
    }

    fn end_pass(&mut self, passed: Passed, now: Instant) {
        let Passed { requests, written, profile } = passed;
        let name = requests.object.name_any();
        let mut retry = Retry::OnChange;
        match written {
            Some(Ok(stored)) => {
                self.logged.clear();
                self.refused.remove(&name);
                self.state.record_write(&requests, stored);
                self.queue.wake(name.clone());
            }
            Some(Err(error)) => retry = self.handle_failure(&requests, &error),
            None => {}
        }
        match profile {
            Some(Ok(profile)) => {
                self.logged.clear();
                let is_found = profile.is_ok();
                self.state.set_profile(&requests, profile);
                retry = if is_found { retry } else { Retry::Soon };
            }
            Some(Err(why)) => {
                self.log_once(
                    &why,
                    &format!("{why}; its ClientMount waits, and the agent tries again"),
                );
                retry = Retry::Soon;
            }
            None => {}
        }
        self.queue.finished(&name, retry, now);
    }

    fn handle_failure(&mut self, requests: &ApiRequests, error: &WriteError) -> Retry {
        let name = requests.object.name_any();
        match error {
            // The watch will deliver the other client's write, or the deletion of the object.
            WriteError::Conflict { .. } | WriteError::Unknown { .. } => Retry::Soon,
            WriteError::Api { source, .. } | WriteError::Look { source, .. } => {
                let why = plain(source);
                if !is_refusal(source) {
                    let text = format!("{error}: {why}; the agent tries again until it works");
                    self.log_once(&why, &text);
                    return Retry::Soon;
                }
                if self.refused.insert(name, why.clone()).as_ref() != Some(&why) {
                    log::warn!("{error}: {why}; the agent tries again, at least once a minute");
                }
                self.state.write_refused(requests);
                Retry::Later
            }
        }
    }

    fn log_once(&mut self, why: &str, text: &str) {
        if self.logged.insert(why.to_owned()) {
            log::warn!("{text}");
        }
    }
}

#[cfg(test)]
mod tests;
