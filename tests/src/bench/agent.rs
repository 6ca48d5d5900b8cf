//! The compute agent at rest: memory and wake-ups, from proc(5).

use std::{fs, time::Duration};

use anyhow::Context;

use super::Row;

/// Median of the resident set of the sites' idle Go agent, in MB. `docs/develop/performance.md` says how it was
/// measured.
const GO_RESIDENT: f64 = 38.5;
/// Context switches per minute of the idle Go agent.
const GO_SWITCHES: f64 = 730.0;

/// Wait before a measurement; an idle worker thread ends sooner.
const SETTLE: Duration = Duration::from_secs(15);

/// Measures the resident set and the context switches per minute of an agent that receives no requests.
///
/// # Errors
/// When /proc/PID cannot be read.
pub async fn at_rest(pid: u32, rest: Duration) -> anyhow::Result<Vec<Row>> {
    // The agent is at rest only after its worker threads have ended, which they do when they have idled for ten
    // seconds.
    tokio::time::sleep(SETTLE).await;
    let before = switches(pid)?;
    tokio::time::sleep(rest).await;
    let a_minute = (switches(pid)? - before) * 60.0 / rest.as_secs_f64();
    Ok(vec![
        Row::ratio("resident set at rest", resident(pid)?, "Go agent", GO_RESIDENT, "MB"),
        Row::ratio("context switches at rest", a_minute, "Go agent", GO_SWITCHES, "/min"),
    ])
}

pub(super) fn resident(pid: u32) -> anyhow::Result<f64> {
    let status =
        fs::read_to_string(format!("/proc/{pid}/status")).context("read the agent's status")?;
    Ok(field(&status, "VmRSS:").context("VmRSS")? / 1000.0)
}

pub(super) fn switches(pid: u32) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).context("list the agent's threads")? {
        let status =
            fs::read_to_string(thread.context("list the agent's threads")?.path().join("status"))?;
        sum += field(&status, "voluntary_ctxt_switches:").unwrap_or(0.0);
        sum += field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0.0);
    }
    Ok(sum)
}

fn field(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
