//! The worker's side: starts what launchers with the keys of this attempt ask for.

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
    message::{Message, Messages, on},
    tcp::watched,
};

/// How long a connection has to prove its keys: whoever reaches the port may open one.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long one that proved them has to say what it wants.
const PATIENCE: Duration = Duration::from_secs(30);
/// Exit code of a worker that SIGTERM ended, as a shell reports it.
const TERMINATED: u8 = 143;

type Stream = TlsStream<TcpStream>;

#[derive(Debug, Error)]
pub(crate) enum WorkerError {
    #[error("prepare the keys")]
    Keys(#[from] KeysError),
    #[error("listen on port {PORT}")]
    Listen(#[source] io::Error),
}

/// Serves until told to end, and until all that it started has ended then.
pub(crate) async fn run(place: &Place) -> Result<u8, WorkerError> {
    let acceptor = Keys::read(&place.directory)?.acceptor()?;
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
    let listener = match TcpListener::bind(any).await {
        Ok(listener) => listener,
        // A kernel without IPv6.
        Err(_) => TcpListener::bind(("0.0.0.0", PORT)).await.map_err(WorkerError::Listen)?,
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(WorkerError::Listen)?;
    let (end, ending) = watch::channel(false);
    let mut sessions = JoinSet::new();
    let mut pending = Pending::default();
    loop {
        tokio::select! {
            (tcp, unproved) = pending.taken(&listener) => {
                let (acceptor, ending) = (acceptor.clone(), ending.clone());
                sessions.spawn(async move { session(tcp, unproved, acceptor, ending).await });
            }
            Some(done) = sessions.join_next() => log_end(done),
            _ = terminate.recv() => break,
        }
    }
    // Ranks heard it too, from the first process of the container. The kubelet ends those that take longer than the pod may. A
    // worker is never done: its Job makes another.
    drop(listener);
    let _ = end.send(true);
    while let Some(done) = sessions.join_next().await {
        log_end(done);
    }
    Ok(TERMINATED)
}

/// Logs how a connection ended that did not end well.
fn log_end(done: Result<io::Result<()>, tokio::task::JoinError>) {
    match done {
        Ok(Ok(())) => {}
        Ok(Err(error)) => log(&format!("a connection ended: {error}")),
        Err(error) => log(&format!("a connection ended: {error}")),
    }
}

async fn session(
    tcp: TcpStream,
    unproved: Unproved,
    acceptor: TlsAcceptor,
    mut ending: watch::Receiver<bool>,
) -> io::Result<()> {
    let asked = tokio::select! {
        asked = asked(tcp, unproved, acceptor) => asked?,
        _ = ending.wait_for(|is| *is) => None,
    };
    match asked {
        Some((command, messages)) => started(command, messages, ending).await,
        None => Ok(()),
    }
}

/// The command that a connection asks for, once it has proved its keys. One that only asked whether we are here goes without a
/// word.
async fn asked(
    tcp: TcpStream,
    unproved: Unproved,
    acceptor: TlsAcceptor,
) -> io::Result<Option<(Command, Messages<Stream>)>> {
    watched(&tcp)?;
    let peer = tcp.peer_addr()?;
    let stream = tokio::select! {
        stream = timeout(HANDSHAKE, acceptor.accept(tcp)) => stream,
        () = unproved.displaced() => {
            return Err(io::Error::other(format!("{peer} proved no keys, and others wait")));
        }
    };
    let stream =
        stream.map_err(|_| io::Error::other(format!("{peer} proved no keys in {HANDSHAKE:?}")))?;
    let stream =
        stream.map_err(|why| io::Error::other(format!("{peer} has not our keys: {why}")))?;
    drop(unproved);
    let mut messages = on(stream);
    while let Some(message) = timeout(PATIENCE, messages.next()).await? {
        match message {
            Ok(Message::Ask) => messages.send(Message::Here).await?,
            Ok(Message::Run(command)) => return Ok(Some((command, messages))),
            Ok(other) => return Err(io::Error::other(format!("{other:?} was not expected"))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

async fn started(
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

/// A status as a shell tells it.
pub(crate) fn code(status: ExitStatus) -> u8 {
    let signal = || 128 + status.signal().unwrap_or(0);
    status.code().unwrap_or_else(signal).to_le_bytes()[0]
}

#[expect(clippy::print_stderr, reason = "the pod's log is where people look for it")]
fn log(text: &str) {
    eprintln!("podhelper: {text}");
}

#[cfg(test)]
mod tests;
