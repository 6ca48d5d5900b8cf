//! The worker's side: starts commands for launchers that have the keys of this attempt.

mod accept;
mod rank;

use std::{
    io,
    net::{Ipv6Addr, SocketAddr},
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
    time::Duration,
};

use futures::{SinkExt, StreamExt};
use thiserror::Error;
use tokio::{
    net::{TcpListener, TcpStream},
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use self::accept::{Pending, Unproved};
use crate::{
    PORT,
    args::Keys as Place,
    command::Command,
    keys::{Keys, KeysError},
    message::{Message, Messages, frame_messages},
    tcp::detect_dead_peers,
};

/// Longest time of a TLS handshake: any program that reaches the port may open a connection, and hold it that long.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Longest wait for a request on a connection whose peer has proved that it has the keys.
const PATIENCE: Duration = Duration::from_secs(30);
/// Exit code of a worker that ended because of SIGTERM, as a shell reports it.
const TERMINATED: u8 = 143;

type Stream = TlsStream<TcpStream>;

#[derive(Debug, Error)]
pub(crate) enum WorkerError {
    #[error("prepare the keys")]
    Keys(#[from] KeysError),
    #[error("listen on port {PORT}")]
    Listen(#[source] io::Error),
}

/// Serves until SIGTERM, then waits until all commands have ended.
pub(crate) async fn run(place: &Place) -> Result<u8, WorkerError> {
    let acceptor = Keys::read(&place.directory)?.acceptor()?;
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
    let listener = match TcpListener::bind(any).await {
        Ok(listener) => listener,
        // The kernel has no IPv6.
        Err(_) => TcpListener::bind(("0.0.0.0", PORT)).await.map_err(WorkerError::Listen)?,
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(WorkerError::Listen)?;
    let (end, ending) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut pending = Pending::default();
    loop {
        tokio::select! {
            (tcp, unproved) = pending.accept(&listener) => {
                let (acceptor, ending) = (acceptor.clone(), ending.clone());
                connections.spawn(async move { serve(tcp, unproved, acceptor, ending).await });
            }
            Some(done) = connections.join_next() => log_end(done),
            _ = terminate.recv() => break,
        }
    }
    // init has already forwarded the signal to the ranks. The kubelet kills ranks that outlive the pod's grace period.
    // The worker's exit code is never 0, so that the worker's Job starts another pod.
    drop(listener);
    let _ = end.send(true);
    while let Some(done) = connections.join_next().await {
        log_end(done);
    }
    Ok(TERMINATED)
}

/// Logs the error of a connection that failed.
fn log_end(done: Result<io::Result<()>, tokio::task::JoinError>) {
    match done {
        Ok(Ok(())) => {}
        Ok(Err(error)) => log(&format!("a connection ended: {error}")),
        Err(error) => log(&format!("a connection ended: {error}")),
    }
}

async fn serve(
    tcp: TcpStream,
    unproved: Unproved,
    acceptor: TlsAcceptor,
    mut ending: watch::Receiver<bool>,
) -> io::Result<()> {
    let request = tokio::select! {
     request = receive_command(tcp, unproved, acceptor) => request?,
        _ = ending.wait_for(|is| *is) => None,
    };
    match request {
        Some((command, messages)) => start(command, messages, ending).await,
        None => Ok(()),
    }
}

/// Receives the command from a launcher that has proved that it has the keys; `None` if the launcher only asked whether
/// the worker is present.
async fn receive_command(
    tcp: TcpStream,
    unproved: Unproved,
    acceptor: TlsAcceptor,
) -> io::Result<Option<(Command, Messages<Stream>)>> {
    detect_dead_peers(&tcp)?;
    let peer = tcp.peer_addr()?;
    let stream = tokio::select! {
        stream = timeout(HANDSHAKE, acceptor.accept(tcp)) => stream,
        () = unproved.displaced() => {
            return Err(io::Error::other(format!("{peer} proved no keys, and other connections wait")));
        }
    };
    let stream =
        stream.map_err(|_| io::Error::other(format!("{peer} proved no keys in {HANDSHAKE:?}")))?;
    let stream = stream.map_err(|why| {
        io::Error::other(format!("{peer} does not have the keys of this attempt: {why}"))
    })?;
    drop(unproved);
    let mut messages = frame_messages(stream);
    while let Some(message) = timeout(PATIENCE, messages.next()).await? {
        match message {
            Ok(Message::Ask) => messages.send(Message::Here).await?,
            Ok(Message::Run(command)) => return Ok(Some((command, messages))),
            Ok(other) => {
                return Err(io::Error::other(format!(
                    "the peer sent the unexpected message {other:?}"
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

async fn start(
    command: Command,
    mut messages: Messages<Stream>,
    ending: watch::Receiver<bool>,
) -> io::Result<()> {
    match rank::spawn(&command) {
        Ok(child) => rank::run(child, messages, ending).await,
        Err(error) => {
            let program = command.words.first().map_or("nothing", String::as_str);
            messages.send(Message::Refused(format!("{program} cannot be started: {error}"))).await
        }
    }
}

/// Returns the exit code of a process as a shell reports it.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let signal = || 128 + status.signal().unwrap_or(0);
    status.code().unwrap_or_else(signal).to_le_bytes()[0]
}

#[expect(clippy::print_stderr, reason = "the pod's log is where people look for it")]
fn log(text: &str) {
    eprintln!("podhelper: {text}");
}

#[cfg(test)]
mod tests;
