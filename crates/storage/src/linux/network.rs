//! `ip` and `bridge` of iproute2, in the network of this node or in that of one of its processes.

use std::time::Duration;

use super::cmd::Cmd;
use crate::host::CommandError;

/// Runs one of them, split at blanks. With a process, in its network.
///
/// # Errors
/// When it cannot be started, fails, or outlives `deadline`.
pub fn run(of: Option<i32>, line: &str, deadline: Duration) -> Result<(), CommandError> {
    let within = of.map(|process| format!("nsenter --net=/proc/{process}/ns/net "));
    let line = within.unwrap_or_default() + line;
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    Cmd::shown(words.iter(), line).run(deadline)
}
