//! The whole agent but for the kernel: a node in memory, and a coordinator that speaks gRPC over a unix socket.

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
mod foreign;
mod in_use;

use super::*;
use agent::{
    coordinator::CertificateArgs,
    hello::hello,
    link,
    received::ReceivedMount,
    site::Side,
    testing::{Chassis, point, profile, site},
};

mod panics;

/// Longer than anything here takes; a test that waits in vain fails instead of hanging.
const LONG: Duration = Duration::from_secs(60);

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.unwrap_or_else(|_| panic!("waited in vain: {what}"))
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
    /// Reports that came before the one that the test waited for: the agent works on objects side by side.
    other_reports: Vec<(MountReport, ClientMountStatus)>,
}

impl Session {
    async fn send_message(&self, message: to_node::Message) {
        self.to_node.send(Ok(ToNode { message: Some(message) })).await.unwrap();
    }

    /// Welcomes the node and sends it these objects as all that exist.
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
        let message = within("a message of the node", self.from_node.message()).await;
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

    /// The first report of `object` for which `fits`.
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

    /// The node's health once it is `state`, which may have come already.
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

fn failed(status: &ClientMountStatus) -> bool {
    status.error.is_some()
}

fn received(object: &ClientMount) -> ReceivedMount {
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

/// A coordinator that can be taken down and brought back on the same socket.
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
        within("a hello", self.sessions.recv()).await.unwrap()
    }

    async fn restart(self, session: Session) -> Self {
        drop(session);
        self.serving.abort();
        drop(self.serving.await);
        Self::start(self.socket)
    }
}

/// The agent of compute-1, with everything around it.
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

    /// Starts the agent anew on the same node, as after a crash.
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
        let seen = converger.observe(&Desired::OnlyMounts(Vec::new())).unwrap();
        seen.mounts.iter().map(|(point, _): &(MountPoint, _)| point.to_string()).collect()
    }

    async fn end(self) -> End {
        within("the agent's end", self.agent).await.unwrap()
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
    let hello = hello(&site.node, Role::Compute).unwrap();
    let linking = tokio::spawn(link::run(coordinator, hello, Arc::clone(&outbox), events));
    let (stop, stopping) = oneshot::channel();
    let agent = Agent::new(site, converger, chassis.records(), Arc::clone(&outbox));
    let agent = tokio::spawn(agent.run(from_link, async move { drop(stopping.await) }));
    (outbox, agent, linking, stop)
}

#[tokio::test]
async fn reconnects_to_a_coordinator_that_welcomes_and_drops_become_rarer() {
    let mut node = Node::start(Chassis::new(1));
    let begun = std::time::Instant::now();
    for _ in 0..4 {
        let session = node.coordinator.session().await;
        session.sync(&[]).await;
        drop(session);
    }
    // Three delays of 0.2, 0.4 and 0.8 s, at least three quarters of each; none is ever shorter.
    assert!(begun.elapsed() >= Duration::from_millis(1050), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_life_from_mount_to_release() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    assert_eq!((session.hello.node.as_str(), session.hello.role()), ("compute-1", Role::Compute));
    session.sync(&[&object]).await;
    let (report, status) = session.report().await;
    assert!(ready(&status), "{status:?}");
    assert_eq!((report.observed_resource_version.as_str(), report.released), ("1", false));
    assert_eq!(node.mounted(), ["/mnt/nnf/job-0"]);

    session.send(&version(&unmounted(&object), "2")).await;
    let (report, status) = session.report().await;
    assert!(ready(&status) && status.mounts[0].state.as_str() == "unmounted");
    assert_eq!((report.observed_resource_version.as_str(), report.released), ("2", false));
    assert!(node.mounted().is_empty());

    session.send(&version(&deleted(&object), "3")).await;
    let (report, status) = session.report().await;
    assert!(ready(&status) && report.released);
    session.send_message(to_node::Message::Gone(Gone { uid: report.uid, ..Gone::default() })).await;
    node.stop.take().unwrap().send(()).unwrap();
    assert_eq!(node.outbox.reports().len(), 1);
    assert_eq!(node.end().await, End::Stopped);
}

/// A coordinator sends an object again when somebody has overwritten the status that the node reported.
#[tokio::test]
async fn an_object_that_is_sent_again_is_observed_and_reported_again() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    let steps = node.chassis.compute.applied().len();
    session.send(&version(&object, "2")).await;
    let report = session.report_of(&object, ready).await;
    assert_eq!(report.observed_resource_version, "2");
    assert_eq!(node.chassis.compute.applied().len(), steps, "there is nothing to do");
}

#[tokio::test]
async fn deleting_unmounts_whatever_the_object_asks_for() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    session.send(&deleted(&object)).await;
    assert!(session.report_of(&object, ready).await.released);
    assert!(node.mounted().is_empty());
}

#[tokio::test]
async fn an_object_whose_finalizer_somebody_removed_is_unmounted_and_forgotten() {
    let mut node = Node::start(Chassis::new(2));
    let (first, second) = (node.chassis.object(0), node.chassis.object(1));
    let mut session = node.coordinator.session().await;
    session.sync(&[&first]).await;
    session.report_of(&first, ready).await;
    session
        .send_message(to_node::Message::Gone(Gone {
            uid: first.metadata.uid.clone().unwrap(),
            ..Gone::default()
        }))
        .await;
    // The second takes the path of the first: it gets it only when the first is unmounted.
    let mut second = second;
    second.spec.mounts[0].mount_path = first.spec.mounts[0].mount_path.clone();
    session.send(&second).await;
    session.report_of(&second, ready).await;
    assert_eq!(node.mounted(), ["/mnt/nnf/job-0"]);
    assert_eq!(node.outbox.reports().len(), 1);
}

#[tokio::test]
async fn an_object_made_again_under_its_name_is_another_object() {
    let mut node = Node::start(Chassis::new(2));
    let first = node.chassis.object(0);
    let mut second = node.chassis.object(1);
    second.metadata.name = first.metadata.name.clone();
    let mut session = node.coordinator.session().await;
    session.sync(&[&first]).await;
    session.report_of(&first, ready).await;
    session.send(&second).await;
    session.report_of(&second, ready).await;
    within("the first one's unmount", async {
        while node.mounted() != ["/mnt/nnf/job-1"] {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A coordinator knows no object before it has read the API, and drops reports on one.
#[tokio::test]
async fn a_coordinator_gets_no_report_before_it_has_sent_its_objects() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    node.coordinator = node.coordinator.restart(session).await;

    let mut session = node.coordinator.session().await;
    session.send_message(to_node::Message::Welcome(Welcome { epoch: 1 })).await;
    session.health(health::State::Ok).await;
    let early = tokio::time::timeout(Duration::from_millis(200), session.next()).await;
    assert!(early.is_err(), "{early:?}");
    session.send(&object).await;
    session.send_message(to_node::Message::Synced(Synced {})).await;
    session.report_of(&object, ready).await;
}

#[tokio::test]
async fn a_coordinator_that_restarts_gets_every_report_again_and_nothing_is_unmounted() {
    let mut node = Node::start(Chassis::new(3));
    let objects = [0, 1, 2].map(|index| node.chassis.object(index));
    let mut session = node.coordinator.session().await;
    session.sync(&[&objects[0], &objects[1]]).await;
    for object in &objects[..2] {
        session.report_of(object, ready).await;
    }
    let steps = node.chassis.compute.applied().len();
    node.coordinator = node.coordinator.restart(session).await;

    let mut session = node.coordinator.session().await;
    assert_eq!(node.mounted().len(), 2, "mounts stay while the coordinator is away");
    // While it was away the first object went and a third came.
    session.sync(&[&version(&objects[1], "9"), &objects[2]]).await;
    let mut reported = Vec::new();
    while reported.len() < 2 {
        let (report, status) = session.report().await;
        if report.observed_resource_version == "9" || report.name == "job-2" {
            assert!(ready(&status));
            reported.push(report.name);
        }
    }
    reported.sort();
    assert_eq!(reported, ["job-1", "job-2"]);
    within("the lost object's unmount", async {
        while node.mounted() != ["/mnt/nnf/job-1", "/mnt/nnf/job-2"] {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let again = node.chassis.compute.applied();
    assert!(
        again[steps..].iter().all(|step| !step.to_string().contains("job-1")),
        "what is mounted is only observed: {again:#?}"
    );
}

#[tokio::test]
async fn only_a_complete_list_says_what_is_gone() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    drop(session);
    // The connection is lost before this list is complete: nothing may be unmounted because of it.
    let session = node.coordinator.session().await;
    session.send_message(to_node::Message::Welcome(Welcome { epoch: 2 })).await;
    drop(session);
    let mut session = node.coordinator.session().await;
    assert_eq!(node.mounted(), ["/mnt/nnf/job-0"]);
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    assert_eq!(node.mounted(), ["/mnt/nnf/job-0"]);
}

#[tokio::test]
async fn the_clean_up_after_a_start_removes_unwanted_mounts_and_no_others() {
    let mut node = Node::start(Chassis::new(2));
    let objects = [0, 1].map(|index| node.chassis.object(index));
    node.chassis.compute.plant_mount(&point("/mnt/nnf/admin"), "/dev/sda1", "ext4");
    let mut session = node.coordinator.session().await;
    session.sync(&[&objects[0], &objects[1]]).await;
    for object in &objects {
        session.report_of(object, ready).await;
    }
    node.restart_agent(session).await;
    let mut session = node.coordinator.session().await;
    session.send_message(to_node::Message::Welcome(Welcome { epoch: 2 })).await;
    session.health(health::State::Ok).await;
    assert_eq!(node.mounted().len(), 3, "nothing is removed before everything is known");
    session.send(&objects[1]).await;
    session.send_message(to_node::Message::Synced(Synced {})).await;
    session.report_of(&objects[1], ready).await;
    // Waits for the work on the other object.
    node.stop.take().unwrap().send(()).unwrap();
    within("the agent's end", &mut node.agent).await.unwrap();
    assert_eq!(node.mounted(), ["/mnt/nnf/admin", "/mnt/nnf/job-1"]);
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_reported_and_postpones_the_clean_up() {
    let mut node = Node::start(Chassis::new(2));
    let (first, second) = (node.chassis.object(0), node.chassis.object(1));
    let mut session = node.coordinator.session().await;
    session.sync(&[&first]).await;
    session.report_of(&first, ready).await;
    // No record says whose the mount is.
    node.chassis.lose_records();
    node.restart_agent(session).await;
    let mut session = node.coordinator.session().await;
    session.send_message(to_node::Message::Welcome(Welcome { epoch: 2 })).await;
    let mut unreadable = message(&second);
    unreadable.client_mount = br#"{"spec":{"mounts":[{},{}]}}"#.to_vec();
    session.send_message(to_node::Message::Desired(unreadable)).await;
    session.send_message(to_node::Message::Synced(Synced {})).await;
    let (report, status) = session.report().await;
    assert_eq!((report.name.as_str(), status.mounts.len()), ("job-1", 2));
    let error = status.error.unwrap();
    assert!(error.user_message.unwrap().contains("the object cannot be read as a ClientMount"));
    assert_eq!(error.severity, Severity::Fatal);
    assert_eq!(node.mounted(), ["/mnt/nnf/job-0"], "it may be that object's");
    session.send(&second).await;
    session.report_of(&second, ready).await;
    assert_eq!(node.mounted(), ["/mnt/nnf/job-1"]);
}

#[tokio::test]
async fn a_missing_profile_is_reported_and_mounts_follow_when_it_appears() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.send_message(to_node::Message::Welcome(Welcome { epoch: 1 })).await;
    let mut without_profile = message(&object);
    without_profile.profile = Vec::new();
    without_profile.profile_missing =
        "NnfStorageProfile default/fluxjob-7001-0 does not exist: create it".into();
    session.send_message(to_node::Message::Desired(without_profile)).await;
    session.send_message(to_node::Message::Synced(Synced {})).await;
    let (_, status) = session.report().await;
    assert_eq!(
        status.error.unwrap().user_message.unwrap(),
        "compute-1: NnfStorageProfile default/fluxjob-7001-0 does not exist: create it"
    );
    let health = session.health(health::State::Warning).await;
    assert!(
        health.message.starts_with("ClientMount compute-1/job-0: mount/unmount failed"),
        "{}",
        health.message
    );
    session.send(&object).await;
    session.report_of(&object, ready).await;
    session.health(health::State::Ok).await;
}

/// The profile that named the path is gone: the clean-up finds the mount among the unwanted ones.
#[tokio::test]
async fn a_mount_whose_path_is_not_known_is_unmounted_before_its_object_is_released() {
    let mut node = Node::start(Chassis::new(1));
    let mut object = node.chassis.object(0);
    object.spec.mounts[0].mount_path = "/mnt/nnf/$VG_NAME".into();
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    assert_eq!(node.mounted().len(), 1);
    let lost = DesiredMount {
        profile: Vec::new(),
        profile_missing: "NnfStorageProfile default/x does not exist".into(),
        ..message(&version(&deleted(&object), "2"))
    };
    session.send_message(to_node::Message::Desired(lost)).await;
    assert!(!session.report_of(&object, failed).await.released);
    assert!(session.report_of(&object, ready).await.released);
    assert!(node.mounted().is_empty());
}

/// The profile may have hooks for unmounting: until it can be read nothing is unmounted, and the user sees why.
#[tokio::test]
async fn a_mount_waits_for_a_profile_that_may_not_be_read() {
    for path in ["/mnt/nnf/job-0", "/mnt/nnf/$VG_NAME"] {
        let node = Node::start(Chassis::new(2));
        let mut object = node.chassis.object(0);
        object.spec.mounts[0].mount_path = path.into();
        outlives_an_unread_profile(node, object).await;
    }
}

async fn outlives_an_unread_profile(mut node: Node, object: ClientMount) {
    let never_mounted = node.chassis.object(1);
    let unread = |object: &ClientMount| DesiredMount {
        profile: Vec::new(),
        profile_missing: "NnfStorageProfile default/x cannot be read: grant this agent get".into(),
        profile_unread: true,
        ..message(object)
    };
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    let going = unread(&version(&deleted(&object), "2"));
    session.send_message(to_node::Message::Desired(going.clone())).await;
    let (report, status) = session.report().await;
    let error = status.error.unwrap();
    assert!(error.debug_message.contains("grant this agent get"));
    let user = error.user_message.unwrap();
    assert!(user.contains("cannot be read: ask the administrators"), "{user}");
    assert_eq!((error.severity, report.released), (Severity::Major, false));
    assert_eq!(node.mounted().len(), 1);
    session.send_message(to_node::Message::Desired(unread(&deleted(&never_mounted)))).await;
    assert!(session.report_of(&never_mounted, ready).await.released, "there is nothing to unmount");

    node.restart_agent(session).await;
    let mut session = node.coordinator.session().await;
    session.send_message(to_node::Message::Welcome(Welcome { epoch: 2 })).await;
    session.send_message(to_node::Message::Desired(going)).await;
    session.send_message(to_node::Message::Desired(unread(&deleted(&never_mounted)))).await;
    session.send_message(to_node::Message::Synced(Synced {})).await;
    assert!(session.report_of(&never_mounted, ready).await.released);
    assert!(!session.report_of(&object, failed).await.released);
    assert_eq!(node.mounted().len(), 1);
    session.send(&version(&deleted(&object), "2")).await;
    assert!(session.report_of(&object, ready).await.released);
    assert!(node.mounted().is_empty());
}

#[tokio::test]
async fn of_two_objects_with_one_path_the_older_keeps_it() {
    let mut node = Node::start(Chassis::new(2));
    let (mut old, mut new) = (node.chassis.object(1), node.chassis.object(0));
    new.spec.mounts[0].mount_path = old.spec.mounts[0].mount_path.clone();
    let at = |object: &mut ClientMount, second: u8| {
        let mut json = serde_json::to_value(&*object).unwrap();
        json["metadata"]["creationTimestamp"] = format!("2026-11-20T12:00:{second:02}Z").into();
        *object = serde_json::from_value(json).unwrap();
    };
    at(&mut old, 1);
    at(&mut new, 2);
    let mut session = node.coordinator.session().await;
    // The newer comes first: what counts is who was created first.
    session.sync(&[&new, &old]).await;
    let mut reports = [session.report().await, session.report().await];
    reports.sort_by_key(|(report, _)| report.name.clone());
    let error = reports[0].1.error.clone().unwrap();
    assert_eq!(error.severity, Severity::Fatal);
    let user = error.user_message.unwrap();
    assert!(
        user.contains("mountPath /mnt/nnf/job-1 belongs to ClientMount compute-1/job-1"),
        "{user}"
    );
    assert!(ready(&reports[1].1));
    session.send(&deleted(&old)).await;
    assert!(session.report_of(&old, ready).await.released);
    session.report_of(&new, ready).await;
    assert_eq!(node.mounted(), ["/mnt/nnf/job-1"]);
}

#[tokio::test]
async fn a_failure_is_retried_by_itself_and_cleared() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    node.chassis.compute.hold(&point("/mnt/nnf/job-0"));
    session.send(&unmounted(&object)).await;
    let (_, status) = session.report().await;
    let error = status.error.unwrap();
    assert!(
        error.debug_message.contains("unable to unmount file system")
            && error.debug_message.contains("os error 16")
    );
    assert_eq!((error.severity, status.all_ready), (Severity::Minor, false));
    node.chassis.compute.let_go(&point("/mnt/nnf/job-0"));
    session.report_of(&object, ready).await;
}

#[tokio::test]
async fn objects_do_not_wait_for_each_other() {
    let mut node = Node::start(Chassis::new(50));
    let objects: Vec<_> = (0..50).map(|index| node.chassis.object(index)).collect();
    node.chassis.compute.plant_file(&point("/mnt/nnf/job-7"));
    let mut session = node.coordinator.session().await;
    session.sync(&objects.iter().collect::<Vec<_>>()).await;
    let mut failures = Vec::new();
    for _ in 0..50 {
        let (report, status) = session.report().await;
        if failed(&status) {
            failures.push(report.name);
        }
    }
    assert_eq!((failures, node.mounted().len()), (vec!["job-7".to_owned()], 49));
}

#[tokio::test]
async fn the_newest_version_wins() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    for number in 2..40 {
        let object = if number % 2 == 0 { unmounted(&object) } else { object.clone() };
        session.send(&version(&object, &number.to_string())).await;
    }
    loop {
        let (report, status) = session.report().await;
        assert!(ready(&status), "{status:?}");
        if report.observed_resource_version == "39" {
            break;
        }
    }
    assert_eq!(node.mounted(), ["/mnt/nnf/job-0"]);
}

#[tokio::test]
async fn a_superseded_agent_ends_and_leaves_everything_mounted() {
    for refusal in [
        Status::aborted("superseded by a newer agent of this node (boot 4711)"),
        Status::failed_precondition("a newer agent of this node (boot 4711) is connected"),
    ] {
        let mut node = Node::start(Chassis::new(1));
        let object = node.chassis.object(0);
        let mut session = node.coordinator.session().await;
        session.sync(&[&object]).await;
        session.report_of(&object, ready).await;
        session.to_node.send(Err(refusal.clone())).await.unwrap();
        let host = Arc::clone(&node.chassis.compute);
        assert_eq!(node.end().await, End::Refused(refusal.message().to_owned()));
        assert!(!host.applied().iter().any(|step| matches!(step, storage::Step::Unmount { .. })));
    }
}

#[tokio::test]
async fn an_agent_whose_hello_is_refused_ends() {
    let mut node = Node::start(Chassis::new(1));
    let session = node.coordinator.session().await;
    session
        .to_node
        .send(Err(Status::failed_precondition("a newer agent is connected")))
        .await
        .unwrap();
    assert_eq!(node.end().await, End::Refused("a newer agent is connected".into()));
}

#[tokio::test]
async fn a_stop_lets_running_steps_end_and_leaves_everything_mounted() {
    let mut node = Node::start(Chassis::new(1));
    let object = node.chassis.object(0);
    let mut session = node.coordinator.session().await;
    session.sync(&[&object]).await;
    session.report_of(&object, ready).await;
    node.stop.take().unwrap().send(()).unwrap();
    let host = Arc::clone(&node.chassis.compute);
    assert_eq!(node.end().await, End::Stopped);
    assert!(!host.applied().iter().any(|step| matches!(step, storage::Step::Unmount { .. })));
}

/// A node on which the first umount(2) fails; mounts run beside it, in any order.
#[derive(Debug)]
struct Refusing {
    node: Arc<FakeHost>,
    has_failed: std::sync::atomic::AtomicBool,
}

impl Host for Refusing {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        self.node.observe(desired)
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        let has_failed = || self.has_failed.swap(true, std::sync::atomic::Ordering::SeqCst);
        if matches!(step, Step::Unmount { .. }) && !has_failed() {
            let (call, target) = ("umount", step.on().to_string());
            return Err(StepError::System {
                call,
                target,
                source: std::io::ErrorKind::Other.into(),
            });
        }
        self.node.apply(step)
    }
}

#[tokio::test]
async fn a_failed_clean_up_is_reported_as_health_and_does_not_delay_work() {
    let mut node = Node::start(Chassis::new(2));
    let objects = [0, 1].map(|index| node.chassis.object(index));
    let mut session = node.coordinator.session().await;
    session.sync(&[&objects[0]]).await;
    session.report_of(&objects[0], ready).await;
    node.chassis.lose_records();
    let host = Refusing { node: Arc::clone(&node.chassis.compute), has_failed: false.into() };
    node.restart_agent_on(Arc::new(host), session).await;
    let mut session = node.coordinator.session().await;
    session.sync(&[&objects[1]]).await;
    let health = session.health(health::State::Warning).await;
    assert!(health.message.starts_with("unwanted mounts remain: "), "{}", health.message);
    session.report_of(&objects[1], ready).await;
}

/// A node on which umount(2) hangs until the test ends that.
#[derive(Debug)]
struct Hanging {
    node: Arc<FakeHost>,
    hang: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Host for Hanging {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        self.node.observe(desired)
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        if matches!(step, Step::Unmount { .. }) {
            // It returns when the test drops the sender.
            let _ = self.hang.lock().unwrap().recv();
        }
        self.node.apply(step)
    }
}

#[tokio::test]
async fn a_clean_up_that_hangs_delays_only_the_objects_whose_mounts_it_removes() {
    let mut node = Node::start(Chassis::new(2));
    let objects = [0, 1].map(|index| node.chassis.object(index));
    let mut session = node.coordinator.session().await;
    session.sync(&[&objects[0]]).await;
    session.report_of(&objects[0], ready).await;
    node.chassis.lose_records();
    let (release, hang) = std::sync::mpsc::channel();
    let host = Hanging { node: Arc::clone(&node.chassis.compute), hang: hang.into() };
    node.restart_agent_on(Arc::new(host), session).await;
    let mut session = node.coordinator.session().await;
    session.sync(&[&objects[1]]).await;
    session.report_of(&objects[1], ready).await;

    // The clean-up is about to unmount its path: the agent must not observe the mount before that and report it.
    session.send(&objects[0]).await;
    session.send(&version(&objects[1], "2")).await;
    let again = session.report_of(&objects[1], ready).await;
    assert_eq!(again.observed_resource_version, "2");
    assert!(session.other_reports.is_empty(), "{:?}", session.other_reports);
    drop(release);
    session.report_of(&objects[0], ready).await;
    assert_eq!(node.mounted().len(), 2);
}
