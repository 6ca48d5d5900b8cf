use std::{fs, path::Path};

use anyhow::{Context, ensure};

/// A script that runs in a guest, known by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job(pub(super) u32);

/// Result of a script that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit code of bash.
    pub code: i32,
    /// Text that the script printed on its standard output.
    pub stdout: String,
    /// Text that the script printed on its standard error.
    pub stderr: String,
}

impl Job {
    pub(super) fn write(self, exchange: &Path, script: &str) -> anyhow::Result<()> {
        fs::write(exchange.join(format!("{}.sh", self.0)), format!("set -euo pipefail\n{script}\n"))
            .context("hand a script to the guest")
    }

    pub(super) fn output(self, exchange: &Path, code: i32) -> anyhow::Result<Output> {
        Ok(Output {
            code,
            stdout: self.read(exchange, "out")?,
            stderr: self.read(exchange, "err")?,
        })
    }

    /// Returns the output of the script so far.
    pub(super) fn read(self, exchange: &Path, extension: &str) -> anyhow::Result<String> {
        let bytes = fs::read(exchange.join(format!("{}.{extension}", self.0)))
            .context("read what a script printed")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Output {
    /// Returns the standard output, if the script succeeded.
    ///
    /// # Errors
    /// When the script failed; the message has the script's output.
    pub fn ok(self, what: &str) -> anyhow::Result<String> {
        ensure!(
            self.code == 0,
            "{what}: exit code {}\n{}\n{}",
            self.code,
            self.stdout.trim_end(),
            self.stderr.trim_end()
        );
        Ok(self.stdout)
    }
}
