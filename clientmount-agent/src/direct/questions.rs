//! Answers the agent's questions about jobs from the API, as a coordinator would. While no question about a job is
//! open, the agent watches nothing but this node's ClientMounts.

use std::{collections::BTreeMap, sync::Arc};

use api::{ClientMount, names::label};
use jobs::Jobs;
use kube::{Client, ResourceExt};
use proto::v1::{JobAnswer, JobMount};
use tokio::task::JoinSet;

use agent::{outbox::Outbox, questions::QuestionMessage};
use controller::has_finalizer;

/// The namespace in which workload managers create Workflows.
const WORKFLOWS: &str = "default";

/// The open questions, and the watches that answer them.
pub(super) struct Questions {
    client: Client,
    open: jobs::Questions,
    /// The jobs, as the watches know them.
    jobs: Arc<Jobs>,
    watches: JoinSet<()>,
}

impl Questions {
    pub(super) fn new(client: Client) -> Self {
        let jobs = Arc::<Jobs>::default();
        let open = jobs::Questions::new(Arc::clone(&jobs));
        Self { client, open, jobs, watches: JoinSet::new() }
    }

    /// Opens or closes a question.
    pub(super) fn take(&mut self, message: QuestionMessage) {
        match message {
            QuestionMessage::Begin(id, job) => self.open.open(id, job),
            QuestionMessage::End(id) => self.open.close(id),
        }
        match (self.open.is_about_jobs(), self.watches.is_empty()) {
            (true, true) => self.start_watches(),
            (false, false) => {
                self.watches = JoinSet::new();
                // Without watches the known jobs would become outdated.
                self.jobs = Arc::default();
                self.open.set_jobs(Arc::clone(&self.jobs));
            }
            _ => {}
        }
    }

    fn start_watches(&mut self) {
        let (namespace, jobs) = (|| Some(WORKFLOWS.to_owned()), || Arc::clone(&self.jobs));
        self.watches.spawn(jobs::workflows(self.client.clone(), namespace(), jobs()));
        self.watches.spawn(jobs::computes(self.client.clone(), namespace(), jobs()));
        self.watches.spawn(jobs::send_requests(self.client.clone(), namespace(), jobs()));
    }

    /// Waits until an answer may have changed. Does not return while no question is open.
    pub(super) async fn wait_for_change(&mut self) {
        self.open.changed().await;
    }

    /// Sends the agent every answer that differs from the answer sent before.
    pub(super) fn answer<'a>(
        &mut self,
        node: &str,
        outbox: &Outbox,
        client_mounts: &(impl Iterator<Item = &'a Arc<ClientMount>> + Clone),
    ) {
        let own = |matches: &dyn Fn(&BTreeMap<String, String>) -> bool| {
            let own = client_mounts.clone().filter(|object| matches(object.labels()));
            Some(own.map(|object| job_mount(object)).collect())
        };
        while let Some(JobAnswer { id, state }) = self.open.next(node, own) {
            outbox.questions().record_answer(id, node, state.unwrap_or_default());
        }
    }

    /// Forgets which answers were sent to the agent, because the API is unreachable now. Once the API is reachable
    /// again, every open question is answered again.
    pub(super) fn forget_answers(&mut self) {
        self.open.forget_answers();
    }
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
