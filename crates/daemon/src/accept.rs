//! Accepts connections for every server of Warren, within limits.
//!
//! Any host may connect over TCP, and each connection uses a file descriptor. A connection that has made no request yet
//! is called pending. The server closes a pending connection after a time that suffices for the handshakes of TCP, TLS
//! and HTTP/2. When too many connections are pending, the server closes the oldest of them, so that idle clients do not
//! block working clients. A slot is the permission to have one connection open; the slot of a closed connection is free
//! at once, even before the connection's task has ended.

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

/// Limits of a listener: number of connections, and time to the first request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest number of open connections.
    pub connections: usize,
    /// Largest number of open connections that have made no request yet.
    pub pending: usize,
    /// Longest time from the connect to the first request.
    pub first_request: Duration,
    /// Advice for administrators, which is logged when the limit of connections is reached.
    pub remedy: &'static str,
}

impl Limits {
    /// Default of `first_request`. This time suffices even if all nodes of a machine reconnect at once to a coordinator
    /// on one slow processor.
    pub const FIRST_REQUEST: Duration = Duration::from_secs(30);
}

/// A socket that accepts connections.
pub trait Listener: Send + Sync {
    /// The stream of an accepted connection.
    type Stream: Send;

    /// Waits for the next connection. If the future is dropped, no connection is lost.
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
    /// Connections without a request at the last check, oldest first.
    pending: VecDeque<Pending>,
    log: TroubleLog,
}

impl<L: Listener> Incoming<L> {
    /// Accepts the connections of `listener`, within `limits`.
    pub fn new(listener: L, limits: Limits) -> Self {
        let slots = Arc::new(Semaphore::new(limits.connections));
        Self { listener, limits, slots, pending: VecDeque::new(), log: TroubleLog::new(limits) }
    }

    /// Returns a stream of all accepted connections. It never ends: after a failed accept it tries again.
    pub fn connections(self) -> impl Stream<Item = io::Result<Connection<L::Stream>>> {
        stream::unfold(self, |mut this| async {
            let connection = this.next().await;
            Some((Ok(connection), this))
        })
    }

    /// Waits for the next connection. If the future is dropped, no connection is lost.
    pub async fn next(&mut self) -> Connection<L::Stream> {
        loop {
            match self.listener.accept().await {
                Ok(stream) => {
                    if let Some(connection) = self.admit(stream) {
                        return connection;
                    }
                }
                Err(error) => self.log.accept_failed(&error).await,
            }
        }
    }

    fn admit(&mut self, stream: L::Stream) -> Option<Connection<L::Stream>> {
        self.log.accept_succeeded();
        self.make_room();
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            self.log.limit_reached();
            return None;
        };
        self.log.slot_taken(self.limits.connections - self.slots.available_permits());
        let (connection, pending) = Connection::new(stream, slot, self.limits.first_request);
        self.pending.push_back(pending);
        Some(connection)
    }

    /// Closes the oldest pending connection if a limit would not let another connection be opened.
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
            self.log.limit_reached();
        }
        if let Some(oldest) = self.pending.pop_front() {
            oldest.close();
        }
    }
}
