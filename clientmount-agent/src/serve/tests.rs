use std::path::PathBuf;

use daemon::listen;
use proto::v1::node_client::NodeClient;
use storage::fake::FakeHost;
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};

use super::*;
use agent::{
    site::Side,
    testing::{Chassis, point, profile, site},
};

struct Served {
    chassis: Chassis,
    socket: PathBuf,
    _directory: tempfile::TempDir,
}

impl Served {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (chassis, socket) = (Chassis::new(1), directory.path().join("run/agent.sock"));
        let shared = Shared {
            site: site(&chassis.object(0), Side::Compute),
            view: Arc::default(),
            outbox: Arc::default(),
            requests: mpsc::channel(1).0,
            on_timeout: OnTimeout::Report,
        };
        let compute = Arc::<FakeHost>::clone(&chassis.compute);
        let service = NodeService { shared, converger: Arc::new(Converger::new(compute)) };
        tokio::spawn(serve(listen(&socket).unwrap(), Clients::default(), service));
        Self { chassis, socket, _directory: directory }
    }

    async fn client(&self) -> NodeClient<Channel> {
        let endpoint = Endpoint::from_shared(format!("unix://{}", self.socket.display())).unwrap();
        NodeClient::new(endpoint.connect().await.unwrap())
    }

    fn request(&self) -> PlanRequest {
        request_for(&[json(&self.chassis.object(0)), json(&profile())])
    }
}

fn json(object: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(object).unwrap()
}

fn request_for(objects: &[Vec<u8>]) -> PlanRequest {
    PlanRequest { objects: objects.to_vec(), ..PlanRequest::default() }
}

async fn plan_of(client: &mut NodeClient<Channel>, request: PlanRequest) -> ObjectPlan {
    let plans = client.plan(request).await.unwrap().into_inner().plans;
    let [plan] = &plans[..] else { panic!("{plans:?}") };
    plan.clone()
}

#[tokio::test]
async fn a_plan_is_returned_and_none_of_its_steps_is_executed() {
    let served = Served::start();
    let mut client = served.client().await;
    let plan = plan_of(&mut client, served.request()).await;
    assert_eq!(
        (plan.steps[0].as_str(), plan.rejection.as_str()),
        ("create mount point /mnt/nnf/job-0", "")
    );
    assert!(served.chassis.compute.applied().is_empty());
    served.chassis.compute.plant_file(&point("/mnt/nnf/job-0"));
    let plan = plan_of(&mut client, served.request()).await;
    assert!(
        plan.steps.is_empty() && plan.rejection.contains("/mnt/nnf/job-0 is a file"),
        "{}",
        plan.rejection
    );
}

#[tokio::test]
async fn a_plan_is_returned_for_an_object_that_is_not_in_the_api() {
    let served = Served::start();
    let mut object = served.chassis.object(0);
    object.metadata.uid = Some("00000000-0000-0000-0000-000000000000".to_owned());
    object.metadata.resource_version = None;
    let request = request_for(&[json(&object), json(&profile())]);
    let plan = plan_of(&mut served.client().await, request).await;
    assert_eq!(
        (plan.steps[0].as_str(), plan.rejection.as_str()),
        ("create mount point /mnt/nnf/job-0", "")
    );
}

#[tokio::test]
async fn a_plan_request_without_a_readable_object_or_profile_is_refused() {
    let served = Served::start();
    let mut client = served.client().await;
    for invalid in [&b"{"[..], b"\xff\xfe", b"{\"kind\":\"ClientMount\"}"] {
        let status = client.plan(request_for(&[invalid.to_vec()])).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().starts_with("objects: "), "{}", status.message());
    }
    let of_rabbit = request_for(&[b"{\"kind\":\"NnfNodeStorage\"}".to_vec()]);
    let status = client.plan(of_rabbit).await.unwrap_err();
    assert!(
        status.message().contains("NnfNodeStorage: the agent of a compute plans only"),
        "{status}"
    );
    let without = request_for(&[json(&served.chassis.object(0))]);
    let plan = plan_of(&mut client, without).await;
    assert_eq!(plan.rejection, preview::NO_PROFILE);
}

#[tokio::test]
async fn the_plan_for_a_deletion_unmounts() {
    let served = Served::start();
    let mut client = served.client().await;
    let deletion = PlanRequest { delete: true, ..served.request() };
    assert!(plan_of(&mut client, deletion.clone()).await.steps.is_empty());
    let profile = profile();
    let units = agent::desired::desired(
        &served.chassis.object(0),
        Ok(&profile),
        &agent::desired::no_references,
        &site(&served.chassis.object(0), Side::Compute),
    );
    let compute = Arc::<FakeHost>::clone(&served.chassis.compute);
    let mounted = agent::reconcile::converge(&Converger::new(compute), &units.unwrap());
    assert!(mounted.is_done(), "{mounted:?}");
    let steps = plan_of(&mut client, deletion).await.steps;
    assert!(steps[0].starts_with("unmount /mnt/nnf/job-0"), "{steps:?}");
}

#[tokio::test]
async fn the_status_of_an_agent_without_a_coordinator_lists_no_mounts() {
    let served = Served::start();
    let status = served.client().await.status(StatusRequest::default()).await.unwrap().into_inner();
    assert!(!status.connected && status.mounts.is_empty());
}
