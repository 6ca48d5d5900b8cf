//! The agent's hello, its first message to the coordinator. If two agents connect for one node, the coordinator learns
//! from their hellos which agent is newer.

use std::{fs, io};

use nix::time::{ClockId, clock_gettime};
use proto::v1::{Hello, Role};
use storage::desired::NodeName;
use thiserror::Error;

/// The reason why the agent cannot find out when the kernel booted.
#[derive(Debug, Error)]
pub enum HelloError {
    #[error("read {path}")]
    Read {
        path: &'static str,
        #[source]
        source: io::Error,
    },
    /// `/proc/stat` has no line `btime` (proc_stat(5)).
    #[error("/proc/stat has no btime")]
    NoBootTime,
    #[error("read CLOCK_BOOTTIME")]
    Clock(#[source] nix::Error),
}

/// Seconds without another message after which the agent of a rabbit says that it is alive. A compute's agent never says
/// so, because its job would notice the wakeups.
const ALIVE_EVERY: u32 = 20;

/// Creates the hello of this agent. Of two agents of one node, the coordinator serves the agent of the later boot, and
/// within one boot the agent that started later.
pub fn hello(node: &NodeName, role: Role, resident: bool) -> Result<Hello, HelloError> {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map_err(HelloError::Clock)?;
    let seconds = u64::try_from(now.tv_sec()).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec()).unwrap_or(0);
    Ok(Hello {
        node: node.to_string(),
        role: role.into(),
        boot_id: read("/proc/sys/kernel/random/boot_id")?.trim().to_owned(),
        booted_at: boot_time(&read("/proc/stat")?).ok_or(HelloError::NoBootTime)?,
        started_at: seconds * 1_000_000_000 + nanoseconds,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        alive_every: if role == Role::Rabbit { ALIVE_EVERY } else { 0 },
        resident,
    })
}

/// Returns the hello with the boot time as the kernel computes it now: the kernel's boot time changes when the clock is
/// set.
pub(crate) fn refresh(hello: &Hello) -> Hello {
    let now = read("/proc/stat").ok().and_then(|stat| boot_time(&stat));
    Hello { booted_at: now.unwrap_or(hello.booted_at), ..hello.clone() }
}

fn read(path: &'static str) -> Result<String, HelloError> {
    fs::read_to_string(path).map_err(|source| HelloError::Read { path, source })
}

fn boot_time(stat: &str) -> Option<u64> {
    stat.lines()
        .find_map(|line| line.strip_prefix("btime "))
        .and_then(|seconds| seconds.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_time_is_found_among_the_other_lines_of_proc_stat() {
        assert_eq!(
            boot_time("cpu  1 2 3\nctxt 7\nbtime 1763640000\nprocesses 9\n"),
            Some(1_763_640_000)
        );
        assert_eq!(boot_time("cpu  1 2 3\n"), None);
    }

    /// The start time must stay the same: if it changed with each connection, the agent that connected last would
    /// always count as newer, and two agents of one node would replace each other for ever.
    #[test]
    fn refresh_updates_the_boot_time_and_keeps_the_start_time() {
        let original = hello(&"compute-01".parse().unwrap(), Role::Compute, true).unwrap();
        let before = Hello { booted_at: 7, started_at: 7, ..original.clone() };
        let after = refresh(&before);
        assert!(after.booted_at.abs_diff(original.booted_at) <= 1, "{after:?}");
        assert_eq!(Hello { booted_at: 7, ..after }, before);
    }

    #[test]
    fn of_two_hellos_of_one_boot_the_later_one_has_the_later_start_time() {
        let node = "compute-01".parse().unwrap();
        let (first, second) = (
            hello(&node, Role::Compute, true).unwrap(),
            hello(&node, Role::Compute, true).unwrap(),
        );
        assert!(second.started_at > first.started_at);
        assert_eq!((first.boot_id.len(), &first.boot_id), (36, &second.boot_id));
        assert!(first.booted_at > 0);
    }
}
