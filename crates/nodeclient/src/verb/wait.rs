//! The verbs that wait for the mounts of a job.

use std::path::Path;

use cli::Exit;
use cli::Failure;
use cli::Output;
use jobs::describe;
use proto::v1::{self, Goal, JobName, JobOutcome, MountRequest, UnmountRequest, WaitRequest};

use super::agent::outcome;
use super::{Condition, Mount, Unmount, Wait};
use crate::env_file::{self, Owner};
use crate::result;

impl Mount {
    pub(super) async fn run(self, socket: &Path, output: Output) -> Result<Exit, Failure> {
        let (job, with_env) = (JobName::from(self.waiting.job), self.env_file.is_some());
        let all_nodes = self.all_nodes;
        let outcome = outcome(socket, self.waiting.deadline, output, async |mut agent, left| {
            let (job, deadline_ms) = (Some(job.clone()), left);
            let request = MountRequest { job, deadline_ms, with_env, all_nodes };
            agent.mount(request).await
        })
        .await?;
        if let (Some(path), Exit::Done) = (&self.env_file, Exit::from(outcome.verdict())) {
            write_env(path, &outcome, output)?;
        }
        result::print(output, &outcome, &format!("{}: mounted", describe(&job)))
    }
}

/// Writes the job's environment. For a job without a Workflow, writes an empty file: the job must not read the file of
/// an earlier job as its own.
fn write_env(path: &Path, outcome: &JobOutcome, output: Output) -> Result<(), Failure> {
    let job = outcome.job.clone().unwrap_or_default();
    let owner =
        (!job.workflow.is_empty()).then_some(Owner { user: job.user_id, group: job.group_id });
    let left_out = env_file::write(path, &job.env.into_iter().collect(), owner).map_err(|error| {
        Failure::new(Exit::Failed, format!("write the environment to {}", path.display()))
            .because(&error)
            .remedy("the job's storage is mounted: free space there, or name another --env-file, and run the command again")
    })?;
    for name in left_out {
        output.note(&format!("left out of the environment: {name:?} is not a valid variable name"));
    }
    Ok(())
}

impl Unmount {
    pub(super) async fn run(self, socket: &Path, output: Output) -> Result<Exit, Failure> {
        let job = JobName::from(self.waiting.job);
        let requested = self.on_timeout.map_or(v1::OnTimeout::Unspecified, Into::into);
        let outcome = outcome(socket, self.waiting.deadline, output, async |mut agent, left| {
            let on_timeout = requested.into();
            let request = UnmountRequest { job: Some(job.clone()), deadline_ms: left, on_timeout };
            agent.unmount(request).await
        })
        .await?;
        result::print(output, &outcome, &format!("{}: unmounted", describe(&job)))
    }
}

impl Wait {
    pub(super) async fn run(self, socket: &Path, output: Output) -> Result<Exit, Failure> {
        let job = JobName::from(self.waiting.job);
        let (goal, word) = match self.condition {
            Condition::Mounted => (Goal::Mounted, "mounted"),
            Condition::Unmounted => (Goal::Unmounted, "unmounted"),
        };
        let outcome = outcome(socket, self.waiting.deadline, output, async |mut agent, left| {
            let goal = goal.into();
            agent.wait(WaitRequest { job: Some(job.clone()), deadline_ms: left, goal }).await
        })
        .await?;
        result::print(output, &outcome, &format!("{}: {word}", describe(&job)))
    }
}
