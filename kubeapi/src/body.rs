use futures::{Stream, StreamExt};
use http_body::{Frame, SizeHint};
use hyper::body::Bytes;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::timeout;

/// Who takes nothing for so long, while there is something to take, is given no more.
pub(crate) const STALLED: Duration = Duration::from_secs(60);

/// The body of an answer: whole, or the events of a watch as they come.
pub struct Body(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Events(Receiver<Bytes>),
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Whole(Some(bytes.into())))
    }

    /// Pieces that are made one ahead of what is read. They end early when nobody reads them: a client that has left off,
    /// and only stopped listening on one stream of its connection, must not keep objects in memory for ever.
    pub(crate) fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(feed(events, sender, STALLED));
        Self(Kind::Events(receiver))
    }
}

async fn feed(events: impl Stream<Item = Bytes>, reader: Sender<Bytes>, stalled: Duration) {
    let mut events = pin!(events);
    loop {
        // Only when there is room: nothing is made that waits for its turn.
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
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Events(events) => {
                events.poll_recv(context).map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Kind::Whole(_) => "Body::Whole",
            Kind::Events(_) => "Body::Events",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_reader_that_stops_is_given_no_more() {
        let (sender, mut reader) = mpsc::channel(1);
        let endless = futures::stream::repeat(Bytes::from_static(b"event"));
        let feeding = tokio::spawn(feed(endless, sender, SHORT));
        for _ in 0..100 {
            reader.recv().await.unwrap();
        }
        feeding.await.unwrap();
        assert!(reader.recv().await.is_some(), "one is made ahead");
        assert!(reader.recv().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_with_nothing_to_read_waits_as_long_as_it_takes() {
        let (sender, mut reader) = mpsc::channel(1);
        let late = futures::stream::once(async {
            sleep(SHORT * 10).await;
            Bytes::from_static(b"event")
        });
        tokio::spawn(feed(late, sender, SHORT));
        assert!(reader.recv().await.is_some());
        assert!(reader.recv().await.is_none());
    }

    #[tokio::test]
    async fn nothing_is_made_for_a_reader_that_has_gone() {
        let (sender, reader) = mpsc::channel(1);
        let feeding = tokio::spawn(feed(futures::stream::pending(), sender, STALLED));
        drop(reader);
        feeding.await.unwrap();
    }
}
