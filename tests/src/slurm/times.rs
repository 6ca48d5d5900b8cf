//! The time that Slurm spends in our functions and scripts before jobs start.

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::Context;
use regex::Regex;

use super::Slurm;
use crate::program::plant;

/// File with a line for each prolog that ran: the job's number, and the microseconds that the prolog took.
const PROLOGS: &str = "prologs";

/// Script that is installed in the prolog's place; it runs the prolog and measures the time.
const TIMED: &str = r#"#!/bin/bash
begun=${EPOCHREALTIME/./}
"${BASH_SOURCE[0]}-itself" "$@"
code=$?
echo "$SLURM_JOB_ID $((${EPOCHREALTIME/./} - begun))" >> PROLOGS
exit "$code"
"#;

impl Slurm {
    /// Installs the script that measures prologs.
    ///
    /// # Errors
    /// When the script cannot be installed.
    pub fn time_prologs(&self) -> anyhow::Result<()> {
        let prolog = self.directory.join("etc/prolog");
        fs::rename(&prolog, prolog.with_file_name("prolog-itself")).context("move the prolog")?;
        let times = self.flow.fixture.run.cluster.logs().join(PROLOGS);
        plant(&prolog, &TIMED.replace("PROLOGS", &format!("'{}'", times.display())))
    }

    /// Returns the time spent so far in functions of burst_buffer.lua, as slurmctld measures it, plus the time of each
    /// job's longest prolog: the prologs of a job run on all its nodes at the same time.
    ///
    /// # Errors
    /// When a log cannot be read.
    pub fn spent_before_starts(&self) -> anyhow::Result<Duration> {
        let log = fs::read_to_string(self.slurmctld().log()).context("read slurmctld's log")?;
        let functions = Regex::new(
            r"slurm_bb_(?:job_process|setup|data_in|real_size|paths|pre_run)\b.* ran for usec=(\d+)",
        )
        .context("a pattern")?;
        let micros = |text: &str| text.parse::<u64>().unwrap_or_default();
        let in_functions: u64 = functions.captures_iter(&log).map(|found| micros(&found[1])).sum();
        let prologs = self.flow.fixture.run.cluster.logs().join(PROLOGS);
        // The file does not exist before the first prolog has run.
        let prologs = fs::read_to_string(prologs).unwrap_or_default();
        let mut longest = BTreeMap::<&str, u64>::new();
        for (job, took) in prologs.lines().filter_map(|line| line.split_once(' ')) {
            let known = longest.entry(job).or_default();
            *known = micros(took).max(*known);
        }
        Ok(Duration::from_micros(in_functions + longest.values().sum::<u64>()))
    }
}
