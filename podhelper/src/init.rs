//! Runs as the first process of a worker's container: reaps orphaned processes, and forwards signals to all processes.
//!
//! Ranks that get a signal to end may take as long as the pod may: then the kubelet kills them.

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

use self::processes::descendants;
use crate::worker::exit_code;

/// Starts this program again as the worker. Returns the worker's exit code once all its descendants have ended.
pub(crate) async fn run() -> io::Result<u8> {
    let mut ended = signal(SignalKind::child())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // The containers of a pod may share their processes: then another process would reap orphans unless we ask for
    // them.
    set_child_subreaper(true)?;
    #[expect(clippy::disallowed_methods, reason = "this is no agent of a node")]
    let child = process::Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .arg("--is-child")
        .spawn()?;
    let child = Pid::from_raw(child.id().cast_signed());
    let (mut is_signalled, mut done) = (false, None);
    loop {
        done = reap(child)?.or(done);
        if let Some(code) = done {
            let left = descendants(getpid())?;
            if left.is_empty() {
                return Ok(code);
            }
            // Without a worker no process starts or ends ranks any more.
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

/// Forwards a signal: first to the worker, which then starts no more commands, then to all other processes.
fn pass_on(worker: Pid, signal: Signal) -> io::Result<()> {
    signal_all(&[worker], signal);
    let mut others = descendants(getpid())?;
    others.retain(|process| *process != worker);
    signal_all(&others, signal);
    Ok(())
}

fn signal_all(processes: &[Pid], signal: Signal) {
    for process in processes {
        // A process that has ended meanwhile cannot receive it.
        let _ = kill(*process, signal);
    }
}

/// Reaps all processes that ended; returns the child's exit code if it ended.
fn reap(child: Pid) -> io::Result<Option<u8>> {
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
                    Some(exit_code(process::ExitStatus::from_raw(signal as i32)))
                }
                _ => own,
            };
        }
    }
}
