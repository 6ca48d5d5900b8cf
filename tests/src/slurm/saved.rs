//! Waits until slurmctld has saved its state, and kills slurmctld.

use std::{fs, time::SystemTime};

use anyhow::{Context, ensure};

use super::{Commands, Job, Slurm};
use crate::{cluster::patience, program::until};

impl Slurm {
    /// Returns the time at which slurmctld last saved a part of its state.
    fn saved_at(&self, part: &str) -> anyhow::Result<SystemTime> {
        let file = fs::metadata(self.directory.join("state").join(part));
        file.and_then(|file| file.modified()).context("look at Slurm's state")
    }

    /// Waits until slurmctld has saved the burst buffers of these jobs; it saves every 30 s.
    ///
    /// # Errors
    /// When slurmctld does not save in time.
    pub fn wait_for_saved_buffers(&self, jobs: &[Job]) -> anyhow::Result<()> {
        if self.saves_buffers(jobs).is_ok() {
            return Ok(());
        }
        // Slurm 22.05 compares times in whole seconds: if a buffer was created in the same second as the last save,
        // slurmctld saves it only after another buffer changes. This job causes such a change.
        let another =
            self.submit(&[], &["#DW jobdw type=raw capacity=1MiB name=another", "true"])?;
        self.saves_buffers(jobs)?;
        self.prints("scancel", &[&another.to_string()])?;
        self.wait_for(another, &["JobState=CANCELLED"]).map(drop)
    }

    fn saves_buffers(&self, jobs: &[Job]) -> anyhow::Result<()> {
        // The wait is long: slurmctld saves only between two reads of its pools, and a read takes longer while calls of
        // other jobs wait.
        until("Slurm to save its burst buffers", patience(), || {
            let state = fs::read(self.directory.join("state/burst_buffer_lua_state"))
                .context("read Slurm's state")?;
            let missing = jobs.iter().find(|job| !is_named(&state, **job));
            ensure!(missing.is_none(), "the buffer of job {missing:?} is not saved yet");
            Ok(())
        })
    }

    /// Kills slurmctld with `kill -9` once it has saved the states of its jobs, and waits until it serves again.
    ///
    /// # Errors
    /// When slurmctld does not save, or does not serve again, in time.
    pub fn kill_slurmctld(&self) -> anyhow::Result<()> {
        let since = SystemTime::now();
        let another = self.submit(&["--hold"], &["true"])?;
        until("Slurm to save its jobs", patience(), || {
            ensure!(self.saved_at("job_state")? > since, "not yet");
            Ok(())
        })?;
        self.slurmctld().kill()?;
        until("slurmctld to serve again", patience(), || {
            self.prints("scancel", &[&another.to_string()]).map(drop)
        })
    }
}

/// Returns whether slurmctld's saved state has the name of a burst buffer. slurmctld writes the length, then the text,
/// then a zero byte, which the length includes.
fn is_named(state: &[u8], job: Job) -> bool {
    let name = format!("{job}\0");
    let length = u32::try_from(name.len()).unwrap_or_default().to_be_bytes();
    let packed = [&length, name.as_bytes()].concat();
    state.windows(packed.len()).any(|found| found == packed)
}
