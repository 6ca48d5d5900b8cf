//! Flags for data movement.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use bytesize::ByteSize;
use clap::{Args, value_parser};

use super::scope;

/// Size of a block in bytes. Several threads at once copy a file that is larger.
const BLOCK: u64 = 64 << 20;
/// How long a cancelled copy may take to end before the agent kills it.
const GRACE: Duration = Duration::from_secs(2);
/// How long a copy may make no progress before its status says what it waits for.
const SILENCE: Duration = Duration::from_secs(60);
/// How long the removal of temporary files may take.
const CLEAN: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
#[command(next_help_heading = "Data movement")]
pub struct MovementArgs {
    /// The program that copies jobs' data
    #[arg(
        long,
        env = "WARREN_DATAMOVER",
        value_name = "PATH",
        default_value = "/usr/libexec/warren/datamover"
    )]
    datamover: PathBuf,

    /// How many data movements run at once on this rabbit; others wait, and users take turns
    #[arg(long, env = "WARREN_MOVEMENTS_AT_ONCE", value_name = "N", default_value_t = 4, value_parser = value_parser!(u16).range(1..=256))]
    movements_at_once: u16,

    /// How many threads copy for each data movement
    #[arg(long, env = "WARREN_MOVEMENT_THREADS", value_name = "N", default_value_t = 8, value_parser = value_parser!(u16).range(1..=256))]
    movement_threads: u16,

    /// How many bytes each data movement copies in a second, e.g. 500MiB; without it as many as it can
    #[arg(long, env = "WARREN_MOVEMENT_RATE", value_name = "SIZE", value_parser = rate)]
    movement_rate: Option<ByteSize>,

    /// How many bytes all data movements of this rabbit copy together in a second; running movements share them equally
    #[arg(long, env = "WARREN_MOVEMENT_TOTAL_RATE", value_name = "SIZE", value_parser = rate)]
    movement_total_rate: Option<ByteSize>,
}

fn rate(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>()? {
        ByteSize(0) => Err("a rate of 0 copies nothing: omit the option for no limit".to_owned()),
        rate => Ok(rate),
    }
}

/// Configuration of data movement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovementConfig {
    /// Path of `datamover`.
    pub datamover: PathBuf,
    /// Whether each `datamover` gets a systemd scope.
    pub uses_scopes: bool,
    /// Maximum number of movements that run at the same time.
    pub at_once: usize,
    /// Number of copying threads of each movement.
    pub threads: u16,
    /// Maximum bytes per second of each movement; `None` for no limit.
    pub rate: Option<u64>,
    /// Maximum bytes per second of all movements together; `None` for no limit.
    pub total_rate: Option<u64>,
    /// Size of a block in bytes.
    pub block: u64,
    /// How long a cancelled copy may take to end before the agent kills it.
    pub grace: Duration,
    /// How long a copy may make no progress before its status says what it waits for.
    pub silence: Duration,
    /// How long the removal of temporary files may take before the agent gives it up.
    pub clean: Duration,
    /// Parent of the movements' state directories.
    pub state: PathBuf,
}

impl MovementConfig {
    /// Returns the share of the total rate that each movement has while `copies` of them run.
    #[must_use]
    pub fn share_of_total_rate(&self, copies: usize) -> Option<u64> {
        let copies = u64::try_from(copies).unwrap_or(u64::MAX).max(1);
        self.total_rate.map(|total| (total / copies).max(1))
    }
}

impl MovementArgs {
    /// Returns the configuration of an agent with this state directory.
    pub(crate) fn config(self, state: &Path) -> MovementConfig {
        MovementConfig {
            datamover: self.datamover,
            uses_scopes: scope::is_systemd_running(),
            at_once: usize::from(self.movements_at_once),
            threads: self.movement_threads,
            rate: self.movement_rate.map(|rate| rate.as_u64()),
            total_rate: self.movement_total_rate.map(|rate| rate.as_u64()),
            block: BLOCK,
            grace: GRACE,
            silence: SILENCE,
            clean: CLEAN,
            state: state.join("movements"),
        }
    }
}
