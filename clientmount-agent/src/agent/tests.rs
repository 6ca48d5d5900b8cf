//! Tests the whole agent without the kernel: with a node in memory, and a coordinator that speaks gRPC
//! over a unix socket.

use std::{path::PathBuf, pin::Pin};

use api::{ClientMount, ClientMountStatus, Severity};
use futures::Stream;
use proto::v1::{
    DesiredMount, FromNode, Gone, Hello, MountReport, Role, Synced, ToNode, Welcome, from_node,
    node_link_server::{NodeLink, NodeLinkServer},
    to_node,
};
use storage::{
    Desired, Host, Observed, Step,
    desired::MountPoint,
    fake::FakeHost,
    host::{ObserveError, StepError},
};
use tokio::{net::UnixListener, sync::oneshot, task::JoinHandle};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Status, Streaming, transport::Server};

mod changed;
mod clean_up;
mod coordinators;
mod foreign;
mod in_use;
mod lives;
mod panics;
mod profiles;

use super::*;
use agent::{
    coordinator::CertificateArgs,
    hello::hello,
    link,
    received::ReceivedMount,
    site::Side,
    testing::{Chassis, point, profile, site},
};

/// Deadline of every wait: a wait takes this long only in a failing test.
const LONG: Duration = Duration::from_secs(60);

async fn wait_for<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future)
        .await
        .unwrap_or_else(|_| panic!("timed out while waiting for {what}"))
}

/// The coordinator's service, which passes each session to the test.
struct Service(mpsc::Sender<Session>);

#[tonic::async_trait]
impl NodeLink for Service {
    type OpenStream = Pin<Box<dyn Stream<Item = Result<ToNode, Status>> + Send>>;

    async fn open(
        &self,
        request: Request<Streaming<FromNode>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        let mut from_node = request.into_inner();
        let Some(FromNode { message: Some(from_node::Message::Hello(hello)) }) =
            from_node.message().await?
        else {
            return Err(Status::invalid_argument("the first message must be a hello"));
        };
        let (to_node, messages) = mpsc::channel(256);
        let session =
            Session { hello, to_node, from_node, health: None, other_reports: Vec::new() };
        self.0.send(session).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }
}

/// One agent's stream, at the coordinator's end.
struct Session {
    hello: Hello,
    to_node: mpsc::Sender<Result<ToNode, Status>>,
    from_node: Streaming<FromNode>,
    health: Option<Health>,
    /// Reports that arrived before the report that the test waited for. The agent works on several objects at the same
    /// time, so their reports arrive in any order.
    other_reports: Vec<(MountReport, ClientMountStatus)>,
}

impl Session {
    async fn send_message(&self, message: to_node::Message) {
        self.to_node.send(Ok(ToNode { message: Some(message) })).await.unwrap();
    }

    /// Welcomes the node, and sends it a complete list with these objects.
    async fn sync(&self, objects: &[&ClientMount]) {
        self.send_message(to_node::Message::Welcome(Welcome { epoch: 1 })).await;
        for object in objects {
            self.send(object).await;
        }
        self.send_message(to_node::Message::Synced(Synced {})).await;
    }

    async fn send(&self, object: &ClientMount) {
        self.send_message(to_node::Message::Desired(message(object))).await;
    }

    async fn next(&mut self) -> from_node::Message {
        let message = wait_for("a message of the node", self.from_node.message()).await;
        let message = message.unwrap().unwrap().message.unwrap();
        if let from_node::Message::Health(health) = &message {
            self.health = Some(health.clone());
        }
        message
    }

    async fn report(&mut self) -> (MountReport, ClientMountStatus) {
        loop {
            if let from_node::Message::Report(report) = self.next().await {
                let status = serde_json::from_slice(&report.status).unwrap();
                return (report, status);
            }
        }
    }

    /// Waits for a report on `object` whose status fulfils `fits`, and returns the first such report.
    async fn report_of(
        &mut self,
        object: &ClientMount,
        fits: impl Fn(&ClientMountStatus) -> bool,
    ) -> MountReport {
        let is_meant = |(report, status): &(MountReport, ClientMountStatus)| {
            Some(&report.uid) == object.metadata.uid.as_ref() && fits(status)
        };
        loop {
            if let Some(index) = self.other_reports.iter().position(is_meant) {
                return self.other_reports.remove(index).0;
            }
            let report = self.report().await;
            self.other_reports.push(report);
        }
    }

    /// Returns the newest health of the node once its state is `state`. Returns at once if this health has already
    /// arrived.
    async fn health(&mut self, state: health::State) -> Health {
        loop {
            match self.health.take() {
                Some(health) if health.state() == state => return health,
                _ => drop(self.next().await),
            }
        }
    }
}

fn ready(status: &ClientMountStatus) -> bool {
    status.all_ready && status.error.is_none()
}

fn is_failed(status: &ClientMountStatus) -> bool {
    status.error.is_some()
}

fn received_mount(object: &ClientMount) -> ReceivedMount {
    ReceivedMount::decode(message(object))
}

fn message(object: &ClientMount) -> DesiredMount {
    DesiredMount {
        namespace: object.metadata.namespace.clone().unwrap(),
        name: object.metadata.name.clone().unwrap(),
        uid: object.metadata.uid.clone().unwrap(),
        resource_version: object.metadata.resource_version.clone().unwrap(),
        client_mount: serde_json::to_vec(object).unwrap(),
        profile: serde_json::to_vec(&profile()).unwrap(),
        ..DesiredMount::default()
    }
}

fn version(object: &ClientMount, version: &str) -> ClientMount {
    let mut object = object.clone();
    object.metadata.resource_version = Some(version.into());
    object
}

fn deleted(object: &ClientMount) -> ClientMount {
    let mut json = serde_json::to_value(object).unwrap();
    json["metadata"]["deletionTimestamp"] = "2026-11-20T12:00:00Z".into();
    serde_json::from_value(json).unwrap()
}

fn unmounted(object: &ClientMount) -> ClientMount {
    let mut object = object.clone();
    object.spec.desired_state = api::client_mount::MountState::Unmounted;
    object
}

/// A coordinator that the test can stop and start again on the same socket.
struct Coordinator {
    socket: PathBuf,
    sessions: mpsc::Receiver<Session>,
    serving: JoinHandle<()>,
}

impl Coordinator {
    fn start(socket: PathBuf) -> Self {
        drop(std::fs::remove_file(&socket));
        let incoming = UnixListenerStream::new(UnixListener::bind(&socket).unwrap());
        let (opened, sessions) = mpsc::channel(8);
        let serving = tokio::spawn(async move {
            let server = Server::builder().add_service(NodeLinkServer::new(Service(opened)));
            server.serve_with_incoming(incoming).await.unwrap();
        });
        Self { socket, sessions, serving }
    }

    async fn session(&mut self) -> Session {
        wait_for("the agent's hello", self.sessions.recv()).await.unwrap()
    }

    async fn restart(self, session: Session) -> Self {
        drop(session);
        self.serving.abort();
        drop(self.serving.await);
        Self::start(self.socket)
    }
}

/// The agent of compute-1, with its chassis, its coordinator, and the task that connects the agent to the coordinator.
struct Node {
    chassis: Chassis,
    coordinator: Coordinator,
    outbox: Arc<Outbox>,
    agent: JoinHandle<End>,
    linking: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
    _directory: tempfile::TempDir,
}

impl Node {
    fn start(chassis: Chassis) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let coordinator = Coordinator::start(directory.path().join("coordinator.sock"));
        let (outbox, agent, linking, stop) =
            start_agent(&chassis, chassis.compute.clone(), &coordinator.socket);
        Self {
            chassis,
            coordinator,
            outbox,
            agent,
            linking,
            stop: Some(stop),
            _directory: directory,
        }
    }

    /// Starts a new agent on the same node, as after a crash.
    async fn restart_agent(&mut self, session: Session) {
        let host = Arc::clone(&self.chassis.compute);
        self.restart_agent_on(host, session).await;
    }

    async fn restart_agent_on(&mut self, host: Arc<dyn Host>, session: Session) {
        for abort in [self.agent.abort_handle(), self.linking.abort_handle()] {
            abort.abort();
        }
        assert!((&mut self.agent).await.unwrap_err().is_cancelled());
        assert!((&mut self.linking).await.unwrap_err().is_cancelled());
        drop(session);
        let (outbox, agent, linking, stop) =
            start_agent(&self.chassis, host, &self.coordinator.socket);
        (self.outbox, self.agent, self.linking, self.stop) = (outbox, agent, linking, Some(stop));
    }

    fn mounted(&self) -> Vec<String> {
        let converger = Converger::new(Arc::<FakeHost>::clone(&self.chassis.compute));
        let observed = converger.observe(&Desired::OnlyMounts(Vec::new())).unwrap();
        observed.mounts.iter().map(|(point, _): &(MountPoint, _)| point.to_string()).collect()
    }

    async fn end(self) -> End {
        wait_for("the agent's end", self.agent).await.unwrap()
    }
}

fn start_agent(
    chassis: &Chassis,
    host: Arc<dyn Host>,
    socket: &std::path::Path,
) -> (Arc<Outbox>, JoinHandle<End>, JoinHandle<()>, oneshot::Sender<()>) {
    let site = site(&agent::testing::compute_xfs(), Side::Compute);
    let converger = Arc::new(Converger::new(host));
    let outbox = Arc::new(Outbox::default());
    let url = format!("unix://{}", socket.display());
    let coordinator = CertificateArgs::default().coordinator(&url).unwrap();
    let (events, from_link) = mpsc::channel(4);
    let hello = hello(&site.node, Role::Compute, true).unwrap();
    let linking = tokio::spawn(link::run(coordinator, hello, Arc::clone(&outbox), events));
    let (stop, stopping) = oneshot::channel();
    let agent = Agent::new(site, converger, chassis.records(), Arc::clone(&outbox));
    let agent = tokio::spawn(agent.run(from_link, async move { drop(stopping.await) }));
    (outbox, agent, linking, stop)
}
