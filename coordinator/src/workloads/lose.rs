//! Lets a job go on without computes that it may lose. The patch that forces the state ready also writes into the Workflow which
//! computes the job lost, so that no coordinator decides it twice.

use std::time::Duration;

use api::{Workflow, WorkflowState};
use serde_json::{Value, json};
use tokio::time::Instant;
use tonic::Status;
use workload::Objects;

use super::conditions::{Facts, conditions, open};
use super::job::Job;
use super::tolerance::{ANNOTATION, Tolerance};

/// How long the engine may take to report a forced state as ready.
const SOON: Duration = Duration::from_secs(30);

impl Job {
    /// Forces a state ready that is not reached, if the job may lose every compute that delays it; `None` when it may not.
    ///
    /// # Errors
    /// When the API refuses it or does not answer.
    pub(super) async fn go_on_without(
        &self,
        state: &WorkflowState,
    ) -> Result<Option<Workflow>, Status> {
        loop {
            let workflow = self.get().await?;
            let tolerance = Tolerance::of(&workflow);
            if tolerance.nodes == 0 || workflow.spec.desired_state != *state {
                return Ok(None);
            }
            let (objects, facts) = (self.objects(&workflow).await?, self.facts().await?);
            let Ok(after) = after_losing(&tolerance, &workflow, &objects, &facts) else {
                return Ok(None);
            };
            let patch = json!({
                "metadata": {"annotations": {ANNOTATION: after.text()}},
                "spec": {"forceReady": true},
            });
            if self.write(&workflow, patch).await?.is_some() {
                let forced = self.flow.reach(state, Instant::now() + SOON, |_| {}).await;
                return Ok(forced.ok());
            }
        }
    }

    /// Takes the computes that have no storage out of the job's Computes: nothing is mounted there.
    ///
    /// # Errors
    /// When the API refuses it or does not answer.
    pub(super) async fn leave_out_lost(&self, workflow: &Workflow) -> Result<(), Status> {
        let tolerance = Tolerance::of(workflow);
        if tolerance.lost.is_empty() {
            return Ok(());
        }
        let known = self.computes(workflow).await?;
        let left = known.names().filter(|name| !tolerance.is_left_out(name));
        let left: Vec<Value> = left.map(|name| json!({"name": name})).collect();
        if left.len() == known.names().count() {
            return Ok(());
        }
        self.fill(&known, left).await
    }
}

/// A job's tolerance after it has lost the computes that delay it.
///
/// # Errors
/// Why it does not go on without them.
pub(super) fn after_losing(
    tolerance: &Tolerance,
    workflow: &Workflow,
    objects: &Objects,
    facts: &Facts,
) -> Result<Tolerance, String> {
    let nodes = conditions(objects, facts);
    tolerance.after_losing(workflow, &nodes, &open(objects), &facts.site.rabbit_of)
}
