//! A test agent: one stream to the coordinator.

use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use proto::v1::from_node::Message as NodeMessage;
use proto::v1::node_link_client::NodeLinkClient;
use proto::v1::to_node::Message as CoordinatorMessage;
use proto::v1::{DesiredMount, FromNode, Health, Hello, MountReport, Role, ToNode};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Status, Streaming};
use tower::service_fn;

use crate::standalone_coordinator::{DEADLINE, StandaloneCoordinator};

pub(crate) struct Agent {
    outgoing: mpsc::Sender<FromNode>,
    incoming: Streaming<ToNode>,
}

pub(crate) fn hello(node: &str, started_at: u64) -> Hello {
    Hello {
        node: node.to_owned(),
        role: Role::Compute.into(),
        boot_id: "boot-1".to_owned(),
        booted_at: 1_700_000_000,
        started_at,
        version: "test".to_owned(),
        alive_every: 0,
        resident: true,
    }
}

pub(crate) async fn channel(socket: &Path) -> Channel {
    let socket: PathBuf = socket.to_owned();
    let connector = service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://coordinator").connect_with_connector(connector).await.unwrap()
}

/// Starts a coordinator with a profile, and the agent of compute-1, which has no ClientMount yet.
pub(crate) async fn with_agent(directory: &TempDir) -> (StandaloneCoordinator, Agent) {
    let coordinator = StandaloneCoordinator::start(directory).await;
    coordinator.create_profile().await;
    let mut agent = Agent::connect(coordinator.socket(), hello("compute-1", 1)).await.unwrap();
    agent.synced().await;
    (coordinator, agent)
}

impl Agent {
    /// Sends the hello and receives the welcome.
    pub(crate) async fn connect(socket: &Path, hello: Hello) -> Result<Self, Status> {
        Self::over(channel(socket).await, hello).await
    }

    pub(crate) async fn over(channel: Channel, hello: Hello) -> Result<Self, Status> {
        let (outgoing, stream) = mpsc::channel(64);
        outgoing.send(FromNode { message: Some(NodeMessage::Hello(hello)) }).await.unwrap();
        let incoming =
            NodeLinkClient::new(channel).open(ReceiverStream::new(stream)).await?.into_inner();
        let mut agent = Self { outgoing, incoming };
        match agent.next().await? {
            CoordinatorMessage::Welcome(_) => Ok(agent),
            other => panic!("{other:?} before the welcome"),
        }
    }

    /// Returns the next message; the end of the stream is an error.
    pub(crate) async fn next(&mut self) -> Result<CoordinatorMessage, Status> {
        let next = tokio::time::timeout(DEADLINE, self.incoming.message())
            .await
            .expect("a message in time");
        Ok(next?.ok_or_else(|| Status::cancelled("end of stream"))?.message.unwrap())
    }

    pub(crate) async fn desired(&mut self) -> DesiredMount {
        match self.next().await.unwrap() {
            CoordinatorMessage::Desired(desired) => desired,
            other => panic!("{other:?} instead of a desired mount"),
        }
    }

    pub(crate) async fn synced(&mut self) {
        assert!(matches!(self.next().await.unwrap(), CoordinatorMessage::Synced(_)));
    }

    pub(crate) async fn report(&self, desired: &DesiredMount, status: &Value, released: bool) {
        let report = MountReport {
            namespace: desired.namespace.clone(),
            name: desired.name.clone(),
            uid: desired.uid.clone(),
            observed_resource_version: desired.resource_version.clone(),
            status: serde_json::to_vec(status).unwrap(),
            released,
        };
        self.send_report(report).await;
    }

    pub(crate) async fn send_health(&self, health: Health) {
        self.send(FromNode { message: Some(NodeMessage::Health(health)) }).await;
    }

    pub(crate) async fn send(&self, message: FromNode) {
        self.outgoing.send(message).await.unwrap();
    }

    pub(crate) async fn send_report(&self, report: MountReport) {
        self.outgoing.send(FromNode { message: Some(NodeMessage::Report(report)) }).await.unwrap();
    }
}

/// Returns the ClientMount in a message.
pub(crate) fn object(desired: &DesiredMount) -> Value {
    serde_json::from_slice(&desired.client_mount).unwrap()
}
