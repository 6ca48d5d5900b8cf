//! How a Lustre management target on this rabbit is spoken to.

use std::time::Duration;

use clap::Args;
use storage::template::{SiteCommand, SiteCommandError};
use thiserror::Error;

const FLAG: &str = "--lustre-erase-command";

/// As the command line says.
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

/// A command line that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MgsArgsError {
    /// There is none.
    #[error("{FLAG} is empty: leave it out for lctl erase_lcfg")]
    Empty,
    /// A shell could not read it.
    #[error(transparent)]
    Line(#[from] SiteCommandError),
}

/// How the target is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mgs {
    /// The command that a name is put after.
    pub erase: String,
    /// What a command is given before its process group is killed.
    pub deadline: Duration,
}

impl MgsArgs {
    /// Checks what can be checked without the target.
    ///
    /// # Errors
    /// When the command line cannot be used.
    pub fn check(&self, deadline: Duration) -> Result<Mgs, MgsArgsError> {
        let line = SiteCommand::new(FLAG, &self.lustre_erase_command, [].into())?;
        let erase = line.ok_or(MgsArgsError::Empty)?.line().to_owned();
        Ok(Mgs { erase, deadline })
    }
}
