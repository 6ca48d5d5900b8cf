//! The descendants of a command: the processes that it started, the processes that these started, and so on.
//!
//! This process is the subreaper of its commands: a descendant whose parent has ended becomes its child, in any process group and
//! terminal session. So no descendant escapes.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;

use futures::future::join_all;
use procfs::process::{Process, Stat, all_processes};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::unix::AsyncFd;

/// Makes this process the parent of orphans among its descendants (PR_SET_CHILD_SUBREAPER).
///
/// # Errors
/// If the kernel refuses.
pub(super) fn become_subreaper() -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

/// Sends the signal to every descendant, and returns once all have ended. Descendants that start meanwhile get the signal only
/// after the earlier ones have ended: a process may start others to clean up.
pub(super) async fn end_all(signal: Signal) {
    loop {
        let running: Vec<_> = descendants().iter().filter_map(open_pidfd).collect();
        if running.is_empty() {
            return;
        }
        for process in &running {
            // Fails for a process that has just ended or has changed its user.
            let _ = pidfd_send_signal(process, signal);
        }
        join_all(running.into_iter().map(wait_for_end)).await;
    }
}

/// Returns every descendant that has not ended.
fn descendants() -> Vec<Stat> {
    let processes = all_processes().into_iter().flatten();
    let stats: Vec<Stat> = processes.filter_map(|process| process.ok()?.stat().ok()).collect();
    let parents: HashMap<i32, i32> = stats.iter().map(|stat| (stat.pid, stat.ppid)).collect();
    let own: i32 = std::process::id().try_into().unwrap_or_default();
    let is_descendant = |stat: &Stat| {
        let (mut seen, mut at) = (HashSet::new(), stat.ppid);
        // The list changes while it is read, and may have a cycle.
        while at != own && seen.insert(at) {
            at = parents.get(&at).copied().unwrap_or_default();
        }
        at == own && !matches!(stat.state, 'Z' | 'X')
    };
    let (running, _): (Vec<_>, Vec<_>) = stats.into_iter().partition(is_descendant);
    running
}

/// Opens a descriptor of the process that was seen; `None` if it has ended, also if another process has its number now.
fn open_pidfd(seen: &Stat) -> Option<OwnedFd> {
    let descriptor = pidfd_open(Pid::from_raw(seen.pid)?, PidfdFlags::empty()).ok()?;
    let now = Process::new(seen.pid).ok()?.stat().ok()?;
    (now.starttime == seen.starttime).then_some(descriptor)
}

async fn wait_for_end(process: OwnedFd) {
    #[expect(
        deprecated,
        reason = "its successor is unsafe for types that may change their descriptor, which an OwnedFd does not"
    )]
    let process = AsyncFd::new(process);
    match process {
        Ok(process) => drop(process.readable().await),
        // The caller has a deadline.
        Err(_) => std::future::pending().await,
    }
}
