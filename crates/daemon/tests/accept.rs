//! Connections as they come: who keeps a place, and what the log is told. It has a process, and so a logger, of its own.

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
/// Bytes on their way between client and server.
const PIPE: usize = 64;

/// Accepts what it is sent.
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

    /// A client, and the server's end of its connection unless that is refused.
    async fn connect(&mut self) -> (DuplexStream, Option<Connection<DuplexStream>>) {
        let (client, server) = duplex(PIPE);
        self.pipes.send(Ok(server)).unwrap();
        // Nothing else comes: the clock moves on when this one was refused.
        (client, timeout(LONG / 1000, self.incoming.next()).await.ok())
    }

    async fn heard(&mut self) -> Connection<DuplexStream> {
        let (_, connection) = self.connect().await;
        let connection = connection.expect("there is a place");
        connection.caller().made_request();
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
    static SAID: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
}

struct Heard;

impl Log for Heard {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let said = (record.level(), record.args().to_string());
        SAID.with_borrow_mut(|all| all.push(said));
    }

    fn flush(&self) {}
}

/// What this thread has logged since it was asked last.
fn said() -> Vec<Level> {
    // Another test of this process may have been first.
    let _ = log::set_logger(&Heard);
    log::set_max_level(log::LevelFilter::Info);
    SAID.take().into_iter().map(|(level, _)| level).collect()
}

#[tokio::test(start_paused = true)]
async fn the_oldest_that_says_nothing_goes_and_who_was_heard_stays() {
    let mut server = Server::new(16, 2);
    let mut heard = server.heard().await;
    let mut crowd = Vec::new();
    for _ in 0..5 {
        crowd.push(server.connect().await.1.expect("there is a place"));
    }
    for gone in &mut crowd[..3] {
        assert_eq!(read(gone).await, io::ErrorKind::TimedOut);
        assert_eq!(read(gone).await, io::ErrorKind::TimedOut, "for good");
    }
    for stays in crowd[3..].iter_mut().chain([&mut heard]) {
        assert!(timeout(LONG / 2, stays.flush()).await.unwrap().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn the_place_of_one_that_says_nothing_is_free_for_the_next() {
    let mut server = Server::new(3, 3);
    let mut heard = vec![server.heard().await];
    // None of them is polled meanwhile.
    let mut crowd = Vec::new();
    for _ in 0..5 {
        crowd.push(server.connect().await.1.expect("there is a place"));
    }
    heard.push(server.heard().await);
    heard.push(server.heard().await);
    assert!(server.connect().await.1.is_none(), "all places are of those who were heard");
    drop(crowd);
    assert!(server.connect().await.1.is_none());
    heard.pop();
    server.heard().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_is_without_a_request_for_long_though_he_reads_no_answer() {
    let mut server = Server::new(1, 1);
    let (_client, connection) = server.connect().await;
    let mut connection = connection.unwrap();
    let refusals = [b'x'; PIPE + 1];
    let error = connection.write_all(&refusals).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    drop(connection);
    let mut heard = server.heard().await;
    let waits = timeout(LONG * 2, heard.write_all(&refusals)).await;
    assert!(!matches!(waits, Ok(Err(error)) if error.kind() == io::ErrorKind::TimedOut));
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_told_when_it_is_reached_and_when_it_is_not_any_more() {
    let mut server = Server::new(8, 8);
    said();
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(server.heard().await);
    }
    assert!(said().is_empty());
    for _ in 0..3 {
        assert!(server.connect().await.1.is_none());
        // One goes and another comes.
        open.pop();
        open.push(server.heard().await);
    }
    assert_eq!(said(), [Level::Warn]);
    open.truncate(4);
    open.push(server.heard().await);
    open.push(server.heard().await);
    assert_eq!(said(), [Level::Info]);
    while open.len() < 8 {
        open.push(server.heard().await);
    }
    assert!(server.connect().await.1.is_none());
    assert_eq!(said(), [Level::Warn], "it is reached again");
}

#[tokio::test(start_paused = true)]
async fn a_crowd_is_told_when_it_comes_and_when_it_has_gone() {
    let mut server = Server::new(100, 4);
    said();
    let mut crowd = Vec::new();
    for _ in 0..20 {
        crowd.push(server.connect().await.1);
    }
    assert_eq!(said(), [Level::Warn]);
    crowd.clear();
    crowd.push(server.connect().await.1);
    assert_eq!(said(), [Level::Info]);
    for _ in 0..4 {
        crowd.push(server.connect().await.1);
    }
    assert_eq!(said(), [Level::Warn], "it is back");
}

#[tokio::test(start_paused = true)]
async fn accepting_that_fails_is_told_once_and_goes_on() {
    let mut server = Server::new(4, 4);
    said();
    server.fail(io::ErrorKind::ConnectionAborted).await;
    assert!(said().is_empty());
    for _ in 0..3 {
        server.fail(io::ErrorKind::Other).await;
        server.heard().await;
    }
    assert_eq!(said(), [Level::Warn]);
    advance(Duration::from_secs(60)).await;
    server.heard().await;
    server.heard().await;
    assert_eq!(said(), [Level::Info]);
}
