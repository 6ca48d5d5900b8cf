//! How a job's command gets to its computes: by a line of the site's, or on this host. This file alone starts programs.

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

/// How long commands have to end after SIGTERM, and after SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// A launcher line in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launcher(Vec<String>);

/// A line that is no launcher.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum LauncherError {
    #[error("quotes do not match")]
    Quotes,
    #[error("the line is empty")]
    Empty,
    #[error(
        "{{node}} starts the command once on each node and {{nodes}} once in all; write one of them"
    )]
    Both,
}

/// For whom and where a command runs.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub nodes: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub user: u32,
    pub group: u32,
    pub command: Vec<String>,
}

/// One program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// `None` for all nodes together.
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

    /// The line for a node or for all, with the command after it.
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

/// A program that cannot be started, which is known before any storage is made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum FindError {
    #[error("{0}: no such command; nothing was made")]
    Missing(String),
    #[error("{0}: not an executable file; nothing was made")]
    NotExecutable(String),
}

impl FindError {
    /// The exit status that shells give.
    pub(crate) fn status(&self) -> i32 {
        match self {
            Self::Missing(_) => 127,
            Self::NotExecutable(_) => 126,
        }
    }
}

/// Looks for the program that is started on this host: the launcher, else the command. A command that a launcher starts elsewhere is
/// not looked for.
///
/// # Errors
/// When it is not there, or no program.
pub(crate) fn find(launcher: Option<&Launcher>, command: &[String]) -> Result<(), FindError> {
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

/// What to start: with `{node}` in the line once for each node, else once.
pub(crate) fn launches(launcher: Option<&Launcher>, job: &Job) -> Vec<Launch> {
    match launcher {
        None => vec![Launch { node: None, words: job.command.clone() }],
        Some(launcher) if launcher.names("{node}") => {
            let one = |node: &String| Launch {
                node: Some(node.clone()),
                words: launcher.words(job, Some(node)),
            };
            job.nodes.iter().map(one).collect()
        }
        Some(launcher) => vec![Launch { node: None, words: launcher.words(job, None) }],
    }
}

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Running {
    launch: Launch,
    child: Child,
}

impl Running {
    /// Why it is no success, for people.
    pub(crate) fn failure(&self, ended: &io::Result<ExitStatus>) -> Option<String> {
        let program = self.launch.words.first().map_or("the command", String::as_str);
        let place = self.launch.node.as_ref().map(|node| format!("{node}: ")).unwrap_or_default();
        match ended {
            Ok(status) if status.success() => None,
            Ok(status) => Some(format!("{place}{program}: {status}")),
            Err(error) => Some(format!("{place}{program}: {error}")),
        }
    }
}

/// Starts a program with the job's environment; as the job's user when there is no launcher, which changes user itself.
///
/// # Errors
/// When it does not start.
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
    descendants::adopt()?;
    let child = command.spawn()?;
    Ok(Running { launch, child })
}

/// Waits for all of them; the status of each, in their order.
pub(crate) async fn wait(running: &mut [Running]) -> Vec<io::Result<ExitStatus>> {
    join_all(running.iter_mut().map(|running| running.child.wait())).await
}

/// Ends them and everything that they have started: with SIGTERM, and after `grace` with SIGKILL. What hangs in the kernel is
/// left behind.
pub(crate) async fn stop(running: &mut [Running], grace: Duration) {
    for signal in [Signal::TERM, Signal::KILL] {
        let ended = async {
            descendants::end(signal).await;
            wait(running).await
        };
        if timeout(grace, ended).await.is_ok() {
            return;
        }
    }
}

/// The status to hand on: the first that is not success, in the order of the nodes; 128 and its number for a signal, as shells
/// have it.
pub(crate) fn handed_on(ended: &[io::Result<ExitStatus>]) -> u8 {
    let of = |status: &io::Result<ExitStatus>| match status {
        Ok(status) => {
            status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
        }
        Err(_) => 1,
    };
    let failed = ended.iter().map(of).find(|code| *code != 0).unwrap_or(0);
    u8::try_from(failed).unwrap_or(1)
}

#[cfg(test)]
mod tests;
