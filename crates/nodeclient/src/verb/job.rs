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

const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// A number of seconds, or a time with units.
pub(super) fn duration(text: &str) -> Result<Duration, &'static str> {
    const USE: &str = "use seconds, or a time like 90s or 5m, up to 7 days";
    let time = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => humantime::parse_duration(text).map_err(|_| USE)?,
    };
    if time > LONGEST { Err(USE) } else { Ok(time) }
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
