use anyhow::ensure;

use super::Job;
use crate::{cluster::patience, program::until};

/// Access to Slurm by its commands, for daemons on this computer and in guests.
pub trait Commands {
    /// Runs one of Slurm's commands as root, and returns its output.
    ///
    /// # Errors
    /// When the command fails.
    fn prints(&self, program: &str, words: &[&str]) -> anyhow::Result<String>;

    /// Waits until all nodes are in this state.
    ///
    /// # Errors
    /// When the nodes are not in that state in time.
    fn wait_for_nodes(&self, state: &str) -> anyhow::Result<()> {
        until(&format!("nodes to be {state}"), patience(), || {
            let states = self.prints("sinfo", &["--noheader", "--Node", "--format=%T"])?;
            ensure!(states.lines().all(|reported| reported == state), "{states}");
            Ok(())
        })
    }

    /// Returns everything that Slurm reports of a job.
    ///
    /// # Errors
    /// When Slurm does not know the job.
    fn show(&self, job: Job) -> anyhow::Result<String> {
        self.prints("scontrol", &["show", "job", "--oneliner", &job.to_string()])
    }

    /// Waits until Slurm's report of a job has all of these parts.
    ///
    /// # Errors
    /// When the report does not have all parts in time.
    fn wait_for(&self, job: Job, parts: &[&str]) -> anyhow::Result<String> {
        until(&format!("job {job} to have {parts:?}"), patience(), || {
            let show = self.show(job)?;
            let lacks = parts.iter().find(|part| !show.contains(**part));
            ensure!(lacks.is_none(), "no {lacks:?} in: {show}");
            Ok(show)
        })
    }

    /// Lets a requeued job begin immediately. By itself, Slurm would wait two minutes.
    ///
    /// # Errors
    /// When the job does not begin in time.
    fn begin_again(&self, job: Job) -> anyhow::Result<()> {
        until(&format!("job {job} to begin again"), patience(), || {
            let show = self.show(job)?;
            if show.contains("Reason=BeginTime") {
                let job = format!("JobId={job}");
                self.prints("scontrol", &["update", &job, "StartTime=now"])?;
            }
            let is_there = ["JobState=RUNNING", "JobState=COMPLETED"];
            ensure!(is_there.iter().any(|state| show.contains(state)), "{show}");
            Ok(())
        })
    }

    /// Waits until Slurm has no job left.
    ///
    /// # Errors
    /// When Slurm still has a job after the wait.
    fn wait_for_empty_queue(&self) -> anyhow::Result<()> {
        until("an empty queue", patience(), || {
            let queue = self.prints("squeue", &["--noheader"])?;
            ensure!(queue.trim().is_empty(), "{queue}");
            Ok(())
        })
    }
}
