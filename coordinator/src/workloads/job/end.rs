//! How a job ends: aborted, in a hurry, removed.

use api::{Workflow, WorkflowState};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;
use tonic::Status;
use workload::Unreached;

use super::{ABORTED, Ended, Job, instant_of, refused};
use crate::workloads::answer::Ending;
use crate::workloads::deadlines::{ANNOTATION, Deadlines};
use crate::workloads::request::Limit;

impl Job {
    /// Asks for Teardown at once, in a hurry, and writes down who asked and why.
    ///
    /// # Errors
    /// When the API refuses it or does not answer.
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
            let mut deadlines = Deadlines::of(&workflow);
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

    /// Asks for Teardown in a hurry, also of a teardown that has begun.
    ///
    /// # Errors
    /// When the API refuses it or does not answer.
    pub(in crate::workloads) async fn hurry(
        &self,
        mut workflow: Workflow,
    ) -> Result<Workflow, Status> {
        while !workflow.spec.hurry {
            let mut deadlines = Deadlines::of(&workflow);
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

    /// Deletes a Workflow that is torn down, and waits until the API has it no more.
    ///
    /// # Errors
    /// When the API refuses it or does not answer, and when the coordinator stops.
    pub(in crate::workloads) async fn remove(&self, mut workflow: Workflow, limit: Limit) -> Ended {
        let target = WorkflowState::Teardown;
        let record = loop {
            // A call that finds the Workflow torn down has set no deadline yet.
            if let Some((written, record)) = self.ask(&workflow, None, &target, limit).await? {
                workflow = written;
                break record;
            }
            match self.find().await? {
                Some(known) => workflow = known,
                None => return Ok((workflow, Ending::Done)),
            }
        };
        self.flow.delete(workflow.uid()).await.map_err(|error| refused(&error))?;
        if !limit.waits {
            return Ok((workflow, Ending::Requested));
        }
        tokio::select! {
            gone = self.flow.await_deletion(instant_of(record.due), |_| {}) => match gone {
                Ok(()) => Ok((workflow, Ending::Done)),
                Err(Unreached::WatchEnded) => Err(Status::unavailable("the watch ended; call again")),
                Err(_) => Ok((workflow, Ending::Late(record))),
            },
            status = self.stopped() => Err(status),
        }
    }
}
