//! One call about one job: the call reads the job's Workflow, requests states, and waits. The coordinator keeps
//! no state between calls.

mod end;
mod facts;
mod nodes;

use std::sync::Arc;
use std::time::Duration;

use api::{Workflow, WorkflowState};
use jiff::Timestamp;
use kube::{Client, ResourceExt};
use proto::v1::JobId;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;
use tonic::{Code, Status};
use workload::{Flow, Refused, Unreached};

use super::answer::{self, Ending};
use super::caller::Caller;
use super::deadlines::{ANNOTATION, Deadlines, Record};
use super::request::Limit;
use super::step::{Step, step};
use super::tolerance::{self, Tolerance};
use crate::hub::Hub;

/// Annotation with the caller that aborted the job, the time and the reason.
pub(super) const ABORTED: &str = "warren/aborted";

/// A job, and the caller of one call about it.
#[derive(Clone)]
pub(super) struct Job {
    pub client: Client,
    pub hub: Arc<Hub>,
    /// Becomes true when the coordinator stops.
    pub stop: Receiver<bool>,
    pub flow: Flow,
    pub id: JobId,
    pub caller: Caller,
}

/// The Workflow after a call, and how the call ended.
type CallResult = Result<(Workflow, Ending), Status>;

impl Job {
    /// Returns the job's Workflow; `None` if the job has none.
    ///
    /// # Errors
    /// If the Workflow is another user's, or the API does not answer.
    pub(super) async fn find(&self) -> Result<Option<Workflow>, Status> {
        let Some(workflow) = self.flow.find().await.map_err(|error| refusal_status(&error))? else {
            return Ok(None);
        };
        if !answer::belongs_to(&workflow, &self.id) {
            return Ok(None);
        }
        self.caller.check(&workflow)?;
        Ok(Some(workflow))
    }

    /// Returns the job's Workflow.
    ///
    /// # Errors
    /// As [`Job::find`], and if the job has no Workflow.
    pub(super) async fn get(&self) -> Result<Workflow, Status> {
        self.find().await?.ok_or_else(|| {
            Status::not_found(format!(
                "argument job: there is no job {} of {}; call Create first",
                self.id.job, self.id.manager
            ))
        })
    }

    /// Creates the job's Workflow, or returns the existing Workflow if it has the same content.
    ///
    /// # Errors
    /// If the API refuses the directives, or another job's Workflow has this name.
    pub(super) async fn create(
        &self,
        mut wanted: Workflow,
        tolerated: u32,
        limit: Limit,
    ) -> Result<Workflow, Status> {
        let mut deadlines = Deadlines::default();
        let owner = self.caller.to_string();
        deadlines.set(&WorkflowState::Proposal, owner, Timestamp::now(), limit.within, false);
        wanted.annotations_mut().insert(ANNOTATION.to_owned(), deadlines.text());
        if tolerated > 0 {
            let tolerance = Tolerance { nodes: tolerated, lost: Vec::new() };
            wanted.annotations_mut().insert(tolerance::ANNOTATION.to_owned(), tolerance.text());
        }
        let error = match self.flow.create(&wanted).await {
            Ok(created) => return Ok(created),
            Err(error) if error.is_conflict() => error,
            Err(error) => return Err(refusal_status(&error)),
        };
        let known = self.flow.find().await.map_err(|error| refusal_status(&error))?;
        let Some(known) = known else { return Err(refusal_status(&error)) };
        self.caller.check(&known)?;
        match answer::difference(&known, &wanted) {
            None => Ok(known),
            Some(field) => Err(Status::already_exists(format!(
                "argument job: there is a job {} of {} already, with another {field}; tear that job down first, or choose another job ID",
                self.id.job, self.id.manager
            ))),
        }
    }

    /// Advances the Workflow to a state, through all earlier states, and waits until the state is ready.
    ///
    /// # Errors
    /// If the API refuses a write or does not answer, or if the coordinator stops. If the state is not reached for any
    /// other reason, returns an [`Ending`] that says why.
    pub(super) async fn go_to(
        &self,
        mut workflow: Workflow,
        target: &WorkflowState,
        nodes: &[String],
        mut limit: Limit,
    ) -> CallResult {
        loop {
            let (requested, waited_for) = match step(&workflow, target) {
                Step::TearingDown => return Ok((workflow, Ending::TearingDown)),
                Step::Reached => return Ok((workflow, Ending::Done)),
                Step::Request(state) => (Some(state.clone()), state),
                Step::Wait(state) => (None, state),
            };
            match &requested {
                Some(WorkflowState::Setup) => self.fill_computes(&workflow, nodes).await?,
                Some(WorkflowState::DataIn | WorkflowState::PreRun) => {
                    self.remove_lost_computes(&workflow).await?;
                }
                _ => {}
            }
            let Some((written, record)) = self.request(&workflow, requested, target, limit).await?
            else {
                workflow = self.get().await?;
                continue;
            };
            // The writes for later states on the way to `target` must keep this deadline.
            limit.renew = false;
            workflow = written;
            if record.due > Timestamp::now() && !limit.waits {
                return Ok((workflow, Ending::Requested));
            }
            let ending = match self.reach(&waited_for, record).await? {
                Ok(reached) => {
                    workflow = reached;
                    continue;
                }
                Err(Ending::TearingDown) => return Ok((workflow, Ending::TearingDown)),
                Err(ending) => ending,
            };
            match self.force_without_lost(&waited_for).await? {
                Some(forced) => workflow = forced,
                None => return Ok((self.get().await?, ending)),
            }
        }
    }

    /// Requests `state`, if any, and writes the deadline of `target`, in one patch of the version `workflow` that the
    /// caller has read. Returns `None`, and changes nothing, if the Workflow has changed since.
    async fn request(
        &self,
        workflow: &Workflow,
        state: Option<WorkflowState>,
        target: &WorkflowState,
        limit: Limit,
    ) -> Result<Option<(Workflow, Record)>, Status> {
        let now = Timestamp::now();
        let mut deadlines = Deadlines::read(workflow);
        let before = deadlines.clone();
        if let Some(state) = &state {
            deadlines.settle(workflow, state, now);
        }
        let owner = self.caller.to_string();
        let record = deadlines.set(target, owner, now, limit.within, limit.renew);
        if record.due <= now || (deadlines == before && state.is_none()) {
            return Ok(Some((workflow.clone(), record)));
        }
        let mut patch = json!({"metadata": {"annotations": {ANNOTATION: deadlines.text()}}});
        if let Some(state) = state {
            patch["spec"] = json!({"desiredState": state});
        }
        let written = self.write(workflow, patch).await?;
        Ok(written.map(|written| (written, record)))
    }

    /// Patches the version `workflow` that the caller has read. Returns `None`, and changes nothing, if the Workflow
    /// has changed since.
    pub(super) async fn write(
        &self,
        workflow: &Workflow,
        mut patch: Value,
    ) -> Result<Option<Workflow>, Status> {
        patch["metadata"]["resourceVersion"] = json!(workflow.resource_version());
        patch["metadata"]["uid"] = json!(workflow.uid());
        match self.flow.patch("change", &patch).await {
            Ok(written) => Ok(Some(written)),
            Err(error) if error.is_conflict() => Ok(None),
            Err(error) => Err(refusal_status(&error)),
        }
    }

    /// Waits for a state until a deadline, or until the coordinator stops.
    async fn reach(
        &self,
        state: &WorkflowState,
        record: Record,
    ) -> Result<Result<Workflow, Ending>, Status> {
        if record.due <= Timestamp::now() {
            return Ok(Err(Ending::Late(record)));
        }
        let reached = tokio::select! {
            reached = self.flow.reach(state, instant_of(record.due), |_| {}) => reached,
            status = self.stopped() => return Err(status),
        };
        Ok(Err(match reached {
            Ok(workflow) => return Ok(Ok(workflow)),
            Err(Unreached::Late) => Ending::Late(record),
            Err(Unreached::Failed(message)) => Ending::Failed(message),
            Err(Unreached::Deleted | Unreached::Ending) => Ending::TearingDown,
            Err(Unreached::WatchEnded) => {
                return Err(Status::unavailable(
                    "the coordinator's watch on the Workflow ended; call again",
                ));
            }
        }))
    }

    /// Waits until the coordinator stops; returns the error for the caller.
    pub(super) async fn stopped(&self) -> Status {
        let mut stop = self.stop.clone();
        // The wait also ends when the sender is dropped: the coordinator stops then.
        let _ = stop.wait_for(|stop| *stop).await;
        Status::unavailable("the coordinator is stopping; call again")
    }
}

/// Converts a wall-clock time to an instant of the monotonic clock.
pub(super) fn instant_of(due: Timestamp) -> Instant {
    let remaining = due.duration_since(Timestamp::now());
    Instant::now() + Duration::try_from(remaining).unwrap_or_default()
}

/// Converts a request that the API refused or did not answer into a gRPC status.
pub(crate) fn refusal_status(error: &Refused) -> Status {
    let Some(answer) = error.answer() else {
        return Status::unavailable(format!(
            "{error}: {}; the API is unreachable, call again",
            daemon::chain(&error.source)
        ));
    };
    let code = match answer.code {
        _ if error.is_about_directives() => Code::InvalidArgument,
        400 | 413 | 415 | 422 => Code::InvalidArgument,
        404 => Code::NotFound,
        409 => Code::Aborted,
        429 | 500..=599 => Code::Unavailable,
        _ => Code::FailedPrecondition,
    };
    Status::new(code, format!("{error}: {}", answer.message))
}
