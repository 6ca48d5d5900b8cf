//! The verbs of `warren workload`: calls of the gRPC service `Workloads`.

mod report;

use std::fs;
use std::time::Duration;

use directive::Script;
use proto::v1::workloads_client::WorkloadsClient;
use proto::v1::{
    AbortRequest, CapacityRequest, CheckRequest, CreateRequest, JobId, ListRequest, Patience,
    PostRunRequest, SetupRequest, StartRequest, TeardownRequest, Workload, WorkloadRequest,
};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::args::workload::{
    Call, Directives, Job, Manager, Patience as PatienceArgs, WorkloadVerb,
};
use crate::client::CoordinatorArgs;
use crate::failure::Failure;
use cli::Exit;
use cli::Output;

/// Interval between two calls while the coordinator is unreachable.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Largest accepted answer in bytes: each node of a job with its evidence.
const LARGEST_ANSWER: usize = 64 << 20;

type Client = WorkloadsClient<Channel>;
type Answer = Result<Response<Workload>, Status>;

pub(crate) async fn run(
    coordinator: &CoordinatorArgs,
    verb: &WorkloadVerb,
    output: Output,
) -> Result<Exit, Failure> {
    match verb {
        WorkloadVerb::Check(directives) => check(coordinator, directives, output).await,
        WorkloadVerb::Capacity => capacity(coordinator, output).await,
        WorkloadVerb::List(manager) => list(coordinator, manager, output).await,
        WorkloadVerb::Job(call) => call_for_job(coordinator, call, output).await,
        WorkloadVerb::Watch(job) => watch(coordinator, job, output).await,
    }
}

async fn call_for_job(
    coordinator: &CoordinatorArgs,
    call: &Call,
    output: Output,
) -> Result<Exit, Failure> {
    let (name, patience) = match call {
        Call::Create(args) => ("create", Some(&args.patience)),
        Call::Setup(args) => ("setup", Some(&args.patience)),
        Call::Start(args) => ("start", Some(&args.patience)),
        Call::PostRun(args) => ("post-run", Some(&args.patience)),
        Call::Teardown(args) => ("teardown", Some(&args.patience)),
        Call::Abort(_) => ("abort", None),
        Call::Status(_) => ("status", None),
        Call::Env(_) => ("env", None),
    };
    if let Call::Create(args) = call {
        note_unread(&read_directives(&args.directives)?, output);
    }
    let patience = patience.filter(|patience| !patience.no_wait);
    let until = patience.map(|patience| Instant::now() + patience.timeout);
    let answer = call_until_reached(coordinator, call, name, until, output).await?;
    if let Call::Env(args) = call {
        return report::env(&answer, args.ahead, output);
    }
    report::workload(&answer, output)
}

/// Makes a call, and repeats it while the coordinator or its API is unreachable: repeating a call is safe.
async fn call_until_reached(
    coordinator: &CoordinatorArgs,
    call: &Call,
    name: &str,
    until: Option<Instant>,
    output: Output,
) -> Result<Workload, Failure> {
    loop {
        let failure = match call_once(coordinator, call, name).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        let is_over = until.is_none_or(|until| Instant::now() >= until);
        if is_over || !matches!(failure.exit, Exit::Unreachable) {
            return Err(failure);
        }
        output.progress(&format!("{}; trying again", failure.text()));
        sleep(RETRY_INTERVAL).await;
    }
}

async fn call_once(
    coordinator: &CoordinatorArgs,
    call: &Call,
    name: &str,
) -> Result<Workload, Failure> {
    let mut client = connect(coordinator).await?;
    let answer = send(&mut client, call).await?;
    answer.map(Response::into_inner).map_err(|status| Failure::grpc(name, &status))
}

async fn connect(coordinator: &CoordinatorArgs) -> Result<Client, Failure> {
    let channel = coordinator.channel().await?;
    Ok(WorkloadsClient::new(channel).max_decoding_message_size(LARGEST_ANSWER))
}

async fn send(client: &mut Client, call: &Call) -> Result<Answer, Failure> {
    Ok(match call {
        Call::Create(args) => {
            let (job, patience) = (id(&args.job), limit(&args.patience));
            let script = read_directives(&args.directives)?;
            let tolerance = args.tolerance.or(script.tolerance).unwrap_or_default();
            let (directives, user_id, group_id) = (script.directives, args.user, args.group);
            let request = CreateRequest { job, directives, user_id, group_id, patience, tolerance };
            client.create(request).await
        }
        Call::Setup(args) => {
            let (job, patience) = (id(&args.job), limit(&args.patience));
            let nodes = args.nodes.clone().unwrap_or_default().0;
            client.setup(SetupRequest { job, nodes, patience }).await
        }
        Call::Start(args) => {
            let (job, patience) = (id(&args.job), limit(&args.patience));
            let (only_data, only_asked) = (args.only_data, args.only_asked);
            client.start(StartRequest { job, only_data, patience, only_asked }).await
        }
        Call::PostRun(args) => {
            let (job, patience) = (id(&args.job), limit(&args.patience));
            client.post_run(PostRunRequest { job, only_nodes: args.only_nodes, patience }).await
        }
        Call::Teardown(args) => {
            let (job, patience) = (id(&args.job), limit(&args.patience));
            client.teardown(TeardownRequest { job, hurry: args.hurry, patience }).await
        }
        Call::Abort(args) => {
            let reason = args.reason.clone();
            client.abort(AbortRequest { job: id(&args.job), reason }).await
        }
        Call::Env(args) => client.status(WorkloadRequest { job: id(&args.job) }).await,
        Call::Status(job) => client.status(WorkloadRequest { job: id(job) }).await,
    })
}

/// Returns the directives of the command line, or of the job script.
fn read_directives(args: &Directives) -> Result<Script, Failure> {
    let Some(script) = &args.script else {
        return Ok(Script { directives: args.directives.clone(), ..Script::default() });
    };
    // Comments of a job script need not be UTF-8.
    let text = fs::read(script).map_err(|error| {
        Failure::new(Exit::Usage, format!("read the job script {}", script.display()))
            .because(&error)
    })?;
    let script = directive::read_script(&String::from_utf8_lossy(&text));
    script.map_err(|error| Failure::new(Exit::Usage, error.to_string()))
}

/// Reports the #DW lines of a script that are ignored.
fn note_unread(script: &Script, output: Output) {
    for line in &script.unread {
        output.note(&line.to_string());
    }
}

async fn check(
    coordinator: &CoordinatorArgs,
    args: &Directives,
    output: Output,
) -> Result<Exit, Failure> {
    let script = read_directives(args)?;
    let directives = script.directives.clone();
    let checked = connect(coordinator).await?.check(CheckRequest { directives }).await;
    checked.map_err(|status| Failure::grpc("check", &status))?;
    if args.script.is_some() {
        let count = script.directives.len();
        let directives = if count == 1 { "directive" } else { "directives" };
        output.note(&format!("{count} {directives} read"));
    }
    note_unread(&script, output);
    Ok(Exit::Done)
}

async fn capacity(coordinator: &CoordinatorArgs, output: Output) -> Result<Exit, Failure> {
    let answer = connect(coordinator).await?.capacity(CapacityRequest {}).await;
    let answer = answer.map_err(|status| Failure::grpc("capacity", &status))?.into_inner();
    report::capacity(&answer, output)
}

async fn list(
    coordinator: &CoordinatorArgs,
    manager: &Manager,
    output: Output,
) -> Result<Exit, Failure> {
    let request = ListRequest { manager: manager.manager.clone() };
    let answer = connect(coordinator).await?.list(request).await;
    let answer = answer.map_err(|status| Failure::grpc("list", &status))?.into_inner();
    report::jobs(&answer, output)
}

#[expect(clippy::unnecessary_wraps, reason = "a message is a field that may be missing")]
fn id(job: &Job) -> Option<JobId> {
    Some(JobId { manager: job.manager.manager.clone(), job: job.job.clone() })
}

#[expect(clippy::unnecessary_wraps, reason = "a message is a field that may be missing")]
fn limit(args: &PatienceArgs) -> Option<Patience> {
    let seconds = args.timeout.as_secs() + u64::from(args.timeout.subsec_nanos() > 0);
    let seconds = u32::try_from(seconds).unwrap_or(u32::MAX).max(1);
    Some(Patience { seconds, renew: args.renew, no_wait: args.no_wait })
}

async fn watch(coordinator: &CoordinatorArgs, job: &Job, output: Output) -> Result<Exit, Failure> {
    let failed = |status: Status| Failure::grpc("watch", &status);
    let mut client = connect(coordinator).await?;
    let stream = client.watch(WorkloadRequest { job: id(job) }).await.map_err(failed)?;
    let mut stream = stream.into_inner();
    while let Some(answer) = stream.message().await.map_err(failed)? {
        report::news(&answer, output)?;
    }
    Ok(Exit::Done)
}
