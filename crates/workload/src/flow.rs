//! One Workflow: created, asked for states, waited for by watching, and deleted.

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

/// Why a state is not reached.
#[derive(Debug, Error)]
pub enum Unreached {
    #[error("time is up")]
    Late,
    #[error("{0}")]
    Failed(String),
    #[error("somebody has it torn down")]
    Ending,
    #[error("somebody deleted it")]
    Deleted,
    #[error("the watch ended")]
    WatchEnded,
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

    /// Waits until it is in a state and ready; `report` hears of each new reason to wait.
    ///
    /// # Errors
    /// When it tells an error, is deleted, or time is up.
    pub async fn reach(
        &self,
        state: &WorkflowState,
        deadline: Instant,
        mut report: impl FnMut(&str) + Send,
    ) -> Result<Workflow, Unreached> {
        let mut events = std::pin::pin!(self.events());
        let mut reported = String::new();
        loop {
            let seen = tokio::select! {
                seen = events.next() => seen.ok_or(Unreached::WatchEnded)?,
                () = sleep_until(deadline) => return Err(Unreached::Late),
            };
            match seen {
                Seen::Trouble(error) => report(&format!("{error}; trying again")),
                Seen::Gone => return Err(Unreached::Deleted),
                Seen::Workflow(workflow) => match progress(&workflow, state) {
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

    /// Waits until it is gone; `report` hears of trouble with the watch.
    ///
    /// # Errors
    /// When it is still there in time.
    pub async fn await_deletion(
        &self,
        deadline: Instant,
        mut report: impl FnMut(&str) + Send,
    ) -> Result<(), Unreached> {
        let mut events = std::pin::pin!(self.events());
        loop {
            tokio::select! {
                seen = events.next() => match seen.ok_or(Unreached::WatchEnded)? {
                    Seen::Gone => return Ok(()),
                    Seen::Workflow(_) => {}
                    Seen::Trouble(error) => report(&format!("{error}; trying again")),
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
