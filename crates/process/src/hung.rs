//! Describes a hanging call or command: its processes, their kernel stacks, and the locks that this node requested and
//! was not granted. This module changes nothing; each failed read is part of the description.

mod locks;
pub mod work;

pub use locks::lock_spaces;

use std::{fs, io, sync::LazyLock, time::Duration};

use nix::unistd::Pid;
use procfs::process::{Process, all_processes};

use crate::bounded::BoundedCalls;

/// Maximum number of processes that a message names; the message only counts further processes.
const NAMED: usize = 8;
/// Maximum number of frames of a kernel stack in a message, the innermost first.
const FRAMES: usize = 6;
/// Deadline of a read of the lock manager's tables: the lock manager takes locks of its own for the read, so the
/// read may hang too.
const PATIENCE: Duration = Duration::from_secs(2);

static CALLS: LazyLock<BoundedCalls> = LazyLock::new(|| BoundedCalls::at_locks(PATIENCE));

/// Describes what the processes of a process group (setpgid(2)) wait for.
pub fn group(group: Pid) -> String {
    let mut texts = match all_processes() {
        Ok(all) => {
            let members = all.flatten().filter(|process| is_member(process, group));
            shorten(members.map(|process| describe(&process)).collect())
        }
        Err(error) => vec![format!("the processes of group {group} cannot be listed: {error}")],
    };
    texts.extend(locks());
    texts.join("; ")
}

/// One process. Its start time distinguishes it from a later process with the same PID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) pid: Pid,
    /// Start time in clock ticks since boot (proc_pid_stat(5), `starttime`).
    pub(crate) began: u64,
}

impl Life {
    /// Returns whether the process is still alive.
    pub(crate) fn is_alive(&self) -> bool {
        let stat = Process::new(self.pid.as_raw()).and_then(|process| process.stat());
        stat.is_ok_and(|stat| stat.starttime == self.began && stat.state != 'Z')
    }
}

/// Returns the processes of a process group that have not ended.
pub(crate) fn members(group: Pid) -> Vec<Life> {
    let all = all_processes().into_iter().flatten().flatten();
    let life = |process: Process| {
        let began = process.stat().ok()?.starttime;
        Some(Life { pid: Pid::from_raw(process.pid), began })
    };
    all.filter(|process| is_member(process, group)).filter_map(life).collect()
}

/// Describes what a process waits for.
pub fn process(pid: Pid) -> String {
    let mut texts = vec![match Process::new(pid.as_raw()) {
        Ok(process) => describe(&process),
        Err(error) => format!("process {pid} cannot be inspected: {error}"),
    }];
    texts.extend(locks());
    texts.join("; ")
}

/// Describes where in the kernel a thread of this process waits.
pub fn thread(id: Pid) -> String {
    let read = |file| fs::read_to_string(format!("/proc/self/task/{id}/{file}"));
    format!("thread {id}{}", place(read("stack"), read("wchan")))
}

fn is_member(process: &Process, group: Pid) -> bool {
    process.stat().is_ok_and(|stat| stat.pgrp == group.as_raw() && stat.state != 'Z')
}

fn shorten(mut names: Vec<String>) -> Vec<String> {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    names.extend((more > 0).then(|| format!("and {more} more processes")));
    names
}

/// Describes a process, its state (proc_pid_stat(5)), and where in the kernel it waits.
fn describe(process: &Process) -> String {
    let pid = process.pid;
    let Ok(stat) = process.stat() else { return format!("process {pid} has just ended") };
    let place = place(
        fs::read_to_string(format!("/proc/{pid}/stack")),
        fs::read_to_string(format!("/proc/{pid}/wchan")),
    );
    format!("process {pid} ({}, state {}{place})", stat.comm, stat.state)
}

/// Formats the place in the kernel: the stack from proc_pid_stack(5), which only root may read; if that read failed,
/// the function from proc_pid_wchan(5), which is `0` for a process that does not wait.
fn place(stack: io::Result<String>, wchan: io::Result<String>) -> String {
    let unreadable = match stack {
        Ok(stack) => match frames(&stack) {
            stands if stands.is_empty() => String::new(),
            stands => return stands,
        },
        Err(error) => format!(", stack unreadable: {error}"),
    };
    match wchan {
        Ok(symbol) if matches!(symbol.trim(), "" | "0") => unreadable,
        Ok(symbol) => format!(", in {}{unreadable}", symbol.trim()),
        Err(error) => format!("{unreadable}, wchan unreadable: {error}"),
    }
}

/// Formats the innermost functions of a kernel stack.
fn frames(text: &str) -> String {
    let frames: Vec<_> =
        text.lines().take(FRAMES).filter_map(|line| line.split_whitespace().nth(1)).collect();
    if frames.is_empty() { String::new() } else { format!(", in {}", frames.join(" < ")) }
}

/// Describes the locks that this node requested and was not granted.
pub fn locks() -> Vec<String> {
    let lines = CALLS.run("locks", locks::ungranted);
    lines.unwrap_or_else(|error| vec![format!("DLM's locks cannot be read: {error}")])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stack in the kernel's format: the process mounts a GFS2 and waits for the lock of its journal.
    const STACK: &str = "[<0>] gfs2_glock_wait+0x3f/0x80 [gfs2]\n[<0>] gfs2_glock_nq+0x1f3/0x2e0 [gfs2]\n\
        [<0>] gfs2_glock_nq_num+0x7c/0xb0 [gfs2]\n";

    fn text(text: &str) -> io::Result<String> {
        Ok(text.to_owned())
    }

    #[test]
    fn a_stack_is_shown_from_the_innermost_function() {
        let texts = place(text(STACK), text("gfs2_glock_wait"));
        assert!(texts.starts_with(", in gfs2_glock_wait+0x3f/0x80 < gfs2_glock_nq+"), "{texts}");
    }

    #[test]
    fn failed_reads_are_part_of_the_description() {
        let denied = || Err(io::ErrorKind::PermissionDenied.into());
        assert_eq!(
            place(denied(), text("do_wait")),
            ", in do_wait, stack unreadable: permission denied"
        );
        let texts = place(denied(), denied());
        assert_eq!(texts.matches("unreadable: permission denied").count(), 2, "{texts}");
        assert_eq!(place(text(""), text("0")), "", "the process runs in user space");
    }

    #[test]
    fn processes_beyond_the_limit_are_counted() {
        let texts = shorten((0..11).map(|pid| format!("process {pid}")).collect());
        assert_eq!((texts.len(), texts[8].as_str()), (NAMED + 1, "and 3 more processes"));
    }

    #[test]
    fn a_process_that_is_gone_cannot_be_inspected() {
        // The kernel's greatest PID (PID_MAX_LIMIT) is 2^22.
        let texts = process(Pid::from_raw(1 << 23));
        assert!(texts.starts_with("process 8388608 cannot be inspected"), "{texts}");
    }
}
