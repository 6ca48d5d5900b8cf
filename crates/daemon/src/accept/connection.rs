//! A connection that is closed unless it makes a request in time.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

use super::pending::{Caller, Pending, Slot};

/// A connection that keeps its slot until it ends or the server closes it.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    caller: Caller,
    /// Deadline of the first request; `None` once the connection has made a request.
    first_request: Option<FirstRequest>,
    _slot: Arc<Slot>,
}

#[derive(Debug)]
struct FirstRequest {
    deadline: Pin<Box<Sleep>>,
    /// Receiver that resolves when the server closes the connection before the deadline; `None` once it has resolved.
    woken: Option<oneshot::Receiver<()>>,
}

impl FirstRequest {
    /// Returns whether the deadline has passed. Also registers a waker, which is woken if the server closes the
    /// connection before the deadline.
    fn poll_expired(&mut self, cx: &mut Context<'_>) -> bool {
        if self.woken.as_mut().is_some_and(|woken| Pin::new(woken).poll(cx).is_ready()) {
            self.woken = None;
        }
        self.deadline.as_mut().poll(cx).is_ready()
    }
}

impl<S> Connection<S> {
    /// Wraps a stream, with a deadline for its first request.
    pub(super) fn new(
        stream: S,
        slot: OwnedSemaphorePermit,
        deadline: Duration,
    ) -> (Self, Pending) {
        let (waker, woken) = oneshot::channel();
        let first_request =
            FirstRequest { deadline: Box::pin(sleep(deadline)), woken: Some(woken) };
        let (caller, slot) = (Caller::default(), Arc::new(Mutex::new(Some(slot))));
        let pending = Pending { caller: caller.clone(), waker, slot: Arc::downgrade(&slot) };
        (Self { stream, caller, first_request: Some(first_request), _slot: slot }, pending)
    }

    /// Returns the handle with which the server records that the connection has made a request.
    pub fn caller(&self) -> Caller {
        self.caller.clone()
    }

    /// Returns the underlying stream.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Fails if the server has closed the connection, or if the client made no request before the deadline.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.caller.has_made_request() {
            self.first_request = None;
        }
        let is_expired =
            self.first_request.as_mut().is_some_and(|first_request| first_request.poll_expired(cx));
        if self.caller.is_closed() || is_expired && self.caller.close() {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client made no request in time",
            ));
        }
        Ok(())
    }
}

impl<S: Connected> Connected for Connection<S> {
    type ConnectInfo = (Caller, S::ConnectInfo);

    fn connect_info(&self) -> Self::ConnectInfo {
        (self.caller(), self.stream.connect_info())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
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
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
