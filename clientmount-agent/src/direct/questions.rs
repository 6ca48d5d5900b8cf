//! Answers the agent's questions about jobs from the API, as a coordinator would. While nobody asks about a job, nothing is
//! watched but this node's ClientMounts.

use std::{collections::BTreeMap, sync::Arc};

use api::{ClientMount, names::label};
use jobs::{Identity, Jobs, Ticket};
use kube::{Client, ResourceExt};
use proto::v1::{JobMount, JobName, JobState, job_state::Knowledge};
use tokio::{sync::watch, task::JoinSet};

use agent::{outbox::Outbox, questions::Asking};
use controller::has_finalizer;

/// The namespace of Workflows, as workload managers make them.
const WORKFLOWS: &str = "default";

/// The open questions, and the watches that answer them.
pub(super) struct Questions {
    client: Client,
    open: BTreeMap<u64, Question>,
    jobs: Arc<Jobs>,
    changes: watch::Receiver<()>,
    watches: JoinSet<()>,
}

#[derive(Debug)]
struct Question {
    job: Option<JobName>,
    ticket: Ticket,
    answered: Option<JobState>,
}

impl Questions {
    pub(super) fn new(client: Client) -> Self {
        let jobs = Arc::<Jobs>::default();
        let changes = jobs.changes();
        Self { client, open: BTreeMap::new(), jobs, changes, watches: JoinSet::new() }
    }

    pub(super) fn take(&mut self, asking: Asking) {
        match asking {
            Asking::Begin(id, job) => {
                let ticket = self.jobs.ask();
                self.open.insert(id, Question { job, ticket, answered: None });
            }
            Asking::End(id) => drop(self.open.remove(&id)),
        }
        let is_wanted = self.open.values().any(|question| question.job.is_some());
        match (is_wanted, self.watches.is_empty()) {
            (true, true) => self.begin(),
            (false, false) => {
                self.watches = JoinSet::new();
                // Without a watch nothing is known any more.
                self.jobs = Arc::default();
                self.changes = self.jobs.changes();
            }
            _ => {}
        }
    }

    fn begin(&mut self) {
        let (namespace, jobs) = (|| Some(WORKFLOWS.to_owned()), || Arc::clone(&self.jobs));
        self.watches.spawn(jobs::workflows(self.client.clone(), namespace(), jobs()));
        self.watches.spawn(jobs::computes(self.client.clone(), namespace(), jobs()));
        self.watches.spawn(jobs::look(self.client.clone(), namespace(), jobs()));
    }

    /// Returns when an answer may have changed; never while there is no question.
    pub(super) async fn changed(&mut self) {
        if self.watches.is_empty() || self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Passes on every answer that changed.
    pub(super) fn answer<'a>(
        &mut self,
        node: &str,
        outbox: &Outbox,
        own: &(impl Iterator<Item = &'a Arc<ClientMount>> + Clone),
    ) {
        for (id, question) in &mut self.open {
            let state = match &question.job {
                None => JobState {
                    mounts: own.clone().map(|one| job_mount(one)).collect(),
                    ..JobState::default()
                },
                Some(job) => {
                    let state = self.jobs.state(job, node, question.ticket);
                    let meant = own.clone().filter(|object| is_meant(object, &state, job));
                    JobState { mounts: meant.map(|one| job_mount(one)).collect(), ..state }
                }
            };
            if question.answered.as_ref() != Some(&state) {
                question.answered = Some(state.clone());
                outbox.questions().answered(*id, node, state);
            }
        }
    }

    /// The API does not answer: every answer is passed on again afterwards.
    pub(super) fn forget_answers(&mut self) {
        self.open.values_mut().for_each(|question| question.answered = None);
    }
}

fn is_meant(object: &ClientMount, state: &JobState, job: &JobName) -> bool {
    let own = object.metadata.labels.as_ref().and_then(Identity::of_labels);
    own.is_some_and(|own| {
        if state.knowledge() == Knowledge::Known {
            (own.namespace, own.name) == (state.namespace.as_str(), state.workflow.as_str())
        } else {
            own.is(job)
        }
    })
}

fn job_mount(object: &ClientMount) -> JobMount {
    let directive = object.labels().get(label::DIRECTIVE_INDEX);
    let status = object.status.as_ref().and_then(|status| serde_json::to_vec(status).ok());
    JobMount {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        desired_state: object.spec.desired_state.to_string(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        held: has_finalizer(object, api::names::finalizer::CLIENT_MOUNT),
        status: status.unwrap_or_default(),
        directive: directive.and_then(|index| index.parse().ok()),
    }
}
