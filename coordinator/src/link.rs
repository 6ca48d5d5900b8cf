//! `NodeLink`: one stream per node. What the node says is checked and passed on; what the hub has for it is sent as the
//! node takes it.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use daemon::vital;
use futures::FutureExt;
use proto::limits;
use proto::v1::from_node::Message as Said;
use proto::v1::node_link_server::NodeLink;
use proto::v1::to_node::Message as Told;
use proto::v1::{FromNode, Hello, ToNode, Welcome};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::hub::{Hub, RejectedReport, Session, SessionEnd};
use crate::peer::Peer;
use crate::roster::RejectedHello;

/// Messages on their way to one node; what does not fit waits as a name in its queue.
const IN_FLIGHT: usize = 4;
/// A peer that connects and says nothing is not kept.
const HELLO_DEADLINE: Duration = Duration::from_secs(10);

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    hub: Arc<Hub>,
    /// Why nodes were refused that come again and again: told once for each reason.
    refused: Arc<Mutex<BTreeMap<String, RejectedHello>>>,
}

impl Link {
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        Self { hub, refused: Arc::default() }
    }

    fn greet(&self, hello: Hello) -> Result<Session, Status> {
        let node = hello.node.clone();
        let greeted = self.hub.hello(hello);
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let rejected = match greeted {
            Ok(session) => {
                refused.remove(&node);
                return Ok(session);
            }
            Err(rejected) => rejected,
        };
        let status = rejected_hello(&rejected);
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
        let peer = Peer::of(&request)?;
        let mut said = request.into_inner();
        let hello = hello(&mut said).await?;
        peer.speaks_for(&hello.node)?;
        let version = hello.version.clone();
        let session = self.greet(hello)?;
        log::info!(node = session.node.as_str(), epoch = session.epoch, version = version.as_str(); "node connected");
        let (told, stream) = mpsc::channel(IN_FLIGHT);
        tokio::spawn(vital("a node's session", serve(self.hub.clone(), session, said, told)));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

async fn hello(said: &mut Streaming<FromNode>) -> Result<Hello, Status> {
    let first = tokio::time::timeout(HELLO_DEADLINE, said.message()).await.map_err(|_| {
        Status::deadline_exceeded(format!("no hello within {} s", HELLO_DEADLINE.as_secs()))
    })??;
    match first.and_then(|first| first.message) {
        Some(Said::Hello(hello)) => match limits::check_hello(&hello) {
            Ok(()) => Ok(hello),
            Err(too_long) => Err(Status::invalid_argument(too_long.to_string())),
        },
        Some(Said::Report(_) | Said::Health(_)) | None => {
            Err(Status::invalid_argument("the first message of a node must be its hello"))
        }
    }
}

async fn serve(
    hub: Arc<Hub>,
    session: Session,
    mut said: Streaming<FromNode>,
    told: mpsc::Sender<Result<ToNode, Status>>,
) {
    let talk = AssertUnwindSafe(converse(&hub, &session, &mut said, &told)).catch_unwind().await;
    // A panic that left the roster half changed poisoned its lock: then `bye` panics too, and the process ends.
    hub.bye(&session);
    let defect = |_| Err(Status::internal("a defect of the coordinator; its log tells which"));
    let end = talk.unwrap_or_else(defect);
    let node = session.node.as_str();
    match end {
        Ok(()) => log::info!(node, epoch = session.epoch; "node disconnected"),
        Err(status) => {
            log::info!(node, epoch = session.epoch, reason = status.message(); "session ended");
            // A node that reads nothing does not hear why; its connection ends all the same.
            let _ = told.try_send(Err(status));
        }
    }
}

/// Serves until the node leaves (`Ok`) or must leave (`Err`, what it is told).
async fn converse(
    hub: &Hub,
    session: &Session,
    said: &mut Streaming<FromNode>,
    told: &mpsc::Sender<Result<ToNode, Status>>,
) -> Result<(), Status> {
    let welcome = Told::Welcome(Welcome { epoch: session.epoch });
    if told.send(Ok(ToNode { message: Some(welcome) })).await.is_err() {
        return Ok(());
    }
    let mut idle = false;
    loop {
        tokio::select! {
            message = said.message() => match message {
                Ok(Some(FromNode { message })) => take(hub, session, message)?,
                // Larger than any message may be.
                Err(status) if status.code() == Code::OutOfRange => return Err(status),
                // Without its connection a node says nothing more; which way it was lost makes no difference.
                Ok(None) | Err(_) => return Ok(()),
            },
            permit = told.reserve(), if !idle => {
                let Ok(permit) = permit else { return Ok(()) };
                match hub.next(session).map_err(|end| ended(session, &end))? {
                    Some(message) => permit.send(Ok(ToNode { message: Some(message) })),
                    None => idle = true,
                }
            }
            () = session.bell.notified() => {
                // Also a node that takes nothing off its stream must not keep a session that is over.
                if let Some(end) = hub.over(session) {
                    return Err(ended(session, &end));
                }
                idle = false;
            }
        }
    }
}

fn take(hub: &Hub, session: &Session, message: Option<Said>) -> Result<(), Status> {
    match message {
        Some(Said::Report(report)) => match hub.report(session, &report) {
            Ok(()) => Ok(()),
            Err(rejected @ (RejectedReport::TooLong { .. } | RejectedReport::Unfit { .. })) => {
                // One object's report is wrong; the node's others need not suffer.
                let cause = std::error::Error::source(&rejected)
                    .map(ToString::to_string)
                    .unwrap_or_default();
                log::warn!(error:% = rejected, cause = cause.as_str(); "drop a report");
                Ok(())
            }
            Err(RejectedReport::OldSession { .. }) => Err(hub
                .next(session)
                .err()
                .map_or_else(|| Status::aborted("superseded"), |end| ended(session, &end))),
            Err(
                rejected @ (RejectedReport::Foreign { .. } | RejectedReport::FromRabbit { .. }),
            ) => {
                log::warn!(error:% = rejected; "refuse a report");
                Err(Status::permission_denied(rejected.to_string()))
            }
        },
        Some(Said::Health(health)) => {
            hub.health(session, limits::bounded(health));
            Ok(())
        }
        Some(Said::Hello(_)) => Err(Status::invalid_argument("a second hello in one stream")),
        // Of a newer agent: what we do not know, we need not know.
        None => Ok(()),
    }
}

fn rejected_hello(rejected: &RejectedHello) -> Status {
    match rejected {
        RejectedHello::NoName
        | RejectedHello::NotHostName { .. }
        | RejectedHello::NoRole { .. } => Status::invalid_argument(rejected.to_string()),
        // The layout may be wrong and not the agent: it comes again until one of them is another.
        RejectedHello::WrongRole { .. } => Status::permission_denied(rejected.to_string()),
        RejectedHello::Older { .. } => Status::failed_precondition(rejected.to_string()),
        // The other may be dead, and not known to be.
        RejectedHello::EarlierBoot { .. } => Status::already_exists(rejected.to_string()),
    }
}

fn ended(session: &Session, end: &SessionEnd) -> Status {
    match end {
        SessionEnd::Superseded { boot } => Status::aborted(format!(
            "superseded by a newer agent of this node (boot {boot}): only one agent may speak for {}",
            session.node
        )),
        SessionEnd::Stopping => Status::unavailable("the coordinator is stopping"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node takes FailedPrecondition for the last word and ends for good; everything else it tries again.
    #[test]
    fn only_an_older_agent_is_refused_for_good() {
        let node = || "compute-1".to_owned();
        let role = RejectedHello::WrongRole { node: node(), configured: "rabbit", said: "compute" };
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
            let code = rejected_hello(&rejected).code();
            assert_eq!(code == Code::FailedPrecondition, is_final, "{rejected}");
        }
    }
}
