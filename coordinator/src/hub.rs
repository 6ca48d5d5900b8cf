//! Connects the nodes' sessions with the roster and the exchange, and checks what each session may send.
//!
//! The [`Roster`] lists the nodes and their newest sessions. The [`Exchange`] decides what to send to nodes and what to
//! write to the API.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api::SystemConfiguration;
use fanout::{Exchange, InvalidStatus, Key, NodeKind};
use jobs::Jobs;
use k8s_openapi::jiff::Timestamp;
use proto::limits::{self, TooLong};
use proto::v1::{self, Health, Hello, ListNodesResponse, MountReport};
use thiserror::Error;
use tokio::sync::{
    Notify,
    mpsc::{self, UnboundedReceiver, UnboundedSender},
};
use workflow::objects::sessions::SessionChange;

use crate::plans::Plans;
use crate::roster::{RejectedHello, Roster};

/// The nodes' sessions, and the known objects and jobs, shared by all tasks of the coordinator.
#[derive(Debug)]
pub(crate) struct Hub {
    /// Lock order: a task that needs both this lock and the exchange's lock takes this lock first.
    roster: Mutex<Roster>,
    exchange: Arc<Exchange>,
    jobs: Arc<Jobs>,
    plans: Plans,
    /// Gets the opened and ended sessions. The receiver may be gone: without an engine, nothing needs them.
    sessions: UnboundedSender<SessionChange>,
}

/// A session of a node.
#[derive(Debug)]
pub(crate) struct Session {
    pub node: String,
    /// The session's number, which grows with each session of any node.
    pub epoch: u64,
    /// Whether something is wrong while the agent has no session.
    pub is_resident: bool,
    /// Time without a message after which the node's agent counts as silent although its connection is open; `None` if
    /// the agent does not say that it is alive.
    pub quiet_after: Option<Duration>,
    /// Notified when [`Hub::next`] may have a message.
    pub notify: Arc<Notify>,
}

/// The reason for the end of a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// A newer agent of this node connected; `boot` is its boot ID.
    Superseded {
        boot: String,
    },
    Stopping,
}

/// The reason for refusing a report.
#[derive(Debug, Error)]
pub(crate) enum RejectedReport {
    #[error("a newer session of node {node} is open")]
    OldSession { node: String },
    #[error("node {node} reported on ClientMount {key}, which is not in its namespace")]
    Foreign { node: String, key: Key },
    #[error(
        "node {node} is a rabbit, which writes the status of its ClientMounts itself, but reported on {key}"
    )]
    FromRabbit { node: String, key: Key },
    #[error("report of node {node}")]
    TooLong {
        node: String,
        #[source]
        source: TooLong,
    },
    #[error("report of node {node} on ClientMount {key}")]
    InvalidStatus {
        node: String,
        key: Key,
        #[source]
        source: InvalidStatus,
    },
}

impl Hub {
    /// Returns a hub, and the channel of its opened and ended sessions.
    pub(crate) fn new() -> (Self, UnboundedReceiver<SessionChange>) {
        let (sessions, changes) = mpsc::unbounded_channel();
        let hub = Self {
            roster: Mutex::default(),
            exchange: Arc::default(),
            jobs: Arc::default(),
            plans: Plans::default(),
            sessions,
        };
        (hub, changes)
    }

    /// Returns the exchange, which holds the objects.
    pub(crate) fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
    }

    /// Returns the known jobs.
    pub(crate) fn jobs(&self) -> &Arc<Jobs> {
        &self.jobs
    }

    /// Returns the plans that operators ask of nodes.
    pub(crate) fn plans(&self) -> &Plans {
        &self.plans
    }

    /// Returns whether the node is a rabbit.
    pub(crate) fn is_rabbit(&self, node: &str) -> bool {
        self.roster().is_rabbit(node)
    }

    /// Opens a session for a node.
    pub(crate) fn hello(&self, hello: Hello) -> Result<Session, RejectedHello> {
        let mut roster = self.roster();
        let node = hello.node.clone();
        // Two and a quarter periods: one message may be lost, and the next one late.
        let quiet_after = Duration::from_secs(u64::from(hello.alive_every) * 9 / 4);
        let quiet_after = Some(quiet_after).filter(|quiet| !quiet.is_zero());
        let is_resident = hello.resident;
        let node_kind =
            if hello.role() == v1::Role::Rabbit { NodeKind::Rabbit } else { NodeKind::Compute };
        let was_rabbit = roster.is_rabbit(&node);
        let epoch = roster.hello(hello, now())?;
        // `set_nodes` is slow, but this condition is rarely true, even when a whole system connects at once: usually
        // the SystemConfiguration already names the rabbits.
        if roster.is_rabbit(&node) != was_rabbit {
            self.exchange.set_nodes(roster.nodes());
        }
        let notify = self.exchange.open(&node, epoch, node_kind);
        // Under the lock of the roster, so that the changes of one node are sent in their order.
        self.send_change(&node, true, Timestamp::now());
        drop(roster);
        Ok(Session { node, epoch, is_resident, quiet_after, notify })
    }

    /// Records the time at which the certificate of a session expires, in seconds since 1970.
    pub(crate) fn set_certificate_expiry(&self, session: &Session, expires: i64) {
        self.roster().set_certificate_expiry(&session.node, session.epoch, expires);
    }

    /// Closes a session in the roster and the exchange.
    pub(crate) fn close_session(&self, session: &Session) {
        let mut roster = self.roster();
        let is_newest = roster.close_session(&session.node, session.epoch, now());
        if is_newest && session.is_resident {
            self.send_change(&session.node, false, Timestamp::now());
        }
        drop(roster);
        self.exchange.close(&session.node, session.epoch);
        self.plans.close(&session.node, session.epoch);
    }

    /// Returns the next message to the session's node. `None` if there is no message now: the session then
    /// waits for its `Notify`.
    pub(crate) fn next(
        &self,
        session: &Session,
    ) -> Result<Option<v1::to_node::Message>, SessionEnd> {
        self.exchange
            .next(&session.node, session.epoch)
            .map_err(|fanout::SessionEnded| self.session_end(session))
    }

    /// Returns the reason for the session's end; `None` while the session is open.
    pub(crate) fn end_of(&self, session: &Session) -> Option<SessionEnd> {
        (!self.exchange.serves(&session.node, session.epoch)).then(|| self.session_end(session))
    }

    /// Passes a node's report to the exchange. Drops a report on an earlier version of the object: the node will
    /// report on the newer version.
    pub(crate) fn report(
        &self,
        session: &Session,
        report: &MountReport,
    ) -> Result<(), RejectedReport> {
        let node = &session.node;
        limits::check_report(report)
            .map_err(|source| RejectedReport::TooLong { node: node.clone(), source })?;
        let key = Key::new(&report.namespace, &report.name);
        // The lock is held to the end, so that no newer session opens between the check and the report.
        let roster = self.roster();
        if !roster.is_newest(node, session.epoch) {
            return Err(RejectedReport::OldSession { node: node.clone() });
        }
        if key.namespace != *node {
            return Err(RejectedReport::Foreign { node: node.clone(), key });
        }
        if roster.is_rabbit(node) {
            return Err(RejectedReport::FromRabbit { node: node.clone(), key });
        }
        self.exchange.report(report).map_err(|source| RejectedReport::InvalidStatus {
            node: node.clone(),
            key,
            source,
        })
    }

    /// Records a node's health.
    pub(crate) fn health(&self, session: &Session, health: Health) {
        self.roster().health(&session.node, session.epoch, health);
    }

    /// Takes a new version of the SystemConfiguration (`None`: it was deleted), and returns the names of its nodes.
    pub(crate) fn configure(
        &self,
        configuration: Option<&SystemConfiguration>,
    ) -> BTreeSet<String> {
        let mut roster = self.roster();
        let names = match configuration {
            Some(configuration) => roster.configure(configuration),
            None => {
                roster.forget_configuration();
                BTreeSet::new()
            }
        };
        self.exchange.set_nodes(roster.nodes());
        names
    }

    /// Describes faults and missing parts of the SystemConfiguration; `None` if there are none.
    pub(crate) fn gap(&self) -> Option<String> {
        self.roster().gap()
    }

    /// Returns every node, and texts about information that the coordinator cannot look up now.
    pub(crate) fn nodes(&self) -> ListNodesResponse {
        let roster = self.roster();
        let failing = self
            .exchange
            .failing()
            .into_iter()
            .map(|(kind, failure)| format!("{kind} cannot be watched: {failure}"));
        let gaps = roster.gap().into_iter().chain(failing).collect();
        ListNodesResponse { nodes: roster.records(now()), gaps }
    }

    /// Ends all sessions; a session that opens later ends at once.
    pub(crate) fn stop(&self) {
        self.exchange.close_all();
    }

    fn session_end(&self, session: &Session) -> SessionEnd {
        let roster = self.roster();
        if roster.is_newest(&session.node, session.epoch) {
            return SessionEnd::Stopping;
        }
        SessionEnd::Superseded { boot: roster.boot(&session.node).unwrap_or_default().to_owned() }
    }

    /// Records that nothing was heard of a session's node since `last_heard`, although the connection is open.
    pub(crate) fn set_quiet(&self, session: &Session, last_heard: Timestamp) {
        let roster = self.roster();
        if roster.is_newest(&session.node, session.epoch) {
            self.send_change(&session.node, false, last_heard);
        }
    }

    /// Records that a quiet node was heard again.
    pub(crate) fn set_heard(&self, session: &Session) {
        let roster = self.roster();
        if roster.is_newest(&session.node, session.epoch) {
            self.send_change(&session.node, true, Timestamp::now());
        }
    }

    fn send_change(&self, node: &str, is_open: bool, at: Timestamp) {
        // Without an engine the receiver is dropped.
        let _ = self.sessions.send(SessionChange { node: node.to_owned(), is_open, at });
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().expect("a panic left the roster half changed")
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(started_at: u64) -> Hello {
        Hello {
            node: "n1".to_owned(),
            role: v1::Role::Compute.into(),
            boot_id: "b".to_owned(),
            started_at,
            ..Hello::default()
        }
    }

    #[test]
    fn end_of_returns_whether_a_newer_agent_or_the_stop_of_the_coordinator_ended_a_session() {
        let (hub, _) = Hub::new();
        let first = hub.hello(hello(1)).unwrap();
        assert_eq!(hub.end_of(&first), None);
        let second = hub.hello(hello(2)).unwrap();
        assert_eq!(hub.end_of(&first), Some(SessionEnd::Superseded { boot: "b".to_owned() }));
        assert_eq!(hub.end_of(&second), None);
        hub.stop();
        assert_eq!(hub.end_of(&second), Some(SessionEnd::Stopping));
    }
}
