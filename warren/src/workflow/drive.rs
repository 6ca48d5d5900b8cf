//! Drives one workflow from state to state, as a workload manager does, and prints its progress.

use std::time::Duration;

use api::{Workflow, WorkflowState};
use futures::Stream;
use kube::Client;
use tokio::time::Instant;
use workload::waits::waits;
use workload::{Flow, FlowEvent, Unreached};

use super::gather;
use super::lease::Renewal;
use crate::failure::{self, Failure};
use cli::Exit;
use cli::{Output, WaitProgress};

/// A workflow to drive.
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

    /// Starts to renew the workflow's lease, until the renewal is dropped.
    pub(crate) fn renew(&self, workflow: &Workflow) -> Renewal {
        Renewal::start(self.flow.clone(), workflow)
    }

    /// Creates the workflow. Fails if a workflow of that name exists.
    ///
    /// # Errors
    /// If the API refuses the workflow, with the API's reason.
    pub(crate) async fn create(&self, workflow: &Workflow) -> Result<Workflow, Failure> {
        self.flow.create(workflow).await.map_err(|refused| match refused.answer() {
            Some(answer) if refused.is_about_directives() => {
                Failure::new(Exit::Usage, format!("{refused}: {}", answer.message))
            }
            _ => failure::from_refused(&refused),
        })
    }

    /// Reads the workflow from the API.
    ///
    /// # Errors
    /// If the workflow does not exist.
    pub(crate) async fn get(&self) -> Result<Workflow, Failure> {
        self.flow.get().await.map_err(|refused| failure::from_refused(&refused))
    }

    /// Returns the workflow; `None` if the API has no such workflow.
    ///
    /// # Errors
    /// If the API does not answer.
    pub(crate) async fn find(&self) -> Result<Option<Workflow>, Failure> {
        self.flow.find().await.map_err(|refused| failure::from_refused(&refused))
    }

    /// Requests a state by changing `spec.desiredState`.
    ///
    /// # Errors
    /// If the API refuses the request. A client may request only Teardown, or the state that follows a ready state.
    pub(crate) async fn request(&self, state: &WorkflowState, hurry: bool) -> Result<(), Failure> {
        let requested = self.flow.request(state, hurry).await;
        requested.map(drop).map_err(|refused| failure::from_refused(&refused))
    }

    /// Waits until the workflow is ready in a state.
    ///
    /// # Errors
    /// If the workflow fails, is deleted, or takes too long. The error has the reasons why the workflow waits.
    pub(crate) async fn reach(
        &self,
        state: &WorkflowState,
        patience: Duration,
    ) -> Result<Workflow, Failure> {
        let mut waited_for = String::new();
        let name = self.name();
        let prefix = format!("{name}: {state}: ");
        let mut shown = WaitProgress::new(self.output);
        let progress = |text: &str| {
            shown.show(text);
            text.strip_prefix(&prefix).unwrap_or(text).clone_into(&mut waited_for);
        };
        let failure = match self.flow.reach(state, Instant::now() + patience, progress).await {
            Ok(workflow) => return Ok(workflow),
            Err(end @ (Unreached::Deleted | Unreached::Ending)) => {
                let what = format!("the workflow {name}: {end}");
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

    /// Deletes the workflow, and waits until it is gone.
    ///
    /// # Errors
    /// If the workflow still exists after `patience`. The error names the objects that hold the workflow.
    pub(crate) async fn delete(&self, patience: Duration) -> Result<(), Failure> {
        if !self.flow.delete(None).await.map_err(|refused| failure::from_refused(&refused))? {
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

    /// Returns a stream of the workflow's versions, and of its end.
    pub(crate) fn events(&self) -> impl Stream<Item = FlowEvent> + Send + use<> {
        self.flow.events()
    }

    /// Adds the reasons why the workflow waits to a failure, if the API answers.
    async fn with_waits(&self, failure: Failure) -> Failure {
        let Ok(objects) = gather::gather(&self.client, &self.namespace, self.name()).await else {
            return failure;
        };
        let now = jiff::Timestamp::now();
        failure.details(waits(&objects).iter().map(|waiting| waiting.line(now)))
    }
}
