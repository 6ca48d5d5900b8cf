//! Messages to the coordinator: the newest report of each object, and the node's health.
//!
//! The outbox holds at most one report per object, however slow the coordinator is. After a reconnect it sends
//! everything again, because the previous coordinator may have stopped before it stored a report. Reports wait until
//! the coordinator has sent every object: a coordinator that does not know an object yet drops reports on it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    task::Poll,
};

use parking_lot::Mutex;
use proto::{
    limits::bounded,
    v1::{Health, PlanAnswer, PlanResponse},
};
use tokio::sync::Notify;
use tonic::Status;

use crate::{
    questions::{QuestionMessage, Questions},
    received::Report,
};

/// The messages to the coordinator, shared by the agent and the link.
#[derive(Debug, Default)]
pub struct Outbox {
    inner: Mutex<Inner>,
    questions: Questions,
    /// Notified when there may be a message to send.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Number of the newest connection.
    connection: u64,
    /// Whether the coordinator has welcomed the newest connection.
    connected: bool,
    /// Whether the coordinator knows the objects that reports are about.
    accepts_reports: bool,
    /// The newest report of each object, by uid.
    reports: BTreeMap<String, Report>,
    /// Uids of the objects whose report must still be sent.
    pending: BTreeSet<String>,
    /// The node's newest health.
    health: Health,
    /// Whether the health must still be sent.
    health_pending: bool,
    /// Plans that the coordinator of the newest connection asked for.
    plans: VecDeque<PlanAnswer>,
}

impl Outbox {
    /// Stores a report, and has it sent if it differs from the object's last report.
    pub fn put(&self, report: Report) {
        self.update(|inner| {
            let uid = report.uid.clone();
            if inner.reports.get(&uid) != Some(&report) {
                inner.reports.insert(uid.clone(), report);
                inner.pending.insert(uid);
            }
        });
    }

    /// Drops the report of a deleted object.
    pub fn forget(&self, uid: &str) {
        let mut inner = self.inner.lock();
        inner.reports.remove(uid);
        inner.pending.remove(uid);
    }

    /// Stores the node's health, and has it sent if it changed.
    pub fn set_health(&self, health: Health) {
        let health = bounded(health);
        self.update(|inner| {
            inner.health_pending |= inner.health != health;
            inner.health = health;
        });
    }

    /// Answers a coordinator's request for a plan.
    pub fn answer_plan(&self, id: u64, planned: Result<PlanResponse, Status>) {
        let (response, failure) = match planned {
            Ok(response) => (Some(response), String::new()),
            Err(status) => (None, status.message().to_owned()),
        };
        self.update(|inner| inner.plans.push_back(PlanAnswer { id, response, failure }));
    }

    /// Begins a connection and returns its number. Calls of [`Self::next`] for earlier connections return `None`, and
    /// nothing is sent before [`Self::welcome`].
    pub fn begin(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.connection += 1;
        inner.disconnect();
        self.changed.notify_waiters();
        inner.connection
    }

    /// Records that the coordinator accepted this connection, and has the node's health sent.
    pub fn welcome(&self) {
        self.update(|inner| {
            inner.connected = true;
            inner.health_pending = true;
        });
    }

    /// Records that the coordinator has sent every object, and has every report sent again.
    pub fn resend_all(&self) {
        self.questions.connect();
        self.update(|inner| {
            inner.accepts_reports = true;
            inner.pending = inner.reports.keys().cloned().collect();
        });
    }

    /// Records that the connection is lost: nothing is sent, and the answers to open questions are withdrawn.
    pub fn disconnect(&self) {
        self.inner.lock().disconnect();
        self.questions.disconnect();
    }

    /// Waits for the next message, and returns it; returns `None` when a later connection than `connection` has begun.
    pub async fn next(&self, connection: u64) -> Option<OutboxMessage> {
        loop {
            let changed = self.changed.notified();
            match self.inner.lock().pop(connection) {
                Poll::Ready(message) => return message,
                Poll::Pending => {}
            }
            if self.accepts_questions(connection)
                && let Some(message) = self.questions.pop()
            {
                return Some(OutboxMessage::Question(message));
            }
            changed.await;
        }
    }

    /// Changes the messages, and wakes the task that sends them.
    fn update(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.inner.lock());
        self.changed.notify_one();
    }

    fn accepts_questions(&self, connection: u64) -> bool {
        let inner = self.inner.lock();
        inner.accepts_reports && inner.connection == connection
    }

    pub fn questions(&self) -> &Questions {
        &self.questions
    }

    /// Waits until a question is opened while there is no connection: the link then connects at once.
    pub async fn question_opened(&self) {
        let newest = self.questions.newest();
        while self.questions.newest() == newest {
            self.changed.notified().await;
        }
    }

    /// Wakes the task that sends messages, after a question was opened or withdrawn.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Returns whether a coordinator has accepted the newest connection.
    pub fn is_connected(&self) -> bool {
        self.inner.lock().connected
    }

    pub fn reports(&self) -> Vec<Report> {
        self.inner.lock().reports.values().cloned().collect()
    }

    pub fn health(&self) -> Health {
        self.inner.lock().health.clone()
    }
}

/// A message to the coordinator.
#[derive(Debug)]
pub enum OutboxMessage {
    Report(Report),
    Health(Health),
    Plan(PlanAnswer),
    Question(QuestionMessage),
}

impl Inner {
    fn disconnect(&mut self) {
        self.connected = false;
        self.accepts_reports = false;
        self.plans.clear();
    }

    fn pop(&mut self, connection: u64) -> Poll<Option<OutboxMessage>> {
        if connection != self.connection {
            return Poll::Ready(None);
        }
        if !self.connected {
            return Poll::Pending;
        }
        if std::mem::take(&mut self.health_pending) {
            return Poll::Ready(Some(OutboxMessage::Health(self.health.clone())));
        }
        if let Some(answer) = self.plans.pop_front() {
            return Poll::Ready(Some(OutboxMessage::Plan(answer)));
        }
        if !self.accepts_reports {
            return Poll::Pending;
        }
        while let Some(uid) = self.pending.pop_first() {
            if let Some(report) = self.reports.get(&uid) {
                return Poll::Ready(Some(OutboxMessage::Report(report.clone())));
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use api::ClientMountStatus;

    use super::*;

    fn report(uid: &str, version: &str) -> Report {
        Report {
            namespace: "n1".into(),
            name: uid.into(),
            uid: uid.into(),
            resource_version: version.into(),
            status: ClientMountStatus::default(),
            released: false,
        }
    }

    fn pop_all(outbox: &Outbox, connection: u64) -> Vec<String> {
        let mut messages = Vec::new();
        loop {
            match outbox.inner.lock().pop(connection) {
                Poll::Ready(Some(OutboxMessage::Report(report))) => {
                    messages.push(format!("{}@{}", report.uid, report.resource_version));
                }
                Poll::Ready(Some(OutboxMessage::Health(_))) => messages.push("health".into()),
                Poll::Ready(Some(OutboxMessage::Plan(answer))) => {
                    messages.push(format!("plan {}: {}", answer.id, answer.failure));
                }
                Poll::Ready(Some(OutboxMessage::Question(_))) => unreachable!("next() adds them"),
                Poll::Pending => return messages,
                Poll::Ready(None) => {
                    messages.push("over".into());
                    return messages;
                }
            }
        }
    }

    #[test]
    fn plans_are_sent_before_reports_and_dropped_with_their_connection() {
        let outbox = Outbox::default();
        let connection = outbox.begin();
        outbox.welcome();
        outbox.answer_plan(7, Err(Status::not_found("no such object")));
        assert_eq!(pop_all(&outbox, connection), ["health", "plan 7: no such object"]);
        outbox.answer_plan(8, Ok(PlanResponse::default()));
        let next = outbox.begin();
        outbox.welcome();
        assert_eq!(pop_all(&outbox, next), ["health"]);
    }

    #[test]
    fn the_newest_report_of_each_object_is_sent_once_the_coordinator_has_sent_all_objects() {
        let outbox = Outbox::default();
        let connection = outbox.begin();
        outbox.put(report("a", "1"));
        outbox.put(report("a", "2"));
        outbox.put(report("b", "1"));
        assert!(pop_all(&outbox, connection).is_empty());
        outbox.welcome();
        assert_eq!(pop_all(&outbox, connection), ["health"]);
        outbox.resend_all();
        assert_eq!(pop_all(&outbox, connection), ["a@2", "b@1"]);
        outbox.put(report("a", "2"));
        assert!(
            pop_all(&outbox, connection).is_empty(),
            "a report that changes nothing is not sent"
        );
    }

    #[test]
    fn a_new_connection_gets_every_report_again_and_the_old_connection_gets_none() {
        let outbox = Outbox::default();
        let first = outbox.begin();
        outbox.welcome();
        outbox.resend_all();
        outbox.put(report("a", "1"));
        assert_eq!(pop_all(&outbox, first), ["health", "a@1"]);
        outbox.disconnect();
        outbox.put(report("b", "1"));
        outbox.put(report("c", "1"));
        outbox.forget("c");
        let second = outbox.begin();
        outbox.welcome();
        assert_eq!(pop_all(&outbox, first), ["over"]);
        assert_eq!(pop_all(&outbox, second), ["health"]);
        outbox.resend_all();
        assert_eq!(pop_all(&outbox, second), ["a@1", "b@1"]);
    }

    #[test]
    fn health_is_sent_when_it_changes() {
        let outbox = Outbox::default();
        let connection = outbox.begin();
        outbox.welcome();
        pop_all(&outbox, connection);
        let sick = Health { message: "sick".into(), ..Health::default() };
        outbox.set_health(sick.clone());
        outbox.set_health(sick);
        assert_eq!(pop_all(&outbox, connection), ["health"]);
        // A message of 512 KiB, such as the whole output of a command that failed.
        outbox.set_health(Health { message: "x".repeat(512 << 10), ..Health::default() });
        assert!(outbox.health().message.len() <= proto::limits::TEXT);
    }
}
