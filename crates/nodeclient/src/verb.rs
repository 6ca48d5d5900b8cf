//! The verbs, their options, and what each asks of the agent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use jobs::shown;
use proto::v1::job_name::Name;
use proto::v1::job_news::News;
use proto::v1::node_client::NodeClient;
use proto::v1::{
    self, Goal, JobName, JobNews, JobOutcome, MountRequest, ObjectPlan, PlanRequest, StatusRequest,
    UnmountRequest, WaitRequest,
};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::transport::Channel;
use tonic::{Code, Response, Status as Answer, Streaming};

use crate::connect::channel_over_unix;
use crate::env_file::{self, Owner};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::result;

/// Where a compute's agent listens.
pub const SOCKET: &str = "/run/warren/clientmount-agent.sock";
const REMEDY: &str = "is the agent of this node installed? Start it with `systemctl start warren-clientmount-agent.socket` or warren-clientmount-agent.service, or name its socket with --listen";
/// How long an agent may be away: one that ends because it was idle, or is replaced by an upgrade, is back soon.
const AWAY: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);
/// What an agent may need beyond the deadline, to signal or to detach.
const MARGIN: Duration = Duration::from_secs(40);
/// For an answer that needs no waiting.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is asked of this node's agent.
#[derive(Debug, Clone, Subcommand)]
pub enum Verb {
    /// Wait until everything is mounted that a job is to have on this node
    Mount(Mount),
    /// Wait until a job's mounts are unmounted on this node, and name what keeps them in use
    Unmount(Unmount),
    /// Wait until a job's mounts are mounted or unmounted on this node
    Wait(Wait),
    /// Show this node's mounts, or those of a job
    Status(Status),
    /// Show the steps that the agent would take for its ClientMounts, or those of a job; changes nothing
    Plan(Plan),
}

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

/// What every verb takes.
#[derive(Debug, Clone, Args)]
struct Common {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// The agent's socket
    #[arg(long, visible_alias = "agent", env = "WARREN_LISTEN", value_name = "SOCKET")]
    listen: Option<PathBuf>,
}

/// See [`Verb::Mount`].
#[derive(Debug, Clone, Args)]
pub struct Mount {
    #[command(flatten)]
    job: OneJob,
    /// Give up after this long: seconds, or a time like 5m
    #[arg(long, value_name = "DURATION", default_value = "300s", value_parser = duration)]
    deadline: Duration,
    /// Write the job's environment here, for a shell to source: lines KEY='value', mode 0600, owned by the job's user
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// See [`Verb::Unmount`].
#[derive(Debug, Clone, Args)]
pub struct Unmount {
    #[command(flatten)]
    job: OneJob,
    /// Give up after this long: seconds, or a time like 5m
    #[arg(long, value_name = "DURATION", default_value = "300s", value_parser = duration)]
    deadline: Duration,
    /// What then becomes of a mount that is in use [default: the agent's --on-timeout]
    #[arg(long, value_enum, value_name = "WHAT")]
    on_timeout: Option<OnTimeout>,
    #[command(flatten)]
    common: Common,
}

/// What becomes of a mount that is still in use when an unmount is out of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnTimeout {
    /// It stays, and its holders are named
    Report,
    /// Processes of the job's user that hold it get SIGTERM, and SIGKILL after 5 s; nobody else's
    Signal,
    /// It is detached (umount --lazy), and counts as unmounted once its device is free
    Lazy,
}

impl From<OnTimeout> for v1::OnTimeout {
    fn from(on_timeout: OnTimeout) -> Self {
        match on_timeout {
            OnTimeout::Report => Self::Report,
            OnTimeout::Signal => Self::Signal,
            OnTimeout::Lazy => Self::Lazy,
        }
    }
}

/// Where the mounts are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Condition {
    Mounted,
    Unmounted,
}

/// See [`Verb::Wait`].
#[derive(Debug, Clone, Args)]
pub struct Wait {
    #[command(flatten)]
    job: OneJob,
    #[arg(long = "for", value_enum, value_name = "CONDITION")]
    condition: Condition,
    /// Give up after this long: seconds, or a time like 5m
    #[arg(long, value_name = "DURATION", default_value = "300s", value_parser = duration)]
    deadline: Duration,
    #[command(flatten)]
    common: Common,
}

/// See [`Verb::Status`].
#[derive(Debug, Clone, Args)]
pub struct Status {
    #[command(flatten)]
    job: AnyJob,
    #[command(flatten)]
    common: Common,
}

/// See [`Verb::Plan`].
#[derive(Debug, Clone, Args)]
pub struct Plan {
    #[command(flatten)]
    job: AnyJob,
    #[command(flatten)]
    common: Common,
}

const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// A number of seconds, or a time with units.
fn duration(text: &str) -> Result<Duration, &'static str> {
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

impl Verb {
    fn common(&self) -> &Common {
        match self {
            Self::Mount(Mount { common, .. })
            | Self::Unmount(Unmount { common, .. })
            | Self::Wait(Wait { common, .. })
            | Self::Status(Status { common, .. })
            | Self::Plan(Plan { common, .. }) => common,
        }
    }

    /// Whether JSON is wanted.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.common().json
    }

    /// Asks the agent, by default at `socket`, and prints what it says.
    ///
    /// # Errors
    /// When the agent cannot be reached or did not bring about what is asked.
    pub async fn run(self, socket: &Path, output: Output) -> Result<Exit, Failure> {
        let socket = self.common().listen.clone().unwrap_or_else(|| socket.to_owned());
        match self {
            Self::Mount(mount) => mount.run(&socket, output).await,
            Self::Unmount(unmount) => unmount.run(&socket, output).await,
            Self::Wait(wait) => wait.run(&socket, output).await,
            Self::Status(status) => status.run(&socket, output).await,
            Self::Plan(plan) => plan.run(&socket, output).await,
        }
    }
}

impl Mount {
    async fn run(self, socket: &Path, output: Output) -> Result<Exit, Failure> {
        let (job, with_env) = (JobName::from(self.job), self.env_file.is_some());
        let outcome = until(socket, self.deadline, output, async |mut agent, left| {
            let request = MountRequest { job: Some(job.clone()), deadline_ms: left, with_env };
            agent.mount(request).await
        })
        .await?;
        if let (Some(path), Exit::Done) = (&self.env_file, Exit::from(outcome.verdict())) {
            write_env(path, &outcome, output)?;
        }
        result::print(output, &outcome, &format!("{}: mounted", shown(&job)))
    }
}

/// Of a job without a Workflow the file is empty: what an earlier job left must not pass for this one's.
fn write_env(path: &Path, outcome: &JobOutcome, output: Output) -> Result<(), Failure> {
    let job = outcome.job.clone().unwrap_or_default();
    let owner =
        (!job.workflow.is_empty()).then_some(Owner { user: job.user_id, group: job.group_id });
    let left_out = env_file::write(path, &job.env.into_iter().collect(), owner).map_err(|error| {
        Failure::new(Exit::Failed, format!("write the environment to {}", path.display()))
            .because(&error)
            .remedy("everything is mounted: make room there or name another --env-file, and call it again")
    })?;
    for name in left_out {
        output.note(&format!("left out of the environment: {name:?} is no name of a variable"));
    }
    Ok(())
}

impl Unmount {
    async fn run(self, socket: &Path, output: Output) -> Result<Exit, Failure> {
        let job = JobName::from(self.job);
        let asked = self.on_timeout.map_or(v1::OnTimeout::Unspecified, Into::into);
        let outcome = until(socket, self.deadline, output, async |mut agent, left| {
            let on_timeout = asked.into();
            let request = UnmountRequest { job: Some(job.clone()), deadline_ms: left, on_timeout };
            agent.unmount(request).await
        })
        .await?;
        result::print(output, &outcome, &format!("{}: unmounted", shown(&job)))
    }
}

impl Wait {
    async fn run(self, socket: &Path, output: Output) -> Result<Exit, Failure> {
        let job = JobName::from(self.job);
        let (goal, word) = match self.condition {
            Condition::Mounted => (Goal::Mounted, "mounted"),
            Condition::Unmounted => (Goal::Unmounted, "unmounted"),
        };
        let outcome = until(socket, self.deadline, output, async |mut agent, left| {
            let goal = goal.into();
            agent.wait(WaitRequest { job: Some(job.clone()), deadline_ms: left, goal }).await
        })
        .await?;
        result::print(output, &outcome, &format!("{}: {word}", shown(&job)))
    }
}

impl Status {
    async fn run(self, socket: &Path, output: Output) -> Result<Exit, Failure> {
        let job = Option::<JobName>::from(self.job);
        let asked = StatusRequest { job: job.clone() };
        let status = ask(socket, async |mut agent| agent.status(asked.clone()).await).await?;
        let is_answered = job.is_none() || status.job.is_some();
        let exit = if is_answered { Exit::Done } else { Exit::Unreachable };
        if output.is_json() {
            output.json(&json!({
                "exitStatus": exit as u8, "node": status.node, "version": status.version,
                "connected": status.connected, "job": status.job.as_ref().map(result::job_json),
                "mounts": result::mounts_json(&status.lines),
            }))?;
            return Ok(exit);
        }
        let connected = if status.connected { "connected" } else { "not connected" };
        output.line(&format!("{}: agent {}, {connected}", status.node, status.version))?;
        result::table(output, &status.lines)?;
        match (&job, &status.job) {
            (Some(job), None) => {
                let what = format!("{}: the coordinator does not answer", shown(job));
                return Err(
                    Failure::new(exit, what).remedy("what is shown is this node's own view")
                );
            }
            (Some(_), Some(state)) if state.workflow.is_empty() => output.line(&state.why)?,
            (_, Some(state)) => output.line(&format!(
                "Workflow {}/{}: {} {} {}",
                state.namespace, state.workflow, state.desired_state, state.status, state.message
            ))?,
            (None, None) => {}
        }
        Ok(exit)
    }
}

impl Plan {
    async fn run(self, socket: &Path, output: Output) -> Result<Exit, Failure> {
        let job = Option::<JobName>::from(self.job).unwrap_or_default();
        let asked = PlanRequest { job: Some(job), ..PlanRequest::default() };
        let plans = ask(socket, async |mut agent| agent.plan(asked.clone()).await).await?.plans;
        let is_refused = plans.iter().any(|plan| !plan.rejection.is_empty());
        let exit = if is_refused { Exit::StorageFault } else { Exit::Done };
        if output.is_json() {
            let plan = |plan: &ObjectPlan| {
                json!({
                    "namespace": plan.namespace, "object": plan.name, "steps": plan.steps,
                    "rejection": plan.rejection,
                })
            };
            let plans: Vec<_> = plans.iter().map(plan).collect();
            output.json(&json!({"exitStatus": exit as u8, "plans": plans}))?;
            return Ok(exit);
        }
        for plan in &plans {
            show(output, plan)?;
        }
        if plans.is_empty() {
            output.line("nothing to do: the agent knows no such ClientMount")?;
        }
        Ok(exit)
    }
}

fn show(output: Output, plan: &ObjectPlan) -> Result<(), Failure> {
    let ObjectPlan { name, steps, rejection, .. } = plan;
    if !rejection.is_empty() {
        return output.line(&format!("clientmount/{name}: refused: {rejection}"));
    }
    if steps.is_empty() {
        return output.line(&format!("clientmount/{name}: nothing to do"));
    }
    output.line(&format!("clientmount/{name}:"))?;
    for (index, step) in steps.iter().enumerate() {
        output.line(&format!("  {}. {step}", index + 1))?;
    }
    Ok(())
}

type Call = Result<Response<Streaming<JobNews>>, Answer>;

/// Calls the agent until it tells an outcome. An agent that goes away meanwhile is called again, with the time that is left.
async fn until(
    socket: &Path,
    deadline: Duration,
    output: Output,
    call: impl AsyncFn(NodeClient<Channel>, u64) -> Call,
) -> Result<JobOutcome, Failure> {
    let (end, mut heard) = (Instant::now() + deadline, Instant::now());
    loop {
        let failure = match once(socket, end, output, &mut heard, &call).await {
            Ok(outcome) => return Ok(outcome),
            Err(failure) => failure,
        };
        let now = Instant::now();
        if failure.exit != Exit::Unreachable || now >= end.min(heard + AWAY) {
            return Err(failure);
        }
        sleep(PAUSE).await;
    }
}

async fn once(
    socket: &Path,
    end: Instant,
    output: Output,
    heard: &mut Instant,
    call: &impl AsyncFn(NodeClient<Channel>, u64) -> Call,
) -> Result<JobOutcome, Failure> {
    let silent = |_| {
        Failure::new(Exit::Unreachable, "the agent did not answer in time")
            .remedy("its log tells what it does: journalctl -u warren-clientmount-agent")
    };
    let conversation = async {
        let agent = NodeClient::new(channel_over_unix(socket, REMEDY).await?)
            .max_decoding_message_size(usize::MAX);
        let left = end.saturating_duration_since(Instant::now()).as_millis();
        let called = call(agent, u64::try_from(left).unwrap_or(u64::MAX)).await;
        let mut news = called.map_err(|status| refused(&status))?.into_inner();
        while let Some(word) = news.message().await.map_err(|status| refused(&status))? {
            *heard = Instant::now();
            match word.news {
                Some(News::Waiting(why)) => output.progress(&why),
                Some(News::Outcome(outcome)) => return Ok(outcome),
                None => {}
            }
        }
        Err(Failure::new(Exit::Unreachable, "the agent ended without an answer").remedy(REMEDY))
    };
    timeout_at(end + MARGIN, conversation).await.map_err(silent)?
}

/// Asks the agent once; one that is about to end because it was idle is asked again.
async fn ask<T>(
    socket: &Path,
    call: impl AsyncFn(NodeClient<Channel>) -> Result<Response<T>, Answer>,
) -> Result<T, Failure> {
    let end = Instant::now() + PATIENCE;
    let mut is_first = true;
    loop {
        let asked = async {
            let agent = NodeClient::new(channel_over_unix(socket, REMEDY).await?)
                .max_decoding_message_size(usize::MAX);
            call(agent).await.map_err(|status| refused(&status))
        };
        let silent = |_| Failure::new(Exit::Unreachable, "the agent does not answer");
        match timeout_at(end, asked).await.map_err(silent)? {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(failure) if failure.exit == Exit::Unreachable && is_first => {
                is_first = false;
                sleep(PAUSE).await;
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn refused(status: &Answer) -> Failure {
    if status.code() == Code::Unimplemented {
        return Failure::new(Exit::Failed, "this node's agent is older than this command")
            .remedy("restart it: systemctl restart warren-clientmount-agent");
    }
    // A connection that breaks shows as one of several.
    if matches!(status.code(), Code::Unknown | Code::Cancelled | Code::Internal) {
        return Failure::unreachable("ask the agent", status, REMEDY);
    }
    Failure::grpc("ask the agent", status)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        verb: Verb,
    }

    fn parse(words: &[&str]) -> Result<Verb, String> {
        let line = Line::try_parse_from(std::iter::once(&"agent").chain(words));
        line.map(|line| line.verb).map_err(|error| error.to_string())
    }

    #[test]
    fn command_line_is_consistent() {
        Line::command().debug_assert();
    }

    #[test]
    fn one_job_is_named_and_a_deadline_is_seconds_or_has_units() {
        let Ok(Verb::Mount(mount)) = parse(&["mount", "--job", "ƒ2", "--deadline", "90"]) else {
            panic!("not a mount")
        };
        assert_eq!(mount.deadline, Duration::from_secs(90));
        assert_eq!(JobName::from(mount.job).name, Some(Name::Job("ƒ2".to_owned())));
        for (words, told) in [
            (&["mount"][..], "--job"),
            (&["mount", "--job", "1", "--workflow", "w"], "cannot be used with"),
            (&["unmount", "--job", "1", "--on-timeout", "force"], "lazy"),
            (&["wait", "--job", "1"], "--for"),
            (&["mount", "--job", "1", "--deadline", "8d"], "up to 7 days"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.contains(told), "{words:?}: {error}");
        }
        assert!(parse(&["status"]).is_ok() && parse(&["plan", "--workflow", "a/b"]).is_ok());
    }
}
