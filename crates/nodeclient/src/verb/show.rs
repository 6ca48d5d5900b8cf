//! The verbs that show this node's mounts, and the agent's plans.

use std::path::Path;

use cli::Exit;
use cli::Failure;
use cli::Output;
use cli::{exit_of_plans, plan_json};
use jobs::describe;
use proto::v1::{JobName, PlanRequest, StatusRequest};
use serde_json::json;

use super::Show;
use super::agent::call_agent;
use crate::result;

impl Show {
    pub(super) async fn status(self, socket: &Path, output: Output) -> Result<Exit, Failure> {
        let job = Option::<JobName>::from(self.job);
        let request = StatusRequest { job: job.clone() };
        let status =
            call_agent(socket, async |mut agent| agent.status(request.clone()).await).await?;
        let is_answered = job.is_none() || status.job.is_some();
        let exit = if is_answered { Exit::Done } else { Exit::Unreachable };
        if output.is_json() {
            output.json(&json!({
                "exitStatus": exit as u8, "node": status.node, "version": status.version,
                "connected": status.connected, "job": status.job.as_ref().map(result::job_json),
                "mounts": result::mounts_json(&status.lines),
            }))?;
            return Ok(exit);
        }
        let connected = if status.connected { "connected" } else { "not connected" };
        output.line(&format!("{}: agent {}, {connected}", status.node, status.version))?;
        result::table(output, &status.lines)?;
        match (&job, &status.job) {
            (Some(job), None) => {
                let what = format!("{}: the coordinator does not answer", describe(job));
                return Err(Failure::new(exit, what).remedy("the table shows this node's own view"));
            }
            (Some(_), Some(state)) if state.workflow.is_empty() => output.line(&state.why)?,
            (_, Some(state)) => output.line(&format!(
                "Workflow {}/{}: {} {} {}",
                state.namespace, state.workflow, state.desired_state, state.status, state.message
            ))?,
            (None, None) => {}
        }
        Ok(exit)
    }

    pub(super) async fn plan(self, socket: &Path, output: Output) -> Result<Exit, Failure> {
        let job = Option::<JobName>::from(self.job).unwrap_or_default();
        let request = PlanRequest { job: Some(job), ..PlanRequest::default() };
        let plans =
            call_agent(socket, async |mut agent| agent.plan(request.clone()).await).await?.plans;
        let exit = exit_of_plans(&plans);
        if output.is_json() {
            let plans: Vec<_> = plans.iter().map(plan_json).collect();
            output.json(&json!({"exitStatus": exit as u8, "plans": plans}))?;
            return Ok(exit);
        }
        plans.iter().try_for_each(|plan| output.plan(plan))?;
        if plans.is_empty() {
            output.line("nothing to do: the agent has received no such ClientMount")?;
        }
        Ok(exit)
    }
}
