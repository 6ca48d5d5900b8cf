//! An agent as the coordinator sees it: one stream.

use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use proto::v1::from_node::Message as Said;
use proto::v1::node_link_client::NodeLinkClient;
use proto::v1::to_node::Message as Told;
use proto::v1::{DesiredMount, FromNode, Health, Hello, MountReport, Role, ToNode};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Status, Streaming};
use tower::service_fn;

use crate::box_of_one::{BoxOfOne, DEADLINE};

pub(crate) struct Agent {
    said: mpsc::Sender<FromNode>,
    told: Streaming<ToNode>,
}

pub(crate) fn hello(node: &str, started_at: u64) -> Hello {
    Hello {
        node: node.to_owned(),
        role: Role::Compute.into(),
        boot_id: "boot-1".to_owned(),
        booted_at: 1_700_000_000,
        started_at,
        version: "test".to_owned(),
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

/// A coordinator with a profile, and the agent of compute-1, for which there is nothing to do yet.
pub(crate) async fn with_agent(directory: &TempDir) -> (BoxOfOne, Agent) {
    let coordinator = BoxOfOne::start(directory).await;
    coordinator.create_profile().await;
    let mut agent = Agent::connect(coordinator.socket(), hello("compute-1", 1)).await.unwrap();
    agent.synced().await;
    (coordinator, agent)
}

impl Agent {
    /// Says hello and hears the welcome.
    pub(crate) async fn connect(socket: &Path, hello: Hello) -> Result<Self, Status> {
        Self::over(channel(socket).await, hello).await
    }

    pub(crate) async fn over(channel: Channel, hello: Hello) -> Result<Self, Status> {
        let (said, stream) = mpsc::channel(64);
        said.send(FromNode { message: Some(Said::Hello(hello)) }).await.unwrap();
        let told =
            NodeLinkClient::new(channel).open(ReceiverStream::new(stream)).await?.into_inner();
        let mut agent = Self { said, told };
        match agent.next().await? {
            Told::Welcome(_) => Ok(agent),
            other => panic!("{other:?} before the welcome"),
        }
    }

    /// The next message; the stream's end is an error.
    pub(crate) async fn next(&mut self) -> Result<Told, Status> {
        let next =
            tokio::time::timeout(DEADLINE, self.told.message()).await.expect("a message in time");
        Ok(next?.ok_or_else(|| Status::cancelled("end of stream"))?.message.unwrap())
    }

    pub(crate) async fn desired(&mut self) -> DesiredMount {
        match self.next().await.unwrap() {
            Told::Desired(desired) => desired,
            other => panic!("{other:?} instead of a desired mount"),
        }
    }

    pub(crate) async fn synced(&mut self) {
        assert!(matches!(self.next().await.unwrap(), Told::Synced(_)));
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
        self.say(report).await;
    }

    pub(crate) async fn say_health(&self, health: Health) {
        self.said.send(FromNode { message: Some(Said::Health(health)) }).await.unwrap();
    }

    pub(crate) async fn say(&self, report: MountReport) {
        self.said.send(FromNode { message: Some(Said::Report(report)) }).await.unwrap();
    }
}

/// The ClientMount that was told.
pub(crate) fn object(desired: &DesiredMount) -> Value {
    serde_json::from_slice(&desired.client_mount).unwrap()
}
