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
        PlanRequest {
            client_mount: serde_json::to_vec(&self.chassis.object(0)).unwrap(),
            profile: serde_json::to_vec(&profile()).unwrap(),
            job: None,
        }
    }
}

#[tokio::test]
async fn a_plan_is_returned_and_none_of_its_steps_is_executed() {
    let served = Served::start();
    let mut client = served.client().await;
    let plan = client.plan(served.request()).await.unwrap().into_inner();
    assert_eq!(
        (plan.steps[0].as_str(), plan.rejection.as_str()),
        ("create mount point /mnt/nnf/job-0", "")
    );
    assert!(served.chassis.compute.applied().is_empty());
    served.chassis.compute.plant_file(&point("/mnt/nnf/job-0"));
    let plan = client.plan(served.request()).await.unwrap().into_inner();
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
    let client_mount = serde_json::to_vec(&object).unwrap();
    let request = PlanRequest { client_mount, ..served.request() };
    let plan = served.client().await.plan(request).await.unwrap().into_inner();
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
        let request = PlanRequest { client_mount: invalid.to_vec(), ..served.request() };
        let status = client.plan(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().starts_with("client_mount: "), "{}", status.message());
    }
    let without = PlanRequest { profile: Vec::new(), ..served.request() };
    let plan = client.plan(without).await.unwrap().into_inner();
    assert_eq!(plan.rejection, NO_PROFILE);
}

#[tokio::test]
async fn the_status_of_an_agent_without_a_coordinator_lists_no_mounts() {
    let served = Served::start();
    let status = served.client().await.status(StatusRequest::default()).await.unwrap().into_inner();
    assert!(!status.connected && status.mounts.is_empty());
}
