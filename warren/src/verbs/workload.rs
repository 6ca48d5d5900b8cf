//! Calls of the service `Workloads`: a workload manager's job from its directives to its end.

mod shown;

use std::time::Duration;

use proto::v1::workloads_client::WorkloadsClient;
use proto::v1::{
    AbortRequest, CreateRequest, JobId, Patience, PostRunRequest, SetupRequest, StartRequest,
    TeardownRequest, Workload, WorkloadRequest,
};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::args::workload::{Job, Patience as PatienceArgs, WorkloadVerb};
use crate::client::CoordinatorArgs;
use crate::failure::Failure;
use nodeclient::Exit;
use nodeclient::Output;

/// Between two calls while the coordinator is away: nothing could wake us.
const AGAIN: Duration = Duration::from_secs(1);
/// Bytes of the largest answer: each node of a job with its evidence.
const LARGEST_ANSWER: usize = 64 << 20;

type Client = WorkloadsClient<Channel>;
type Answer = Result<Response<Workload>, Status>;

pub(crate) async fn run(
    coordinator: &CoordinatorArgs,
    verb: &WorkloadVerb,
    output: Output,
) -> Result<Exit, Failure> {
    let (name, patience) = match verb {
        WorkloadVerb::Watch(job) => return watch(coordinator, job, output).await,
        WorkloadVerb::Create(args) => ("create", Some(&args.patience)),
        WorkloadVerb::Setup(args) => ("setup", Some(&args.patience)),
        WorkloadVerb::Start(args) => ("start", Some(&args.patience)),
        WorkloadVerb::PostRun(args) => ("post-run", Some(&args.patience)),
        WorkloadVerb::Teardown(args) => ("teardown", Some(&args.patience)),
        WorkloadVerb::Abort(_) => ("abort", None),
        WorkloadVerb::Status(_) => ("status", None),
        WorkloadVerb::Env(_) => ("env", None),
    };
    let patience = patience.filter(|patience| !patience.no_wait);
    let until = patience.map(|patience| Instant::now() + patience.timeout);
    let told = persistently(coordinator, verb, name, until, output).await?;
    if matches!(verb, WorkloadVerb::Env(_)) {
        return shown::env(&told, output);
    }
    shown::workload(&told, output)
}

/// Calls, and calls again while the coordinator or its API is away; a call that is repeated changes nothing more.
async fn persistently(
    coordinator: &CoordinatorArgs,
    verb: &WorkloadVerb,
    name: &str,
    until: Option<Instant>,
    output: Output,
) -> Result<Workload, Failure> {
    loop {
        let failure = match once(coordinator, verb, name).await {
            Ok(told) => return Ok(told),
            Err(failure) => failure,
        };
        let is_over = until.is_none_or(|until| Instant::now() >= until);
        if is_over || !matches!(failure.exit, Exit::Unreachable) {
            return Err(failure);
        }
        output.progress(&format!("{}; trying again", failure.text()));
        sleep(AGAIN).await;
    }
}

async fn once(
    coordinator: &CoordinatorArgs,
    verb: &WorkloadVerb,
    name: &str,
) -> Result<Workload, Failure> {
    let mut client = connect(coordinator).await?;
    let answer = call(&mut client, verb).await;
    answer.map(Response::into_inner).map_err(|status| Failure::grpc(name, &status))
}

async fn connect(coordinator: &CoordinatorArgs) -> Result<Client, Failure> {
    let channel = coordinator.channel().await?;
    Ok(WorkloadsClient::new(channel).max_decoding_message_size(LARGEST_ANSWER))
}

async fn call(client: &mut Client, verb: &WorkloadVerb) -> Answer {
    match verb {
        WorkloadVerb::Create(args) => {
            let (job, patience) = (id(&args.job), limit(&args.patience));
            let directives = args.directives.clone();
            let (user_id, group_id) = (args.user, args.group);
            client.create(CreateRequest { job, directives, user_id, group_id, patience }).await
        }
        WorkloadVerb::Setup(args) => {
            let (job, patience) = (id(&args.job), limit(&args.patience));
            let nodes = args.nodes.clone().unwrap_or_default().0;
            client.setup(SetupRequest { job, nodes, patience }).await
        }
        WorkloadVerb::Start(args) => {
            let (job, patience) = (id(&args.job), limit(&args.patience));
            client.start(StartRequest { job, only_data: args.only_data, patience }).await
        }
        WorkloadVerb::PostRun(args) => {
            let (job, patience) = (id(&args.job), limit(&args.patience));
            client.post_run(PostRunRequest { job, only_nodes: args.only_nodes, patience }).await
        }
        WorkloadVerb::Teardown(args) => {
            let (job, patience) = (id(&args.job), limit(&args.patience));
            client.teardown(TeardownRequest { job, hurry: args.hurry, patience }).await
        }
        WorkloadVerb::Abort(args) => {
            let reason = args.reason.clone();
            client.abort(AbortRequest { job: id(&args.job), reason }).await
        }
        WorkloadVerb::Status(job) | WorkloadVerb::Env(job) | WorkloadVerb::Watch(job) => {
            client.status(WorkloadRequest { job: id(job) }).await
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a message is a field that may be missing")]
fn id(job: &Job) -> Option<JobId> {
    Some(JobId { manager: job.manager.clone(), job: job.job.clone() })
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
    while let Some(told) = stream.message().await.map_err(failed)? {
        shown::news(&told, output)?;
    }
    Ok(Exit::Done)
}
