//! Starts a job's command on its computes: through the site's launcher, or on this host. In this
//! crate, only this file starts programs.

mod descendants;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use futures::future::join_all;
use rustix::process::Signal;
use thiserror::Error;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Time that commands have to end after SIGTERM, and again after SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// A launcher line, split into words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launcher(Vec<String>);

/// The reason why a line is not a launcher.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum LauncherError {
    #[error("the launcher's quotes do not match: close each quote")]
    Quotes,
    #[error("the launcher is empty: write a command line, or leave --launcher out")]
    Empty,
    #[error(
        "{{node}} starts the command once on each node, {{nodes}} starts it once for all nodes; write one of them"
    )]
    Both,
}

/// A command, with its nodes, environment and user.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub nodes: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub user: u32,
    pub group: u32,
    pub command: Vec<String>,
}

/// A program to start, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// The node that the program is started for; `None` for all nodes together.
    pub node: Option<String>,
    pub words: Vec<String>,
}

impl std::str::FromStr for Launcher {
    type Err = LauncherError;

    fn from_str(line: &str) -> Result<Self, LauncherError> {
        let words = shell_words::split(line).map_err(|_| LauncherError::Quotes)?;
        let launcher = Self(words);
        if launcher.0.is_empty() {
            return Err(LauncherError::Empty);
        }
        if launcher.names("{node}") && launcher.names("{nodes}") {
            return Err(LauncherError::Both);
        }
        Ok(launcher)
    }
}

impl Launcher {
    fn names(&self, variable: &str) -> bool {
        self.0.iter().any(|word| word.contains(variable))
    }

    /// Returns the launcher's line for a node or for all nodes, followed by the command.
    fn words(&self, job: &Job, node: Option<&str>) -> Vec<String> {
        let nodes = directive::hostlist::compress(&job.nodes);
        let mut words = Vec::new();
        for word in &self.0 {
            if word == "{env}" {
                words.extend(job.environment.iter().map(|(name, value)| format!("{name}={value}")));
                continue;
            }
            let word = word.replace("{nodes}", &nodes).replace("{node}", node.unwrap_or_default());
            words.push(
                word.replace("{user}", &job.user.to_string())
                    .replace("{group}", &job.group.to_string()),
            );
        }
        words.extend(job.command.iter().cloned());
        words
    }
}

/// The reason why a program cannot be started. The command reports this before it makes any storage.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum FindError {
    #[error("{0}: no such command; nothing was made")]
    Missing(String),
    #[error("{0}: not an executable file; nothing was made")]
    NotExecutable(String),
}

impl FindError {
    /// Returns the exit status that shells use.
    pub(crate) fn status(&self) -> i32 {
        match self {
            Self::Missing(_) => 127,
            Self::NotExecutable(_) => 126,
        }
    }
}

/// Checks that the program to start on this host exists: the launcher, or else the command. A launcher starts the
/// command on other hosts, where this host cannot check it.
///
/// # Errors
/// If the program does not exist, or is not executable.
pub(crate) fn check_program(
    launcher: Option<&Launcher>,
    command: &[String],
) -> Result<(), FindError> {
    let words = launcher.map_or(command, |launcher| &launcher.0);
    let program = words.first().map(String::as_str).unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = if program.contains('/') {
        vec![PathBuf::from(program)]
    } else {
        std::env::split_paths(&path).map(|directory| directory.join(program)).collect()
    };
    let is_executable = |place: &PathBuf| {
        place.metadata().is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
    };
    if places.iter().any(is_executable) {
        return Ok(());
    }
    let is_there = places.iter().any(|place| place.exists());
    let program = program.to_owned();
    Err(if is_there { FindError::NotExecutable(program) } else { FindError::Missing(program) })
}

/// Returns the programs to start: one program for each node if the line has `{node}`, else a single program.
pub(crate) fn launches(launcher: Option<&Launcher>, job: &Job) -> Vec<Launch> {
    match launcher {
        None => vec![Launch { node: None, words: job.command.clone() }],
        Some(launcher) if launcher.names("{node}") => {
            let launch = |node: &String| Launch {
                node: Some(node.clone()),
                words: launcher.words(job, Some(node)),
            };
            job.nodes.iter().map(launch).collect()
        }
        Some(launcher) => vec![Launch { node: None, words: launcher.words(job, None) }],
    }
}

/// A program that runs, or has ended without being waited for.
#[derive(Debug)]
pub(crate) struct Running {
    launch: Launch,
    child: Child,
}

impl Running {
    /// Describes how the program failed; `None` if it succeeded.
    pub(crate) fn failure(&self, status: &io::Result<ExitStatus>) -> Option<String> {
        let program = self.launch.words.first().map_or("the command", String::as_str);
        let place = self.launch.node.as_ref().map(|node| format!("{node}: ")).unwrap_or_default();
        match status {
            Ok(status) if status.success() => None,
            Ok(status) => Some(format!("{place}{program}: {status}")),
            Err(error) => Some(format!("{place}{program}: {error}")),
        }
    }
}

/// Starts a program with the job's environment. Without a launcher it runs as the job's user; a launcher
/// changes the user itself.
///
/// # Errors
/// If the program does not start.
pub(crate) fn start(launch: Launch, job: &Job, is_local: bool) -> io::Result<Running> {
    let (program, arguments) = launch.words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(&job.environment)
        .envs(launch.node.as_ref().map(|node| ("WARREN_NODE", node)));
    command.kill_on_drop(true);
    if is_local && nix::unistd::geteuid().is_root() && job.user != 0 {
        command.uid(job.user).gid(job.group);
    }
    descendants::become_subreaper()?;
    let child = command.spawn()?;
    Ok(Running { launch, child })
}

/// Waits for all programs, and returns their statuses in the same order.
pub(crate) async fn wait(running: &mut [Running]) -> Vec<io::Result<ExitStatus>> {
    join_all(running.iter_mut().map(|running| running.child.wait())).await
}

/// Ends the programs and all their descendants: with SIGTERM, and after `grace` with SIGKILL. A process that hangs
/// in the kernel remains.
pub(crate) async fn stop(running: &mut [Running], grace: Duration) {
    for signal in [Signal::TERM, Signal::KILL] {
        let all_ended = async {
            descendants::end_all(signal).await;
            wait(running).await
        };
        if timeout(grace, all_ended).await.is_ok() {
            return;
        }
    }
}

/// Returns the exit status for the whole command: the first failure in the order of the nodes, else 0. A signal counts
/// as 128 plus its number, as in shells.
pub(crate) fn exit_status(statuses: &[io::Result<ExitStatus>]) -> u8 {
    let code = |status: &io::Result<ExitStatus>| match status {
        Ok(status) => {
            status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
        }
        Err(_) => 1,
    };
    let failed = statuses.iter().map(code).find(|code| *code != 0).unwrap_or(0);
    u8::try_from(failed).unwrap_or(1)
}

#[cfg(test)]
mod tests;
