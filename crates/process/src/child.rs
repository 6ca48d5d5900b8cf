//! System calls that may hang, made in a child process so that only the child hangs.
#![expect(unsafe_code, reason = "fork(2), close_range(2) and _exit(2) have no safe form")]

use std::{
    io::{self, Read},
    os::{
        fd::{AsFd, AsRawFd, RawFd},
        unix::process::CommandExt,
    },
    panic::{self, AssertUnwindSafe},
    process::Command,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl::set_pdeathsig,
        signal::{Signal, kill},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::{ForkResult, Pid, fork, getppid},
};
use parking_lot::Mutex;

use thiserror::Error;

use crate::{Unended, hung};

/// Children that neither answered in time nor died of SIGKILL. The agent reaps each of them once the
/// kernel lets it die.
static ABANDONED: Mutex<Vec<Abandoned>> = Mutex::new(Vec::new());

#[derive(Debug, Clone)]
struct Abandoned {
    pid: Pid,
    call: &'static str,
    target: String,
}

/// Why a system call in a child process did not succeed.
#[derive(Debug, Error)]
pub enum CallError {
    #[error(transparent)]
    Failed(#[from] io::Error),
    /// The call did not return in time. Contains the child process and the place in the kernel where it waits.
    #[error("the call did not return in time: {0}")]
    Hung(String),
}

/// Makes the kernel kill `command` when the agent dies, by PR_SET_PDEATHSIG(2const): otherwise a mkfs or a hook would
/// still run when the next agent runs it again.
///
/// The kernel sends the signal when the thread that started the program ends, so that thread waits for the
/// program. Children of the program do not inherit this setting: if a line has several commands, the command that
/// is running may continue.
pub(crate) fn kill_with_parent(command: &mut Command) -> &mut Command {
    let us = Pid::this();
    let bind = move || {
        set_pdeathsig(Signal::SIGKILL)?;
        if getppid() == us { Ok(()) } else { Err(Errno::EOWNERDEAD.into()) }
    };
    // SAFETY: two system calls and nothing else between fork(2) and execve(2).
    unsafe { command.pre_exec(bind) }
}

/// Runs `work` in a child process and waits at most `deadline`.
///
/// The child keeps only the descriptors in `keep`: any other inherited descriptor could keep another mount busy.
///
/// # Errors
/// `work`'s errno, or [`CallError::Hung`]. While the child of a hung call lives, a further call of the same kind on the
/// same target fails at once with the same error.
pub fn run(
    call: &'static str,
    target: &str,
    deadline: Duration,
    keep: &[RawFd],
    work: impl FnOnce() -> io::Result<()>,
) -> Result<(), CallError> {
    reap_abandoned();
    if let Some(pid) = abandoned(call, target) {
        return Err(CallError::Hung(hung::process(pid)));
    }
    let (mut answer, failure) = io::pipe()?;
    let mut keep = [keep, &[failure.as_raw_fd()]].concat();
    keep.sort_unstable();
    // SAFETY: the child allocates (glibc's fork(3) leaves malloc usable in it), makes system calls and exits; it takes
    // no lock that another thread of the parent may hold: no logging, no stdio, no environment.
    let pid = match unsafe { fork() }.map_err(io::Error::from)? {
        ForkResult::Child => {
            // The kernel always supports this request, so the call cannot fail; besides, the child could not report an
            // error.
            let _ = set_pdeathsig(Signal::SIGKILL);
            close_others(&keep);
            // A panic must not unwind here: the child is a copy of the parent and would run the parent's code.
            let result = panic::catch_unwind(AssertUnwindSafe(work))
                .unwrap_or_else(|_| Err(Errno::EIO.into()));
            let errno = result.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
            // If this write fails, the parent reads an end of file. The fork cannot have left std's pipe writer in an
            // inconsistent state, because the writer has no state.
            let _ = io::Write::write_all(&mut { failure }, &errno.to_ne_bytes());
            // SAFETY: ends the child without running the parent's destructors.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { child } => child,
    };
    drop(failure);
    if !readable(&answer, deadline) {
        return Err(abandon(pid, call, target));
    }
    let mut errno = [0; 4];
    let read = answer.read_exact(&mut errno);
    let _ = waitpid(pid, None);
    match (read, i32::from_ne_bytes(errno)) {
        (Ok(()), 0) => Ok(()),
        (Ok(()), errno) => Err(io::Error::from_raw_os_error(errno).into()),
        (Err(_), _) => {
            Err(io::Error::other("the child process that made the call was killed").into())
        }
    }
}

fn readable(answer: &io::PipeReader, deadline: Duration) -> bool {
    let until = Instant::now() + deadline;
    loop {
        let remaining = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(remaining.as_millis() + 1).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(answer.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(1..) => return true,
            Err(Errno::EINTR) => {}
            Ok(_) if Instant::now() < until => {}
            Ok(_) | Err(_) => return false,
        }
    }
}

fn close_others(keep: &[RawFd]) {
    let mut first: u32 = 0;
    for fd in keep.iter().map(|fd| fd.cast_unsigned()) {
        if first < fd {
            close_range(first, fd - 1);
        }
        first = fd + 1;
    }
    close_range(first, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    // SAFETY: the call only closes descriptors, and nothing in the child uses them. On a kernel without close_range(2)
    // (before Linux 5.9), the descriptors stay open until the child exits.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0u32) };
}

fn abandon(pid: Pid, call: &'static str, target: &str) -> CallError {
    let error = CallError::Hung(hung::process(pid));
    let _ = kill(pid, Signal::SIGKILL);
    ABANDONED.lock().push(Abandoned { pid, call, target: target.to_owned() });
    error
}

fn abandoned(call: &str, target: &str) -> Option<Pid> {
    ABANDONED
        .lock()
        .iter()
        .find(|child| child.call == call && child.target == target)
        .map(|child| child.pid)
}

/// Returns all children whose system call has not returned.
pub fn unreturned() -> Unended {
    unreturned_if(|_| true)
}

/// Returns the children whose system call on this target has not returned.
pub fn unreturned_on(target: &str) -> Unended {
    unreturned_if(|child| child.target == target)
}

fn unreturned_if(wanted: impl Fn(&Abandoned) -> bool) -> Unended {
    reap_abandoned();
    let found: Vec<_> = ABANDONED.lock().iter().filter(|child| wanted(child)).cloned().collect();
    let name = |Abandoned { pid, call, target }: &Abandoned| {
        format!("{call} {target}, which has not returned: {}", hung::process(*pid))
    };
    Unended {
        names: found.iter().map(name).collect(),
        processes: found.iter().map(|child| child.pid.as_raw()).collect(),
    }
}

fn reap_abandoned() {
    let lives = |pid| matches!(waitpid(pid, Some(WaitPidFlag::WNOHANG)), Ok(status) if status.pid().is_none());
    ABANDONED.lock().retain(|child| lives(child.pid));
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn run_returns_the_errno_of_the_child() {
        assert!(run("test", "nothing", LONG, &[], || Ok(())).is_ok());
        let error = run("test", "nothing", LONG, &[], || Err(Errno::EXDEV.into())).unwrap_err();
        let CallError::Failed(source) = error else { panic!("{error}") };
        assert_eq!(source.raw_os_error(), Some(libc::EXDEV));
    }

    #[test]
    fn the_error_of_a_hanging_child_names_its_process() {
        let pause = || {
            nix::unistd::pause();
            Ok(())
        };
        let error = run("test", "/mnt/x", Duration::from_secs(1), &[], pause).unwrap_err();
        assert!(matches!(error, CallError::Hung(_)), "{error}");
        let text = error.to_string();
        assert!(text.starts_with("the call did not return in time: process "), "{text}");
        assert!(text.contains("state S, in "), "{text}");
    }

    /// No test can make a child that outlives SIGKILL, so this test uses a child that was not killed yet.
    #[test]
    fn a_hanging_call_is_not_repeated_while_its_child_lives() {
        // SAFETY: the child only sleeps until it is killed.
        let pid = match unsafe { fork() }.unwrap() {
            ForkResult::Child => loop {
                nix::unistd::pause();
            },
            ForkResult::Parent { child } => child,
        };
        ABANDONED.lock().push(Abandoned { pid, call: "test", target: "/mnt/held".to_owned() });
        let again = || run("test", "/mnt/held", LONG, &[], || Ok(()));
        assert!(unreturned_on("/mnt/held").names[0].starts_with("test /mnt/held, which has not"));
        assert!(unreturned_on("/mnt/other").names.is_empty());
        for _ in 0..2 {
            let text = again().unwrap_err().to_string();
            assert!(text.contains(&format!("process {pid} (")), "{text}");
        }
        assert!(
            run("test", "/mnt/other", LONG, &[], || Ok(())).is_ok(),
            "a call on another target is not refused"
        );

        kill(pid, Signal::SIGKILL).unwrap();
        let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        // Another test may have reaped the child already.
        let _ = nix::sys::wait::waitid(nix::sys::wait::Id::Pid(pid), ended);
        again().unwrap();
    }

    #[test]
    fn run_fails_when_the_child_is_killed() {
        let die = || Ok(nix::sys::signal::raise(Signal::SIGKILL)?);
        let error = run("test", "x", LONG, &[], die).unwrap_err();
        assert!(matches!(error, CallError::Failed(_)), "{error}");
    }

    #[test]
    fn the_child_has_only_the_descriptors_it_is_given() {
        let kept = std::fs::File::open("/").unwrap();
        let other = std::fs::File::open("/").unwrap();
        let is_open = |fd: RawFd| std::path::Path::new(&format!("/proc/self/fd/{fd}")).exists();
        let (kept_fd, other_fd) = (kept.as_raw_fd(), other.as_raw_fd());
        let look = move || {
            if is_open(kept_fd) && !is_open(other_fd) { Ok(()) } else { Err(Errno::EBADF.into()) }
        };
        run("test", "x", LONG, &[kept_fd], look).unwrap();
    }
}
