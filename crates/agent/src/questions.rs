//! Questions of this node to its coordinator about jobs, and the answers. A script on this node that waits for a job's
//! mounts keeps a question open; the coordinator sends an answer whenever the job's state changes.
//!
//! The agent sends a question again on every new connection. When the connection is lost, the agent drops all answers,
//! because they may be out of date.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use proto::v1::{JobName, JobState};
use tokio::sync::watch;

use crate::outbox::Outbox;

/// All open questions of this node.
#[derive(Debug, Default)]
pub struct Questions {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Id of the newest question.
    last: u64,
    /// The open questions by id.
    open: BTreeMap<u64, Open>,
    /// Ids of the questions about which the coordinator must still get a message on this connection: `Begin` for an
    /// open question, `End` for a withdrawn question.
    pending: BTreeSet<u64>,
}

#[derive(Debug)]
struct Open {
    /// The job that the question is about; `None` for a question about all ClientMounts of the node.
    job: Option<JobName>,
    answer: watch::Sender<Option<JobState>>,
}

/// A message to the coordinator about a question.
#[derive(Debug, Clone, PartialEq)]
pub enum QuestionMessage {
    /// Opens a question with this id: about the job, or without a job about all ClientMounts of the node.
    Begin(u64, Option<JobName>),
    /// Withdraws the question with this id.
    End(u64),
}

/// An open question. Dropping this value withdraws the question.
#[derive(Debug)]
pub struct Question {
    id: u64,
    outbox: Arc<Outbox>,
    /// The newest answer; `None` before the first answer, and while there is no connection.
    pub answer: watch::Receiver<Option<JobState>>,
}

impl Question {
    /// Opens a question about a job, or without a job about all ClientMounts of this node.
    pub fn ask(outbox: &Arc<Outbox>, job: Option<JobName>) -> Self {
        let (id, answer) = outbox.questions().open(job);
        outbox.wake();
        Self { id, outbox: Arc::clone(outbox), answer }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.outbox.questions().close(self.id);
        self.outbox.wake();
    }
}

impl Questions {
    /// Returns whether any question is open.
    pub fn are_open(&self) -> bool {
        !self.inner.lock().open.is_empty()
    }

    /// Returns the id of the newest question.
    pub(crate) fn newest(&self) -> u64 {
        self.inner.lock().last
    }

    fn open(&self, job: Option<JobName>) -> (u64, watch::Receiver<Option<JobState>>) {
        let mut inner = self.inner.lock();
        inner.last += 1;
        let id = inner.last;
        let (answer, receiver) = watch::channel(None);
        inner.open.insert(id, Open { job, answer });
        inner.pending.insert(id);
        (id, receiver)
    }

    fn close(&self, id: u64) {
        let mut inner = self.inner.lock();
        inner.open.remove(&id);
        inner.pending.insert(id);
    }

    /// Records that the coordinator accepts questions, and has every open question sent on this connection.
    pub(crate) fn connect(&self) {
        let mut inner = self.inner.lock();
        inner.pending = inner.open.keys().copied().collect();
    }

    /// Records that the connection is lost, and drops all answers.
    pub(crate) fn disconnect(&self) {
        for open in self.inner.lock().open.values() {
            open.answer.send_if_modified(|answer| answer.take().is_some());
        }
    }

    /// Returns the next message to send.
    pub(crate) fn pop(&self) -> Option<QuestionMessage> {
        let mut inner = self.inner.lock();
        let id = inner.pending.pop_first()?;
        Some(match inner.open.get(&id) {
            Some(open) => QuestionMessage::Begin(id, open.job.clone()),
            None => QuestionMessage::End(id),
        })
    }

    /// Stores an answer to the question `id`. Drops the whole answer if it names mounts of another node.
    pub fn record_answer(&self, id: u64, node: &str, state: JobState) {
        let inner = self.inner.lock();
        let Some(open) = inner.open.get(&id) else { return };
        if let Some(foreign) = state.mounts.iter().find(|mount| mount.namespace != node) {
            log::warn!(
                "drop the coordinator's answer about a job: it names ClientMount {}/{}, which is not of node {node}",
                foreign.namespace,
                foreign.name
            );
            open.answer.send_replace(None);
            return;
        }
        open.answer.send_replace(Some(state));
    }
}

#[cfg(test)]
mod tests {
    use proto::v1::{JobMount, job_state::Knowledge};

    use super::*;

    fn known() -> JobState {
        JobState { knowledge: Knowledge::Known.into(), ..JobState::default() }
    }

    #[test]
    fn a_question_is_sent_on_each_connection_until_it_is_dropped() {
        let outbox = Arc::new(Outbox::default());
        let question = Question::ask(&outbox, None);
        let questions = outbox.questions();
        assert_eq!(questions.pop(), Some(QuestionMessage::Begin(1, None)));
        questions.record_answer(1, "n1", known());
        assert_eq!(*question.answer.borrow(), Some(known()));
        questions.disconnect();
        assert_eq!(*question.answer.borrow(), None, "the answer may be out of date");
        questions.connect();
        assert_eq!(questions.pop(), Some(QuestionMessage::Begin(1, None)));
        drop(question);
        assert_eq!(questions.pop(), Some(QuestionMessage::End(1)));
        questions.record_answer(1, "n1", known());
        questions.connect();
        assert_eq!(questions.pop(), None);
    }

    #[test]
    fn an_answer_about_another_nodes_mounts_is_dropped() {
        let outbox = Arc::new(Outbox::default());
        let question = Question::ask(&outbox, None);
        let mount = |node: &str| JobMount { namespace: node.to_owned(), ..JobMount::default() };
        let answer = |nodes: &[&str]| JobState {
            mounts: nodes.iter().map(|node| mount(node)).collect(),
            ..known()
        };
        outbox.questions().record_answer(1, "n1", answer(&["n1"]));
        assert_eq!(question.answer.borrow().as_ref().map(|state| state.mounts.len()), Some(1));
        outbox.questions().record_answer(1, "n1", answer(&["n1", "n2"]));
        assert_eq!(*question.answer.borrow(), None);
    }
}
