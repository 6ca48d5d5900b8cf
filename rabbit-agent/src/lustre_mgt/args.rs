//! The flag for commands on the Lustre management target.

use std::time::Duration;

use clap::Args;
use storage::template::{SiteCommand, SiteCommandError};
use thiserror::Error;

const FLAG: &str = "--lustre-erase-command";

/// The flag for Lustre management targets.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Lustre")]
pub struct MgsArgs {
    /// Command line that makes the management target on this rabbit forget a file system, whose name is put after it
    #[arg(
        long,
        env = "WARREN_LUSTRE_ERASE_COMMAND",
        value_name = "COMMAND",
        default_value = "lctl erase_lcfg"
    )]
    lustre_erase_command: String,
}

/// Why the command line is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MgsArgsError {
    #[error("{FLAG} is empty: leave it out for lctl erase_lcfg")]
    Empty,
    #[error(transparent)]
    Line(#[from] SiteCommandError),
}

/// How the agent runs commands on the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mgs {
    /// Command line to erase a name, which the agent appends.
    pub erase: String,
    /// Time limit of a command, after which the agent kills its process group.
    pub deadline: Duration,
}

impl MgsArgs {
    /// Checks the flag without using the target.
    pub fn check(&self, deadline: Duration) -> Result<Mgs, MgsArgsError> {
        let line = SiteCommand::new(FLAG, &self.lustre_erase_command, [].into())?;
        let erase = line.ok_or(MgsArgsError::Empty)?.line().to_owned();
        Ok(Mgs { erase, deadline })
    }
}
