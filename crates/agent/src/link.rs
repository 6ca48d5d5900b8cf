//! The stream to the coordinator: sends the hello, passes on events and reports, and reconnects when
//! the stream is lost.
//!
//! While nothing changes, the link of a compute sends nothing and runs no timer; the kernel's TCP keepalive notices a dead
//! peer. The link of a rabbit says every 20 s that the agent is alive.

mod pace;

use std::{collections::BTreeSet, error::Error, io, iter, sync::Arc, time::Duration};

use apiclient::innermost;
use daemon::chain;
use futures::{Stream, StreamExt, stream};
use proto::v1::{
    Alive, EndJobWatch, FromNode, Hello, PlanQuestion, ToNode, WatchJob, from_node,
    node_link_client::NodeLinkClient, to_node::Message,
};
use tokio::{
    sync::mpsc,
    time::{self, Instant},
};
use tonic::{
    Code, Status, Streaming,
    transport::{self, Channel, Endpoint},
};

use crate::{
    coordinator::CoordinatorAddress,
    hello::refresh,
    link::pace::Pace,
    outbox::{Outbox, OutboxMessage},
    questions::QuestionMessage,
    received::ReceivedMount,
};

/// An event from the coordinator, or from the watch on the API if the agent runs without a coordinator (direct mode).
#[derive(Debug)]
pub enum LinkEvent {
    /// A new connection is open: one event for each existing object follows, then [`LinkEvent::Synced`].
    Up,
    /// An object is new or changed.
    Desired(Box<ReceivedMount>),
    /// The object with this uid was deleted.
    Gone(String),
    /// The coordinator has sent every object that exists.
    Synced,
    /// An operator asks for a plan. The agent answers with [`Outbox::answer_plan`].
    Plan(PlanQuestion),
    /// The connection is lost; the link reconnects.
    Down,
    /// The coordinator serves a newer agent of this node; the text names that agent.
    Refused(String),
}

/// Size of the largest message in bytes: a ClientMount of 3 MiB with its profile fits.
pub const LARGEST_MESSAGE: usize = 16 * 1024 * 1024;
/// Time limit for connecting, and for the coordinator's welcome, which answers the hello.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Shortest duration of a connection whose loss restarts the delays from the shortest one. If the loss of every
/// connection restarted the delays, all nodes would connect five times a second to a coordinator that accepts and then
/// drops each connection.
const STABLE_AFTER: Duration = Duration::from_secs(5);

/// The reason why a connection ended.
enum End {
    /// The coordinator serves a newer agent of this node; the text names that agent.
    Refused(String),
    /// The network, or a restart of the coordinator, ended the connection. `connected_for` is `None` if
    /// it was never open.
    Lost { why: String, connected_for: Option<Duration> },
    /// The agent is stopping: no task receives the events.
    Closed,
}

/// Keeps a stream open until the coordinator refuses this agent, or the agent stops.
pub async fn run(
    coordinator: CoordinatorAddress,
    hello: Hello,
    outbox: Arc<Outbox>,
    events: mpsc::Sender<LinkEvent>,
) {
    let initial = || (Pace::new(Instant::now()), BTreeSet::new());
    let (mut pace, mut logged) = initial();
    loop {
        let connection = outbox.begin();
        let end =
            serve_connection(&coordinator, &refresh(&hello), &outbox, connection, &events).await;
        outbox.disconnect();
        match end {
            End::Closed => return,
            End::Refused(why) => {
                drop(events.send(LinkEvent::Refused(why)).await);
                return;
            }
            End::Lost { why, connected_for } => {
                if connected_for.is_some_and(|connected_for| connected_for >= STABLE_AFTER) {
                    (pace, logged) = initial();
                }
                // Each reason is logged once: a coordinator that is down for a night must not fill every node's
                // journal. All logged reasons are remembered, not only the last one, because a refused certificate
                // causes different errors, depending on where the transport notices it first.
                if !logged.contains(&why) {
                    log::warn!(
                        "no connection to the coordinator; mounts stay as they are, and the agent tries to connect again: {why}"
                    );
                    logged.insert(why);
                }
                if connected_for.is_some() && events.send(LinkEvent::Down).await.is_err() {
                    return;
                }
            }
        }
        let delay = pace.delay(Instant::now(), outbox.questions().are_open());
        drop(time::timeout(delay, outbox.question_opened()).await);
    }
}

/// Connects. A TCP connection gets keepalive, so that the kernel notices a dead peer.
async fn connect(endpoint: &Endpoint) -> Result<Channel, transport::Error> {
    match endpoint.uri().scheme_str() {
        Some("https") => endpoint.connect_with_connector(apiclient::tcp()).await,
        // A unix socket needs no keepalive: the kernel closes it when the peer process ends.
        _ => endpoint.connect().await,
    }
}

async fn serve_connection(
    coordinator: &CoordinatorAddress,
    hello: &Hello,
    outbox: &Arc<Outbox>,
    connection: u64,
    events: &mpsc::Sender<LinkEvent>,
) -> End {
    let opened = time::timeout(ANSWER_TIMEOUT, open(coordinator, hello, outbox, connection)).await;
    let mut stream = match opened {
        Ok(Ok(stream)) => stream,
        Ok(Err(end)) => return end,
        Err(_) => {
            return not_connected(format!(
                "the coordinator did not answer within {} s",
                ANSWER_TIMEOUT.as_secs()
            ));
        }
    };
    outbox.welcome();
    let since = Instant::now();
    // Logged, so that the journal shows when a lost connection works again.
    log::info!("connected to the coordinator");
    if events.send(LinkEvent::Up).await.is_err() {
        return End::Closed;
    }
    loop {
        let event = match stream.message().await {
            Ok(Some(ToNode { message: Some(Message::Job(answer)) })) => {
                let state = answer.state.unwrap_or_default();
                outbox.questions().record_answer(answer.id, &hello.node, state);
                continue;
            }
            Ok(Some(message)) => match message.message.and_then(event_of) {
                Some(event) => event,
                None => continue,
            },
            Ok(None) => {
                let why = "the coordinator closed the stream".to_owned();
                return End::Lost { why, connected_for: Some(since.elapsed()) };
            }
            Err(status) => return end(&status, Some(since.elapsed())),
        };
        if matches!(event, LinkEvent::Synced) {
            outbox.resend_all();
        }
        if events.send(event).await.is_err() {
            return End::Closed;
        }
    }
}

/// Returns the end of a connection that was never open.
fn not_connected(why: String) -> End {
    End::Lost { why, connected_for: None }
}

/// Connects, sends the hello and waits for the welcome.
async fn open(
    coordinator: &CoordinatorAddress,
    hello: &Hello,
    outbox: &Arc<Outbox>,
    connection: u64,
) -> Result<Streaming<ToNode>, End> {
    let endpoint = coordinator.endpoint().map_err(|error| not_connected(chain(&error)))?;
    let channel = connect(&endpoint.connect_timeout(ANSWER_TIMEOUT)).await;
    let channel = channel.map_err(|error| {
        not_connected(format!("connect: {}: {}", innermost(&error), remedy(&error)))
    })?;
    let mut client = NodeLinkClient::new(channel).max_decoding_message_size(LARGEST_MESSAGE);
    let messages = messages(hello.clone(), Arc::clone(outbox), connection);
    let mut stream = client.open(messages).await.map_err(|status| end(&status, None))?.into_inner();
    match stream.message().await.map_err(|status| end(&status, None))? {
        Some(ToNode { message: Some(Message::Welcome(_)) }) => Ok(stream),
        _ => {
            Err(not_connected("the first message of the coordinator is not its welcome".to_owned()))
        }
    }
}

fn remedy(error: &(dyn Error + 'static)) -> &'static str {
    if is_tls_error(error) {
        "check that the authority of --ca signed the coordinator's certificate, and that the coordinator trusts the authority of this node's certificate (--certificate, --key)"
    } else {
        "check that the coordinator runs at the address of --coordinator"
    }
}

/// Returns whether one side rejected the certificate of the other side: rustls reports a rejection as `InvalidData`.
fn is_tls_error(error: &(dyn Error + 'static)) -> bool {
    let is_invalid_data = |error: &(dyn Error + 'static)| {
        let error = error.downcast_ref::<io::Error>();
        error.is_some_and(|error| error.kind() == io::ErrorKind::InvalidData)
    };
    iter::successors(Some(error), |error| (*error).source()).any(is_invalid_data)
}

fn messages(
    hello: Hello,
    outbox: Arc<Outbox>,
    connection: u64,
) -> impl Stream<Item = FromNode> + Send + 'static {
    let alive_every = Duration::from_secs(hello.alive_every.into());
    let first = FromNode { message: Some(from_node::Message::Hello(hello)) };
    let rest = stream::unfold(outbox, move |outbox| async move {
        let next = outbox.next(connection);
        let message = if alive_every.is_zero() {
            message_of(&next.await?)
        } else {
            match time::timeout(alive_every, next).await {
                Ok(message) => message_of(&message?),
                Err(_) => FromNode { message: Some(from_node::Message::Alive(Alive {})) },
            }
        };
        Some((message, outbox))
    });
    stream::once(async { first }).chain(rest)
}

fn message_of(message: &OutboxMessage) -> FromNode {
    let message = match message {
        OutboxMessage::Report(report) => from_node::Message::Report(report.into()),
        OutboxMessage::Health(health) => from_node::Message::Health(health.clone()),
        OutboxMessage::Plan(answer) => from_node::Message::Plan(answer.clone()),
        OutboxMessage::Question(QuestionMessage::Begin(id, job)) => {
            from_node::Message::WatchJob(WatchJob { id: *id, job: job.clone() })
        }
        OutboxMessage::Question(QuestionMessage::End(id)) => {
            from_node::Message::EndJobWatch(EndJobWatch { id: *id })
        }
    };
    FromNode { message: Some(message) }
}

/// Returns the event in a message; `None` for a message that the link itself handles.
fn event_of(message: Message) -> Option<LinkEvent> {
    Some(match message {
        Message::Desired(desired) => LinkEvent::Desired(Box::new(ReceivedMount::decode(desired))),
        Message::Gone(gone) => LinkEvent::Gone(gone.uid),
        Message::Synced(_) => LinkEvent::Synced,
        Message::Plan(question) => LinkEvent::Plan(question),
        Message::Welcome(_) | Message::Job(_) => return None,
    })
}

fn end(status: &Status, connected_for: Option<Duration>) -> End {
    match status.code() {
        // The coordinator refuses this agent because a newer agent of this node is connected: a retry is useless. After
        // all other refusals a retry may succeed, when an administrator has edited the SystemConfiguration or the
        // certificates, or when the connection of the previous boot has ended.
        Code::Aborted | Code::FailedPrecondition => End::Refused(status.message().to_owned()),
        // The transport sets these codes, not the coordinator.
        Code::Unknown | Code::Unavailable | Code::Cancelled => {
            End::Lost { why: format!("the connection broke: {}", cause(status)), connected_for }
        }
        _ => End::Lost { why: format!("{}: {}", status.code(), status.message()), connected_for },
    }
}

/// Returns the cause of a transport error: the error's own message says only that the transport failed.
fn cause(status: &Status) -> String {
    match status.source() {
        // With TLS 1.3, the coordinator's rejection of the node's certificate arrives only after the node's first
        // message.
        Some(source) if is_tls_error(source) => {
            format!("{}: {}", innermost(source), remedy(source))
        }
        Some(source) if !innermost(source).is::<Status>() => innermost(source).to_string(),
        _ => status.message().to_owned(),
    }
}

#[cfg(test)]
mod tests;
