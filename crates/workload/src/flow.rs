//! Creates a Workflow, requests its states, waits for these states by watching, and deletes the Workflow.

use api::{Workflow, WorkflowSpec, WorkflowState};
use apiclient::WatchBackoff;
use futures::{Stream, StreamExt};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::{Instant, sleep_until};

use crate::{Progress, Refused, progress};

/// The reason why a state is not reached.
#[derive(Debug, Error)]
pub enum Unreached {
    #[error("the deadline passed")]
    Late,
    #[error("{0}")]
    Failed(String),
    #[error("Teardown was requested meanwhile")]
    Ending,
    #[error("the workflow was deleted meanwhile")]
    Deleted,
    #[error("the watch on the workflow ended: try again")]
    WatchEnded,
}

/// A Workflow, identified by its name.
#[derive(Clone)]
pub struct Flow {
    api: Api<Workflow>,
    name: String,
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flow").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Flow {
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), name: name.to_owned() }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates the Workflow. Fails if a Workflow of that name exists.
    ///
    /// # Errors
    /// If the API refuses the Workflow, with the API's reason.
    pub async fn create(&self, workflow: &Workflow) -> Result<Workflow, Refused> {
        let created = self.api.create(&PostParams::default(), workflow).await;
        created.map_err(|error| self.refused("create", error))
    }

    /// Reads the Workflow from the API.
    ///
    /// # Errors
    /// If the API does not answer, or the Workflow does not exist.
    pub async fn get(&self) -> Result<Workflow, Refused> {
        self.api.get(&self.name).await.map_err(|error| self.refused("get", error))
    }

    /// Returns the Workflow; `None` if it does not exist.
    ///
    /// # Errors
    /// If the API does not answer.
    pub async fn find(&self) -> Result<Option<Workflow>, Refused> {
        self.api.get_opt(&self.name).await.map_err(|error| self.refused("get", error))
    }

    /// Requests a state by changing `spec.desiredState`.
    ///
    /// # Errors
    /// If the API refuses the state: the API accepts only Teardown, or the next state once the present state is ready.
    pub async fn request(&self, state: &WorkflowState, hurry: bool) -> Result<Workflow, Refused> {
        self.patch(&format!("request {state} of"), &json!({"spec": spec_patch(state, hurry)})).await
    }

    /// Changes the Workflow by a merge patch. `verb` describes the change in errors.
    ///
    /// # Errors
    /// If the API refuses the change.
    pub async fn patch(&self, verb: &str, patch: &Value) -> Result<Workflow, Refused> {
        let patch = Patch::Merge(patch);
        let patched = self.api.patch(&self.name, &PatchParams::default(), &patch).await;
        patched.map_err(|error| self.refused(verb, error))
    }

    /// Waits until the Workflow is ready in a state; calls `report` with each new reason to wait.
    ///
    /// # Errors
    /// If the Workflow fails, is deleted, or the deadline passes.
    pub async fn reach(
        &self,
        state: &WorkflowState,
        deadline: Instant,
        mut report: impl FnMut(&str) + Send,
    ) -> Result<Workflow, Unreached> {
        let mut events = std::pin::pin!(self.events());
        let mut reported = String::new();
        loop {
            let event = tokio::select! {
                event = events.next() => event.ok_or(Unreached::WatchEnded)?,
                () = sleep_until(deadline) => return Err(Unreached::Late),
            };
            match event {
                FlowEvent::Trouble(error) => report(&format!("{error}; trying again")),
                FlowEvent::Gone => return Err(Unreached::Deleted),
                FlowEvent::Workflow(workflow) => match progress(&workflow, state) {
                    Progress::Reached => return Ok(*workflow),
                    Progress::Failed(message) => return Err(Unreached::Failed(message)),
                    Progress::Ending => return Err(Unreached::Ending),
                    Progress::Waiting(message) if message != reported => {
                        report(&format!("{}: {state}: {message}", self.name));
                        reported = message;
                    }
                    Progress::Waiting(_) => {}
                },
            }
        }
    }

    /// Deletes the Workflow (with a uid: only the Workflow with that uid), and returns whether it existed.
    ///
    /// # Errors
    /// If the API refuses the deletion.
    pub async fn delete(&self, uid: Option<String>) -> Result<bool, Refused> {
        let preconditions =
            uid.map(|uid| Preconditions { uid: Some(uid), ..Preconditions::default() });
        let params = DeleteParams { preconditions, ..DeleteParams::default() };
        match self.api.delete(&self.name, &params).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(self.refused("delete", error)),
        }
    }

    /// Waits until the Workflow is gone; calls `report` with errors of the watch.
    ///
    /// # Errors
    /// If the Workflow still exists at the deadline.
    pub async fn await_deletion(
        &self,
        deadline: Instant,
        mut report: impl FnMut(&str) + Send,
    ) -> Result<(), Unreached> {
        let mut events = std::pin::pin!(self.events());
        loop {
            tokio::select! {
                event = events.next() => match event.ok_or(Unreached::WatchEnded)? {
                    FlowEvent::Gone => return Ok(()),
                    FlowEvent::Workflow(_) => {}
                    FlowEvent::Trouble(error) => report(&format!("{error}; trying again")),
                },
                () = sleep_until(deadline) => return Err(Unreached::Late),
            }
        }
    }

    /// Returns a stream of the Workflow's versions, which also reports the deletion of the Workflow.
    pub fn events(&self) -> impl Stream<Item = FlowEvent> + Send + use<> {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut is_listed = false;
        let to_flow_event = move |event| {
            let flow_event = match event {
                Ok(Event::Init) => {
                    is_listed = false;
                    None
                }
                Ok(Event::InitApply(workflow) | Event::Apply(workflow)) => {
                    is_listed = true;
                    Some(FlowEvent::Workflow(Box::new(workflow)))
                }
                Ok(Event::InitDone) => (!is_listed).then_some(FlowEvent::Gone),
                Ok(Event::Delete(_)) => Some(FlowEvent::Gone),
                Err(error) => Some(FlowEvent::Trouble(error)),
            };
            std::future::ready(flow_event)
        };
        watch(self.api.clone(), config).backoff(WatchBackoff::default()).filter_map(to_flow_event)
    }

    fn refused(&self, verb: &str, source: kube::Error) -> Refused {
        let namespace = self.api.namespace().unwrap_or_default();
        Refused::new(format!("{verb} the workflow {namespace}/{}", self.name), source)
    }
}

/// Returns the patch of a spec that requests a state.
fn spec_patch(state: &WorkflowState, hurry: bool) -> Value {
    if hurry {
        json!({"desiredState": state, "hurry": true})
    } else {
        json!({"desiredState": state})
    }
}

/// An event of a watch of one Workflow.
#[derive(Debug)]
pub enum FlowEvent {
    Workflow(Box<Workflow>),
    Gone,
    /// The watch failed, and will be retried.
    Trouble(watcher::Error),
}

/// Returns a new Workflow in Proposal, for a workload manager's job and its user and group.
#[must_use]
pub fn job(
    namespace: &str,
    name: &str,
    (manager, job): (&str, &str),
    (user, group): (u32, u32),
    directives: Vec<String>,
) -> Workflow {
    let spec = WorkflowSpec {
        desired_state: WorkflowState::Proposal,
        wlm_id: manager.to_owned(),
        job_id: job.into(),
        user_id: i64::from(user),
        group_id: i64::from(group),
        hurry: false,
        force_ready: false,
        directives,
    };
    let mut workflow = Workflow::new(name, spec);
    workflow.metadata.namespace = Some(namespace.to_owned());
    workflow
}
