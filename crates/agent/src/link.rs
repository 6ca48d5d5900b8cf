//! The one stream to the coordinator: says hello, passes on what comes, reconnects when it is lost.
//!
//! While nothing changes nothing is sent and no timer runs; a dead peer is noticed by the kernel's TCP keepalive.

use std::{collections::BTreeSet, error::Error, io, iter, sync::Arc, time::Duration};

use apiclient::innermost;
use daemon::chain;
use futures::{Stream, StreamExt, stream};
use proto::v1::{
    FromNode, Hello, ToNode, from_node, node_link_client::NodeLinkClient, to_node::Message,
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
    desire::Desire,
    hello::again,
    outbox::{News, Outbox},
};

/// What the node is told, by the stream or by its own watch on the API.
#[derive(Debug)]
pub enum LinkEvent {
    /// A new connection stands: everything that exists follows, then [`LinkEvent::Synced`].
    Up,
    /// An object is new or changed.
    Desired(Box<Desire>),
    /// The object of this uid is no more.
    Gone(String),
    /// Everything that exists has been told.
    Synced,
    /// The connection is lost; another is being sought.
    Down,
    /// A newer agent speaks for this node; the text says which.
    Refused(String),
}

/// A ClientMount of 3 MiB with its profile fits.
pub const LARGEST_MESSAGE: usize = 16 * 1024 * 1024;
/// For connecting, and for the coordinator's first word.
const PATIENCE: Duration = Duration::from_secs(10);
const FIRST_DELAY: Duration = Duration::from_millis(200);
const LONGEST_DELAY: Duration = Duration::from_secs(15);
/// A connection that is lost sooner is one more attempt that failed: a coordinator that welcomes and drops its nodes must not
/// be asked by all of them five times a second.
const STEADY: Duration = Duration::from_secs(30);
enum End {
    /// By the coordinator, for good.
    Refused(String),
    /// By the network or a restart; how long the connection had stood, if it ever did.
    Lost { why: String, stood: Option<Duration> },
    /// Nobody listens to events any more.
    Closed,
}

/// Holds the stream until the coordinator refuses this agent, or nobody listens any more.
pub async fn run(
    coordinator: CoordinatorAddress,
    hello: Hello,
    outbox: Arc<Outbox>,
    events: mpsc::Sender<LinkEvent>,
) {
    let anew = || (controller::delays(FIRST_DELAY, LONGEST_DELAY), BTreeSet::new());
    let (mut delays, mut told) = anew();
    loop {
        let connection = outbox.begin();
        let end = converse(&coordinator, &again(&hello), &outbox, connection, &events).await;
        outbox.lost();
        match end {
            End::Closed => return,
            End::Refused(why) => {
                drop(events.send(LinkEvent::Refused(why)).await);
                return;
            }
            End::Lost { why, stood } => {
                if stood.is_some_and(|stood| stood >= STEADY) {
                    (delays, told) = anew();
                }
                // Once per reason: a coordinator that is away for a night must not fill every node's journal. A refused
                // certificate shows as one of several, whichever the transport meets first.
                if !told.contains(&why) {
                    log::warn!(
                        "no connection to the coordinator, everything stays as it is: {why}"
                    );
                    told.insert(why);
                }
                if stood.is_some() && events.send(LinkEvent::Down).await.is_err() {
                    return;
                }
            }
        }
        time::sleep(delays.next().unwrap_or(LONGEST_DELAY)).await;
    }
}

/// Connects so that the kernel notices a dead peer.
async fn connect(endpoint: &Endpoint) -> Result<Channel, transport::Error> {
    match endpoint.uri().scheme_str() {
        Some("https") => endpoint.connect_with_connector(apiclient::tcp()).await,
        // A socket of this node ends with its process.
        _ => endpoint.connect().await,
    }
}

async fn converse(
    coordinator: &CoordinatorAddress,
    hello: &Hello,
    outbox: &Arc<Outbox>,
    connection: u64,
    events: &mpsc::Sender<LinkEvent>,
) -> End {
    let lost = |why| End::Lost { why, stood: None };
    let opened = time::timeout(PATIENCE, open(coordinator, hello, outbox, connection)).await;
    let mut stream = match opened {
        Ok(Ok(stream)) => stream,
        Ok(Err(end)) => return end,
        Err(_) => return lost(format!("no answer within {} s", PATIENCE.as_secs())),
    };
    outbox.welcome();
    let since = Instant::now();
    // The counterpart of a loss that was told: without it a journal would end with that.
    log::info!("connected to the coordinator");
    if events.send(LinkEvent::Up).await.is_err() {
        return End::Closed;
    }
    loop {
        let event = match stream.message().await {
            Ok(Some(message)) => match message.message.and_then(event_of) {
                Some(event) => event,
                None => continue,
            },
            Ok(None) => {
                let why = "the coordinator closed the stream".to_owned();
                return End::Lost { why, stood: Some(since.elapsed()) };
            }
            Err(status) => return end(&status, Some(since.elapsed())),
        };
        if matches!(event, LinkEvent::Synced) {
            outbox.synced();
        }
        if events.send(event).await.is_err() {
            return End::Closed;
        }
    }
}

/// Connects, says hello and waits to be welcomed.
async fn open(
    coordinator: &CoordinatorAddress,
    hello: &Hello,
    outbox: &Arc<Outbox>,
    connection: u64,
) -> Result<Streaming<ToNode>, End> {
    let lost = |why| End::Lost { why, stood: None };
    let endpoint = coordinator.endpoint().map_err(|error| lost(chain(&error)))?;
    let channel = connect(&endpoint.connect_timeout(PATIENCE)).await;
    let channel = channel
        .map_err(|error| lost(format!("connect: {}: {}", innermost(&error), remedy(&error))))?;
    let mut client = NodeLinkClient::new(channel).max_decoding_message_size(LARGEST_MESSAGE);
    let messages = messages(hello.clone(), Arc::clone(outbox), connection);
    let mut stream = client.open(messages).await.map_err(|status| end(&status, None))?.into_inner();
    match stream.message().await.map_err(|status| end(&status, None))? {
        Some(ToNode { message: Some(Message::Welcome(_)) }) => Ok(stream),
        _ => Err(lost("the coordinator did not say welcome first".to_owned())),
    }
}

fn remedy(error: &(dyn Error + 'static)) -> &'static str {
    if is_by_tls(error) {
        "is its certificate signed by --ca, and this node's (--certificate, --key) by whom it trusts?"
    } else {
        "is it running where --coordinator says?"
    }
}

/// Whether one of the two did not accept the other: rustls tells it as data that are not valid.
fn is_by_tls(error: &(dyn Error + 'static)) -> bool {
    let is_it = |error: &(dyn Error + 'static)| {
        let error = error.downcast_ref::<io::Error>();
        error.is_some_and(|error| error.kind() == io::ErrorKind::InvalidData)
    };
    iter::successors(Some(error), |error| (*error).source()).any(is_it)
}

fn messages(
    hello: Hello,
    outbox: Arc<Outbox>,
    connection: u64,
) -> impl Stream<Item = FromNode> + Send + 'static {
    let first = FromNode { message: Some(from_node::Message::Hello(hello)) };
    let rest = stream::unfold(outbox, move |outbox| async move {
        let news = outbox.next(connection).await?;
        Some((message_of(&news), outbox))
    });
    stream::once(async { first }).chain(rest)
}

fn message_of(news: &News) -> FromNode {
    let message = match news {
        News::Report(report) => from_node::Message::Report(report.into()),
        News::Health(health) => from_node::Message::Health(health.clone()),
    };
    FromNode { message: Some(message) }
}

/// What a message means to the agent; nothing when it is for the link itself.
fn event_of(message: Message) -> Option<LinkEvent> {
    Some(match message {
        Message::Desired(desired) => LinkEvent::Desired(Box::new(Desire::decode(desired))),
        Message::Gone(gone) => LinkEvent::Gone(gone.uid),
        Message::Synced(_) => LinkEvent::Synced,
        Message::Welcome(_) => return None,
    })
}

fn end(status: &Status, stood: Option<Duration>) -> End {
    match status.code() {
        // A newer agent of this node took over, or was there before this one came. Whatever else a coordinator refuses, an
        // edit of the machine's layout or of its certificates mends, or the end of a former boot's connection.
        Code::Aborted | Code::FailedPrecondition => End::Refused(status.message().to_owned()),
        // Not the coordinator's words but the transport's.
        Code::Unknown | Code::Unavailable | Code::Cancelled => {
            End::Lost { why: format!("the connection broke: {}", cause(status)), stood }
        }
        _ => End::Lost { why: format!("{}: {}", status.code(), status.message()), stood },
    }
}

/// Of an error of the transport the message tells no more than that it is one.
fn cause(status: &Status) -> String {
    match status.source() {
        // With TLS 1.3 a node learns only from its first message that its certificate is refused.
        Some(source) if is_by_tls(source) => format!("{}: {}", innermost(source), remedy(source)),
        Some(source) if !innermost(source).is::<Status>() => innermost(source).to_string(),
        _ => status.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    #[error("transport error")]
    struct Transport(#[source] io::Error);

    fn why(status: &Status) -> String {
        match end(status, None) {
            End::Lost { why, .. } | End::Refused(why) => why,
            End::Closed => panic!("somebody listens"),
        }
    }

    #[test]
    fn a_loss_is_told_with_its_innermost_cause() {
        let broken = |kind, text: &str| {
            let error = Transport(io::Error::new(kind, text));
            why(&Status::from_error(Box::new(error)))
        };
        let reset = broken(io::ErrorKind::ConnectionReset, "connection reset by peer");
        assert_eq!(reset, "the connection broke: connection reset by peer");
        let refused = broken(io::ErrorKind::InvalidData, "received fatal alert: UnknownCA");
        let told = "the connection broke: received fatal alert: UnknownCA: is its certificate";
        assert!(refused.starts_with(told) && refused.contains("--certificate"), "{refused}");
        let earlier = Status::already_exists("an agent of another boot speaks for this node");
        assert!(matches!(end(&earlier, None), End::Lost { .. }), "it is tried again");
        let said = why(&Status::unavailable("the coordinator is stopping"));
        assert_eq!(said, "the connection broke: the coordinator is stopping");
    }
}
