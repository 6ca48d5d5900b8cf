//! The first process of a worker's container: it reaps what daemons and ranks leave behind, and hands signals on to all of them.
//!
//! Ranks that are told to end have as long as their pod has: the kubelet kills what is left then.

mod processes;

use std::{io, os::unix::process::ExitStatusExt, process};

use nix::{
    errno::Errno,
    sys::{
        prctl::set_child_subreaper,
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, getpid},
};
use tokio::signal::unix::{SignalKind, signal};

use self::processes::beneath;
use crate::worker::code;

/// Starts this program once more, and ends as that one does, once nothing is left of what it started.
pub(crate) async fn run() -> io::Result<u8> {
    let mut ended = signal(SignalKind::child())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Containers of a pod may share their processes: then another reaps what nobody waits for, unless we ask for it.
    set_child_subreaper(true)?;
    #[expect(clippy::disallowed_methods, reason = "this is no agent of a node")]
    let child = process::Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .arg("--is-child")
        .spawn()?;
    let child = Pid::from_raw(child.id().cast_signed());
    let (mut is_signalled, mut done) = (false, None);
    loop {
        done = reaped(child)?.or(done);
        if let Some(code) = done {
            let left = beneath(getpid())?;
            if left.is_empty() {
                return Ok(code);
            }
            // Without a worker nobody starts or ends ranks any more.
            if !is_signalled {
                signal_all(&left, Signal::SIGKILL);
            }
        }
        let received = tokio::select! {
            _ = ended.recv() => continue,
            _ = terminate.recv() => Signal::SIGTERM,
            _ = interrupt.recv() => Signal::SIGINT,
        };
        is_signalled = true;
        pass_on(child, received)?;
    }
}

/// Hands a signal on: first to the worker, which then starts nothing more, and to everybody else.
fn pass_on(worker: Pid, what: Signal) -> io::Result<()> {
    signal_all(&[worker], what);
    let mut others = beneath(getpid())?;
    others.retain(|process| *process != worker);
    signal_all(&others, what);
    Ok(())
}

fn signal_all(processes: &[Pid], what: Signal) {
    for process in processes {
        // Who ended meanwhile hears nothing.
        let _ = kill(*process, what);
    }
}

/// Reaps all that ended; how the child ended, if it did.
fn reaped(child: Pid) -> io::Result<Option<u8>> {
    let mut own = None;
    loop {
        let status = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(own),
            Err(errno) => return Err(errno.into()),
            Ok(status) => status,
        };
        if status.pid() == Some(child) {
            own = match status {
                WaitStatus::Exited(_, code) => Some(code.to_le_bytes()[0]),
                WaitStatus::Signaled(_, signal, _) => {
                    Some(code(process::ExitStatus::from_raw(signal as i32)))
                }
                _ => own,
            };
        }
    }
}
