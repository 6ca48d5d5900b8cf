use futures::Stream;
use http_body::{Frame, SizeHint};
use hyper::body::Bytes;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

type Events = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The body of an answer: whole, or the events of a watch as they come.
pub struct Body(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Events(Events),
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Whole(Some(bytes.into())))
    }

    pub(crate) fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Kind::Events(Box::pin(events)))
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
            Kind::Events(events) => events
                .as_mut()
                .poll_next(context)
                .map(|event| event.map(|bytes| Ok(Frame::data(bytes)))),
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
