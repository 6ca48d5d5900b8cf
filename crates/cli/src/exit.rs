//! Exit statuses of verbs. Scripts depend on them: a number never changes its meaning.

use std::process::ExitCode;

use proto::v1::Verdict;

/// The exit status of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The verb did its work, or had nothing to do.
    Done = 0,
    /// A failure that has no other status here.
    Failed = 1,
    /// The command or its input is wrong, and the verb changed nothing. The argument parser, clap, exits
    /// with this status too.
    Usage = 2,
    /// The work is not finished, or is not possible now: a retry may help.
    Retryable = 3,
    /// A node failed. A retry is useless until the cause is mended.
    NodeFault = 4,
    /// Storage failed, or an agent refuses the request. A retry is useless until the cause is mended.
    StorageFault = 5,
    /// SIGINT or SIGTERM ended the verb, or the job whose mounts it waited for is over.
    Cancelled = 6,
    /// The coordinator or the API cannot be reached.
    Unreachable = 7,
    /// The agent of this node cannot be reached, or does not answer. There is no [`Verdict`] with this number, because
    /// verdicts come from agents.
    NoAgent = 8,
}

/// Exit statuses with their meaning, for `--help-all`.
pub const EXIT_STATUS_HELP: &str = "\
Exit status:
  0  done, or nothing to do
  1  failed in a way that no other status covers
  2  wrong usage or input; nothing was changed
  3  not done yet, or not possible now: try again
  4  a node failed, and does not continue before a change
  5  storage failed, or an agent refuses the request, until a change
  6  interrupted (SIGINT, SIGTERM), or the job is over
  7  coordinator or API cannot be reached
  8  this node's agent cannot be reached, or does not answer";

impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Done => Self::Done,
            Verdict::Failed => Self::Failed,
            Verdict::BadRequest => Self::Usage,
            Verdict::NotYet => Self::Retryable,
            Verdict::NodeFault => Self::NodeFault,
            Verdict::StorageFault => Self::StorageFault,
            Verdict::Cancelled => Self::Cancelled,
            Verdict::Unreachable => Self::Unreachable,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The protocol defines the number of a verdict as the exit status of the verb.
    #[test]
    fn the_number_of_a_verdict_is_its_exit_status() {
        for number in 0..8 {
            let verdict = Verdict::try_from(number).unwrap();
            assert_eq!(Exit::from(verdict) as i32, number);
        }
    }

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
            Exit::NoAgent,
        ];
        let lines: Vec<_> = EXIT_STATUS_HELP.lines().skip(1).collect();
        assert_eq!(lines.len(), all.len());
        for (exit, line) in all.into_iter().zip(lines) {
            assert!(line.starts_with(&format!("  {}  ", exit as u8)), "{line}");
        }
    }
}
