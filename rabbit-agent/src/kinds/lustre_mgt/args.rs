//! Command line option for commands on the Lustre management target.

use std::time::Duration;

use clap::Args;
use storage::template::{SiteCommand, SiteCommandError};
use thiserror::Error;

const FLAG: &str = "--lustre-erase-command";

/// Options for Lustre management targets.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Lustre")]
pub struct MgsArgs {
    /// Command that erases a file system from the management target on this rabbit; the agent appends
    /// the file system's name
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

/// Settings for commands on the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mgs {
    /// Command line that erases a name; the agent appends the name.
    pub erase: String,
    /// Time limit of a command. When the limit passes, the agent kills the command's process group.
    pub deadline: Duration,
}

impl MgsArgs {
    /// Checks the option. Does not run any command on the target.
    pub fn check(&self, deadline: Duration) -> Result<Mgs, MgsArgsError> {
        let line = SiteCommand::new(FLAG, &self.lustre_erase_command, [].into())?;
        let erase = line.ok_or(MgsArgsError::Empty)?.line().to_owned();
        Ok(Mgs { erase, deadline })
    }
}
