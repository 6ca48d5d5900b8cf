//! Numbers of a process's events: context switches and page faults, from proc(5), and system calls, from a tracepoint
//! that perf counts inside the kernel, without stopping the process.

use std::{
    fs,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context;

use super::super::{
    agent::switches,
    row::{Row, say},
};
use crate::program::command;

/// Script that runs perf, and first mounts tracefs, visible to perf alone, unless tracefs is mounted already.
const PERF: &str = "mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null; \
    exec perf stat -x, -e raw_syscalls:sys_enter -p \"$1\" -- sleep \"$2\"";

/// Numbers of events per minute in one mode.
#[derive(Debug, Default)]
pub struct Counted {
    processes: f64,
    switches: f64,
    faults: f64,
    /// System calls; `None` where perf cannot count them.
    calls: Option<f64>,
}

impl Counted {
    /// Returns rows of the table that compare these counts with the counts in another mode.
    pub fn compare(&self, other: &Self, ours: &str, others: &str) -> Vec<Row> {
        let row = |what: &str, ours_count, other_count, unit| {
            Row::ratio(&format!("{what}, {ours}"), ours_count, others, other_count, unit)
        };
        let mut rows = vec![
            row("processes", self.processes, other.processes, ""),
            row("context switches", self.switches, other.switches, "/min"),
            row("page faults", self.faults, other.faults, "/min"),
        ];
        if let (Some(calls), Some(others)) = (self.calls, other.calls) {
            rows.push(row("system calls", calls, others, "/min"));
        }
        rows
    }
}

/// A count that is running.
#[derive(Debug)]
pub struct Counting {
    pid: Option<u32>,
    begun: Instant,
    switches: f64,
    faults: f64,
    perf: Option<Child>,
}

impl Counting {
    /// Starts counting for a process, if there is one.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn start(pid: Option<u32>, length: Duration) -> anyhow::Result<Self> {
        let (switches, faults) = pid.map_or(Ok((0.0, 0.0)), counts)?;
        let perf = pid.and_then(|pid| perf(pid, length));
        Ok(Self { pid, begun: Instant::now(), switches, faults, perf })
    }

    /// Ends the count, and returns the counts per minute.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn finish(self) -> anyhow::Result<Counted> {
        let Some(pid) = self.pid else {
            return Ok(Counted { calls: Some(0.0), ..Counted::default() });
        };
        let minutes = self.begun.elapsed().as_secs_f64() / 60.0;
        let (switches, faults) = counts(pid)?;
        let calls = self.perf.and_then(read_count);
        if calls.is_none() {
            say(
                "system calls are not counted: it takes root, perf, and a kernel with CONFIG_FTRACE_SYSCALLS",
            );
        }
        Ok(Counted {
            processes: 1.0,
            switches: (switches - self.switches) / minutes,
            faults: (faults - self.faults) / minutes,
            calls: calls.map(|calls| calls / minutes),
        })
    }
}

fn counts(pid: u32) -> anyhow::Result<(f64, f64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("read a process's stat")?;
    Ok((switches(pid)?, faults(&stat).context("no page faults in a process's stat")?))
}

/// Returns the sum of minor and major page faults, fields 10 and 12. Field 2 is a name in parentheses,
/// which may contain blanks.
fn faults(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let count = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
    Some(count(10)? + count(12)?)
}

fn perf(pid: u32, length: Duration) -> Option<Child> {
    let mut perf = command("unshare");
    perf.args(["--mount", "sh", "-c", PERF, "sh", &pid.to_string(), &length.as_secs().to_string()]);
    perf.env("LC_ALL", "C").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().ok()
}

/// Reads perf's count. If the process never ran, perf prints `<not counted>`, which means no system calls.
fn read_count(perf: Child) -> Option<f64> {
    let output = perf.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("raw_syscalls:sys_enter"))?;
    match line.split(',').next()? {
        "<not counted>" => Some(0.0),
        count => count.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_faults_are_parsed_if_the_process_name_has_blanks_and_parentheses() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 120 0 3 0 1 2";
        assert_eq!(faults(stat), Some(123.0));
        assert_eq!(faults("7 (a"), None);
    }
}
