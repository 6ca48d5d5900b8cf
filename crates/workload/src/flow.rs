//! One Workflow: created, asked for states, waited for by watching, and deleted.

use api::workflow::WorkflowStatusKind;
use api::{Workflow, WorkflowSpec, WorkflowState};
use apiclient::WatchBackoff;
use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::{Instant, sleep_until};

/// What the API did not do, and why.
#[derive(Debug, Error)]
#[error("{what}")]
pub struct Refused {
    /// Such as `create the workflow w`.
    pub what: String,
    #[source]
    pub source: kube::Error,
}

impl Refused {
    pub(crate) fn new(what: impl Into<String>, source: kube::Error) -> Self {
        Self { what: what.into(), source }
    }

    /// The API's own answer; `None` when it gave none.
    #[must_use]
    pub fn answer(&self) -> Option<&kube::core::Status> {
        match &self.source {
            kube::Error::Api(status) => Some(status),
            _ => None,
        }
    }

    /// Whether a validating webhook refuses the directives, and not the API who asks.
    #[must_use]
    pub fn is_about_directives(&self) -> bool {
        self.answer().is_some_and(|status| {
            matches!(status.code, 403 | 422) && status.message.contains("DW directive")
        })
    }

    /// Whether somebody else changed the object in the meantime.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.answer().is_some_and(|status| status.code == 409)
    }
}

/// Why a state is not reached.
#[derive(Debug, Error)]
pub enum Unreached {
    #[error("time is up")]
    Late,
    #[error("{0}")]
    Failed(String),
    #[error("somebody has it torn down")]
    Over,
    #[error("somebody deleted it")]
    Gone,
    #[error("the watch ended")]
    Ended,
}

/// One Workflow, by its name.
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

    /// Creates it; one of that name is a failure.
    ///
    /// # Errors
    /// When the API refuses it, with its reason.
    pub async fn create(&self, workflow: &Workflow) -> Result<Workflow, Refused> {
        let created = self.api.create(&PostParams::default(), workflow).await;
        created.map_err(|error| self.refused("create", error))
    }

    /// The Workflow as it is; an error when it is not there.
    ///
    /// # Errors
    /// When the API does not answer, or has none.
    pub async fn get(&self) -> Result<Workflow, Refused> {
        self.api.get(&self.name).await.map_err(|error| self.refused("get", error))
    }

    /// The Workflow, if it is there.
    ///
    /// # Errors
    /// When the API does not answer.
    pub async fn find(&self) -> Result<Option<Workflow>, Refused> {
        self.api.get_opt(&self.name).await.map_err(|error| self.refused("get", error))
    }

    /// Asks for a state.
    ///
    /// # Errors
    /// When the API refuses it: only the next state of one that is ready, or Teardown.
    pub async fn ask_for(&self, state: &WorkflowState, hurry: bool) -> Result<Workflow, Refused> {
        self.patch(&format!("ask for {state} of"), &json!({"spec": asked(state, hurry)})).await
    }

    /// Changes it by a merge patch.
    ///
    /// # Errors
    /// When the API refuses it.
    pub async fn patch(&self, verb: &str, patch: &Value) -> Result<Workflow, Refused> {
        let patch = Patch::Merge(patch);
        let patched = self.api.patch(&self.name, &PatchParams::default(), &patch).await;
        patched.map_err(|error| self.refused(verb, error))
    }

    /// Waits until it is in a state and ready; `tell` hears of each new reason to wait.
    ///
    /// # Errors
    /// When it tells an error, is deleted, or time is up.
    pub async fn reach(
        &self,
        state: &WorkflowState,
        deadline: Instant,
        mut tell: impl FnMut(&str) + Send,
    ) -> Result<Workflow, Unreached> {
        let mut events = std::pin::pin!(self.events());
        let mut told = String::new();
        loop {
            let seen = tokio::select! {
                seen = events.next() => seen.ok_or(Unreached::Ended)?,
                () = sleep_until(deadline) => return Err(Unreached::Late),
            };
            match seen {
                Seen::Trouble(error) => tell(&format!("{error}; trying again")),
                Seen::Gone => return Err(Unreached::Gone),
                Seen::Workflow(workflow) => match coming(&workflow, state) {
                    Coming::Reached => return Ok(*workflow),
                    Coming::Failed(message) => return Err(Unreached::Failed(message)),
                    Coming::Over => return Err(Unreached::Over),
                    Coming::Waiting(message) if message != told => {
                        tell(&format!("{}: {state}: {message}", self.name));
                        told = message;
                    }
                    Coming::Waiting(_) => {}
                },
            }
        }
    }

    /// Deletes it, or the one of this uid only; whether it was there.
    ///
    /// # Errors
    /// When the API refuses it.
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

    /// Waits until it is gone; `tell` hears of trouble with the watch.
    ///
    /// # Errors
    /// When it is still there in time.
    pub async fn gone(
        &self,
        deadline: Instant,
        mut tell: impl FnMut(&str) + Send,
    ) -> Result<(), Unreached> {
        let mut events = std::pin::pin!(self.events());
        loop {
            tokio::select! {
                seen = events.next() => match seen.ok_or(Unreached::Ended)? {
                    Seen::Gone => return Ok(()),
                    Seen::Workflow(_) => {}
                    Seen::Trouble(error) => tell(&format!("{error}; trying again")),
                },
                () = sleep_until(deadline) => return Err(Unreached::Late),
            }
        }
    }

    /// Each version of it, and its end.
    pub fn events(&self) -> impl Stream<Item = Seen> + Send + use<> {
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

    fn refused(&self, verb: &str, source: kube::Error) -> Refused {
        let namespace = self.api.namespace().unwrap_or_default();
        Refused::new(format!("{verb} the workflow {namespace}/{}", self.name), source)
    }
}

/// The part of a spec that asks for a state.
fn asked(state: &WorkflowState, hurry: bool) -> Value {
    if hurry {
        json!({"desiredState": state, "hurry": true})
    } else {
        json!({"desiredState": state})
    }
}

/// What a watch of one Workflow shows.
#[derive(Debug)]
pub enum Seen {
    Workflow(Box<Workflow>),
    Gone,
    /// The watch failed; it goes on by itself.
    Trouble(watcher::Error),
}

/// How a Workflow is coming along towards a state that was asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Coming {
    /// It is there, or was: somebody asked for a later one.
    Reached,
    Failed(String),
    Waiting(String),
    /// Somebody asked for Teardown.
    Over,
}

/// How a Workflow is coming along towards a state that was asked for.
#[must_use]
pub fn coming(workflow: &Workflow, state: &WorkflowState) -> Coming {
    if *state != WorkflowState::Teardown && is_ending(workflow) {
        return Coming::Over;
    }
    let place = |state| WorkflowState::ORDER.iter().position(|one| one == state);
    if place(&workflow.spec.desired_state) > place(state) {
        return Coming::Reached;
    }
    let Some(status) =
        workflow.status.as_ref().filter(|status| status.state.as_ref() == Some(state))
    else {
        return Coming::Waiting("not begun".to_owned());
    };
    if status.ready {
        return Coming::Reached;
    }
    let message = if status.message.is_empty() { "no reason is given" } else { &status.message };
    match &status.status {
        Some(WorkflowStatusKind::Error) => Coming::Failed(message.to_owned()),
        _ => Coming::Waiting(message.to_owned()),
    }
}

/// Whether a Workflow asked for Teardown already.
#[must_use]
pub fn is_ending(workflow: &Workflow) -> bool {
    workflow.spec.desired_state == WorkflowState::Teardown
        || workflow.meta().deletion_timestamp.is_some()
}

/// The name of its Computes, or what the engine will call them.
#[must_use]
pub fn computes_of(workflow: &Workflow) -> String {
    let reference = workflow.status.as_ref().and_then(|status| status.computes.as_ref());
    reference.and_then(|computes| computes.name.clone()).unwrap_or_else(|| workflow.name_any())
}

/// A new Workflow in Proposal, of a workload manager's job, for its user and group.
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
        job_id: IntOrString::String(job.to_owned()),
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

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "json! makes values")]
mod tests {
    use super::*;

    fn workflow(status: Value) -> Workflow {
        serde_json::from_value(json!({
            "metadata": {"name": "w"},
            "spec": {"desiredState": "Setup", "wlmID": "w", "jobID": 1, "userID": 0, "groupID": 0, "dwDirectives": []},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_state_is_reached_when_it_is_ready() {
        let judge = |status| coming(&workflow(status), &WorkflowState::Setup);
        let ahead = |desired: &str| {
            let mut workflow = workflow(json!({"state": "Setup", "ready": true}));
            workflow.spec.desired_state = desired.into();
            coming(&workflow, &WorkflowState::Setup)
        };
        assert_eq!(ahead("PreRun"), Coming::Reached, "somebody else was quicker");
        assert_eq!(ahead("Teardown"), Coming::Over);
        assert_eq!(
            judge(json!({"state": "Setup", "ready": true, "status": "Completed"})),
            Coming::Reached
        );
        let before = json!({"state": "Proposal", "ready": true, "status": "Completed"});
        assert_eq!(judge(before), Coming::Waiting("not begun".to_owned()));
        let error = json!({"state": "Setup", "ready": false, "status": "Error", "message": "DW Directive 0: no"});
        assert_eq!(judge(error), Coming::Failed("DW Directive 0: no".to_owned()));
        let later = json!({"state": "Setup", "ready": false, "status": "TransientCondition", "message": "m"});
        assert_eq!(judge(later), Coming::Waiting("m".to_owned()));
    }
}
