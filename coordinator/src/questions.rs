//! The jobs that a node waits for: the coordinator sends it what the API stores of each, at once and whenever that changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobs::{Identity, Jobs, Ticket};
use proto::limits::{NAME, shortened};
use proto::v1::job_name::Name;
use proto::v1::job_state::Knowledge;
use proto::v1::{JobAnswer, JobName, JobState, WatchJob};
use tokio::sync::watch;

use crate::hub::{Hub, Session};

/// Questions of one node at a time: its scripts, and its agent itself.
const MOST: usize = 64;

/// What one session waits for.
#[derive(Debug)]
pub(crate) struct Waiting {
    jobs: Arc<Jobs>,
    changes: watch::Receiver<()>,
    questions: BTreeMap<u64, Question>,
}

#[derive(Debug)]
struct Question {
    job: Option<JobName>,
    ticket: Ticket,
    /// The answer that the node got last.
    sent: Option<JobState>,
}

impl Waiting {
    pub(crate) fn new(jobs: &Arc<Jobs>) -> Self {
        Self { jobs: jobs.clone(), changes: jobs.changes(), questions: BTreeMap::new() }
    }

    /// The node asks; one that asks for more than it can need has its oldest question forgotten.
    pub(crate) fn ask(&mut self, hub: &Hub, session: &Session, question: WatchJob) {
        let job = question.job.map(bounded);
        let asked = Question { job, ticket: self.jobs.ask(), sent: None };
        self.questions.insert(question.id, asked);
        if self.questions.len() > MOST {
            self.questions.pop_first();
        }
        hub.exchange().set_watches_job(&session.node, true);
    }

    /// The node waits for this no more.
    pub(crate) fn end(&mut self, hub: &Hub, session: &Session, id: u64) {
        self.questions.remove(&id);
        if self.questions.is_empty() {
            hub.exchange().set_watches_job(&session.node, false);
        }
    }

    /// Returns when an answer may be another; never while the node waits for nothing.
    pub(crate) async fn changed(&mut self) {
        if self.questions.is_empty() || self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The next answer that the node does not know yet.
    pub(crate) fn next(&mut self, hub: &Hub, session: &Session) -> Option<JobAnswer> {
        let jobs = &self.jobs;
        self.questions.iter_mut().find_map(|(id, question)| {
            let state = state(hub, session, jobs, question)?;
            if question.sent.as_ref() == Some(&state) {
                return None;
            }
            question.sent = Some(state.clone());
            Some(JobAnswer { id: *id, state: Some(state) })
        })
    }
}

/// `None` before the node has received every object: it would not know the ones that an answer is about.
fn state(hub: &Hub, session: &Session, jobs: &Jobs, question: &Question) -> Option<JobState> {
    let Session { node, epoch, .. } = session;
    let exchange = hub.exchange();
    let Some(job) = &question.job else {
        let mounts = exchange.job_mounts(node, *epoch, |_| true)?;
        return Some(JobState { mounts, ..JobState::default() });
    };
    let state = jobs.state(job, node, question.ticket);
    let mounts = exchange.job_mounts(node, *epoch, |labels| {
        Identity::of_labels(labels).is_some_and(|own| is_of(&state, job, own))
    })?;
    Some(JobState { mounts, ..state })
}

/// Of a Workflow that is known its own ClientMounts; else what the job may have left.
fn is_of(state: &JobState, job: &JobName, own: Identity<'_>) -> bool {
    if state.knowledge() == Knowledge::Known {
        (own.namespace, own.name) == (state.namespace.as_str(), state.workflow.as_str())
    } else {
        own.is(job)
    }
}

/// No job is called anything as long as this, so that nothing is found.
fn bounded(job: JobName) -> JobName {
    let shortened = |name| shortened(name, NAME);
    let name = job.name.map(|name| match name {
        Name::Job(job) => Name::Job(shortened(job)),
        Name::Workflow(workflow) => Name::Workflow(shortened(workflow)),
    });
    JobName { name }
}
