//! The open questions of one node about jobs, and their answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use proto::v1::{JobAnswer, JobMount, JobName, JobState};
use tokio::sync::watch;

use crate::known::{Jobs, Ticket};
use crate::name::Identity;

type Labels = BTreeMap<String, String>;

/// The open questions of one node.
#[derive(Debug)]
pub struct Questions {
    jobs: Arc<Jobs>,
    changes: watch::Receiver<()>,
    /// The open questions by id.
    open: BTreeMap<u64, Question>,
}

#[derive(Debug)]
struct Question {
    /// The job that the question is about; `None` for all ClientMounts of the node.
    job: Option<JobName>,
    ticket: Ticket,
    /// The last answer; `None` before the first answer.
    answer: Option<JobState>,
}

impl Questions {
    pub fn new(jobs: Arc<Jobs>) -> Self {
        Self { changes: jobs.changes(), jobs, open: BTreeMap::new() }
    }

    /// Opens a question about a job; without a job, the question is about all ClientMounts of the node.
    pub fn open(&mut self, id: u64, job: Option<JobName>) {
        self.open.insert(id, Question { job, ticket: self.jobs.register_question(), answer: None });
    }

    pub fn close(&mut self, id: u64) {
        self.open.remove(&id);
    }

    /// Closes the oldest questions until at most `most` are open.
    pub fn limit(&mut self, most: usize) {
        while self.open.len() > most {
            self.open.pop_first();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns whether a question about a job is open.
    pub fn is_about_jobs(&self) -> bool {
        self.open.values().any(|question| question.job.is_some())
    }

    /// Sets the store of Workflows and Computes from which questions are answered from now on.
    pub fn set_jobs(&mut self, jobs: Arc<Jobs>) {
        self.changes = jobs.changes();
        self.jobs = jobs;
    }

    /// Forgets the last answers: the next answer to each question is returned, even if it has not changed.
    pub fn forget_answers(&mut self) {
        self.open.values_mut().for_each(|question| question.answer = None);
    }

    /// Waits until an answer may have changed; never returns while no question is open.
    pub async fn changed(&mut self) {
        if self.open.is_empty() || self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns the next answer that differs from the last answer to the same question. `mounts` returns the node's
    /// ClientMounts whose labels match, or `None` while they are unknown.
    pub fn next(
        &mut self,
        node: &str,
        mounts: impl Fn(&dyn Fn(&Labels) -> bool) -> Option<Vec<JobMount>>,
    ) -> Option<JobAnswer> {
        self.open.iter_mut().find_map(|(id, question)| {
            let state = match &question.job {
                None => JobState { mounts: mounts(&|_| true)?, ..JobState::default() },
                Some(job) => {
                    let state = self.jobs.state(job, node, question.ticket);
                    let mounts = mounts(&|labels| {
                        Identity::of_labels(labels).is_some_and(|own| own.is_of(job, Some(&state)))
                    })?;
                    JobState { mounts, ..state }
                }
            };
            if question.answer.as_ref() == Some(&state) {
                return None;
            }
            question.answer = Some(state.clone());
            Some(JobAnswer { id: *id, state: Some(state) })
        })
    }
}
