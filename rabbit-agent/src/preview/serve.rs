//! Answers operators' requests for plans, on the rabbit's own socket and through the coordinator.

use std::path::{Path, PathBuf};

use agent::link::LARGEST_MESSAGE;
use daemon::{ListenError, chain, listen, vital};
use proto::v1::{
    Health, HealthRequest, JobNews, MountRequest, PlanRequest, PlanResponse, StatusRequest,
    StatusResponse, UnmountRequest, WaitRequest,
    node_server::{Node, NodeServer},
};
use tokio::{
    net::UnixListener,
    sync::{mpsc, oneshot},
};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Status, transport::Server};

use super::{
    request::RequestError,
    snapshot::{Snapshot, SnapshotRequests},
};

/// Default socket of a rabbit's agent.
pub const SOCKET: &str = "/run/warren/rabbit-agent.sock";

/// Number of plans that may wait for the agent's main loop.
const WAITING: usize = 8;

const NOT_SERVED: &str = "the agent of a rabbit serves only plans: for a job's mounts ask the clientmount-agent of a compute, for the rabbit's health use warren nodes";

/// Plans for operators, who ask on the rabbit's socket or through the coordinator.
#[derive(Debug, Clone)]
pub struct Planner {
    requests: mpsc::Sender<oneshot::Sender<Snapshot>>,
}

/// Serves `socket`, or else [`SOCKET`]; returns the path of the socket. A rabbit works without the default socket: a pod
/// may have a read-only root, and several simulated rabbits may share one host.
pub fn serve_at(socket: Option<&Path>, planner: &Planner) -> Result<Option<PathBuf>, ListenError> {
    let path = socket.unwrap_or(Path::new(SOCKET));
    match listen(path) {
        Ok(listener) => {
            drop(tokio::spawn(vital("the rabbit's socket", serve(listener, planner.clone()))));
            Ok(Some(path.to_owned()))
        }
        Err(error) if socket.is_none() => {
            log::info!(
                "warren plan cannot ask this agent: {}; --listen names another socket",
                chain(&error)
            );
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Serves the socket until the agent ends.
async fn serve(listener: UnixListener, planner: Planner) {
    let requests = planner.requests.clone();
    let service = NodeServer::new(planner);
    let served = Server::builder()
        .add_service(service.max_decoding_message_size(LARGEST_MESSAGE))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), requests.closed());
    if let Err(error) = served.await {
        log::error!("the agent cannot serve the rabbit's socket any more: {}", chain(&error));
    }
}

impl Planner {
    /// Returns a planner, and the channel on which the agent's main loop gets its requests.
    #[must_use]
    pub fn new() -> (Self, SnapshotRequests) {
        let (requests, received) = mpsc::channel(WAITING);
        (Self { requests }, received)
    }

    /// Plans as a request asks.
    pub async fn plan_request(&self, request: PlanRequest) -> Result<PlanResponse, Status> {
        if request.job.is_some() {
            return Err(Status::invalid_argument(
                "job: the agent of a rabbit plans for objects, not for a job: give KIND/NAME or -f FILE",
            ));
        }
        let mut snapshot = self.snapshot().await?;
        let keys = snapshot.take_request(&request)?;
        // In a task of its own: a panic then fails this request only.
        let planned = tokio::spawn(snapshot.plans(keys, request.delete)).await;
        let plans = planned.map_err(|error| Status::internal(error.to_string()))?;
        Ok(PlanResponse { plans, reached: None })
    }

    /// Asks the agent's main loop for a snapshot.
    async fn snapshot(&self) -> Result<Snapshot, Status> {
        let (answer, answered) = oneshot::channel();
        let incomplete = || {
            Status::unavailable(
                "the agent has not read all objects yet: check in its log that the API answers, and try again",
            )
        };
        self.requests
            .send(answer)
            .await
            .map_err(|_| Status::unavailable("the agent is stopping"))?;
        answered.await.map_err(|_| incomplete())
    }
}

impl From<RequestError> for Status {
    fn from(error: RequestError) -> Self {
        let text = chain(&error);
        match error {
            RequestError::Unknown { .. } => Self::not_found(text),
            RequestError::Json(_)
            | RequestError::Object { .. }
            | RequestError::Kind(_)
            | RequestError::Namespace { .. } => Self::invalid_argument(text),
        }
    }
}

#[tonic::async_trait]
impl Node for Planner {
    type MountStream = ReceiverStream<Result<JobNews, Status>>;
    type UnmountStream = ReceiverStream<Result<JobNews, Status>>;
    type WaitStream = ReceiverStream<Result<JobNews, Status>>;

    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<PlanResponse>, Status> {
        self.plan_request(request.into_inner()).await.map(Response::new)
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        Err(Status::unimplemented(NOT_SERVED))
    }

    async fn get_health(&self, _: Request<HealthRequest>) -> Result<Response<Health>, Status> {
        Err(Status::unimplemented(NOT_SERVED))
    }

    async fn mount(&self, _: Request<MountRequest>) -> Result<Response<Self::MountStream>, Status> {
        Err(Status::unimplemented(NOT_SERVED))
    }

    async fn unmount(
        &self,
        _: Request<UnmountRequest>,
    ) -> Result<Response<Self::UnmountStream>, Status> {
        Err(Status::unimplemented(NOT_SERVED))
    }

    async fn wait(&self, _: Request<WaitRequest>) -> Result<Response<Self::WaitStream>, Status> {
        Err(Status::unimplemented(NOT_SERVED))
    }
}
