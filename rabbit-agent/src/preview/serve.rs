//! Serves the rabbit's own socket: operators of the rabbit ask for plans.

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

/// The socket of a rabbit's agent.
#[derive(Debug)]
pub struct Served {
    pub requests: SnapshotRequests,
    /// Path of the socket; `None` if the agent serves none.
    pub path: Option<PathBuf>,
}

/// Serves `socket`, or else [`SOCKET`]. A rabbit works without the default socket: a pod may have a read-only root, and
/// several simulated rabbits may share one host.
pub fn serve_at(socket: Option<&Path>) -> Result<Served, ListenError> {
    let (requests, received) = mpsc::channel(WAITING);
    let path = socket.unwrap_or(Path::new(SOCKET));
    match listen(path) {
        Ok(listener) => {
            drop(tokio::spawn(vital("the rabbit's socket", serve(listener, requests))));
            return Ok(Served { requests: received, path: Some(path.to_owned()) });
        }
        Err(error) if socket.is_none() => {
            log::info!(
                "warren plan cannot ask this agent: {}; --listen names another socket",
                chain(&error)
            );
        }
        Err(error) => return Err(error),
    }
    Ok(Served { requests: received, path: None })
}

/// Serves the socket until the agent ends.
async fn serve(listener: UnixListener, requests: mpsc::Sender<oneshot::Sender<Snapshot>>) {
    let service = NodeServer::new(PlanService { requests: requests.clone() });
    let served = Server::builder()
        .add_service(service.max_decoding_message_size(LARGEST_MESSAGE))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), requests.closed());
    if let Err(error) = served.await {
        log::error!("the agent cannot serve the rabbit's socket any more: {}", chain(&error));
    }
}

/// The gRPC service `Node` of a rabbit.
#[derive(Debug)]
struct PlanService {
    requests: mpsc::Sender<oneshot::Sender<Snapshot>>,
}

impl PlanService {
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
impl Node for PlanService {
    type MountStream = ReceiverStream<Result<JobNews, Status>>;
    type UnmountStream = ReceiverStream<Result<JobNews, Status>>;
    type WaitStream = ReceiverStream<Result<JobNews, Status>>;

    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<PlanResponse>, Status> {
        let request = request.into_inner();
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
        Ok(Response::new(PlanResponse { plans }))
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
