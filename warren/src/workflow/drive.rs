//! Drives one workflow from state to state, as a workload manager does. It waits by watching.

use std::time::Duration;

use api::workflow::WorkflowStatusKind;
use api::{Workflow, WorkflowState};
use apiclient::WatchBackoff;
use futures::{Stream, StreamExt};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::{gather, waits};
use crate::failure::{self, Failure};
use nodeclient::Exit;
use nodeclient::Output;

/// One workflow.
#[derive(Clone)]
pub(crate) struct Drive {
    client: Client,
    api: Api<Workflow>,
    namespace: String,
    name: String,
    output: Output,
}

impl Drive {
    pub(crate) fn new(client: Client, namespace: &str, name: &str, output: Output) -> Self {
        let api = Api::namespaced(client.clone(), namespace);
        Self { client, api, namespace: namespace.to_owned(), name: name.to_owned(), output }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Creates it; one of that name is a failure.
    ///
    /// # Errors
    /// When the API refuses it, with its reason.
    pub(crate) async fn create(&self, workflow: &Workflow) -> Result<Workflow, Failure> {
        let what = format!("create the workflow {}", self.name);
        self.api.create(&PostParams::default(), workflow).await.map_err(|error| match &error {
            // A validating webhook's refusal of the directives, and not one of who asks.
            kube::Error::Api(status)
                if status.code == 403 && status.message.contains("DW directive") =>
            {
                Failure::new(Exit::Usage, format!("{what}: {}", status.message))
            }
            _ => failure::api(what, &error),
        })
    }

    /// The workflow as it is.
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) async fn get(&self) -> Result<Workflow, Failure> {
        self.api.get(&self.name).await.map_err(|error| self.failed("get", &error))
    }

    /// The workflow, if it is there.
    ///
    /// # Errors
    /// When the API does not answer.
    pub(crate) async fn find(&self) -> Result<Option<Workflow>, Failure> {
        self.api.get_opt(&self.name).await.map_err(|error| self.failed("get", &error))
    }

    /// Asks for a state.
    ///
    /// # Errors
    /// When the API refuses it: only the next state of one that is ready, or Teardown.
    pub(crate) async fn ask_for(&self, state: &WorkflowState, hurry: bool) -> Result<(), Failure> {
        let mut spec = json!({"desiredState": state});
        if let Some(spec) = spec.as_object_mut().filter(|_| hurry) {
            spec.insert("hurry".to_owned(), true.into());
        }
        let patch = Patch::Merge(json!({"spec": spec}));
        let answer = self.api.patch(&self.name, &PatchParams::default(), &patch).await;
        answer.map(drop).map_err(|error| self.failed(&format!("ask for {state} of"), &error))
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
        let deadline = Instant::now() + patience;
        let mut events = std::pin::pin!(self.events());
        let mut told = String::new();
        loop {
            let seen = tokio::select! {
                seen = events.next() => seen,
                () = sleep_until(deadline) => return Err(self.late(state, patience).await),
            };
            match seen {
                None => return Err(Failure::new(Exit::Retryable, "the watch ended")),
                Some(Seen::Trouble(error)) => {
                    self.output.progress(&format!("{error}; trying again"));
                }
                Some(Seen::Gone) => {
                    return Err(Failure::new(
                        Exit::Failed,
                        format!("somebody deleted the workflow {}", self.name),
                    ));
                }
                Some(Seen::Workflow(workflow)) => match judged(&workflow, state) {
                    Judgement::Reached => return Ok(*workflow),
                    Judgement::Failed(message) => return Err(self.error(state, &message).await),
                    Judgement::Waiting(message) if message != told => {
                        self.output.progress(&format!("{}: {state}: {message}", self.name));
                        told = message;
                    }
                    Judgement::Waiting(_) => {}
                },
            }
        }
    }

    /// Deletes it and waits until it is gone.
    ///
    /// # Errors
    /// When it is still there in time, with what holds it.
    pub(crate) async fn delete(&self, patience: Duration) -> Result<(), Failure> {
        match self.api.delete(&self.name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(error) => return Err(self.failed("delete", &error)),
        }
        let deadline = Instant::now() + patience;
        let mut events = std::pin::pin!(self.events());
        loop {
            tokio::select! {
                seen = events.next() => match seen {
                    Some(Seen::Gone) => return Ok(()),
                    None => return Err(Failure::new(Exit::Retryable, "the watch ended")),
                    Some(Seen::Workflow(_)) => {}
                    Some(Seen::Trouble(error)) => self.output.progress(&format!("{error}; trying again")),
                },
                () = sleep_until(deadline) => {
                    let what = format!("the workflow {} is not gone after {}", self.name, humantime::format_duration(patience));
                    return Err(self.with_waits(Failure::new(Exit::Retryable, what)).await);
                }
            }
        }
    }

    /// Each version of it, and its end.
    pub(crate) fn events(&self) -> impl Stream<Item = Seen> + Send + use<> {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut is_listed = false;
        let seen = move |event| {
            let seen = match event {
                Ok(Event::Init) => {
                    is_listed = false;
                    None
                }
                Ok(Event::InitApply(workflow) | Event::Apply(workflow)) => {
                    is_listed = true;
                    Some(Seen::Workflow(Box::new(workflow)))
                }
                Ok(Event::InitDone) => (!is_listed).then_some(Seen::Gone),
                Ok(Event::Delete(_)) => Some(Seen::Gone),
                Err(error) => Some(Seen::Trouble(error)),
            };
            std::future::ready(seen)
        };
        watch(self.api.clone(), config).backoff(WatchBackoff::default()).filter_map(seen)
    }

    async fn late(&self, state: &WorkflowState, patience: Duration) -> Failure {
        let what = format!(
            "the workflow {} is not in {state} after {}",
            self.name,
            humantime::format_duration(patience)
        );
        self.with_waits(Failure::new(Exit::Retryable, what)).await
    }

    async fn error(&self, state: &WorkflowState, message: &str) -> Failure {
        let what = format!("the workflow {} failed in {state}: {message}", self.name);
        self.with_waits(Failure::new(Exit::StorageFault, what)).await
    }

    /// The failure, and what the workflow waits for as far as the API tells.
    async fn with_waits(&self, failure: Failure) -> Failure {
        let Ok(objects) = gather::gather(&self.client, &self.namespace, &self.name).await else {
            return failure;
        };
        let now = jiff::Timestamp::now();
        let lines: Vec<_> =
            waits::waits(&objects).iter().map(|waiting| waiting.line(now)).collect();
        if lines.is_empty() { failure } else { failure.remedy(lines.join("\n")) }
    }

    fn failed(&self, verb: &str, error: &kube::Error) -> Failure {
        failure::api(format!("{verb} the workflow {}/{}", self.namespace, self.name), error)
    }
}

/// What a watch of one workflow shows.
#[derive(Debug)]
pub(crate) enum Seen {
    Workflow(Box<Workflow>),
    Gone,
    /// The watch failed; it goes on by itself.
    Trouble(watcher::Error),
}

#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    Reached,
    Failed(String),
    Waiting(String),
}

/// How a workflow is coming along towards a state that was asked for.
fn judged(workflow: &Workflow, state: &WorkflowState) -> Judgement {
    let Some(status) =
        workflow.status.as_ref().filter(|status| status.state.as_ref() == Some(state))
    else {
        return Judgement::Waiting("not begun".to_owned());
    };
    if status.ready {
        return Judgement::Reached;
    }
    let message = if status.message.is_empty() { "no reason is told" } else { &status.message };
    match &status.status {
        Some(WorkflowStatusKind::Error) => Judgement::Failed(message.to_owned()),
        _ => Judgement::Waiting(message.to_owned()),
    }
}

/// Whether a workflow asked for Teardown already.
pub(crate) fn is_ending(workflow: &Workflow) -> bool {
    workflow.spec.desired_state == WorkflowState::Teardown
        || workflow.meta().deletion_timestamp.is_some()
}

/// The name of its Computes, or what the engine will call them.
pub(crate) fn computes_of(workflow: &Workflow) -> String {
    let reference = workflow.status.as_ref().and_then(|status| status.computes.as_ref());
    reference.and_then(|computes| computes.name.clone()).unwrap_or_else(|| workflow.name_any())
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "json! makes values")]
mod tests {
    use super::*;

    fn workflow(status: serde_json::Value) -> Workflow {
        serde_json::from_value(json!({
            "metadata": {"name": "w"},
            "spec": {"desiredState": "Setup", "wlmID": "w", "jobID": 1, "userID": 0, "groupID": 0, "dwDirectives": []},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_state_is_reached_when_it_is_ready() {
        let judge = |status| judged(&workflow(status), &WorkflowState::Setup);
        assert_eq!(
            judge(json!({"state": "Setup", "ready": true, "status": "Completed"})),
            Judgement::Reached
        );
        let before = json!({"state": "Proposal", "ready": true, "status": "Completed"});
        assert_eq!(judge(before), Judgement::Waiting("not begun".to_owned()));
        let error = json!({"state": "Setup", "ready": false, "status": "Error", "message": "DW Directive 0: no"});
        assert_eq!(judge(error), Judgement::Failed("DW Directive 0: no".to_owned()));
        let later = json!({"state": "Setup", "ready": false, "status": "TransientCondition", "message": "m"});
        assert_eq!(judge(later), Judgement::Waiting("m".to_owned()));
    }
}
