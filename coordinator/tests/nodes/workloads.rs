//! Tests of the service `Workloads` with the real engine, without nodes: callers, repeated calls, and restarts.

use proto::v1::deadline::Outcome;
use proto::v1::workloads_client::WorkloadsClient;
use proto::v1::{
    AbortRequest, CreateRequest, JobId, Patience, SetupRequest, StartRequest, TeardownRequest,
    Verdict, Workload, WorkloadRequest,
};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::agent::channel;
use crate::standalone_coordinator::{DEADLINE, StandaloneCoordinator};
use crate::tls::Authority;

const XFS: &str = "#DW jobdw type=xfs capacity=1GiB name=scratch";

fn id(job: &str) -> Option<JobId> {
    Some(JobId { manager: "test".to_owned(), job: job.to_owned() })
}

fn create(job: &str, directives: &[&str]) -> CreateRequest {
    let directives = directives.iter().map(|&line| line.to_owned()).collect();
    CreateRequest { job: id(job), directives, ..CreateRequest::default() }
}

fn seconds(seconds: u32) -> Option<Patience> {
    Some(Patience { seconds, ..Patience::default() })
}

async fn client(coordinator: &StandaloneCoordinator) -> WorkloadsClient<Channel> {
    WorkloadsClient::new(channel(coordinator.socket()).await)
}

async fn status(client: &mut WorkloadsClient<Channel>, job: &str) -> Result<Workload, Status> {
    Ok(client.status(WorkloadRequest { job: id(job) }).await?.into_inner())
}

#[tokio::test]
async fn a_job_without_storage_is_created_set_up_started_and_torn_down() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start_with_engine(&directory, None).await;
    let mut client = client(&coordinator).await;
    for _ in 0..2 {
        let created = client.create(create("1", &[])).await.unwrap().into_inner();
        assert_eq!(
            (created.verdict(), &*created.state, created.ready),
            (Verdict::Done, "Proposal", true)
        );
    }
    let other = client.create(create("1", &[XFS])).await.unwrap_err();
    assert_eq!(other.code(), Code::AlreadyExists);
    assert!(other.message().contains("set of directives"), "{}", other.message());
    let early = client.start(StartRequest { job: id("1"), ..StartRequest::default() }).await;
    assert_eq!(early.unwrap_err().code(), Code::FailedPrecondition);
    let setup = SetupRequest { job: id("1"), nodes: vec!["compute-1".to_owned()], patience: None };
    for _ in 0..2 {
        let created = client.setup(setup.clone()).await.unwrap().into_inner();
        assert_eq!((created.verdict(), &*created.state), (Verdict::Done, "Setup"));
        assert_eq!(created.nodes[0].node, "compute-1");
    }
    let start = StartRequest { job: id("1"), ..StartRequest::default() };
    let started = client.start(start).await.unwrap().into_inner();
    assert_eq!((&*started.state, &*started.env["DW_WORKFLOW_NAME"]), ("PreRun", "test-1"));
    for _ in 0..2 {
        let end = TeardownRequest { job: id("1"), ..TeardownRequest::default() };
        let gone = client.teardown(end).await.unwrap().into_inner();
        assert_eq!((gone.verdict(), &*gone.state), (Verdict::Done, ""));
    }
    assert_eq!(status(&mut client, "1").await.unwrap_err().code(), Code::NotFound);
    coordinator.stop().await;
}

#[tokio::test]
async fn a_watch_of_a_job_reports_changes_missed_deadlines_and_the_end_of_the_job() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start_with_engine(&directory, None).await;
    let mut client = client(&coordinator).await;
    client.create(create("1", &[XFS])).await.unwrap();
    let mut watch = client.watch(WorkloadRequest { job: id("1") }).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().state, "Proposal");
    let nodes = vec!["compute-1".to_owned()];
    let setup = SetupRequest { job: id("1"), nodes, patience: seconds(1) };
    let late = client.setup(setup).await.unwrap().into_inner();
    assert_eq!(late.verdict(), Verdict::NotYet);
    assert!(late.waits_for.iter().any(|line| line.contains("rabbit-1")), "{late:?}");
    let end_of_watch = async {
        let mut missed = false;
        while let Some(job) = watch.message().await.unwrap() {
            missed |= job.deadlines.iter().any(|deadline| deadline.outcome() == Outcome::Missed);
            if missed {
                let end = TeardownRequest { job: id("1"), ..TeardownRequest::default() };
                client.teardown(end).await.unwrap();
            }
        }
        missed
    };
    assert!(
        tokio::time::timeout(DEADLINE, end_of_watch).await.expect("the watch ends with the job")
    );
    coordinator.stop().await;
}

#[tokio::test]
async fn a_restarted_coordinator_knows_the_deadlines_and_the_abort_of_a_job() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start_with_engine(&directory, None).await;
    let mut before = client(&coordinator).await;
    for job in ["1", "2"] {
        before.create(create(job, &[XFS])).await.unwrap();
    }
    let setup = SetupRequest {
        job: id("1"),
        nodes: vec!["compute-1".to_owned()],
        patience: Some(Patience { seconds: 1, no_wait: true, ..Patience::default() }),
    };
    let requested = before.setup(setup.clone()).await.unwrap().into_inner();
    assert_eq!((requested.verdict(), &*requested.desired_state), (Verdict::NotYet, "Setup"));
    let abort = AbortRequest { job: id("2"), reason: "for\na test".to_owned() };
    before.abort(abort).await.unwrap();
    coordinator.stop().await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;

    let coordinator = StandaloneCoordinator::start_with_engine(&directory, None).await;
    let mut after = client(&coordinator).await;
    let job = status(&mut after, "1").await.unwrap();
    let setup_deadline = job.deadlines.iter().find(|deadline| deadline.state == "Setup").unwrap();
    assert_eq!(setup_deadline.outcome(), Outcome::Missed);
    assert_eq!((job.verdict(), setup_deadline.due - setup_deadline.asked), (Verdict::NotYet, 1));
    let late = after.setup(setup).await.unwrap().into_inner();
    assert!(late.message.contains("passed after 1 s"), "{}", late.message);
    let start = SetupRequest { job: id("2"), ..SetupRequest::default() };
    let over = after.setup(start).await.unwrap().into_inner();
    assert_eq!(over.verdict(), Verdict::Cancelled);
    assert!(over.message.ends_with(": for a test"), "{}", over.message);
    coordinator.stop().await;
}

#[tokio::test]
async fn an_operators_certificate_is_accepted_and_a_nodes_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let tls = Some(authority.tls(&directory));
    let coordinator = StandaloneCoordinator::start_with_engine(&directory, tls).await;
    let port = coordinator.node_address.unwrap().port();
    let node = authority.channel(port, Some("compute-1")).await.unwrap();
    let refused = WorkloadsClient::new(node).create(create("1", &[])).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let operator = authority.channel(port, Some("operator")).await.unwrap();
    let mut operator = WorkloadsClient::new(operator);
    let unowned = operator.create(create("1", &[])).await.unwrap_err();
    assert_eq!(unowned.code(), Code::InvalidArgument);
    let owned = CreateRequest { user_id: Some(1001), group_id: Some(1002), ..create("1", &[]) };
    let created = operator.create(owned).await.unwrap().into_inner();
    assert_eq!((created.user_id, created.group_id), (1001, 1002));
    assert_eq!(created.deadlines[0].owner, "certificate \"operator\"");
    coordinator.stop().await;
}
