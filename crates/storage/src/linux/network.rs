//! Runs `ip` and `bridge` of iproute2, in the network of this node or of one of its processes.

use std::time::Duration;

use super::cmd::Cmd;
use crate::host::CommandError;

/// Runs a command line, split at blanks; in the network of `process`, if given.
///
/// # Errors
/// When the command cannot be started, fails, or outlives `deadline`.
pub fn run(process: Option<i32>, line: &str, deadline: Duration) -> Result<(), CommandError> {
    let within = process.map(|process| format!("nsenter --net=/proc/{process}/ns/net "));
    let line = within.unwrap_or_default() + line;
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    Cmd::with_text(words.iter(), line).run(deadline)
}
