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

/// A running program whose output goes to a file; killed when dropped, or when the thread that started it ends.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program.
    ///
    /// # Errors
    /// When it cannot be started.
    #[expect(clippy::disallowed_methods, reason = "a test harness starts the real servers")]
    pub fn start(program: &Path, arguments: &[String], log: &Path) -> anyhow::Result<Self> {
        let file = File::options().create(true).append(true).open(log).context("open a log")?;
        // Nothing of ours may outlive a test, not even one that is killed.
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

    /// Where its output is.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    #[must_use]
    pub fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it where it stands, as a loss of power does.
    pub fn kill(&mut self) {
        // One that has ended already is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops it where it stands, as a machine does that hangs.
    ///
    /// # Errors
    /// When it is gone.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it is gone.
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
