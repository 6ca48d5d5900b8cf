//! Exit statuses. Scripts depend on them: a number never changes its meaning.

use std::process::ExitCode;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, or nothing to do.
    Done = 0,
    /// Failed in a way no other status names.
    Failed = 1,
    /// The command or its input is wrong; nothing was changed. (Also what the argument parser exits with.)
    Usage = 2,
    /// Not yet, or not now: trying again may help.
    Retryable = 3,
    /// A node failed and waits for a change.
    NodeFault = 4,
    /// Storage failed, or an agent refuses what is asked of it, and waits for a change.
    StorageFault = 5,
    /// Interrupted, or told to end.
    Cancelled = 6,
    /// Coordinator, API or agent cannot be reached.
    Unreachable = 7,
}

/// The same for `--help`.
pub(crate) const EXIT_STATUS_HELP: &str = "\
Exit status:
  0  done, or nothing to do
  1  failed in a way no other status names
  2  wrong usage or input; nothing was changed
  3  not yet, or not now: try again
  4  a node failed and waits for a change
  5  storage failed, or an agent refuses what is asked of it, and waits for a change
  6  interrupted, or told to end (SIGINT, SIGTERM)
  7  coordinator, API or agent cannot be reached";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_status() {
        let all = [
            Exit::Done,
            Exit::Failed,
            Exit::Usage,
            Exit::Retryable,
            Exit::NodeFault,
            Exit::StorageFault,
            Exit::Cancelled,
            Exit::Unreachable,
        ];
        let lines: Vec<_> = EXIT_STATUS_HELP.lines().skip(1).collect();
        assert_eq!(lines.len(), all.len());
        for (exit, line) in all.into_iter().zip(lines) {
            assert!(line.starts_with(&format!("  {}  ", exit as u8)), "{line}");
        }
    }
}
