//! Tests of connection limits and their log messages. They are a test program of their own, because a process
//! has only one logger.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use daemon::accept::{Connection, Incoming, Limits, Listener};
use log::{Level, Log, Metadata, Record};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{advance, timeout};

const LONG: Duration = Duration::from_secs(3600);
/// Size in bytes of the buffer between client and server.
const PIPE: usize = 64;

/// A listener that accepts the connections that the test sends it.
struct Pipes(Mutex<UnboundedReceiver<io::Result<DuplexStream>>>);

impl Listener for Pipes {
    type Stream = DuplexStream;

    async fn accept(&self) -> io::Result<DuplexStream> {
        match self.0.lock().await.recv().await {
            Some(accepted) => accepted,
            None => std::future::pending().await,
        }
    }
}

struct Server {
    incoming: Incoming<Pipes>,
    pipes: UnboundedSender<io::Result<DuplexStream>>,
}

impl Server {
    fn new(connections: usize, pending: usize) -> Self {
        let (pipes, accepted) = unbounded_channel();
        let limits = Limits { connections, pending, first_request: LONG, remedy: "end some" };
        let incoming = Incoming::new(Pipes(Mutex::new(accepted)), limits);
        Self { incoming, pipes }
    }

    /// Connects a client; returns the client, and the server's end of the connection unless the server refuses it.
    async fn connect(&mut self) -> (DuplexStream, Option<Connection<DuplexStream>>) {
        let (client, server) = duplex(PIPE);
        self.pipes.send(Ok(server)).unwrap();
        // If the server refuses the connection, `next` waits for another connection, and the paused clock advances to
        // the time-out.
        (client, timeout(LONG / 1000, self.incoming.next()).await.ok())
    }

    async fn connect_and_request(&mut self) -> Connection<DuplexStream> {
        let (_, connection) = self.connect().await;
        let connection = connection.expect("a slot is free");
        connection.caller().record_request();
        connection
    }

    async fn fail(&mut self, kind: io::ErrorKind) {
        self.pipes.send(Err(kind.into())).unwrap();
        assert!(timeout(Duration::from_secs(1), self.incoming.next()).await.is_err());
    }
}

async fn read(connection: &mut Connection<DuplexStream>) -> io::ErrorKind {
    connection.read(&mut [0]).await.unwrap_err().kind()
}

thread_local! {
    static LOGGED: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
}

struct TestLog;

impl Log for TestLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = (record.level(), record.args().to_string());
        LOGGED.with_borrow_mut(|all| all.push(line));
    }

    fn flush(&self) {}
}

/// Returns the levels of the messages that this thread has logged since the last call.
fn take_logged() -> Vec<Level> {
    // Fails if another test of this process has set the logger already.
    let _ = log::set_logger(&TestLog);
    log::set_max_level(log::LevelFilter::Info);
    LOGGED.take().into_iter().map(|(level, _)| level).collect()
}

#[tokio::test(start_paused = true)]
async fn above_the_limit_the_oldest_pending_connections_are_closed_and_active_ones_stay_open() {
    let mut server = Server::new(16, 2);
    let mut active = server.connect_and_request().await;
    let mut pending = Vec::new();
    for _ in 0..5 {
        pending.push(server.connect().await.1.expect("a slot is free"));
    }
    for gone in &mut pending[..3] {
        assert_eq!(read(gone).await, io::ErrorKind::TimedOut);
        assert_eq!(read(gone).await, io::ErrorKind::TimedOut, "closed for good");
    }
    for stays in pending[3..].iter_mut().chain([&mut active]) {
        assert!(timeout(LONG / 2, stays.flush()).await.unwrap().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn the_slot_of_a_closed_pending_connection_is_free_at_once() {
    let mut server = Server::new(3, 3);
    let mut active = vec![server.connect_and_request().await];
    // Keeps these connections open without polling them.
    let mut pending = Vec::new();
    for _ in 0..5 {
        pending.push(server.connect().await.1.expect("a slot is free"));
    }
    active.push(server.connect_and_request().await);
    active.push(server.connect_and_request().await);
    assert!(server.connect().await.1.is_none(), "all slots belong to connections with a request");
    drop(pending);
    assert!(server.connect().await.1.is_none());
    active.pop();
    server.connect_and_request().await;
}

#[tokio::test(start_paused = true)]
async fn the_connection_of_a_client_without_a_request_is_closed_while_the_server_is_blocked_in_a_write()
 {
    let mut server = Server::new(1, 1);
    let (_client, connection) = server.connect().await;
    let mut connection = connection.unwrap();
    let refusals = [b'x'; PIPE + 1];
    let error = connection.write_all(&refusals).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    drop(connection);
    let mut active = server.connect_and_request().await;
    let waits = timeout(LONG * 2, active.write_all(&refusals)).await;
    assert!(!matches!(waits, Ok(Err(error)) if error.kind() == io::ErrorKind::TimedOut));
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_connections_is_logged_once_when_reached_and_once_when_slots_are_free_again() {
    let mut server = Server::new(8, 8);
    take_logged();
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(server.connect_and_request().await);
    }
    assert!(take_logged().is_empty());
    for _ in 0..3 {
        assert!(server.connect().await.1.is_none());
        // One connection ends and another opens.
        open.pop();
        open.push(server.connect_and_request().await);
    }
    assert_eq!(take_logged(), [Level::Warn]);
    open.truncate(4);
    open.push(server.connect_and_request().await);
    open.push(server.connect_and_request().await);
    assert_eq!(take_logged(), [Level::Info]);
    while open.len() < 8 {
        open.push(server.connect_and_request().await);
    }
    assert!(server.connect().await.1.is_none());
    assert_eq!(take_logged(), [Level::Warn], "the limit is reached again");
}

#[tokio::test(start_paused = true)]
async fn too_many_pending_connections_are_logged_once_when_they_begin_and_once_when_they_end() {
    let mut server = Server::new(100, 4);
    take_logged();
    let mut pending = Vec::new();
    for _ in 0..20 {
        pending.push(server.connect().await.1);
    }
    assert_eq!(take_logged(), [Level::Warn]);
    pending.clear();
    pending.push(server.connect().await.1);
    assert_eq!(take_logged(), [Level::Info]);
    for _ in 0..4 {
        pending.push(server.connect().await.1);
    }
    assert_eq!(take_logged(), [Level::Warn], "too many are pending again");
}

#[tokio::test(start_paused = true)]
async fn a_failure_to_accept_is_logged_once_and_accepting_continues() {
    let mut server = Server::new(4, 4);
    take_logged();
    server.fail(io::ErrorKind::ConnectionAborted).await;
    assert!(take_logged().is_empty());
    for _ in 0..3 {
        server.fail(io::ErrorKind::Other).await;
        server.connect_and_request().await;
    }
    assert_eq!(take_logged(), [Level::Warn]);
    advance(Duration::from_secs(60)).await;
    server.connect_and_request().await;
    server.connect_and_request().await;
    assert_eq!(take_logged(), [Level::Info]);
}
