//! A program's refusal, for programs whose exit status matters.

use thiserror::Error;

/// The program's action instead of what it was asked for.
#[derive(Debug, Error)]
pub enum Refusal {
    /// The program ends with an error.
    #[error("{stderr}")]
    Ends {
        /// Exit status of the program.
        status: u8,
        /// What it prints to stdout.
        stdout: String,
        /// What it prints to stderr.
        stderr: String,
    },
    /// The program waits for a server that does not answer, until a signal ends it.
    #[error("it waits for a server that does not answer")]
    Hangs,
}

impl Refusal {
    /// Creates a refusal that prints this to stderr and ends with this exit status.
    pub(super) fn ends(status: u8, stderr: impl Into<String>) -> Self {
        Self::Ends { status, stdout: String::new(), stderr: stderr.into() }
    }
}
