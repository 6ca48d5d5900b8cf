//! Drives a job as a workload manager does, only with `warren workload`.

use std::process::{Command, Output};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::{cluster::Cluster, program::command, workflow::Flow};

/// Calls `warren workload` for one job, as one user.
#[derive(Debug)]
pub struct Caller<'a> {
    cluster: &'a Cluster,
    /// The job's ID in the workload manager.
    pub job: String,
    /// User who calls, over the socket that every user may connect to; `None` for root.
    pub user: Option<u32>,
    /// Name of the workload manager.
    pub manager: String,
}

/// Exit status and output of a call.
#[derive(Debug)]
pub struct Called {
    /// Exit status of the call.
    pub code: Option<i32>,
    /// The job's state, if the call printed it.
    pub printed: Value,
    /// Standard error of the call.
    pub stderr: String,
}

impl<'a> Caller<'a> {
    /// Creates a caller for this job that calls as root.
    #[must_use]
    pub fn new(flow: &'a Flow, job: &str) -> Self {
        let (cluster, manager) = (&flow.fixture.run.cluster, "test".to_owned());
        Self { cluster, job: job.to_owned(), user: None, manager }
    }

    /// Returns the command line of a call. `words` are the verb and then its options.
    ///
    /// # Errors
    /// When `warren` was not built.
    pub fn command(&self, words: &[&str]) -> anyhow::Result<Command> {
        let (name, rest) = words.split_first().context("a call")?;
        let warren = self.cluster.warren()?;
        let mut argv = match self.user {
            None => command(warren.get_program()),
            Some(user) => {
                let user = user.to_string();
                let mut argv = command("setpriv");
                argv.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
                argv.arg(warren.get_program());
                argv
            }
        };
        argv.envs(warren.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if self.user.is_some() {
            let socket = format!("unix://{}", self.cluster.workloads_socket().display());
            argv.env("WARREN_COORDINATOR", socket);
        }
        argv.args(["--json", "workload", name, "--manager", &self.manager, &self.job]).args(rest);
        Ok(argv)
    }

    /// Runs a call of `warren workload`.
    ///
    /// # Errors
    /// When `warren` cannot be started, or prints no JSON.
    pub fn call(&self, words: &[&str]) -> anyhow::Result<Called> {
        let output = self.command(words)?.output().context("start warren")?;
        Called::read(&output).with_context(|| format!("warren workload {}", words.join(" ")))
    }

    /// Runs a call, and checks that the job is then ready in `state`.
    ///
    /// # Errors
    /// When the job is in another state or not ready.
    pub fn reach(&self, words: &[&str], state: &str) -> anyhow::Result<Called> {
        let called = self.call(words)?.expect_exit(0)?;
        ensure!(called.printed["state"] == state && called.printed["ready"] == true, "{called:?}");
        Ok(called)
    }
}

impl Called {
    /// Reads exit status and output of a command.
    ///
    /// # Errors
    /// When the command printed no JSON.
    pub fn read(output: &Output) -> anyhow::Result<Self> {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let printed = match output.stdout.as_slice() {
            [] => Value::Null,
            text => serde_json::from_slice(text).context("decode the output of warren workload")?,
        };
        Ok(Self { code: output.status.code(), printed, stderr })
    }

    /// Checks that the exit status is `code`.
    ///
    /// # Errors
    /// When the exit status is not `code`.
    pub fn expect_exit(self, code: i32) -> anyhow::Result<Self> {
        ensure!(self.code == Some(code), "not {code}: {self:#?}");
        Ok(self)
    }

    /// Checks that the output has all of these parts.
    ///
    /// # Errors
    /// When a part is missing.
    pub fn expect_output(self, parts: &[&str]) -> anyhow::Result<Self> {
        let output = format!("{} {}", self.printed, self.stderr);
        for part in parts {
            ensure!(output.contains(part), "no {part:?} in {self:#?}");
        }
        Ok(self)
    }

    /// Returns the record of one node.
    #[must_use]
    pub fn node(&self, name: &str) -> Value {
        let nodes = self.printed["nodes"].as_array().into_iter().flatten();
        nodes.into_iter().find(|node| node["node"] == name).cloned().unwrap_or_default()
    }
}
