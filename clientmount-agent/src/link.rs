//! The one stream to the coordinator: says hello, passes on what comes, reconnects when it is lost.
//!
//! While nothing changes nothing is sent and no timer runs; a dead peer is noticed by the kernel's TCP keepalive.

use std::{error::Error, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, stream};
use proto::v1::{
    DesiredMount, FromNode, Gone, Hello, ToNode, from_node, node_link_client::NodeLinkClient,
    to_node::Message,
};
use tokio::{sync::mpsc, time};
use tonic::{
    Code, Status, Streaming,
    transport::{Channel, Endpoint},
};

use crate::{
    error::{back_off, jitter},
    outbox::Outbox,
};

/// What the stream brings.
#[derive(Debug)]
pub enum LinkEvent {
    /// A new connection stands: everything that exists follows, then [`LinkEvent::Synced`].
    Up,
    /// An object is new or changed.
    Desired(Box<DesiredMount>),
    /// An object is no more.
    Gone(Gone),
    /// Everything that exists has been told.
    Synced,
    /// The connection is lost; another is being sought.
    Down,
    /// The coordinator wants another agent for this node; the text says which.
    Refused(String),
}

/// A ClientMount of 3 MiB with its profile fits.
pub(crate) const LARGEST_MESSAGE: usize = 16 * 1024 * 1024;
/// For connecting, and for the coordinator's first word.
const PATIENCE: Duration = Duration::from_secs(10);
const FIRST_DELAY: Duration = Duration::from_millis(200);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// From this on an idle TCP connection is probed by the kernel.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

enum End {
    /// By the coordinator, for good.
    Refused(String),
    /// By the network or a restart.
    Lost { why: String, welcomed: bool },
    /// Nobody listens to events any more.
    Closed,
}

/// Holds the stream until the coordinator refuses this agent, or nobody listens any more.
pub async fn run(
    endpoint: Endpoint,
    hello: Hello,
    outbox: Arc<Outbox>,
    events: mpsc::Sender<LinkEvent>,
) {
    let endpoint = endpoint.connect_timeout(PATIENCE).tcp_keepalive(Some(TCP_KEEPALIVE));
    let (mut attempt, mut told) = (0, String::new());
    loop {
        let connection = outbox.begin();
        let end = converse(&endpoint, &hello, &outbox, connection, &events).await;
        outbox.lost();
        match end {
            End::Closed => return,
            End::Refused(why) => {
                drop(events.send(LinkEvent::Refused(why)).await);
                return;
            }
            End::Lost { why, welcomed } => {
                if welcomed {
                    (attempt, told) = (0, String::new());
                }
                // Once per reason: a coordinator that is away for a night must not fill every node's journal.
                if told != why {
                    log::warn!(
                        "no connection to the coordinator, everything stays as it is: {why}"
                    );
                    told = why;
                }
                if welcomed && events.send(LinkEvent::Down).await.is_err() {
                    return;
                }
            }
        }
        time::sleep(back_off(FIRST_DELAY, LONGEST_DELAY, attempt, jitter())).await;
        attempt += 1;
    }
}

async fn converse(
    endpoint: &Endpoint,
    hello: &Hello,
    outbox: &Arc<Outbox>,
    connection: u64,
    events: &mpsc::Sender<LinkEvent>,
) -> End {
    let lost = |why| End::Lost { why, welcomed: false };
    let opened = time::timeout(PATIENCE, open(endpoint, hello, outbox, connection)).await;
    let mut stream = match opened {
        Ok(Ok(stream)) => stream,
        Ok(Err(end)) => return end,
        Err(_) => return lost(format!("no answer within {} s", PATIENCE.as_secs())),
    };
    outbox.welcome();
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
                return End::Lost {
                    why: "the coordinator closed the stream".to_owned(),
                    welcomed: true,
                };
            }
            Err(status) => return end(&status, true),
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
    endpoint: &Endpoint,
    hello: &Hello,
    outbox: &Arc<Outbox>,
    connection: u64,
) -> Result<Streaming<ToNode>, End> {
    let channel: Channel = match endpoint.connect().await {
        Ok(channel) => channel,
        Err(error) => {
            let why = format!("connect: {}: is it running where --coordinator says?", root(&error));
            return Err(End::Lost { why, welcomed: false });
        }
    };
    let mut client = NodeLinkClient::new(channel).max_decoding_message_size(LARGEST_MESSAGE);
    let messages = messages(hello.clone(), Arc::clone(outbox), connection);
    let mut stream =
        client.open(messages).await.map_err(|status| end(&status, false))?.into_inner();
    match stream.message().await.map_err(|status| end(&status, false))? {
        Some(ToNode { message: Some(Message::Welcome(_)) }) => Ok(stream),
        _ => Err(End::Lost {
            why: "the coordinator did not say welcome first".to_owned(),
            welcomed: false,
        }),
    }
}

/// The innermost cause: each layer of the transport repeats the one beneath.
fn root<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error
}

fn messages(
    hello: Hello,
    outbox: Arc<Outbox>,
    connection: u64,
) -> impl Stream<Item = FromNode> + Send + 'static {
    let first = FromNode { message: Some(from_node::Message::Hello(hello)) };
    let rest = stream::unfold(outbox, move |outbox| async move {
        let message = outbox.next(connection).await?;
        Some((message, outbox))
    });
    stream::once(async { first }).chain(rest)
}

/// What a message means to the agent; nothing when it is for the link itself.
pub(crate) fn event_of(message: Message) -> Option<LinkEvent> {
    Some(match message {
        Message::Desired(desired) => LinkEvent::Desired(Box::new(desired)),
        Message::Gone(gone) => LinkEvent::Gone(gone),
        Message::Synced(_) => LinkEvent::Synced,
        Message::Welcome(_) => return None,
    })
}

fn end(status: &Status, welcomed: bool) -> End {
    match status.code() {
        // A newer agent of this node took over, or was there before this one came.
        Code::Aborted | Code::FailedPrecondition => End::Refused(status.message().to_owned()),
        // Not the coordinator's words but the transport's.
        Code::Unknown | Code::Unavailable => {
            End::Lost { why: format!("the connection broke: {}", status.message()), welcomed }
        }
        _ => End::Lost { why: format!("{}: {}", status.code(), status.message()), welcomed },
    }
}
