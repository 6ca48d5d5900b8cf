//! Connections as they come, over TCP and on the unix socket.
//!
//! Over TCP anybody may connect, and each connection costs a file descriptor. One that has made no request after a while is
//! closed: by then TCP, TLS and HTTP/2 are through with every caller that has something to ask. When too many wait at a time
//! the oldest goes first, so that those who say nothing do not keep out those who do.

mod connection;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, stream};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;
use tonic::transport::server::Connected;

use crate::peer::may_connect;
pub(crate) use connection::{Caller, Connection};

/// What all nodes of a machine need when they come back at once on one slow processor.
const FIRST_REQUEST: Duration = Duration::from_secs(30);
/// More nodes than any machine has.
const MOST: usize = 65_536;
/// Pause when no connection can be accepted, as with no file descriptor left.
const EXHAUSTED: Duration = Duration::from_millis(200);

/// How many connections there may be, and for how long without a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    /// Of these, how many that made no request yet.
    pub(crate) newcomers: usize,
    pub(crate) first_request: Duration,
}

impl Limits {
    /// For a process that may have so many files open: it needs some for its store, its API and its sockets.
    pub(crate) fn of_files(files: u64) -> Self {
        let files = usize::try_from(files).unwrap_or(MOST).min(MOST);
        Self { connections: files / 4 * 3, newcomers: files / 4, first_request: FIRST_REQUEST }
    }
}

/// One that made no request when it was looked at last.
#[derive(Debug)]
struct Newcomer {
    caller: Caller,
    send_away: oneshot::Sender<()>,
}

impl Newcomer {
    fn is_one(&self) -> bool {
        !self.caller.was_heard() && !self.send_away.is_closed()
    }
}

/// Connections over TCP.
#[derive(Debug)]
pub(crate) struct Incoming {
    listener: TcpListener,
    limits: Limits,
    places: Arc<Semaphore>,
    newcomers: VecDeque<Newcomer>,
    said: Said,
}

impl Incoming {
    pub(crate) fn new(listener: TcpListener, limits: Limits) -> Self {
        let places = Arc::new(Semaphore::new(limits.connections));
        Self { listener, limits, places, newcomers: VecDeque::new(), said: Said::default() }
    }

    /// Every connection that may come in, for ever: what cannot be accepted now may be later.
    pub(crate) fn connections(self) -> impl Stream<Item = io::Result<Connection>> {
        stream::unfold(self, |mut this| async {
            let connection = this.next().await;
            Some((Ok(connection), this))
        })
    }

    async fn next(&mut self) -> Connection {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    if let Some(connection) = self.admit(stream) {
                        return connection;
                    }
                }
                Err(error) => self.said.failed(&error).await,
            }
        }
    }

    fn admit(&mut self, stream: TcpStream) -> Option<Connection> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            self.said.full(self.limits.connections);
            return None;
        };
        self.said.accepted();
        self.make_room();
        let (send_away, sent_away) = oneshot::channel();
        let longest = self.limits.first_request;
        let connection = Connection::new(stream, longest, sent_away, place);
        self.newcomers.push_back(Newcomer { caller: connection.connect_info(), send_away });
        Some(connection)
    }

    /// Sends away the one that has waited longest, if there is no room for another.
    fn make_room(&mut self) {
        while self.newcomers.front().is_some_and(|newcomer| !newcomer.is_one()) {
            self.newcomers.pop_front();
        }
        if self.newcomers.len() >= self.limits.newcomers {
            self.newcomers.retain(Newcomer::is_one);
        }
        if self.newcomers.len() >= self.limits.newcomers
            && let Some(oldest) = self.newcomers.pop_front()
        {
            self.said.crowded(self.limits.newcomers);
            // One that is gone meanwhile has made room as well.
            let _ = oldest.send_away.send(());
        }
    }
}

/// Connections of root and of our own user on a unix socket, for ever.
pub(crate) fn local(listener: UnixListener) -> impl Stream<Item = io::Result<UnixStream>> {
    stream::unfold((listener, Said::default()), |(listener, mut said)| async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) if may_connect(&stream) => {
                    said.accepted();
                    return Some((Ok(stream), (listener, said)));
                }
                Ok(_) => {}
                Err(error) => said.failed(&error).await,
            }
        }
    })
}

/// What was said of the troubles since the last connection that had none.
#[derive(Debug, Default)]
struct Said {
    trouble: bool,
    crowd: bool,
}

impl Said {
    fn accepted(&mut self) {
        self.trouble = false;
    }

    async fn failed(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.trouble, true) {
            log::warn!(error:%; "a connection cannot be accepted; it is tried again until it works");
        }
        sleep(EXHAUSTED).await;
    }

    fn full(&mut self, connections: usize) {
        if !std::mem::replace(&mut self.trouble, true) {
            log::warn!(connections; "more connections are refused: raise the limit of open files (LimitNOFILE)");
        }
    }

    fn crowded(&mut self, newcomers: usize) {
        if !std::mem::replace(&mut self.crowd, true) {
            log::warn!(newcomers; "too many connections make no request: from now on the oldest of them is closed for each that comes");
        }
    }
}
