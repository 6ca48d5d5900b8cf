//! Connections as they come, to every server of ours.
//!
//! Over TCP anybody may connect, and each connection costs a file descriptor. One that has made no request after a while is
//! closed: by then TCP, TLS and HTTP/2 are through with every caller that has something to ask. When too many wait at a time
//! the oldest goes first, so that those who say nothing do not keep out those who do. Its place is free at once: whoever
//! comes next need not wait for its task to notice.

mod connection;
mod local;
mod newcomer;
mod said;

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, stream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

pub use connection::Connection;
pub use local::Local;
pub use newcomer::Caller;
use newcomer::Newcomer;
use said::Said;

/// How many connections there may be, and for how long without a request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// In all.
    pub connections: usize,
    /// Of these, how many that made no request yet.
    pub newcomers: usize,
    /// How long a connection may take to its first request.
    pub first_request: Duration,
    /// What helps those who need more connections, for the log.
    pub remedy: &'static str,
}

impl Limits {
    /// What all nodes of a machine need for their first request when they come back at once on one slow processor.
    pub const FIRST_REQUEST: Duration = Duration::from_secs(30);
}

/// Where connections come from.
pub trait Listener: Send + Sync {
    /// What is accepted.
    type Stream: Send;

    /// Waits for the next one; one that is dropped has accepted nothing.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, peer) = Self::accept(self).await?;
        // Nagle's algorithm against delayed acknowledgements costs 40 ms per message.
        if let Err(error) = stream.set_nodelay(true) {
            log::debug!(peer:%, error:%; "TCP_NODELAY");
        }
        Ok(stream)
    }
}

/// The connections of a listener.
#[derive(Debug)]
pub struct Incoming<L> {
    listener: L,
    limits: Limits,
    places: Arc<Semaphore>,
    newcomers: VecDeque<Newcomer>,
    said: Said,
}

impl<L: Listener> Incoming<L> {
    /// Those of `listener`, within `limits`.
    pub fn new(listener: L, limits: Limits) -> Self {
        let places = Arc::new(Semaphore::new(limits.connections));
        Self { listener, limits, places, newcomers: VecDeque::new(), said: Said::new(limits) }
    }

    /// Every connection that may come in, for ever: what cannot be accepted now may be later.
    pub fn connections(self) -> impl Stream<Item = io::Result<Connection<L::Stream>>> {
        stream::unfold(self, |mut this| async {
            let connection = this.next().await;
            Some((Ok(connection), this))
        })
    }

    /// The next connection. A caller that stops waiting loses none.
    pub async fn next(&mut self) -> Connection<L::Stream> {
        loop {
            match self.listener.accept().await {
                Ok(stream) => {
                    if let Some(connection) = self.admit(stream) {
                        return connection;
                    }
                }
                Err(error) => self.said.failed(&error).await,
            }
        }
    }

    fn admit(&mut self, stream: L::Stream) -> Option<Connection<L::Stream>> {
        self.said.accepted();
        self.make_room();
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            self.said.full();
            return None;
        };
        self.said.admitted(self.limits.connections - self.places.available_permits());
        let (connection, newcomer) = Connection::new(stream, place, self.limits.first_request);
        self.newcomers.push_back(newcomer);
        Some(connection)
    }

    /// Sends away the newcomer that has waited longest, if there is no room for another.
    fn make_room(&mut self) {
        while self.newcomers.front().is_some_and(|newcomer| !newcomer.is_one()) {
            self.newcomers.pop_front();
        }
        if self.newcomers.len() >= self.limits.newcomers {
            self.newcomers.retain(Newcomer::is_one);
        }
        if self.newcomers.len() >= self.limits.newcomers {
            self.said.crowded();
        } else {
            self.said.roomy(self.newcomers.len());
            if self.places.available_permits() > 0 {
                return;
            }
            self.said.full();
        }
        if let Some(oldest) = self.newcomers.pop_front() {
            oldest.send_away();
        }
    }
}
