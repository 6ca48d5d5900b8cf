//! How a program refuses, where its exit status is a fact.

use thiserror::Error;

/// What a program does instead of what it was asked for.
#[derive(Debug, Error)]
pub enum Refusal {
    /// It ends.
    #[error("{stderr}")]
    Ends {
        /// Its exit status.
        status: u8,
        /// What it prints to stdout.
        stdout: String,
        /// What it prints to stderr.
        stderr: String,
    },
    /// It waits for a server that does not answer, until a signal ends it.
    #[error("it waits for a server that does not answer")]
    Hangs,
}

impl Refusal {
    /// It prints this to stderr and ends with this exit status.
    pub(super) fn ends(status: u8, stderr: impl Into<String>) -> Self {
        Self::Ends { status, stdout: String::new(), stderr: stderr.into() }
    }
}
