//! The worker's side: starts what launchers with the keys of this attempt ask for.

use std::{
    io,
    net::{Ipv6Addr, SocketAddr},
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use futures::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use thiserror::Error;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStdin},
    signal::unix::{SignalKind, signal},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::bytes::Bytes;

use crate::{
    PORT,
    args::Keys as Place,
    command::Command,
    keys::{Keys, KeysError},
    message::{CHUNK, Message, Messages, on},
};

/// How long a connection has to prove its keys and say what it wants.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a command has to end after it was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// How a worker ends that was told to, as a shell tells it.
const TERMINATED: u8 = 143;

type Stream = TlsStream<TcpStream>;

#[derive(Debug, Error)]
pub(crate) enum WorkerError {
    #[error("prepare the keys")]
    Keys(#[from] KeysError),
    #[error("listen on port {PORT}")]
    Listen(#[source] io::Error),
    #[error("take connections")]
    Accept(#[source] io::Error),
}

/// Serves until told to end.
pub(crate) async fn run(place: &Place) -> Result<u8, WorkerError> {
    let acceptor = Keys::read(&place.directory)?.acceptor()?;
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
    let listener = match TcpListener::bind(any).await {
        Ok(listener) => listener,
        // A kernel without IPv6.
        Err(_) => TcpListener::bind(("0.0.0.0", PORT)).await.map_err(WorkerError::Listen)?,
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(WorkerError::Listen)?;
    loop {
        let tcp = tokio::select! {
            accepted = listener.accept() => accepted.map_err(WorkerError::Accept)?.0,
            // The container ends, and with it all that runs in it. A worker is never done: its Job makes another.
            _ = terminate.recv() => return Ok(TERMINATED),
        };
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            if let Err(error) = session(tcp, acceptor).await {
                log(&format!("a connection ended: {error}"));
            }
        });
    }
}

async fn session(tcp: TcpStream, acceptor: TlsAcceptor) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let peer = tcp.peer_addr()?;
    let stream = timeout(PATIENCE, acceptor.accept(tcp)).await?;
    let stream =
        stream.map_err(|why| io::Error::other(format!("{peer} has not our keys: {why}")))?;
    let mut messages = on(stream);
    while let Some(message) = timeout(PATIENCE, messages.next()).await? {
        match message {
            Ok(Message::Ask) => messages.send(Message::Here).await?,
            Ok(Message::Run(command)) => return started(command, messages).await,
            Ok(other) => return Err(io::Error::other(format!("{other:?} was not expected"))),
            // Who only asked goes without a word.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn started(command: Command, mut messages: Messages<Stream>) -> io::Result<()> {
    match spawn(&command) {
        Ok(child) => carried(child, messages).await,
        Err(error) => {
            let program = &command.words[0];
            messages.send(Message::Refused(format!("{program} cannot be started: {error}"))).await
        }
    }
}

fn spawn(command: &Command) -> io::Result<Child> {
    let (program, arguments) = command.words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    #[expect(clippy::disallowed_methods, reason = "this is no agent of a node")]
    let own = std::process::Command::new(program);
    tokio::process::Command::from(own)
        .args(arguments)
        .envs(command.environment(|name| std::env::var(name).ok()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// Carries input and output until the command has ended, or the launcher is gone.
async fn carried(mut child: Child, messages: Messages<Stream>) -> io::Result<()> {
    let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let (mut sink, stream) = messages.split();
    let stdin = child.stdin.take();
    let is_over = tokio::select! {
        over = over(&mut child, &mut sink) => over.is_ok(),
        () = feed(stream, stdin) => false,
    };
    if is_over {
        return Ok(());
    }
    let Some(group) = group else { return Ok(()) };
    let _ = killpg(group, Signal::SIGTERM);
    if timeout(GRACE, child.wait()).await.is_err() {
        let _ = killpg(group, Signal::SIGKILL);
        child.wait().await?;
    }
    Err(io::Error::other("the launcher went away, and its command was ended"))
}

/// Sends on what the command says until nobody has its output open any more, then how it ended.
async fn over(
    child: &mut Child,
    sink: &mut SplitSink<Messages<Stream>, Message>,
) -> io::Result<()> {
    let mut output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut errors = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let (mut said, mut complained) = (vec![0; CHUNK], vec![0; CHUNK]);
    let (mut says, mut complains) = (true, true);
    while says || complains {
        let message = tokio::select! {
            read = output.read(&mut said), if says => {
                let length = read?;
                says = length > 0;
                Message::Output(Bytes::copy_from_slice(&said[..length]))
            }
            read = errors.read(&mut complained), if complains => {
                let length = read?;
                complains = length > 0;
                Message::Errors(Bytes::copy_from_slice(&complained[..length]))
            }
        };
        sink.send(message).await?;
    }
    let status = child.wait().await?;
    sink.send(Message::End(code(status))).await?;
    sink.close().await
}

/// Gives the command its input. Comes back when the launcher is gone.
async fn feed(mut stream: SplitStream<Messages<Stream>>, mut stdin: Option<ChildStdin>) {
    while let Some(Ok(message)) = stream.next().await {
        let is_taken = match (&message, &mut stdin) {
            (Message::Input(bytes), Some(stdin)) => stdin.write_all(bytes).await.is_ok(),
            _ => false,
        };
        // A command that reads no more is not at its end.
        if !is_taken {
            stdin = None;
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
