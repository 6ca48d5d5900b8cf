use futures::{Stream, StreamExt, stream};
use http_body::{Frame, SizeHint};
use hyper::body::Bytes;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::timeout;

/// Longest time that a piece of the body waits until the client reads it. After this time the body ends.
pub(crate) const STALLED: Duration = Duration::from_secs(60);

/// Size of a piece, in bytes. While a client reads nothing, the transport buffers one piece for each
/// stream of its connection.
const PIECE: usize = 64 << 10;

pub(crate) trait RequestBody:
    http_body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send
{
}

impl<B> RequestBody for B where
    B: http_body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send
{
}

/// The body of an answer: whole, or piece by piece.
pub struct Body(Kind);

enum Kind {
    Whole(Option<Bytes>),
    /// Pieces of a long answer, and the number of bytes that are not sent yet.
    Pieces(Receiver<Bytes>, u64),
    /// Events of a watch, as they occur.
    Events(Receiver<Bytes>),
}

/// Error: the client has read no piece of the answer for too long.
#[derive(Debug, Error)]
#[error("the client has not read the answer for {} s", STALLED.as_secs())]
pub struct Stalled;

impl Body {
    /// Makes the body of an answer. A long answer is cut into pieces, so that its memory can be freed piece by piece.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        if bytes.len() <= PIECE {
            return Self(Kind::Whole(Some(bytes)));
        }
        let length = bytes.len() as u64;
        Self(Kind::Pieces(spawn_feed(pieces(bytes)), length))
    }

    /// Makes a body of a watch's events. One event is encoded before the client asks for it. If the client stops
    /// reading but keeps its connection open, the body ends after [`STALLED`]: a client must not keep objects in memory
    /// for ever.
    pub(crate) fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Kind::Events(spawn_feed(events)))
    }
}

/// Cuts an answer into pieces. Each piece is copied: a slice would keep the whole answer in memory.
fn pieces(bytes: Bytes) -> impl Stream<Item = Bytes> {
    stream::unfold(bytes, |mut rest| async {
        let piece = rest.split_to(rest.len().min(PIECE));
        (!piece.is_empty()).then(|| (Bytes::copy_from_slice(&piece), rest))
    })
}

/// Starts a task that sends the pieces into a channel, and returns the receiver.
fn spawn_feed(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(feed(pieces, sender, STALLED));
    receiver
}

async fn feed(events: impl Stream<Item = Bytes>, reader: Sender<Bytes>, stalled: Duration) {
    let mut events = pin!(events);
    loop {
        // The next piece is produced only when the channel has room for it.
        let Ok(Ok(room)) = timeout(stalled, reader.reserve()).await else { return };
        let event = tokio::select! {
            event = events.next() => event,
            () = reader.closed() => return,
        };
        match event {
            Some(event) => room.send(event),
            None => return,
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Stalled;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Stalled>>> {
        let next = match &mut self.0 {
            Kind::Whole(bytes) => bytes.take().map(Ok),
            Kind::Pieces(pieces, left) => {
                let piece = ready!(pieces.poll_recv(context));
                *left -= piece.as_ref().map_or(0, Bytes::len) as u64;
                // The pieces ended early: the body is shorter than the Content-Length of its answer.
                piece.map(Ok).or_else(|| (*left > 0).then_some(Err(Stalled)))
            }
            Kind::Events(events) => ready!(events.poll_recv(context)).map(Ok),
        };
        Poll::Ready(next.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None) | Kind::Pieces(_, 0))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Pieces(_, left) => SizeHint::with_exact(*left),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Kind::Whole(_) => "Body::Whole",
            Kind::Pieces(..) => "Body::Pieces",
            Kind::Events(_) => "Body::Events",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::sync::{Arc, Weak};
    use tokio::time::sleep;

    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn after_a_reader_has_stopped_for_the_time_limit_no_more_events_are_encoded() {
        let (sender, mut reader) = mpsc::channel(1);
        let endless = futures::stream::repeat(Bytes::from_static(b"event"));
        let feeding = tokio::spawn(feed(endless, sender, SHORT));
        for _ in 0..100 {
            reader.recv().await.unwrap();
        }
        feeding.await.unwrap();
        assert!(reader.recv().await.is_some(), "one event is encoded ahead");
        assert!(reader.recv().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_may_wait_for_an_event_longer_than_the_time_limit() {
        let (sender, mut reader) = mpsc::channel(1);
        let late = futures::stream::once(async {
            sleep(SHORT * 10).await;
            Bytes::from_static(b"event")
        });
        tokio::spawn(feed(late, sender, SHORT));
        assert!(reader.recv().await.is_some());
        assert!(reader.recv().await.is_none());
    }

    /// Returns an answer, and a weak reference that shows whether the answer's bytes are still in memory.
    fn answer(length: usize) -> (Body, Weak<()>) {
        struct Owned {
            bytes: Vec<u8>,
            _alive: Arc<()>,
        }
        impl AsRef<[u8]> for Owned {
            fn as_ref(&self) -> &[u8] {
                &self.bytes
            }
        }
        let alive = Arc::new(());
        let gone = Arc::downgrade(&alive);
        let bytes = (0..=u8::MAX).cycle().take(length).collect();
        (Body::whole(Bytes::from_owner(Owned { bytes, _alive: alive })), gone)
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_answer_arrives_whole_and_states_its_length() {
        for length in [0, 1, PIECE, PIECE + 1, 3 * PIECE, 4 * PIECE - 1] {
            let body = answer(length).0;
            assert_eq!(http_body::Body::size_hint(&body).exact(), Some(length as u64));
            let read = body.collect().await.unwrap().to_bytes();
            assert!(read.iter().copied().eq((0..=u8::MAX).cycle().take(length)), "{length}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_answer_is_dropped_when_its_client_does_not_read() {
        let (mut body, kept) = answer(10 * PIECE);
        let _piece = body.frame().await.unwrap().unwrap();
        sleep(STALLED / 2).await;
        assert!(kept.strong_count() > 0);
        sleep(STALLED).await;
        assert_eq!(kept.strong_count(), 0);
        while let Some(Ok(_)) = body.frame().await {}
        assert!(!http_body::Body::is_end_stream(&body), "the client got a part of the answer only");
    }

    #[tokio::test]
    async fn no_event_is_encoded_for_a_reader_that_has_disconnected() {
        let (sender, reader) = mpsc::channel(1);
        let feeding = tokio::spawn(feed(futures::stream::pending(), sender, STALLED));
        drop(reader);
        feeding.await.unwrap();
    }
}
