//! Calls of burst_buffer.lua that wait on their way to the coordinator, so that a job stays in a state.

use std::{fs, path::PathBuf};

use anyhow::{Context, ensure};

use super::{Commands, Job, Slurm};
use crate::{
    cluster::patience,
    program::{binary, until},
};

/// Stands before `warren`: a call about a job waits while there is a file for both, and says that it does.
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
    /// Lets calls be held from now on.
    ///
    /// # Errors
    /// When the script cannot be written.
    pub fn watch_calls(&self) -> anyhow::Result<()> {
        let warren = binary("warren")?;
        let lines = format!("CALLS='{}' WARREN='{}'\n", self.jobs().display(), warren.display());
        self.replace_program("warren", &WAITING.replacen('\n', &format!("\n{lines}"), 1))
    }

    /// Where the script looks: a call is a verb of `warren workload`, or `data-out`, the second `post-run`.
    fn call(&self, call: &str, job: Job) -> PathBuf {
        self.jobs().join(format!("{call}.{job}"))
    }

    /// Hands in a job one of whose calls will wait.
    ///
    /// # Errors
    /// When Slurm does not take it.
    pub fn submit_held(&self, call: &str, words: &[&str], lines: &[&str]) -> anyhow::Result<Job> {
        let job = self.submit(&[&["--hold"], words].concat(), lines)?;
        fs::write(self.call(call, job), "").context("hold the call")?;
        self.prints("scontrol", &["release", &job.to_string()])?;
        Ok(job)
    }

    /// Waits until a call waits.
    ///
    /// # Errors
    /// When it is not made in time.
    pub fn wait_for_call(&self, call: &str, job: Job) -> anyhow::Result<()> {
        let waits = self.call(call, job).with_extension(format!("{job}.waits"));
        until(&format!("{call} of job {job}"), patience(), || {
            ensure!(waits.exists(), "nobody called: {}", self.shown(job)?);
            Ok(())
        })
    }

    /// Lets a call go on.
    ///
    /// # Errors
    /// When it was not held.
    pub fn let_go(&self, call: &str, job: Job) -> anyhow::Result<()> {
        fs::remove_file(self.call(call, job)).with_context(|| format!("let {call} of {job} go on"))
    }
}
