use anyhow::ensure;

use super::Job;
use crate::{cluster::patience, program::until};

/// Slurm, by what its commands say: wherever its daemons run.
pub trait Commands {
    /// What one of Slurm's commands prints, as root.
    ///
    /// # Errors
    /// When it fails.
    fn prints(&self, program: &str, words: &[&str]) -> anyhow::Result<String>;

    /// Waits until all nodes are in a state.
    ///
    /// # Errors
    /// When they are not in time.
    fn wait_for_nodes(&self, state: &str) -> anyhow::Result<()> {
        until(&format!("nodes to be {state}"), patience(), || {
            let states = self.prints("sinfo", &["--noheader", "--Node", "--format=%T"])?;
            ensure!(states.lines().all(|one| one == state), "{states}");
            Ok(())
        })
    }

    /// Everything that Slurm says of a job.
    ///
    /// # Errors
    /// When Slurm does not know it.
    fn shown(&self, job: Job) -> anyhow::Result<String> {
        self.prints("scontrol", &["show", "job", "--oneliner", &job.to_string()])
    }

    /// Waits until what Slurm says of a job has all of these parts.
    ///
    /// # Errors
    /// When it has not in time.
    fn wait_for(&self, job: Job, parts: &[&str]) -> anyhow::Result<String> {
        until(&format!("job {job} to have {parts:?}"), patience(), || {
            let shown = self.shown(job)?;
            let lacks = parts.iter().find(|part| !shown.contains(**part));
            ensure!(lacks.is_none(), "no {lacks:?} in: {shown}");
            Ok(shown)
        })
    }

    /// Has a job that was requeued begin, without the two minutes that Slurm waits.
    ///
    /// # Errors
    /// When it does not in time.
    fn begin_again(&self, job: Job) -> anyhow::Result<()> {
        until(&format!("job {job} to begin again"), patience(), || {
            let shown = self.shown(job)?;
            if shown.contains("Reason=BeginTime") {
                let job = format!("JobId={job}");
                self.prints("scontrol", &["update", &job, "StartTime=now"])?;
            }
            let is_there = ["JobState=RUNNING", "JobState=COMPLETED"];
            ensure!(is_there.iter().any(|state| shown.contains(state)), "{shown}");
            Ok(())
        })
    }

    /// Waits until Slurm has no job any more.
    ///
    /// # Errors
    /// When it still has one.
    fn wait_for_empty_queue(&self) -> anyhow::Result<()> {
        until("an empty queue", patience(), || {
            let queue = self.prints("squeue", &["--noheader"])?;
            ensure!(queue.trim().is_empty(), "{queue}");
            Ok(())
        })
    }
}
