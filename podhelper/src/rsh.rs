//! The launcher's side: mpirun calls this program once for each worker, as it would call ssh.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    path::PathBuf,
    thread,
    time::Duration,
};

use futures::{SinkExt, StreamExt, stream::SplitSink};
use thiserror::Error;
use tokio::{
    net::TcpStream,
    sync::mpsc::{Receiver, channel},
    time::{Instant, sleep, timeout},
};
use tokio_rustls::client::TlsStream;
use tokio_util::bytes::Bytes;

use crate::{
    PORT,
    command::{Command, CommandError},
    keys::{Connector, Keys, KeysError},
    message::{CHUNK, Message, Messages, frame_messages, request},
    tcp::detect_dead_peers,
};

/// Environment variable that names the directory of the keys: mpirun passes ssh's options only.
const KEYS: &str = "NNF_MPI_KEYS";
/// Longest absence of a worker that answered before. Its pod may be in the middle of a replacement, or its name may not
/// resolve for a moment.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest time of one attempt to connect.
pub(crate) const TRY: Duration = Duration::from_secs(5);

#[derive(Debug, Error)]
pub(crate) enum RshError {
    #[error("{KEYS} is not set: it names the directory with the keys")]
    NoKeys,
    #[error("prepare the keys")]
    Keys(#[from] KeysError),
    #[error("the host is missing: call rsh HOST COMMAND")]
    NoHost,
    #[error(
        "option {0:?} is unknown: rsh HOST COMMAND takes only the ssh options that launchers use"
    )]
    Option(String),
    #[error("an argument is not UTF-8: {0:?}")]
    Text(OsString),
    #[error("start a command on {host}")]
    Command { host: String, source: CommandError },
    #[error("start a command on {host}")]
    Connect { host: String, source: io::Error },
    #[error("the connection with {host} broke while its command ran")]
    Broke { host: String, source: io::Error },
    #[error("{host}: {why}")]
    Refused { host: String, why: String },
}

/// A call by mpirun: the worker's host and the command.
#[derive(Clone, Debug)]
pub(crate) struct Rsh {
    host: String,
    command: Command,
}

impl Rsh {
    /// Parses the arguments: options of ssh, the host, and the text that a remote shell would interpret.
    pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Self, RshError> {
        let mut words = words.map(|word| word.into_string().map_err(RshError::Text));
        let host = loop {
            let word = words.next().ok_or(RshError::NoHost)??;
            match word.strip_prefix('-') {
                None => break word,
                // These options of ssh mean: no X11, quiet, no input, no terminal.
                Some("x" | "q" | "n" | "T" | "-") => {}
                Some(_) => return Err(RshError::Option(word)),
            }
        };
        let text = words.collect::<Result<Vec<_>, _>>()?.join(" ");
        let command = Command::parse(&text);
        let command = command.map_err(|source| RshError::Command { host: host.clone(), source })?;
        Ok(Self { host, command })
    }
}

/// Starts the command on the worker, and returns its exit code.
pub(crate) async fn run(rsh: &Rsh) -> Result<u8, RshError> {
    let directory = std::env::var_os(KEYS).map(PathBuf::from).ok_or(RshError::NoKeys)?;
    let connector = Keys::read(&directory)?.connector()?;
    let failed = |source| RshError::Connect { host: rsh.host.clone(), source };
    let messages = connect_with_retries(&connector, &rsh.host).await.map_err(failed)?;
    let broke = |source| RshError::Broke { host: rsh.host.clone(), source };
    match carry(messages, rsh.command.clone()).await.map_err(broke)? {
        Ok(code) => Ok(code),
        Err(why) => Err(RshError::Refused { host: rsh.host.clone(), why }),
    }
}

async fn connect_with_retries(
    connector: &Connector,
    host: &str,
) -> io::Result<Messages<TlsStream<TcpStream>>> {
    let end = Instant::now() + PATIENCE;
    loop {
        match connect(connector, host).await {
            Err(_) if Instant::now() < end => sleep(PAUSE).await,
            done => return done,
        }
    }
}

/// Connects to a worker. After a success, the worker has proved that it has the keys, and has accepted the launcher's.
pub(crate) async fn connect(
    connector: &Connector,
    host: &str,
) -> io::Result<Messages<TlsStream<TcpStream>>> {
    timeout(TRY, async {
        let tcp = TcpStream::connect((host, PORT)).await?;
        detect_dead_peers(&tcp)?;
        let mut messages = frame_messages(connector.connect(tcp).await?);
        // In TLS 1.3 a client learns only from the first answer that the server accepted its certificate.
        match request(&mut messages, Message::Ask).await? {
            Message::Here => Ok(messages),
            other => {
                Err(io::Error::other(format!("the peer sent the unexpected message {other:?}")))
            }
        }
    })
    .await?
}

/// Forwards input and output. Returns the exit code, or the reason why the command was not started.
async fn carry(
    messages: Messages<TlsStream<TcpStream>>,
    command: Command,
) -> io::Result<Result<u8, String>> {
    let (mut sink, mut stream) = messages.split();
    sink.send(Message::Run(command)).await?;
    tokio::spawn(feed(sink, input()));
    // These writes block on purpose: a slow reader delays the command, and there is no other work to do meanwhile.
    let (mut output, mut errors) = (io::stdout(), io::stderr());
    while let Some(message) = stream.next().await {
        match message? {
            Message::Output(bytes) => {
                output.write_all(&bytes)?;
                output.flush()?;
            }
            Message::Errors(bytes) => errors.write_all(&bytes)?,
            Message::End(code) => return Ok(Ok(code)),
            Message::Refused(why) => return Ok(Err(why)),
            other => {
                return Err(io::Error::other(format!(
                    "the peer sent the unexpected message {other:?}"
                )));
            }
        }
    }
    Err(io::Error::other("the worker closed the connection"))
}

/// Sends this process's input to the worker. Then keeps the connection open: if the connection ended, the
/// command would end too.
async fn feed(
    mut sink: SplitSink<Messages<TlsStream<TcpStream>>, Message>,
    mut input: Receiver<Bytes>,
) -> io::Result<()> {
    while let Some(bytes) = input.recv().await {
        sink.send(Message::Input(bytes)).await?;
    }
    sink.send(Message::InputEnd).await?;
    std::future::pending().await
}

/// Reads this process's input in a thread of its own, because a read from a terminal or a pipe blocks.
fn input() -> Receiver<Bytes> {
    let (sender, receiver) = channel(1);
    thread::spawn(move || {
        let mut buffer = vec![0; CHUNK];
        while let Ok(length @ 1..) = io::stdin().read(&mut buffer) {
            if sender.blocking_send(Bytes::copy_from_slice(&buffer[..length])).is_err() {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Rsh, RshError> {
        Rsh::parse(words.iter().map(|&word| word.into()))
    }

    #[test]
    fn rsh_accepts_the_ssh_options_that_launchers_use() {
        let hydra =
            parse(&["-x", "w-worker-0", "\"/usr/bin/hydra_pmi_proxy\"", "--rmk", "user"]).unwrap();
        assert_eq!(hydra.host, "w-worker-0");
        assert_eq!(hydra.command.words, ["/usr/bin/hydra_pmi_proxy", "--rmk", "user"]);
        assert!(matches!(parse(&[]), Err(RshError::NoHost)));
        assert!(matches!(parse(&["-o", "X=y", "h", "c"]), Err(RshError::Option(_))));
        assert!(matches!(parse(&["h", "a;b"]), Err(RshError::Command { .. })));
        assert!(matches!(parse(&["h"]), Err(RshError::Command { .. })));
    }
}
