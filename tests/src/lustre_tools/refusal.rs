//! A program's refusal, for programs whose exit status matters.

use thiserror::Error;

/// How a program refuses a request.
#[derive(Debug, Error)]
pub enum Refusal {
    /// The program ends with an error.
    #[error("{stderr}")]
    Ends {
        /// Exit status of the program.
        status: u8,
        /// Standard output of the program.
        stdout: String,
        /// Standard error of the program.
        stderr: String,
    },
    /// The program waits for a server that does not answer, until a signal ends it.
    #[error("the program waits for a server that does not answer")]
    Hangs,
}

impl Refusal {
    /// Creates a refusal that prints this to stderr and ends with this exit status.
    pub(super) fn ends(status: u8, stderr: impl Into<String>) -> Self {
        Self::Ends { status, stdout: String::new(), stderr: stderr.into() }
    }
}
