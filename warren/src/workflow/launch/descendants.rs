//! What a command has started, what that has started, and so on.
//!
//! This process is the subreaper of its commands: a process whose parent has ended becomes its child, whatever process group or
//! terminal session it is in. So none of them gets lost.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;

use futures::future::join_all;
use procfs::process::{Process, Stat, all_processes};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::unix::AsyncFd;

/// From now on, orphans among this process's descendants become its children (PR_SET_CHILD_SUBREAPER).
///
/// # Errors
/// When the kernel refuses.
pub(super) fn adopt() -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

/// Sends the signal to every descendant, and returns when none is left. What starts meanwhile gets the signal when those before
/// it have ended: a process may start others to clean up.
pub(super) async fn end(signal: Signal) {
    loop {
        let running: Vec<_> = all().iter().filter_map(open).collect();
        if running.is_empty() {
            return;
        }
        for process in &running {
            // One that has just ended needs no signal, and one that changed its user takes none.
            let _ = pidfd_send_signal(process, signal);
        }
        join_all(running.into_iter().map(ended)).await;
    }
}

/// Every descendant that has not ended.
fn all() -> Vec<Stat> {
    let processes = all_processes().into_iter().flatten();
    let stats: Vec<Stat> = processes.filter_map(|process| process.ok()?.stat().ok()).collect();
    let parents: HashMap<i32, i32> = stats.iter().map(|stat| (stat.pid, stat.ppid)).collect();
    let own: i32 = std::process::id().try_into().unwrap_or_default();
    let is_descendant = |stat: &Stat| {
        let (mut seen, mut at) = (HashSet::new(), stat.ppid);
        // A list that changes while it is read may have a circle.
        while at != own && seen.insert(at) {
            at = parents.get(&at).copied().unwrap_or_default();
        }
        at == own && !matches!(stat.state, 'Z' | 'X')
    };
    let (running, _): (Vec<_>, Vec<_>) = stats.into_iter().partition(is_descendant);
    running
}

/// A descriptor of the process that was seen; none when it has ended, even if its number is another's now.
fn open(seen: &Stat) -> Option<OwnedFd> {
    let descriptor = pidfd_open(Pid::from_raw(seen.pid)?, PidfdFlags::empty()).ok()?;
    let now = Process::new(seen.pid).ok()?.stat().ok()?;
    (now.starttime == seen.starttime).then_some(descriptor)
}

async fn ended(process: OwnedFd) {
    #[expect(
        deprecated,
        reason = "its successor is unsafe for types that may change their descriptor, which an OwnedFd does not"
    )]
    let process = AsyncFd::new(process);
    match process {
        Ok(process) => drop(process.readable().await),
        // Whoever waits has a deadline.
        Err(_) => std::future::pending().await,
    }
}
