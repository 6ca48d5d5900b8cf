//! Accepts connections for every server of Warren, within limits.
//!
//! Over TCP anybody may connect, and each connection costs a file descriptor. The server closes a connection that makes no
//! request within a time that suffices for TCP, TLS and HTTP/2. When too many such connections are pending, the server closes
//! the oldest, so that idle clients do not keep out working ones. The slot of a closed connection is free at once, before its
//! task has noticed.

mod connection;
mod local;
mod pending;
mod trouble_log;

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
pub use pending::Caller;
use pending::Pending;
use trouble_log::TroubleLog;

/// How many connections there may be, and how long one may stay without a request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest number of open connections.
    pub connections: usize,
    /// Largest number of connections among them that have made no request yet.
    pub pending: usize,
    /// How long a connection may take to its first request.
    pub first_request: Duration,
    /// What an administrator can do when more connections are needed; a text for the log.
    pub remedy: &'static str,
}

impl Limits {
    /// Enough for all nodes of a machine to make their first request when they reconnect at once to a coordinator on one slow
    /// processor.
    pub const FIRST_REQUEST: Duration = Duration::from_secs(30);
}

/// A socket that accepts connections.
pub trait Listener: Send + Sync {
    /// The stream of an accepted connection.
    type Stream: Send;

    /// Waits for the next connection. Dropping the future loses none.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, peer) = Self::accept(self).await?;
        // Nagle's algorithm together with delayed acknowledgements delays each message by 40 ms.
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
    /// One permit for each connection that may still be opened.
    slots: Arc<Semaphore>,
    /// Connections that made no request when they were checked last, the oldest first.
    pending: VecDeque<Pending>,
    log: TroubleLog,
}

impl<L: Listener> Incoming<L> {
    /// The connections of `listener`, within `limits`.
    pub fn new(listener: L, limits: Limits) -> Self {
        let slots = Arc::new(Semaphore::new(limits.connections));
        Self { listener, limits, slots, pending: VecDeque::new(), log: TroubleLog::new(limits) }
    }

    /// All accepted connections. The stream never ends: when accepting fails it tries again.
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
                Err(error) => self.log.failed(&error).await,
            }
        }
    }

    fn admit(&mut self, stream: L::Stream) -> Option<Connection<L::Stream>> {
        self.log.accepted();
        self.make_room();
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            self.log.full();
            return None;
        };
        self.log.admitted(self.limits.connections - self.slots.available_permits());
        let (connection, pending) = Connection::new(stream, slot, self.limits.first_request);
        self.pending.push_back(pending);
        Some(connection)
    }

    /// Closes the oldest pending connection, if there is no room for another.
    fn make_room(&mut self) {
        while self.pending.front().is_some_and(|pending| !pending.is_pending()) {
            self.pending.pop_front();
        }
        if self.pending.len() >= self.limits.pending {
            self.pending.retain(Pending::is_pending);
        }
        if self.pending.len() >= self.limits.pending {
            self.log.too_many_pending();
        } else {
            self.log.few_pending(self.pending.len());
            if self.slots.available_permits() > 0 {
                return;
            }
            self.log.full();
        }
        if let Some(oldest) = self.pending.pop_front() {
            oldest.close();
        }
    }
}
