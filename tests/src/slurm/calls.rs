//! Holds calls of burst_buffer.lua before they reach the coordinator, so that a job stays in a state.

use std::{fs, path::PathBuf};

use anyhow::{Context, ensure};

use super::{Commands, Job, Slurm};
use crate::{
    cluster::patience,
    program::{binary, until},
};

/// Wrapper of `warren`. A call waits as long as the file `<call>.<job>` exists, and creates the file
/// `<call>.<job>.waits` while it waits.
const WAITING: &str = r#"#!/bin/bash
call=${2-}
[[ $call != post-run || " $* " == *" --only-nodes "* ]] || call=data-out
here=$CALLS/$call.${3-}
if [ -e "$here" ]; then
    : > "$here.waits"
    while [ -e "$here" ]; do sleep 0.3; done
fi
exec "$WARREN" "$@"
"#;

impl Slurm {
    /// Installs the wrapper: from now on calls can be held.
    ///
    /// # Errors
    /// When the script cannot be written.
    pub fn watch_calls(&self) -> anyhow::Result<()> {
        let warren = binary("warren")?;
        let lines = format!("CALLS='{}' WARREN='{}'\n", self.jobs().display(), warren.display());
        self.replace_program("warren", &WAITING.replacen('\n', &format!("\n{lines}"), 1))
    }

    /// Returns the path of the file that holds a call. The name of a call is a verb of `warren workload`, or `data-out`
    /// for the second call of `post-run` of a job.
    fn call(&self, call: &str, job: Job) -> PathBuf {
        self.jobs().join(format!("{call}.{job}"))
    }

    /// Submits a job, and holds its call `call`.
    ///
    /// # Errors
    /// When Slurm refuses the job.
    pub fn submit_held(&self, call: &str, words: &[&str], lines: &[&str]) -> anyhow::Result<Job> {
        let job = self.submit(&[&["--hold"], words].concat(), lines)?;
        fs::write(self.call(call, job), "").context("hold the call")?;
        self.prints("scontrol", &["release", &job.to_string()])?;
        Ok(job)
    }

    /// Waits until a call is held.
    ///
    /// # Errors
    /// When the call is not made in time.
    pub fn wait_for_call(&self, call: &str, job: Job) -> anyhow::Result<()> {
        let waits = self.call(call, job).with_extension(format!("{job}.waits"));
        until(&format!("{call} of job {job}"), patience(), || {
            ensure!(waits.exists(), "no such call: {}", self.show(job)?);
            Ok(())
        })
    }

    /// Releases a held call.
    ///
    /// # Errors
    /// When the call was not held.
    pub fn release(&self, call: &str, job: Job) -> anyhow::Result<()> {
        fs::remove_file(self.call(call, job)).with_context(|| format!("release {call} of {job}"))
    }
}
