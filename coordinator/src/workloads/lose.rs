//! Lets a job continue without computes that it may lose. A single patch forces the state ready and records the lost
//! computes in the Workflow, so that no coordinator decides on the same loss a second time.

use std::time::Duration;

use api::{Workflow, WorkflowState};
use serde_json::{Value, json};
use tokio::time::Instant;
use tonic::Status;
use workload::Objects;

use super::conditions::{Facts, conditions, unready_nodes};
use super::job::Job;
use super::tolerance::{ANNOTATION, Tolerance};

/// Longest time that the engine may take to report a forced state as ready.
const FORCE_DEADLINE: Duration = Duration::from_secs(30);

impl Job {
    /// Forces a state ready if the job is permitted to continue without all computes that delay it. Otherwise returns
    /// `None`, and changes nothing.
    ///
    /// # Errors
    /// If the API refuses the write or does not answer.
    pub(super) async fn force_without_lost(
        &self,
        state: &WorkflowState,
    ) -> Result<Option<Workflow>, Status> {
        loop {
            let workflow = self.get().await?;
            let tolerance = Tolerance::read(&workflow);
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
                let forced = self.flow.reach(state, Instant::now() + FORCE_DEADLINE, |_| {}).await;
                return Ok(forced.ok());
            }
        }
    }

    /// Removes from the job's Computes the lost computes that have no storage, so that no storage is mounted on them.
    ///
    /// # Errors
    /// If the API refuses the write or does not answer.
    pub(super) async fn remove_lost_computes(&self, workflow: &Workflow) -> Result<(), Status> {
        let tolerance = Tolerance::read(workflow);
        if tolerance.lost.is_empty() {
            return Ok(());
        }
        let known = self.computes(workflow).await?;
        let remaining = known.names().filter(|name| !tolerance.is_left_out(name));
        let remaining: Vec<Value> = remaining.map(|name| json!({"name": name})).collect();
        if remaining.len() == known.names().count() {
            return Ok(());
        }
        self.write_computes(&known, remaining).await
    }
}

/// Returns the tolerance that a job has after the loss of the computes that delay the job now.
///
/// # Errors
/// The reason why the job cannot continue without these computes.
pub(super) fn after_losing(
    tolerance: &Tolerance,
    workflow: &Workflow,
    objects: &Objects,
    facts: &Facts,
) -> Result<Tolerance, String> {
    let nodes = conditions(objects, facts);
    tolerance.after_losing(workflow, &nodes, &unready_nodes(objects), &facts.site.rabbit_of)
}
