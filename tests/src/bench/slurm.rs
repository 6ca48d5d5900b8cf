//! Measures the time from sbatch to a job's first instruction under Slurm, with and without `#DW`, and Warren's
//! share of that time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};

use super::{Row, life, row::say};
use crate::{
    cluster::PATIENCE,
    program::until,
    slurm::{Scripts, Slurm},
    workflow::Flow,
};

const XFS: &str = "#DW jobdw type=xfs capacity=320MiB name=scratch";
/// Aim: Warren takes at most this number of milliseconds of a job's start.
const AIM: f64 = 500.0;
/// First command of the job; it prints the time in nanoseconds.
const NOW: &str = "date +%s%N";

/// Runs jobs one after another, each on an idle cluster of two computes.
///
/// # Errors
/// When Slurm does not start, or a job does not succeed.
pub fn starts(count: usize) -> anyhow::Result<Vec<Row>> {
    say(&format!(
        "{count} jobs in turn under Slurm, without #DW, with it, and with a burst buffer that does nothing"
    ));
    let ours = Slurm::start("")?;
    let (plain, _) = medians(&ours, count, "# none")?;
    ours.time_prologs()?;
    let (with, calls) = medians(&ours, count, XFS)?;
    ours.end()?;
    let slurm = Slurm::on(Flow::new(2, "unused")?, Scripts::Empty, "")?;
    let (empty, _) = medians(&slurm, count, XFS)?;
    slurm.end()?;
    Ok(vec![
        Row::ratio("sbatch to first instruction with #DW, median", with, "without", plain, "ms"),
        Row::ratio("the same with #DW, median", with, "doing nothing", empty, "ms"),
        Row::ratio("of it in our functions and prolog, median", calls, "aim", AIM, "ms"),
    ])
}

/// Returns two medians in milliseconds: the time from sbatch to the first instruction, and the part of that time that
/// Slurm spent in our functions and scripts.
fn medians(slurm: &Slurm, count: usize, directive: &str) -> anyhow::Result<(f64, f64)> {
    let (mut starts, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let before = slurm.spent_before_starts()?;
        starts.push(start(slurm, directive)?);
        calls.push((slurm.spent_before_starts()? - before).as_secs_f64() * 1e3);
    }
    Ok((life::median(&mut starts), life::median(&mut calls)))
}

/// Runs one job, and returns the milliseconds from sbatch to its first instruction.
fn start(slurm: &Slurm, directive: &str) -> anyhow::Result<f64> {
    let (begun, since) = (SystemTime::now(), Instant::now());
    let job = slurm.submit(&["--nodes=2"], &[directive, NOW])?;
    let first = until("the job to begin", PATIENCE, || {
        let output = slurm.output(job)?;
        ensure!(output.ends_with('\n'), "not yet after {:?}", since.elapsed());
        output.trim().parse::<u64>().with_context(|| format!("a time: {output}"))
    })?;
    slurm.nothing_is_left()?;
    let begun = begun.duration_since(UNIX_EPOCH).context("the clock")?;
    let begun = u64::try_from(begun.as_nanos()).context("the clock")?;
    #[expect(clippy::cast_precision_loss, reason = "a second has few enough nanoseconds")]
    Ok(first.saturating_sub(begun) as f64 / 1e6)
}
