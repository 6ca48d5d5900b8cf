//! One connection, which is closed unless it makes a request in time.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

use super::newcomer::{Caller, Newcomer, Place};

/// A connection that has its place until it ends.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    caller: Caller,
    /// None once a request was made.
    waits: Option<Waits>,
    _place: Arc<Place>,
}

#[derive(Debug)]
struct Waits {
    longest: Pin<Box<Sleep>>,
    /// Nothing comes here, but it ends; None once it has.
    woken: Option<oneshot::Receiver<()>>,
}

impl Waits {
    /// Whether the longest wait is over; the caller is woken also when it is cut short.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> bool {
        if self.woken.as_mut().is_some_and(|woken| Pin::new(woken).poll(cx).is_ready()) {
            self.woken = None;
        }
        self.longest.as_mut().poll(cx).is_ready()
    }
}

impl<S> Connection<S> {
    /// One that has `longest` to its first request, unless the newcomer is sent away before.
    pub(super) fn new(
        stream: S,
        place: OwnedSemaphorePermit,
        longest: Duration,
    ) -> (Self, Newcomer) {
        let (waker, woken) = oneshot::channel();
        let waits = Waits { longest: Box::pin(sleep(longest)), woken: Some(woken) };
        let (caller, place) = (Caller::default(), Arc::new(Mutex::new(Some(place))));
        let newcomer = Newcomer { caller: caller.clone(), waker, place: Arc::downgrade(&place) };
        (Self { stream, caller, waits: Some(waits), _place: place }, newcomer)
    }

    /// Who is told that a request came on it.
    pub fn caller(&self) -> Caller {
        self.caller.clone()
    }

    /// What was accepted.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Fails once it has been without a request for too long, for writes too: who reads no answers keeps no place.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.caller.was_heard() {
            self.waits = None;
        }
        let is_over = self.waits.as_mut().is_some_and(|waits| waits.poll_over(cx));
        if self.caller.was_sent_away() || is_over && self.caller.is_sent_away() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no request"));
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
