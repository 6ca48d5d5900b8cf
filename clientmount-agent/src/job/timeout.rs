//! What the agent does with mounts that are still in use when an `unmount` has no more time.
//!
//! `report` names the holders and does nothing. `signal` ends processes of the job's user that hold a mount, and never those of
//! root or of another user. `lazy` detaches the mounts; their devices stay in use, and so the mounts do not count as unmounted,
//! until the last holder has ended.

use std::{collections::BTreeMap, os::fd::OwnedFd, time::Duration};

use procfs::process::Process;
use proto::v1::OnTimeout;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::time::Instant;

use super::{Goal, Judged, Request, wait::Watching};

/// How long a requested pass may take, because another may run before it.
const PASS: Duration = Duration::from_secs(5);
/// From SIGTERM to SIGKILL, and from SIGKILL to the end of a process.
const SIGNAL: Duration = Duration::from_secs(5);

/// Does what is configured, and returns the judgement afterwards; `None` when nothing was done.
pub(super) async fn act(watching: &mut Watching<'_>) -> Option<Judged> {
    debug_assert_eq!(watching.ask.goal, Goal::Unmounted);
    let asked = match watching.ask.on_timeout {
        OnTimeout::Unspecified => watching.shared.on_timeout,
        asked => asked,
    };
    match asked {
        OnTimeout::Unspecified | OnTimeout::Report => return None,
        OnTimeout::Signal => {
            signal(watching, Signal::TERM).await?;
            if !is_settled(&watching.judge()) {
                signal(watching, Signal::KILL).await;
            }
        }
        OnTimeout::Lazy => {
            let uids = unmounting(watching);
            let end = Instant::now() + PASS;
            let request = Request::Detach { uids: uids.clone(), until: end.into_std() };
            passed(watching, request, &uids, end).await;
        }
    }
    Some(watching.judge())
}

fn is_settled(judged: &Judged) -> bool {
    matches!(judged, Judged::Done(_) | Judged::Over(..))
}

fn unmounting(watching: &mut Watching<'_>) -> Vec<String> {
    let state = watching.state();
    let seen = watching.shared.view.of_job(&watching.ask.job, state.as_ref());
    let is_open = |viewed: &crate::view::Viewed| {
        let goal =
            if viewed.gone { agent::desired::Goal::Unmounted } else { viewed.received.goal() };
        goal == agent::desired::Goal::Unmounted
            && viewed.outcome.as_ref().is_some_and(|outcome| !outcome.done())
    };
    seen.into_iter().filter(|(_, viewed)| is_open(viewed)).map(|(uid, _)| uid).collect()
}

/// Has the agent begin a pass on these objects, and waits for its end; false when that has not come by `end`.
async fn passed(
    watching: &mut Watching<'_>,
    request: Request,
    uids: &[String],
    end: Instant,
) -> bool {
    let passes = |watching: &Watching<'_>| -> BTreeMap<String, u64> {
        let view = &watching.shared.view;
        let seen = uids.iter().filter_map(|uid| Some((uid.clone(), view.get(uid)?.passes)));
        seen.collect()
    };
    let before = passes(watching);
    if watching.shared.requests.send(request).await.is_err() {
        return false;
    }
    loop {
        let now = passes(watching);
        if before.iter().all(|(uid, count)| now.get(uid).is_none_or(|now| now > count)) {
            return true;
        }
        if !watching.until(end).await {
            return false;
        }
    }
}

/// Processes that hold one of these objects' mounts, as the last pass saw them.
fn holders(watching: &Watching<'_>, uids: &[String]) -> Vec<i32> {
    let view = &watching.shared.view;
    let outcomes = uids.iter().filter_map(|uid| view.get(uid)?.outcome);
    outcomes.flat_map(|outcome| outcome.holders()).collect()
}

/// Sends a signal to the job's processes that hold its mounts, and waits for their end; `None` when there are none.
async fn signal(watching: &mut Watching<'_>, signal: Signal) -> Option<()> {
    let user = watching.state().filter(|state| state.user_id != 0)?.user_id;
    let uids = unmounting(watching);
    // A process that still holds a mount once its descriptor is open is the one that was opened, not a later one with its number.
    let held: Vec<_> =
        holders(watching, &uids).into_iter().filter_map(|pid| held(pid, user)).collect();
    let (look, end) = (Request::Look(uids.clone()), Instant::now() + PASS);
    if held.is_empty() || !passed(watching, look, &uids, end).await {
        return None;
    }
    let now = holders(watching, &uids);
    for (pid, process) in held.iter().filter(|(pid, _)| now.contains(pid)) {
        log::warn!(
            "unmount is out of time: {signal:?} to process {pid} of user {user}, which holds a mount"
        );
        if let Err(error) = pidfd_send_signal(process, signal) {
            log::warn!("{signal:?} to process {pid}: {error}");
        }
    }
    let end = Instant::now() + SIGNAL;
    while !is_settled(&watching.judge()) && watching.until(end).await {}
    Some(())
}

/// A process of this user, by a descriptor: its number may pass to another.
fn held(pid: i32, user: u32) -> Option<(i32, OwnedFd)> {
    let descriptor = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    // Read after it is held: what it says is about this process, or the process has ended and takes no signal.
    let status = Process::new(pid).ok()?.status().ok()?;
    let is_theirs = [status.ruid, status.euid, status.suid].iter().all(|uid| *uid == user);
    (is_theirs && user != 0).then_some((pid, descriptor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_signalled_only_if_it_is_the_jobs_users() {
        let own = i32::try_from(std::process::id()).unwrap();
        let user = nix::unistd::getuid().as_raw();
        assert_eq!(held(own, user).is_some(), user != 0, "never one of root");
        assert!(held(own, user + 1).is_none());
        assert!(held(1 << 23, user).is_none());
    }
}
