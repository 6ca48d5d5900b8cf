//! Ends jobs: aborts them, sets `spec.hurry` (the job's data need not be saved), and removes their Workflows.

use api::{Workflow, WorkflowState};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;
use tonic::Status;
use workload::Unreached;

use super::{ABORTED, CallResult, Job, instant_of, refusal_status};
use crate::workloads::answer::Ending;
use crate::workloads::deadlines::{ANNOTATION, Deadlines};
use crate::workloads::request::Limit;

impl Job {
    /// Requests Teardown at once, sets `spec.hurry`, and records the caller and the reason in an annotation.
    ///
    /// # Errors
    /// If the API refuses the write or does not answer.
    pub(in crate::workloads) async fn abort(
        &self,
        mut workflow: Workflow,
        reason: &str,
    ) -> Result<Workflow, Status> {
        loop {
            if workflow.annotations().contains_key(ABORTED) {
                return Ok(workflow);
            }
            let now = Timestamp::now();
            let mut deadlines = Deadlines::read(&workflow);
            deadlines.settle(&workflow, &WorkflowState::Teardown, now);
            let who = format!("{} at {now:.0}: {reason}", self.caller);
            let patch = json!({
                "metadata": {"annotations": {ABORTED: who, ANNOTATION: deadlines.text()}},
                "spec": {"desiredState": WorkflowState::Teardown, "hurry": true},
            });
            match self.write(&workflow, patch).await? {
                Some(written) => return Ok(written),
                None => workflow = self.get().await?,
            }
        }
    }

    /// Sets `spec.hurry`, and requests Teardown unless it was requested before.
    ///
    /// # Errors
    /// If the API refuses the write or does not answer.
    pub(in crate::workloads) async fn hurry(
        &self,
        mut workflow: Workflow,
    ) -> Result<Workflow, Status> {
        while !workflow.spec.hurry {
            let mut deadlines = Deadlines::read(&workflow);
            deadlines.settle(&workflow, &WorkflowState::Teardown, Timestamp::now());
            let patch = json!({
                "metadata": {"annotations": {ANNOTATION: deadlines.text()}},
                "spec": {"desiredState": WorkflowState::Teardown, "hurry": true},
            });
            workflow = match self.write(&workflow, patch).await? {
                Some(written) => written,
                None => self.get().await?,
            };
        }
        Ok(workflow)
    }

    /// Deletes a Workflow after its teardown, and waits until the API has removed it.
    ///
    /// # Errors
    /// If the API refuses the deletion or does not answer, or the coordinator stops.
    pub(in crate::workloads) async fn remove(
        &self,
        mut workflow: Workflow,
        limit: Limit,
    ) -> CallResult {
        let target = WorkflowState::Teardown;
        let record = loop {
            // If Teardown was complete before this call, the Workflow may have no deadline for Teardown yet: `request`
            // sets one, and the wait for the deletion ends at this deadline.
            if let Some((written, record)) = self.request(&workflow, None, &target, limit).await? {
                workflow = written;
                break record;
            }
            match self.find().await? {
                Some(known) => workflow = known,
                None => return Ok((workflow, Ending::Done)),
            }
        };
        self.flow.delete(workflow.uid()).await.map_err(|error| refusal_status(&error))?;
        if !limit.waits {
            return Ok((workflow, Ending::Requested));
        }
        tokio::select! {
            gone = self.flow.await_deletion(instant_of(record.due), |_| {}) => match gone {
                Ok(()) => Ok((workflow, Ending::Done)),
                Err(Unreached::WatchEnded) => Err(Status::unavailable("the coordinator's watch on the Workflow ended; call again")),
                Err(_) => Ok((workflow, Ending::Late(record))),
            },
            status = self.stopped() => Err(status),
        }
    }
}
