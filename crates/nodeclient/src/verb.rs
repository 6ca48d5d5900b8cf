//! The verbs and their options.

mod agent;
mod job;
mod show;
mod wait;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use cli::Exit;
use cli::Failure;
use cli::Output;
pub use job::seconds_or_units;
use job::{AnyJob, OneJob, duration};
use proto::v1;

/// Default socket of a compute's agent.
pub const SOCKET: &str = "/run/warren/clientmount-agent.sock";

/// A request of a script to this node's agent.
#[derive(Debug, Clone, Subcommand)]
pub enum Verb {
    /// Wait until all mounts of a job on this node are mounted
    Mount(Mount),
    /// Wait until a job's mounts are unmounted on this node, and name the processes that hold them
    Unmount(Unmount),
    /// Wait until a job's mounts are mounted or unmounted on this node
    Wait(Wait),
    /// Show this node's mounts, or those of a job
    Status(Show),
    /// Show the steps that the agent would take for its ClientMounts, or those of a job; changes nothing
    Plan(Show),
}

/// Flags of every verb.
#[derive(Debug, Clone, Args)]
struct Common {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Socket of the agent
    #[arg(long, visible_alias = "agent", env = "WARREN_LISTEN", value_name = "SOCKET")]
    listen: Option<PathBuf>,
}

/// Flags of verbs that wait for a job's mounts.
#[derive(Debug, Clone, Args)]
struct Waiting {
    #[command(flatten)]
    job: OneJob,
    /// Give up after this long: seconds, or a time like 5m
    #[arg(long, value_name = "DURATION", default_value = "300s", value_parser = duration)]
    deadline: Duration,
    #[command(flatten)]
    common: Common,
}

/// The flags of [`Verb::Mount`].
#[derive(Debug, Clone, Args)]
pub struct Mount {
    #[command(flatten)]
    waiting: Waiting,
    /// File to write the job's environment to, for a shell to source: lines KEY='value', mode 0600, owned by the job's user
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// Also wait for the mounts on the job's other nodes
    #[arg(long)]
    all_nodes: bool,
}

/// The flags of [`Verb::Unmount`].
#[derive(Debug, Clone, Args)]
pub struct Unmount {
    #[command(flatten)]
    waiting: Waiting,
    /// Action for mounts still in use at the deadline [default: the agent's --on-timeout]
    #[arg(long, value_enum, value_name = "WHAT")]
    on_timeout: Option<OnTimeout>,
}

/// Action for mounts that are still in use at the deadline of an unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnTimeout {
    /// Leave the mount, and name the processes that hold it
    Report,
    /// Send SIGTERM, and SIGKILL after 5 s, to the processes of the job's user that hold the mount, and to no others
    Signal,
    /// Detach the mount (umount --lazy); it counts as unmounted once its device is free
    Lazy,
}

impl From<OnTimeout> for v1::OnTimeout {
    fn from(on_timeout: OnTimeout) -> Self {
        match on_timeout {
            OnTimeout::Report => Self::Report,
            OnTimeout::Signal => Self::Signal,
            OnTimeout::Lazy => Self::Lazy,
        }
    }
}

/// The state of the mounts to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Condition {
    Mounted,
    Unmounted,
}

/// The flags of [`Verb::Wait`].
#[derive(Debug, Clone, Args)]
pub struct Wait {
    #[command(flatten)]
    waiting: Waiting,
    /// State to wait for
    #[arg(long = "for", value_enum, value_name = "CONDITION")]
    condition: Condition,
}

/// Flags of [`Verb::Status`] and [`Verb::Plan`].
#[derive(Debug, Clone, Args)]
pub struct Show {
    #[command(flatten)]
    job: AnyJob,
    #[command(flatten)]
    common: Common,
}

impl Verb {
    fn common(&self) -> &Common {
        match self {
            Self::Mount(Mount { waiting, .. })
            | Self::Unmount(Unmount { waiting, .. })
            | Self::Wait(Wait { waiting, .. }) => &waiting.common,
            Self::Status(show) | Self::Plan(show) => &show.common,
        }
    }

    #[must_use]
    pub fn is_json(&self) -> bool {
        self.common().json
    }

    /// Calls the agent at the socket of `--listen`, by default `socket`, and prints the agent's answer.
    ///
    /// # Errors
    /// If the agent cannot be reached, or refuses or fails the request.
    pub async fn run(self, socket: &Path, output: Output) -> Result<Exit, Failure> {
        let socket = self.common().listen.clone().unwrap_or_else(|| socket.to_owned());
        match self {
            Self::Mount(mount) => mount.run(&socket, output).await,
            Self::Unmount(unmount) => unmount.run(&socket, output).await,
            Self::Wait(wait) => wait.run(&socket, output).await,
            Self::Status(show) => show.status(&socket, output).await,
            Self::Plan(show) => show.plan(&socket, output).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use proto::v1::JobName;
    use proto::v1::job_name::Name;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        verb: Verb,
    }

    fn parse(words: &[&str]) -> Result<Verb, String> {
        let line = Line::try_parse_from(std::iter::once(&"agent").chain(words));
        line.map(|line| line.verb).map_err(|error| error.to_string())
    }

    #[test]
    fn command_line_is_consistent() {
        Line::command().debug_assert();
    }

    #[test]
    fn a_verb_takes_one_job_and_a_deadline_with_or_without_units() {
        let Ok(Verb::Mount(mount)) = parse(&["mount", "--job", "ƒ2", "--deadline", "90"]) else {
            panic!("not a mount")
        };
        assert_eq!(mount.waiting.deadline, Duration::from_secs(90));
        assert_eq!(JobName::from(mount.waiting.job).name, Some(Name::Job("ƒ2".to_owned())));
        for (words, part) in [
            (&["mount"][..], "--job"),
            (&["mount", "--job", "1", "--workflow", "w"], "cannot be used with"),
            (&["unmount", "--job", "1", "--on-timeout", "force"], "lazy"),
            (&["wait", "--job", "1"], "--for"),
            (&["mount", "--job", "1", "--deadline", "8d"], "up to 7 days"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.contains(part), "{words:?}: {error}");
        }
        assert!(parse(&["status"]).is_ok() && parse(&["plan", "--workflow", "a/b"]).is_ok());
    }
}
