//! The time that Slurm spends in our functions and scripts before jobs start.

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::Context;
use regex::Regex;

use super::Slurm;
use crate::program::plant;

/// Prologs that ran, with the microseconds that the longest of each job took.
const PROLOGS: &str = "prologs";

/// Script that runs in the prolog's place, and measures it.
const TIMED: &str = r#"#!/bin/bash
begun=${EPOCHREALTIME/./}
"${BASH_SOURCE[0]}-itself" "$@"
code=$?
echo "$SLURM_JOB_ID $((${EPOCHREALTIME/./} - begun))" >> PROLOGS
exit "$code"
"#;

impl Slurm {
    /// Measures prologs from now on: puts a script before the prolog.
    ///
    /// # Errors
    /// When the script cannot be installed.
    pub fn time_prologs(&self) -> anyhow::Result<()> {
        let prolog = self.directory.join("etc/prolog");
        fs::rename(&prolog, prolog.with_file_name("prolog-itself")).context("move the prolog")?;
        let times = self.flow.fixture.run.cluster.logs().join(PROLOGS);
        plant(&prolog, &TIMED.replace("PROLOGS", &format!("'{}'", times.display())))
    }

    /// Returns the time spent so far in functions of burst_buffer.lua, as slurmctld measures it, and in prologs: of
    /// each job the longest, since they run on all nodes at once.
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
        // The file is missing while no prolog has run.
        let prologs = fs::read_to_string(prologs).unwrap_or_default();
        let mut longest = BTreeMap::<&str, u64>::new();
        for (job, took) in prologs.lines().filter_map(|line| line.split_once(' ')) {
            let known = longest.entry(job).or_default();
            *known = micros(took).max(*known);
        }
        Ok(Duration::from_micros(in_functions + longest.values().sum::<u64>()))
    }
}
