//! Runs systemctl on the administrator's terminal.

use std::{io, os::unix::process::ExitStatusExt, process::Command};

use thiserror::Error;

/// systemctl could not be started.
#[derive(Debug, Error)]
#[error("run systemctl: is this host run by systemd?")]
pub(crate) struct SystemctlError(#[source] io::Error);

/// Runs systemctl to its end. Returns its exit code, or 128 plus the number of the signal that killed it, or else 1.
#[expect(
    clippy::disallowed_methods,
    reason = "an administrator waits for it and may answer its questions: no deadline, and its terminal is theirs"
)]
pub(crate) fn systemctl(arguments: &[&str]) -> Result<u8, SystemctlError> {
    let status = Command::new("systemctl").args(arguments).status().map_err(SystemctlError)?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
