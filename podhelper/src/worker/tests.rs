use std::{fs, path::Path, time::Instant};

use nix::{sys::signal::kill, unistd::Pid};
use tokio::{
    io::AsyncReadExt,
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
};
use tokio_rustls::client;
use tokio_util::bytes::Bytes;

use super::*;
use crate::{
    keys::{Connector, generate},
    message::{CHUNK, request},
};

/// A time that no operation here takes, even on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn keys(directory: &Path) -> Keys {
    fs::create_dir_all(directory).unwrap();
    for (name, text) in generate().unwrap() {
        fs::write(directory.join(name), text).unwrap();
    }
    Keys::read(directory).unwrap()
}

/// A running worker.
struct Worker {
    at: SocketAddr,
    /// Results of the worker's connections.
    ends: UnboundedReceiver<io::Result<()>>,
    /// Ends the worker when it is dropped.
    _end: watch::Sender<bool>,
}

/// Starts a worker with these keys.
async fn worker(keys: Keys) -> Worker {
    let acceptor = keys.acceptor().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (ended, ends) = unbounded_channel();
    let (end, ending) = watch::channel(false);
    tokio::spawn(async move {
        let mut pending = Pending::default();
        loop {
            let (tcp, unproved) = pending.accept(&listener).await;
            let (acceptor, ending, ended) = (acceptor.clone(), ending.clone(), ended.clone());
            tokio::spawn(async move {
                let _ = ended.send(serve(tcp, unproved, acceptor, ending).await);
            });
        }
    });
    Worker { at, ends, _end: end }
}

async fn ask(
    connector: &Connector,
    at: SocketAddr,
) -> io::Result<Messages<client::TlsStream<TcpStream>>> {
    let tcp = TcpStream::connect(at).await?;
    let mut messages = frame_messages(connector.connect(tcp).await?);
    match request(&mut messages, Message::Ask).await? {
        Message::Here => Ok(messages),
        other => panic!("{other:?}"),
    }
}

/// Starts a worker and connects to it.
async fn connected() -> (Worker, Messages<client::TlsStream<TcpStream>>) {
    let directory = tempfile::tempdir().unwrap();
    let worker = worker(keys(directory.path())).await;
    let connector = Keys::read(directory.path()).unwrap().connector().unwrap();
    let messages = ask(&connector, worker.at).await.unwrap();
    (worker, messages)
}

async fn run(messages: &mut Messages<client::TlsStream<TcpStream>>, command: &str) {
    messages.send(Message::Run(Command::parse(command).unwrap())).await.unwrap();
}

/// Returns the output, the errors and the last message of a command.
async fn output_and_end(
    messages: &mut Messages<client::TlsStream<TcpStream>>,
) -> (String, String, Option<Message>) {
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    while let Some(message) = messages.next().await {
        match message.unwrap() {
            Message::Output(bytes) => output.extend_from_slice(&bytes),
            Message::Errors(bytes) => errors.extend_from_slice(&bytes),
            other => {
                return (text(&output), text(&errors), Some(other));
            }
        }
    }
    (text(&output), text(&errors), None)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads the process id that the command prints.
async fn process(messages: &mut Messages<client::TlsStream<TcpStream>>) -> i32 {
    loop {
        match messages.next().await {
            Some(Ok(Message::Output(bytes))) => return text(&bytes).trim().parse().unwrap(),
            // The message that the errors have ended may arrive before the output.
            Some(Ok(Message::Errors(bytes))) if bytes.is_empty() => {}
            other => panic!("no output: {other:?}"),
        }
    }
}

async fn until_gone(process: i32) {
    let is_gone = || kill(Pid::from_raw(process), None).is_err() || is_zombie(process);
    timeout(LONG, async {
        while !is_gone() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
}

/// Returns whether a process is a zombie: in these tests no process reaps orphans.
fn is_zombie(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn launcher_and_worker_reject_the_keys_of_another_run() {
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (directory.path().join("a"), directory.path().join("b"));
    let worker = worker(keys(&a)).await;
    let b = keys(&b).connector().unwrap();
    let error = ask(&b, worker.at).await.unwrap_err().to_string();
    assert!(error.contains("invalid peer certificate"), "the launcher refuses the worker: {error}");
    let a = Keys::read(&a).unwrap().connector().unwrap();
    assert!(ask(&a, worker.at).await.is_ok(), "a launcher of the same run is accepted");
}

#[tokio::test]
async fn a_worker_rejects_a_launcher_with_its_authority_but_other_keys() {
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (directory.path().join("a"), directory.path().join("b"));
    let mut worker = worker(keys(&a)).await;
    drop(keys(&b));
    // The launcher trusts the worker's authority, so that only the worker can reject the connection.
    fs::copy(a.join(crate::keys::AUTHORITY), b.join(crate::keys::AUTHORITY)).unwrap();
    let connector = Keys::read(&b).unwrap().connector().unwrap();
    assert!(
        ask(&connector, worker.at).await.is_err(),
        "the worker answers no launcher with other keys"
    );
    let error = worker.ends.recv().await.unwrap().unwrap_err().to_string();
    assert!(
        error.contains("does not have the keys of this attempt: invalid peer certificate: "),
        "{error}"
    );
}

#[tokio::test]
async fn connections_without_keys_do_not_keep_a_launcher_from_its_worker() {
    let directory = tempfile::tempdir().unwrap();
    let mut worker = worker(keys(directory.path())).await;
    let mut silent = Vec::new();
    for _ in 0..accept::MAX_UNPROVED {
        silent.push(TcpStream::connect(worker.at).await.unwrap());
    }
    let connector = Keys::read(directory.path()).unwrap().connector().unwrap();
    let began = Instant::now();
    ask(&connector, worker.at).await.unwrap();
    assert!(
        began.elapsed() < HANDSHAKE,
        "the launcher is served before the others time out: {:?}",
        began.elapsed()
    );
    assert_eq!(silent[0].read(&mut [0]).await.unwrap(), 0, "the oldest connection is dropped");
    let error = worker.ends.recv().await.unwrap().unwrap_err().to_string();
    assert!(error.contains("proved no keys, and other connections wait"), "{error}");
    assert_eq!(
        silent[1].read(&mut [0]).await.unwrap(),
        0,
        "the others are dropped by the time-out"
    );
    assert!(began.elapsed() < LONG);
    while let Some(end) = worker.ends.recv().await {
        match end {
            // This result is the end of the launcher's connection.
            Ok(()) => {}
            Err(error) => {
                assert!(error.to_string().contains("proved no keys in 5s"), "{error}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_command_gets_its_input_and_its_output_and_exit_code_reach_the_launcher() {
    let (_worker, mut messages) = connected().await;
    run(&mut messages, "sh -c 'cat; echo oops >&2; exit 7'").await;
    let long = vec![b'x'; 3 * CHUNK];
    for piece in long.chunks(CHUNK) {
        messages.send(Message::Input(Bytes::copy_from_slice(piece))).await.unwrap();
    }
    messages.send(Message::InputEnd).await.unwrap();
    let (output, errors, end) = output_and_end(&mut messages).await;
    assert_eq!(output.len(), long.len());
    assert_eq!((errors.as_str(), end), ("oops\n", Some(Message::End(7))));
}

#[tokio::test]
async fn a_command_receives_its_words_unchanged_and_without_a_shell() {
    let (_worker, mut messages) = connected().await;
    run(&mut messages, "printf %s '$(id); `id` > x' /*").await;
    let (output, _, end) = output_and_end(&mut messages).await;
    assert_eq!((output.as_str(), end), ("$(id); `id` > x/*", Some(Message::End(0))));
}

#[tokio::test]
async fn a_launcher_s_variable_may_refer_to_the_worker_s() {
    let (_worker, mut messages) = connected().await;
    run(&mut messages, "PATH=/opt/first:${PATH:-}; export PATH; sh -c 'echo $PATH'").await;
    let (output, ..) = output_and_end(&mut messages).await;
    assert_eq!(output.trim(), format!("/opt/first:{}", std::env::var("PATH").unwrap()));
}

#[tokio::test]
async fn the_refusal_of_a_missing_program_names_the_program() {
    let (_worker, mut messages) = connected().await;
    run(&mut messages, "/no/orted").await;
    let (.., end) = output_and_end(&mut messages).await;
    let Some(Message::Refused(why)) = end else { panic!("{end:?}") };
    assert!(why.contains("/no/orted cannot be started"), "{why}");
}

#[tokio::test]
async fn a_command_without_a_program_ends_only_its_connection() {
    let (mut worker, mut messages) = connected().await;
    messages.send(Message::Run(Command::default())).await.unwrap();
    let error = worker.ends.recv().await.unwrap().unwrap_err().to_string();
    assert!(error.contains("a command without a program"), "{error}");
}

#[tokio::test]
async fn a_command_and_its_children_end_with_their_launcher() {
    let (mut worker, mut messages) = connected().await;
    run(&mut messages, "sh -c 'sleep 1000 & echo $!; wait'").await;
    let child = process(&mut messages).await;
    drop(messages);
    until_gone(child).await;
    let error = worker.ends.recv().await.unwrap().unwrap_err().to_string();
    assert!(error.contains("the launcher disconnected"), "{error}");
}

#[tokio::test]
async fn a_child_that_ignores_sigterm_is_killed() {
    let (_worker, mut messages) = connected().await;
    let stubborn = "sh -c \"trap \\\"\\\" TERM; echo \\$\\$; while :; do sleep 1; done\"";
    run(&mut messages, &format!("sh -c '{stubborn} & wait'")).await;
    let child = process(&mut messages).await;
    let began = Instant::now();
    drop(messages);
    until_gone(child).await;
    assert!(
        began.elapsed() >= rank::GRACE,
        "SIGKILL comes only after the grace period: {:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn background_processes_end_with_their_command() {
    let (mut worker, mut messages) = connected().await;
    run(&mut messages, "sh -c 'sleep 1000 > /dev/null 2>&1 & echo $!'").await;
    let child = process(&mut messages).await;
    let (.., end) = output_and_end(&mut messages).await;
    assert_eq!(end, Some(Message::End(0)), "the command itself exited with 0");
    until_gone(child).await;
    assert!(worker.ends.recv().await.unwrap().is_ok());
}
