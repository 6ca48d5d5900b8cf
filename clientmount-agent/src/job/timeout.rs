//! Handles mounts that are still in use at the deadline of an `unmount`.
//!
//! `report` only names the holders: the processes that keep a mount in use. `signal` ends holders of the job's user,
//! and never holders of root or of another user. `lazy` detaches the mounts; their devices stay in use, and so the
//! mounts do not count as unmounted, until the last holder has ended.

use std::{collections::BTreeMap, os::fd::OwnedFd, time::Duration};

use procfs::process::Process;
use proto::v1::OnTimeout;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::time::Instant;

use super::{Goal, Judgement, Request, wait::Waiter};

/// How long the agent waits for the end of a requested pass, which begins only after a running pass has ended.
const PASS_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the agent waits after SIGTERM before it sends SIGKILL, and after SIGKILL for the end of the processes.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Carries out the configured action on mounts that are in use at the deadline, and returns the judgement after the
/// action. Returns `None` if no action was carried out.
pub(super) async fn apply_on_timeout(waiter: &mut Waiter<'_>) -> Option<Judgement> {
    debug_assert_eq!(waiter.call.goal, Goal::Unmounted);
    let on_timeout = match waiter.call.on_timeout {
        OnTimeout::Unspecified => waiter.shared.on_timeout,
        on_timeout => on_timeout,
    };
    match on_timeout {
        OnTimeout::Unspecified | OnTimeout::Report => return None,
        OnTimeout::Signal => {
            signal(waiter, Signal::TERM).await?;
            if !is_settled(&waiter.judge()) {
                signal(waiter, Signal::KILL).await;
            }
        }
        OnTimeout::Lazy => {
            let uids = objects_to_unmount(waiter);
            let end = Instant::now() + PASS_TIMEOUT;
            let request = Request::Detach { uids: uids.clone(), until: end.into_std() };
            run_pass(waiter, request, &uids, end).await;
        }
    }
    Some(waiter.judge())
}

fn is_settled(judgement: &Judgement) -> bool {
    matches!(judgement, Judgement::Done(_) | Judgement::Impossible(..))
}

/// Returns the uids of the job's objects that are to be unmounted but are not unmounted yet.
fn objects_to_unmount(waiter: &mut Waiter<'_>) -> Vec<String> {
    let state = waiter.state();
    let viewed = waiter.shared.view.objects_of_job(&waiter.call.job, state.as_ref());
    let is_open = |viewed: &crate::view::Viewed| {
        let goal =
            if viewed.gone { agent::desired::Goal::Unmounted } else { viewed.received.goal() };
        goal == agent::desired::Goal::Unmounted
            && viewed.outcome.as_ref().is_some_and(|outcome| !outcome.is_done())
    };
    viewed.into_iter().filter(|(_, viewed)| is_open(viewed)).map(|(uid, _)| uid).collect()
}

/// Requests a pass on these objects and waits for its end; returns `false` when it has not ended by `end`.
async fn run_pass(
    waiter: &mut Waiter<'_>,
    request: Request,
    uids: &[String],
    end: Instant,
) -> bool {
    let passes = |waiter: &Waiter<'_>| -> BTreeMap<String, u64> {
        let view = &waiter.shared.view;
        let counts = uids.iter().filter_map(|uid| Some((uid.clone(), view.get(uid)?.passes)));
        counts.collect()
    };
    let before = passes(waiter);
    if waiter.shared.requests.send(request).await.is_err() {
        return false;
    }
    loop {
        let now = passes(waiter);
        if before.iter().all(|(uid, count)| now.get(uid).is_none_or(|now| now > count)) {
            return true;
        }
        if !waiter.until(end).await {
            return false;
        }
    }
}

/// Returns the processes that keep a mount of these objects in use, as the last pass observed them.
fn holders(waiter: &Waiter<'_>, uids: &[String]) -> Vec<i32> {
    let view = &waiter.shared.view;
    let outcomes = uids.iter().filter_map(|uid| view.get(uid)?.outcome);
    outcomes.flat_map(|outcome| outcome.holders()).collect()
}

/// Sends a signal to the processes of the job's user that keep the job's mounts in use, and waits at most
/// [`SIGNAL_TIMEOUT`] until the mounts are unmounted. Returns `None` if there are no such processes.
async fn signal(waiter: &mut Waiter<'_>, signal: Signal) -> Option<()> {
    let user = waiter.state().filter(|state| state.user_id != 0)?.user_id;
    let uids = objects_to_unmount(waiter);
    // The agent first opens a descriptor of each holder, and then observes again which processes hold the mounts. If a
    // process id is among the holders both times, the descriptor belongs to this holder, and not to a later process
    // that got the same id.
    let opened: Vec<_> =
        holders(waiter, &uids).into_iter().filter_map(|pid| open_process(pid, user)).collect();
    let (request, end) = (Request::StartPass(uids.clone()), Instant::now() + PASS_TIMEOUT);
    if opened.is_empty() || !run_pass(waiter, request, &uids, end).await {
        return None;
    }
    let now = holders(waiter, &uids);
    for (pid, process) in opened.iter().filter(|(pid, _)| now.contains(pid)) {
        log::warn!(
            "the deadline of an unmount has passed: the agent sends {signal:?} to process {pid} of user {user}, which keeps a mount in use"
        );
        if let Err(error) = pidfd_send_signal(process, signal) {
            log::warn!("send {signal:?} to process {pid}: {error}");
        }
    }
    let end = Instant::now() + SIGNAL_TIMEOUT;
    while !is_settled(&waiter.judge()) && waiter.until(end).await {}
    Some(())
}

/// Opens a process of this user. The descriptor keeps referring to this process, even if another process gets its id.
fn open_process(pid: i32, user: u32) -> Option<(i32, OwnedFd)> {
    let descriptor = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    // Reads the status after the descriptor was opened: either the status belongs to the opened process, or the opened
    // process has ended, and then the signal reaches no process.
    let status = Process::new(pid).ok()?.status().ok()?;
    let is_users = [status.ruid, status.euid, status.suid].iter().all(|uid| *uid == user);
    (is_users && user != 0).then_some((pid, descriptor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_of_the_jobs_user_and_never_one_of_root_is_opened_for_a_signal() {
        let own = i32::try_from(std::process::id()).unwrap();
        let user = nix::unistd::getuid().as_raw();
        assert_eq!(open_process(own, user).is_some(), user != 0, "never a process of root");
        assert!(open_process(own, user + 1).is_none());
        assert!(open_process(1 << 23, user).is_none());
    }
}
