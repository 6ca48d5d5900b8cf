//! The first process of a worker's container: it has to reap what daemons leave behind, and hands signals on.

use std::{io, os::unix::process::ExitStatusExt, process};

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::worker::code;

/// Starts this program once more, and ends as that one does.
pub(crate) async fn run() -> io::Result<u8> {
    let mut ended = signal(SignalKind::child())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    #[expect(clippy::disallowed_methods, reason = "this is no agent of a node")]
    let child = process::Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .arg("--is-child")
        .spawn()?;
    let child = Pid::from_raw(child.id().cast_signed());
    loop {
        if let Some(code) = reaped(child)? {
            return Ok(code);
        }
        tokio::select! {
            _ = ended.recv() => {}
            _ = terminate.recv() => kill(child, Signal::SIGTERM)?,
            _ = interrupt.recv() => kill(child, Signal::SIGINT)?,
        }
    }
}

/// Reaps all that ended; how the child ended, if it did.
fn reaped(child: Pid) -> io::Result<Option<u8>> {
    let mut own = None;
    loop {
        let told = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(own),
            Err(errno) => return Err(errno.into()),
            Ok(told) => told,
        };
        if told.pid() == Some(child) {
            own = match told {
                WaitStatus::Exited(_, code) => Some(code.to_le_bytes()[0]),
                WaitStatus::Signaled(_, signal, _) => {
                    Some(code(process::ExitStatus::from_raw(signal as i32)))
                }
                _ => own,
            };
        }
    }
}
