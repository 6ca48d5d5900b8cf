//! The failure of a command.

use std::{io, time::Duration};

use thiserror::Error;

/// A command that did not succeed.
#[derive(Debug, Error)]
pub enum CommandError {
    #[error("start {program}")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("{command}: {status}{}", stderr_text(.stderr))]
    Failed {
        command: String,
        /// Exit status, for example `exit status: 1` or `signal: 9 (SIGKILL)`.
        status: String,
        /// The command's stderr: all of it, or its first 512 and last 512 bytes.
        stderr: String,
    },
    #[error(
        "{command}: the command printed more than {most} bytes; the agent does not use truncated output"
    )]
    TooMuch { command: String, most: usize },
    /// The command outlived its deadline, and its process group was killed.
    #[error("{command}: killed after {} s{}; its processes waited: {waits}", .deadline.as_secs_f32(), stderr_text(.stderr))]
    TimedOut {
        command: String,
        deadline: Duration,
        /// The command's stderr: all of it, or its first 512 and last 512 bytes.
        stderr: String,
        /// The command's processes, the kernel stack of each, and the locks that this node requested
        /// and was not granted.
        waits: String,
    },
}

impl CommandError {
    /// Returns whether the program is not installed: bash then exits with status 127 (bash(1), EXIT STATUS).
    pub fn is_not_installed(&self) -> bool {
        match self {
            Self::Start { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::Failed { status, .. } => status == "exit status: 127",
            Self::TooMuch { .. } | Self::TimedOut { .. } => false,
        }
    }
}

fn stderr_text(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(": {stderr}") }
}
