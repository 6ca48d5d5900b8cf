//! Runs a script with stand-ins for the programs that the script calls, and records the calls.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::Context;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;
use tests::program::{binary, command, plant};

/// Stand-in for `flux`: the variables `F_*` set its exit statuses and its output. The recordings of flux-coral2's
/// scripts (`tests/fixtures/flux`) were made with a stand-in that has the same variables.
const FLUX: &str = r#"#!/bin/sh
printf '%s\n' "flux $*" >>"$CALLS"
case "$1 $2" in
"getrabbit "*) echo 'rabbit[1-2]'; exit "${F_GETRABBIT:-0}" ;;
"job info") [ "${F_JOBINFO:-0}" = 0 ] || exit "$F_JOBINFO"; printf '%s\n' "$F_JOBSPEC" ;;
"config get") printf '%s\n' "${F_TIMEOUT:-1800}" ;;
"job wait-event") echo 'dws_environment {"variables":{"DW_WORKFLOW_TOKEN":"secret"}}'; exit "${F_WAIT:-0}" ;;
"job raise") exit "${F_RAISE:-0}" ;;
"resource drain") exit "${F_DRAIN:-0}" ;;
esac
"#;

/// Stand-in for the agent: exits with the status `F_AGENT`, but at the first call with `F_AGENT_FIRST`. If
/// `F_AGENT_HANGS` is set, it waits for SIGTERM and exits with `F_AGENT_CANCELLED`.
const AGENT: &str = r#"#!/bin/bash
printf '%s\n' "clientmount-agent $*" >>"$CALLS"
[ -z "${F_AGENT_SAYS-}" ] || printf '%b\n' "$F_AGENT_SAYS"
if [ -n "${F_AGENT_HANGS-}" ]; then
    sleep infinity >/dev/null 2>&1 &
    trap 'kill $!; exit "${F_AGENT_CANCELLED:-6}"' TERM
    echo waiting
    wait
fi
if [ -n "${F_AGENT_FIRST-}" ] && [ ! -e "$CALLS.first" ]; then : >"$CALLS.first"; exit "$F_AGENT_FIRST"; fi
exit "${F_AGENT:-0}"
"#;

pub(crate) const RABBIT_JOB: &str =
    r##"{"attributes": {"system": {"dw": "#DW jobdw type=xfs capacity=1GiB name=a"}}}"##;
pub(crate) const ORDINARY_JOB: &str = r#"{"attributes": {"system": {}}}"#;

/// A run of a script: a directory with the stand-ins, the script, and its environment.
pub(crate) struct Stage {
    directory: TempDir,
    script: PathBuf,
    environment: Vec<(String, String)>,
}

/// Exit status, output and calls of a script.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) exit: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Command lines of the calls, in their order.
    pub(crate) calls: Vec<String>,
}

impl Stage {
    /// Prepares a run of `script`, which is `prolog` or `epilog`.
    pub(crate) fn new(script: &str) -> anyhow::Result<Self> {
        let directory = TempDir::new()?;
        let bin = directory.path().join("bin");
        fs::create_dir_all(&bin)?;
        fs::create_dir_all(directory.path().join("run"))?;
        for (name, text) in [("flux", FLUX), ("clientmount-agent", AGENT)] {
            plant(&bin.join(name), text)?;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/flux").join(script);
        Ok(Self { directory, script, environment: Vec::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Sets an environment variable of the script and its stand-ins.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a program that comes first in PATH.
    pub(crate) fn with_program(self, name: &str, text: &str) -> anyhow::Result<Self> {
        plant(&self.path().join("bin").join(name), text)?;
        Ok(self)
    }

    /// Replaces the agent's stand-in by the real agent.
    pub(crate) fn with_real_agent(self) -> anyhow::Result<Self> {
        let found = self.path().join("bin/clientmount-agent");
        fs::remove_file(&found)?;
        symlink(binary("clientmount-agent")?, &found)?;
        Ok(self)
    }

    /// Writes the site's settings file.
    pub(crate) fn with_settings(self, text: &str) -> anyhow::Result<Self> {
        fs::write(self.path().join("settings"), text)?;
        Ok(self)
    }

    /// Returns true if the run directory has the file `quiet`, which stops the timer that renews tokens.
    pub(crate) fn is_quiet(&self) -> bool {
        self.path().join("run/quiet").exists()
    }

    fn command(&self) -> Command {
        let mut path = self.path().join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut script = command(&self.script);
        script
            .env("PATH", path)
            .env("CALLS", self.path().join("calls"))
            .env("FLUX_JOB_ID", "f2AVx5nQsoRy")
            .env("WARREN_FLUX_FILE", self.path().join("settings"))
            .env("WARREN_RUN", self.path().join("run"))
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        script
    }

    pub(crate) fn run(&self) -> anyhow::Result<Ended> {
        self.result_of(self.command().spawn().context("start the script")?, String::new())
    }

    /// Sends SIGTERM to the script alone, as soon as it has printed a line with `marker`.
    pub(crate) fn run_and_cancel(&self, marker: &str) -> anyhow::Result<Ended> {
        let mut child = self.command().spawn().context("start the script")?;
        let mut stderr = BufReader::new(child.stderr.take().context("stderr")?);
        let mut printed = String::new();
        while !printed.contains(marker) {
            anyhow::ensure!(stderr.read_line(&mut printed)? > 0, "the script ended: {printed}");
        }
        kill(Pid::from_raw(child.id().try_into()?), Signal::SIGTERM)?;
        stderr.read_to_string(&mut printed)?;
        self.result_of(child, printed)
    }

    fn result_of(&self, child: Child, printed: String) -> anyhow::Result<Ended> {
        let output = child.wait_with_output()?;
        let calls = fs::read_to_string(self.path().join("calls")).unwrap_or_default();
        Ok(Ended {
            exit: output.status.code(),
            stdout: String::from_utf8(output.stdout)?,
            stderr: printed + &String::from_utf8(output.stderr)?,
            calls: calls.lines().map(str::to_owned).collect(),
        })
    }
}

impl Ended {
    /// Returns the calls that begin with these words.
    pub(crate) fn calls_of(&self, words: &str) -> Vec<&str> {
        self.calls.iter().map(String::as_str).filter(|call| call.starts_with(words)).collect()
    }
}
