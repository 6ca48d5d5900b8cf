//! The gRPC service `NodeLink`: one stream per node. It checks the node's messages and passes them to the hub, and
//! sends the hub's messages as fast as the node reads them.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use daemon::vital;
use futures::FutureExt;
use jobs::Questions;
use k8s_openapi::jiff::Timestamp;
use proto::limits;
use proto::v1::from_node::Message as NodeMessage;
use proto::v1::node_link_server::NodeLink;
use proto::v1::to_node::Message as CoordinatorMessage;
use proto::v1::{FromNode, Hello, ToNode, Welcome};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::hub::{Hub, RejectedReport, Session, SessionEnd};
use crate::peer::Peer;
use crate::questions;
use crate::roster::RejectedHello;

/// Number of messages that may wait for one node to read them. Further messages are not built yet: the node's queue
/// holds only the names of their objects.
const IN_FLIGHT: usize = 4;
/// Delay of a timer that shows that this process was paused.
const LATE: Duration = Duration::from_secs(5);
/// Longest time between a node's connect and its hello.
const HELLO_DEADLINE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct Link {
    hub: Arc<Hub>,
    /// The last reason for which each node was refused, by the node's name; the log names each reason once.
    refused: Arc<Mutex<BTreeMap<String, RejectedHello>>>,
}

impl Link {
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        Self { hub, refused: Arc::default() }
    }

    fn open_session(&self, hello: Hello) -> Result<Session, Status> {
        let node = hello.node.clone();
        let opened = self.hub.hello(hello);
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let rejected = match opened {
            Ok(session) => {
                refused.remove(&node);
                return Ok(session);
            }
            Err(rejected) => rejected,
        };
        let status = hello_status(&rejected);
        if refused.get(&node) != Some(&rejected) {
            log::warn!(error:% = rejected; "refuse a hello");
            refused.insert(node, rejected);
        }
        Err(status)
    }
}

#[tonic::async_trait]
impl NodeLink for Link {
    type OpenStream = ReceiverStream<Result<ToNode, Status>>;

    async fn open(
        &self,
        request: Request<Streaming<FromNode>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        let (peer, expires) = (Peer::identify(&request)?, Peer::expires(&request));
        let mut incoming = request.into_inner();
        let hello = read_hello(&mut incoming).await?;
        peer.check_node(&hello.node)?;
        let version = hello.version.clone();
        let session = self.open_session(hello)?;
        if let Some(expires) = expires {
            self.hub.set_certificate_expiry(&session, expires);
        }
        log::info!(node = session.node.as_str(), epoch = session.epoch, version = version.as_str(); "node connected");
        let (outgoing, stream) = mpsc::channel(IN_FLIGHT);
        tokio::spawn(vital(
            "a node's session",
            serve(self.hub.clone(), session, incoming, outgoing),
        ));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

async fn read_hello(incoming: &mut Streaming<FromNode>) -> Result<Hello, Status> {
    let first =
        tokio::time::timeout(HELLO_DEADLINE, incoming.message()).await.map_err(|_| {
            Status::deadline_exceeded(format!(
                "the node sent no hello within {} s after it connected",
                HELLO_DEADLINE.as_secs()
            ))
        })??;
    match first.and_then(|first| first.message) {
        Some(NodeMessage::Hello(hello)) => match limits::check_hello(&hello) {
            Ok(()) => Ok(hello),
            Err(too_long) => Err(Status::invalid_argument(too_long.to_string())),
        },
        Some(
            NodeMessage::Report(_)
            | NodeMessage::Health(_)
            | NodeMessage::WatchJob(_)
            | NodeMessage::EndJobWatch(_)
            | NodeMessage::Plan(_)
            | NodeMessage::Alive(_),
        )
        | None => Err(Status::invalid_argument("the first message of a node must be its hello")),
    }
}

async fn serve(
    hub: Arc<Hub>,
    session: Session,
    mut incoming: Streaming<FromNode>,
    outgoing: mpsc::Sender<Result<ToNode, Status>>,
) {
    let served = serve_session(&hub, &session, &mut incoming, &outgoing);
    let served = AssertUnwindSafe(served).catch_unwind().await;
    // If the panic left the roster half changed, its lock is poisoned: then `close_session` panics too, and the
    // process ends.
    hub.close_session(&session);
    let defect = |_| {
        Err(Status::internal(
            "the task of this session failed, which is a defect of the coordinator: its log has the details",
        ))
    };
    let end = served.unwrap_or_else(defect);
    let node = session.node.as_str();
    match end {
        Ok(()) => log::info!(node, epoch = session.epoch; "node disconnected"),
        Err(status) => {
            log::info!(node, epoch = session.epoch, reason = status.message(); "session ended");
            // If the node reads no messages, the reason cannot be sent; the connection ends nevertheless.
            let _ = outgoing.try_send(Err(status));
        }
    }
}

/// Serves a session until the node disconnects (`Ok`) or the coordinator ends the session (`Err`, with the
/// reason for the node).
async fn serve_session(
    hub: &Hub,
    session: &Session,
    incoming: &mut Streaming<FromNode>,
    outgoing: &mpsc::Sender<Result<ToNode, Status>>,
) -> Result<(), Status> {
    let welcome = CoordinatorMessage::Welcome(Welcome { epoch: session.epoch });
    if outgoing.send(Ok(ToNode { message: Some(welcome) })).await.is_err() {
        return Ok(());
    }
    let (mut idle, mut open_questions) = (false, Questions::new(hub.jobs().clone()));
    let mut plan_requests = hub.plans().open(&session.node, session.epoch);
    let mut requested_plans = VecDeque::new();
    let mut hearing = Hearing::new(session.quiet_after);
    loop {
        tokio::select! {
            message = incoming.message() => match hearing.note(message, hub, session) {
                Ok(Some(FromNode { message: Some(NodeMessage::WatchJob(question)) })) => {
                    questions::open(&mut open_questions, hub, session, question);
                    idle = false;
                }
                Ok(Some(FromNode { message: Some(NodeMessage::EndJobWatch(question)) })) => {
                    questions::close(&mut open_questions, hub, session, question.id);
                }
                Ok(Some(FromNode { message })) => handle_message(hub, session, message)?,
                // The message is larger than the limit.
                Err(status) if status.code() == Code::OutOfRange => return Err(status),
                // The connection is lost, for whatever reason.
                Ok(None) | Err(_) => return Ok(()),
            },
            permit = outgoing.reserve(), if !idle => {
                let Ok(permit) = permit else { return Ok(()) };
                let next = hub.next(session).map_err(|end| end_status(session, &end))?;
                let answer = || questions::next(&mut open_questions, hub, session).map(CoordinatorMessage::Job);
                let plan = || requested_plans.pop_front().map(CoordinatorMessage::Plan);
                match next.or_else(answer).or_else(plan) {
                    Some(message) => permit.send(Ok(ToNode { message: Some(message) })),
                    None => idle = true,
                }
            }
            () = hearing.quiet() => hearing.set_quiet(hub, session),
            () = open_questions.changed() => idle = false,
            Some(request) = plan_requests.recv() => {
                requested_plans.push_back(request);
                idle = false;
            }
            () = session.notify.notified() => {
                // Ends a session that is over, even if the node reads no message.
                if let Some(end) = hub.end_of(session) {
                    return Err(end_status(session, &end));
                }
                idle = false;
            }
        }
    }
}

/// A message, the end of the stream, or its loss.
type Received = Result<Option<FromNode>, Status>;

/// When the agent of a session was last heard.
struct Hearing {
    quiet_after: Option<Duration>,
    last: (Instant, Timestamp),
    is_quiet: bool,
}

impl Hearing {
    fn new(quiet_after: Option<Duration>) -> Self {
        Self { quiet_after, last: (Instant::now(), Timestamp::now()), is_quiet: false }
    }

    /// Notes whether the node was heard, and returns what was received.
    fn note(&mut self, received: Received, hub: &Hub, session: &Session) -> Received {
        if self.quiet_after.is_some() && matches!(received, Ok(Some(_))) {
            self.last = (Instant::now(), Timestamp::now());
            if std::mem::take(&mut self.is_quiet) {
                hub.set_heard(session);
            }
        }
        received
    }

    /// Waits until the node was not heard for too long.
    async fn quiet(&self) {
        match self.quiet_after.filter(|_| !self.is_quiet) {
            Some(quiet_after) => tokio::time::sleep_until(self.last.0 + quiet_after).await,
            None => std::future::pending().await,
        }
    }

    fn set_quiet(&mut self, hub: &Hub, session: &Session) {
        // After a pause of this process, messages of the node may wait to be read.
        let since = self.last.0.elapsed();
        if self.quiet_after.is_some_and(|quiet_after| since > quiet_after + LATE) {
            self.last.0 = Instant::now();
            return;
        }
        self.is_quiet = true;
        log::warn!(node = session.node.as_str(), last_heard:% = self.last.1; "nothing is heard of the node, although its connection is open");
        hub.set_quiet(session, self.last.1);
    }
}

fn handle_message(
    hub: &Hub,
    session: &Session,
    message: Option<NodeMessage>,
) -> Result<(), Status> {
    match message {
        Some(NodeMessage::Report(report)) => match hub.report(session, &report) {
            Ok(()) => Ok(()),
            Err(
                rejected @ (RejectedReport::TooLong { .. } | RejectedReport::InvalidStatus { .. }),
            ) => {
                // Drops only this report: the session continues for the node's other objects.
                log::warn!(error = daemon::chain(&rejected); "drop a report");
                Ok(())
            }
            Err(RejectedReport::OldSession { .. }) => {
                let end = hub.end_of(session);
                Err(end
                    .map_or_else(|| Status::aborted("superseded"), |end| end_status(session, &end)))
            }
            Err(
                rejected @ (RejectedReport::Foreign { .. } | RejectedReport::FromRabbit { .. }),
            ) => {
                log::warn!(error:% = rejected; "refuse a report");
                Err(Status::permission_denied(rejected.to_string()))
            }
        },
        Some(NodeMessage::Health(health)) => {
            hub.health(session, limits::bounded(health));
            Ok(())
        }
        Some(NodeMessage::Hello(_)) => Err(Status::invalid_argument(
            "the node sent a second hello in one stream: open a new stream for each hello",
        )),
        Some(NodeMessage::Plan(answer)) => {
            hub.plans().answer(&session.node, answer);
            Ok(())
        }
        // `None`: a newer agent sent a message of a kind that this coordinator does not know.
        Some(NodeMessage::Alive(_) | NodeMessage::WatchJob(_) | NodeMessage::EndJobWatch(_))
        | None => Ok(()),
    }
}

fn hello_status(rejected: &RejectedHello) -> Status {
    match rejected {
        RejectedHello::NoName
        | RejectedHello::NotHostName { .. }
        | RejectedHello::NoRole { .. } => Status::invalid_argument(rejected.to_string()),
        // The SystemConfiguration may be wrong. So the code makes the agent try again until an administrator corrects
        // the SystemConfiguration or the agent's role.
        RejectedHello::WrongRole { .. } => Status::permission_denied(rejected.to_string()),
        RejectedHello::Older { .. } => Status::failed_precondition(rejected.to_string()),
        // The connection of the agent that is served may be dead without the coordinator having noticed it. So the
        // code makes the refused agent try again.
        RejectedHello::EarlierBoot { .. } => Status::already_exists(rejected.to_string()),
    }
}

fn end_status(session: &Session, end: &SessionEnd) -> Status {
    match end {
        SessionEnd::Superseded { boot } => Status::aborted(format!(
            "superseded by a newer agent of this node (boot {boot}): only one agent may serve {}",
            session.node
        )),
        SessionEnd::Stopping => Status::unavailable("the coordinator is stopping"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An agent exits on FailedPrecondition, and retries on every other code.
    #[test]
    fn only_the_refusal_of_an_older_agent_has_the_code_on_which_agents_exit() {
        let node = || "compute-1".to_owned();
        let role = RejectedHello::WrongRole {
            node: node(),
            configured: "rabbit",
            connected_as: "compute",
        };
        let boot = || "boot-2".to_owned();
        let older = RejectedHello::Older { node: node(), boot: boot(), started_at: 1 };
        let earlier = RejectedHello::EarlierBoot { node: node(), boot: boot(), booted_at: 1 };
        for (rejected, is_final) in [
            (role, false),
            (RejectedHello::NoRole { node: node() }, false),
            (RejectedHello::NoName, false),
            (RejectedHello::NotHostName { node: node() }, false),
            (earlier, false),
            (older, true),
        ] {
            let code = hello_status(&rejected).code();
            assert_eq!(code == Code::FailedPrecondition, is_final, "{rejected}");
        }
    }
}
