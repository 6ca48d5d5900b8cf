//! Options about the job and the time.

use std::time::Duration;

use clap::Args;
use proto::v1::JobName;
use proto::v1::job_name::Name;

/// Which job.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub struct OneJob {
    /// The job as its workload manager calls it: a number, in Flux's base 58 too, or its Workflow's name
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// The job's Workflow
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    workflow: Option<String>,
}

/// Which job, or all.
#[derive(Debug, Clone, Args)]
#[group(multiple = false)]
pub struct AnyJob {
    /// Only of this job: a number, in Flux's base 58 too, or its Workflow's name
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// Only of this Workflow
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    workflow: Option<String>,
}

/// How long a verb may wait.
pub(super) fn duration(text: &str) -> Result<Duration, &'static str> {
    const LONGEST: Duration = Duration::from_secs(7 * 86_400);
    seconds_or_units(text, LONGEST).ok_or("use seconds, or a time like 90s or 5m, up to 7 days")
}

/// A number of seconds or a time with units, up to `longest`.
#[must_use]
pub fn seconds_or_units(text: &str, longest: Duration) -> Option<Duration> {
    let seconds = text.parse().map(Duration::from_secs).ok();
    let time = seconds.or_else(|| humantime::parse_duration(text).ok())?;
    (time <= longest).then_some(time)
}

fn named(job: Option<String>, workflow: Option<String>) -> Option<JobName> {
    let name = job.map(Name::Job).or_else(|| workflow.map(Name::Workflow))?;
    Some(JobName { name: Some(name) })
}

impl From<OneJob> for JobName {
    fn from(job: OneJob) -> Self {
        named(job.job, job.workflow).unwrap_or_default()
    }
}

impl From<AnyJob> for Option<JobName> {
    fn from(job: AnyJob) -> Self {
        named(job.job, job.workflow)
    }
}
