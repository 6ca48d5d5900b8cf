use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::Context;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// A running program whose output goes to a file. The program is killed when this value is dropped, or when the thread
/// that started it ends.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program, whose output is appended to `log`.
    ///
    /// # Errors
    /// When the program cannot be started.
    #[expect(clippy::disallowed_methods, reason = "a test harness starts the real servers")]
    pub fn start(program: &Path, arguments: &[String], log: &Path) -> anyhow::Result<Self> {
        let file = File::options().create(true).append(true).open(log).context("open a log")?;
        // Ends the program with the test, even if the test is killed.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone().context("share a log")?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Returns the path of the file with the program's output.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if the program has ended by itself.
    #[must_use]
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the program with SIGKILL, which it cannot handle, as in a loss of power, and waits for its end.
    pub fn kill(&mut self) {
        // Fails only if the program has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops the program with SIGSTOP, as if its machine hung.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets the program continue after [`Process::pause`].
    ///
    /// # Errors
    /// When the process has ended.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.child.id()).context("process id")?;
        kill(Pid::from_raw(pid), signal).with_context(|| format!("{signal} to {pid}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
