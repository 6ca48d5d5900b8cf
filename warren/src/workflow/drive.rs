//! Drives one workflow from state to state, as a workload manager does, and says so.

use std::time::Duration;

use api::{Workflow, WorkflowState};
use futures::Stream;
use kube::Client;
use tokio::time::Instant;
use workload::waits::waits;
use workload::{Flow, Seen, Unreached};

use super::gather;
use super::lease::Renewal;
use crate::failure::{self, Failure};
use nodeclient::Exit;
use nodeclient::Output;

/// One workflow.
#[derive(Clone)]
pub(crate) struct Drive {
    client: Client,
    flow: Flow,
    namespace: String,
    output: Output,
}

impl Drive {
    pub(crate) fn new(client: Client, namespace: &str, name: &str, output: Output) -> Self {
        let flow = Flow::new(client.clone(), namespace, name);
        Self { client, flow, namespace: namespace.to_owned(), output }
    }

    pub(crate) fn name(&self) -> &str {
        self.flow.name()
    }

    /// Keeps it as long as this command lives.
    pub(crate) fn renew(&self, workflow: &Workflow) -> Renewal {
        Renewal::start(self.flow.clone(), workflow)
    }

    /// Creates it; one of that name is a failure.
    ///
    /// # Errors
    /// When the API refuses it, with its reason.
    pub(crate) async fn create(&self, workflow: &Workflow) -> Result<Workflow, Failure> {
        self.flow.create(workflow).await.map_err(|refused| match refused.answer() {
            Some(answer) if refused.is_about_directives() => {
                Failure::new(Exit::Usage, format!("{refused}: {}", answer.message))
            }
            _ => failure::of(&refused),
        })
    }

    /// The workflow as it is.
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) async fn get(&self) -> Result<Workflow, Failure> {
        self.flow.get().await.map_err(|refused| failure::of(&refused))
    }

    /// The workflow, if it is there.
    ///
    /// # Errors
    /// When the API does not answer.
    pub(crate) async fn find(&self) -> Result<Option<Workflow>, Failure> {
        self.flow.find().await.map_err(|refused| failure::of(&refused))
    }

    /// Asks for a state.
    ///
    /// # Errors
    /// When the API refuses it: only the next state of one that is ready, or Teardown.
    pub(crate) async fn ask_for(&self, state: &WorkflowState, hurry: bool) -> Result<(), Failure> {
        let asked = self.flow.ask_for(state, hurry).await;
        asked.map(drop).map_err(|refused| failure::of(&refused))
    }

    /// Waits until it is in a state and ready.
    ///
    /// # Errors
    /// When it tells an error, is deleted, or time is up: with what it waits for.
    pub(crate) async fn reach(
        &self,
        state: &WorkflowState,
        patience: Duration,
    ) -> Result<Workflow, Failure> {
        let mut waited_for = String::new();
        let name = self.name();
        let prefix = format!("{name}: {state}: ");
        let progress = |text: &str| {
            self.output.progress(text);
            text.strip_prefix(&prefix).unwrap_or(text).clone_into(&mut waited_for);
        };
        let failure = match self.flow.reach(state, Instant::now() + patience, progress).await {
            Ok(workflow) => return Ok(workflow),
            Err(over @ (Unreached::Deleted | Unreached::Ending)) => {
                let what = format!("the workflow {name}: {over}");
                return Err(Failure::new(Exit::Failed, what));
            }
            Err(ended @ Unreached::WatchEnded) => {
                return Err(Failure::new(Exit::Retryable, ended.to_string()));
            }
            Err(Unreached::Failed(message)) => {
                let what = format!("the workflow {name} failed in {state}: {message}");
                Failure::new(Exit::StorageFault, what)
            }
            Err(Unreached::Late) => {
                let after = humantime::format_duration(patience);
                let what = format!("the workflow {name} is not in {state} after {after}");
                let mut failure = Failure::new(Exit::Retryable, what);
                if !waited_for.is_empty() {
                    failure.add_cause(waited_for);
                }
                failure
            }
        };
        Err(self.with_waits(failure).await)
    }

    /// Deletes it and waits until it is gone.
    ///
    /// # Errors
    /// When it is still there in time, with what holds it.
    pub(crate) async fn delete(&self, patience: Duration) -> Result<(), Failure> {
        if !self.flow.delete(None).await.map_err(|refused| failure::of(&refused))? {
            return Ok(());
        }
        let progress = |text: &str| self.output.progress(text);
        match self.flow.await_deletion(Instant::now() + patience, progress).await {
            Ok(()) => Ok(()),
            Err(ended @ Unreached::WatchEnded) => {
                Err(Failure::new(Exit::Retryable, ended.to_string()))
            }
            Err(_) => {
                let after = humantime::format_duration(patience);
                let what = format!("the workflow {} is not gone after {after}", self.name());
                Err(self.with_waits(Failure::new(Exit::Retryable, what)).await)
            }
        }
    }

    /// Each version of it, and its end.
    pub(crate) fn events(&self) -> impl Stream<Item = Seen> + Send + use<> {
        self.flow.events()
    }

    /// The failure, with what the workflow waits for, as far as the API tells, as its details.
    async fn with_waits(&self, failure: Failure) -> Failure {
        let Ok(objects) = gather::gather(&self.client, &self.namespace, self.name()).await else {
            return failure;
        };
        let now = jiff::Timestamp::now();
        failure.details(waits(&objects).iter().map(|waiting| waiting.line(now)))
    }
}
