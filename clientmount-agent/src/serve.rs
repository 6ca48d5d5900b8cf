//! The node's own socket: scripts and operators of this node ask what is mounted, and what would be done.

use std::sync::Arc;

use api::{ClientMount, NnfStorageProfile};
use proto::v1::{
    Health, HealthRequest, PlanRequest, PlanResponse, StatusRequest, StatusResponse,
    node_server::{Node, NodeServer},
};
use serde::de::DeserializeOwned;
use storage::Converger;
use tokio::{net::UnixListener, task};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, transport::Server};

use agent::{
    desired::{MountUnits, ObjectError, desired, no_references},
    link::LARGEST_MESSAGE,
    outbox::Outbox,
    reconcile,
    site::Site,
};

const NO_PROFILE: &str = "no NnfStorageProfile was given: add the one that the ClientMount's labels name to the files, or apply it first";

/// Serves until the process ends.
pub async fn serve(listener: UnixListener, service: NodeService) {
    let served = Server::builder()
        .add_service(NodeServer::new(service).max_decoding_message_size(LARGEST_MESSAGE))
        .serve_with_incoming(UnixListenerStream::new(listener));
    if let Err(error) = served.await {
        log::error!("the node's socket is served no more: {}", daemon::chain(&error));
    }
}

/// Answers about this node.
#[derive(Debug)]
pub struct NodeService {
    /// The node.
    pub site: Site,
    /// Looks at it.
    pub converger: Arc<Converger>,
    /// What is known of its mounts.
    pub outbox: Arc<Outbox>,
}

#[tonic::async_trait]
impl Node for NodeService {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        Ok(Response::new(StatusResponse {
            node: self.site.node.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            connected: self.outbox.connected(),
            mounts: self.outbox.reports().iter().map(Into::into).collect(),
        }))
    }

    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<PlanResponse>, Status> {
        let request = request.into_inner();
        let client_mount: ClientMount = decode("client_mount", &request.client_mount)?;
        let profile: Option<NnfStorageProfile> = if request.profile.is_empty() {
            None
        } else {
            Some(decode("profile", &request.profile)?)
        };
        let profile = profile.as_ref().ok_or(NO_PROFILE);
        let units = desired(&client_mount, profile, &no_references, &self.site);
        let converger = Arc::clone(&self.converger);
        let planned = task::spawn_blocking(move || plan(&converger, units));
        planned.await.map(Response::new).map_err(|error| Status::internal(error.to_string()))
    }

    async fn get_health(&self, _: Request<HealthRequest>) -> Result<Response<Health>, Status> {
        Ok(Response::new(self.outbox.health()))
    }
}

fn decode<T: DeserializeOwned>(field: &str, json: &[u8]) -> Result<T, Status> {
    serde_json::from_slice(json).map_err(|error| {
        Status::invalid_argument(format!("{field}: {error}: send the object as JSON"))
    })
}

fn plan(converger: &Converger, units: Result<MountUnits, ObjectError>) -> PlanResponse {
    let refused = |rejection| PlanResponse { steps: Vec::new(), rejection };
    let units = match units {
        Ok(units) => units,
        Err(error) => return refused(error.to_string()),
    };
    match reconcile::plan(converger, &units) {
        Ok(steps) => PlanResponse { steps, rejection: String::new() },
        Err(failures) => {
            // Who plans is an operator.
            let told: Vec<_> =
                failures.iter().map(|failed| failed.failure.debug.as_str()).collect();
            refused(told.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
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
            let service = NodeService {
                site: site(&chassis.object(0), Side::Compute),
                converger: Arc::new(Converger::new(Arc::<FakeHost>::clone(&chassis.compute))),
                outbox: Arc::default(),
            };
            tokio::spawn(serve(listen(&socket).unwrap(), service));
            Self { chassis, socket, _directory: directory }
        }

        async fn client(&self) -> NodeClient<Channel> {
            let endpoint =
                Endpoint::from_shared(format!("unix://{}", self.socket.display())).unwrap();
            NodeClient::new(endpoint.connect().await.unwrap())
        }

        fn request(&self) -> PlanRequest {
            PlanRequest {
                client_mount: serde_json::to_vec(&self.chassis.object(0)).unwrap(),
                profile: serde_json::to_vec(&profile()).unwrap(),
            }
        }
    }

    #[tokio::test]
    async fn a_plan_is_told_and_not_carried_out() {
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
    async fn an_object_that_is_not_in_the_api_yet_is_planned() {
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
    async fn what_is_no_object_is_an_invalid_argument() {
        let served = Served::start();
        let mut client = served.client().await;
        for torn in [&b"{"[..], b"\xff\xfe", b"{\"kind\":\"ClientMount\"}"] {
            let request = PlanRequest { client_mount: torn.to_vec(), ..served.request() };
            let status = client.plan(request).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.message().starts_with("client_mount: "), "{}", status.message());
        }
        let without = PlanRequest { profile: Vec::new(), ..served.request() };
        let plan = client.plan(without).await.unwrap().into_inner();
        assert_eq!(plan.rejection, NO_PROFILE);
    }

    #[tokio::test]
    async fn status_is_told() {
        let served = Served::start();
        let status = served.client().await.status(StatusRequest {}).await.unwrap().into_inner();
        assert!(!status.connected && status.mounts.is_empty());
    }
}
