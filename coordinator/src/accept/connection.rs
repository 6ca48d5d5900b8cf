//! One connection over TCP, which is closed unless it makes a request in time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

/// Which connection a request came on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller(Arc<AtomicBool>);

impl Caller {
    /// It made a request: it is not closed any more for saying nothing.
    pub(crate) fn is_heard(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn was_heard(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection over TCP.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    caller: Caller,
    /// None once a request was made.
    waits: Option<Waits>,
    _place: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct Waits {
    longest: Pin<Box<Sleep>>,
    /// None when nobody sends it away any more.
    sent_away: Option<oneshot::Receiver<()>>,
}

impl Waits {
    fn poll_over(&mut self, cx: &mut Context<'_>) -> bool {
        let sent_away = self.sent_away.as_mut().map(|it| Pin::new(it).poll(cx));
        if let Some(Poll::Ready(answer)) = sent_away {
            self.sent_away = None;
            // The sender is dropped when a request was made, perhaps since the caller of this looked.
            if answer.is_ok() {
                return true;
            }
        }
        self.longest.as_mut().poll(cx).is_ready()
    }
}

impl Connection {
    /// One that has `longest` to its first request, unless it is sent away before, and its place until it ends.
    pub(super) fn new(
        stream: TcpStream,
        longest: Duration,
        sent_away: oneshot::Receiver<()>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let waits = Waits { longest: Box::pin(sleep(longest)), sent_away: Some(sent_away) };
        Self { stream, caller: Caller::default(), waits: Some(waits), _place: place }
    }
}

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.caller.was_heard() {
            self.waits = None;
        }
        let is_over = self.waits.as_mut().is_some_and(|waits| waits.poll_over(cx));
        if is_over && !self.caller.was_heard() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "no request")));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
