//! Flags that name a job, and time-outs.

use std::time::Duration;

use clap::Args;
use proto::v1::JobName;
use proto::v1::job_name::Name;

/// Flags that name one job.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub struct OneJob {
    /// Job ID of the workload manager: a number, also in Flux's base 58, or the name of the job's Workflow
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// Name of the job's Workflow
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    workflow: Option<String>,
}

/// Flags that name one job, or none for all.
#[derive(Debug, Clone, Args)]
#[group(multiple = false)]
pub struct AnyJob {
    /// Only for this job: a number, also in Flux's base 58, or the name of the job's Workflow
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// Only for the job of this Workflow
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    workflow: Option<String>,
}

/// Parses the longest time that a verb may wait.
pub(super) fn duration(text: &str) -> Result<Duration, &'static str> {
    const LONGEST: Duration = Duration::from_secs(7 * 86_400);
    seconds_or_units(text, LONGEST).ok_or("use seconds, or a time like 90s or 5m, up to 7 days")
}

/// Parses a number of seconds or a time with units, up to `longest`.
#[must_use]
pub fn seconds_or_units(text: &str, longest: Duration) -> Option<Duration> {
    let seconds = text.parse().map(Duration::from_secs).ok();
    let time = seconds.or_else(|| humantime::parse_duration(text).ok())?;
    (time <= longest).then_some(time)
}

fn job_name(job: Option<String>, workflow: Option<String>) -> Option<JobName> {
    let name = job.map(Name::Job).or_else(|| workflow.map(Name::Workflow))?;
    Some(JobName { name: Some(name) })
}

impl From<OneJob> for JobName {
    fn from(job: OneJob) -> Self {
        job_name(job.job, job.workflow).unwrap_or_default()
    }
}

impl From<AnyJob> for Option<JobName> {
    fn from(job: AnyJob) -> Self {
        job_name(job.job, job.workflow)
    }
}
