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
    keys::{Connector, make},
    message::{CHUNK, asked},
};

/// Longer than anything takes here on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn keys(directory: &Path) -> Keys {
    fs::create_dir_all(directory).unwrap();
    for (name, text) in make().unwrap() {
        fs::write(directory.join(name), text).unwrap();
    }
    Keys::read(directory).unwrap()
}

/// A worker.
struct Worker {
    at: SocketAddr,
    /// How connections ended.
    ends: UnboundedReceiver<io::Result<()>>,
    /// Tells it to end.
    _end: watch::Sender<bool>,
}

/// A worker with these keys.
async fn worker(keys: Keys) -> Worker {
    let acceptor = keys.acceptor().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (ended, ends) = unbounded_channel();
    let (end, ending) = watch::channel(false);
    tokio::spawn(async move {
        let mut pending = Pending::default();
        loop {
            let (tcp, unproved) = pending.taken(&listener).await;
            let (acceptor, ending, ended) = (acceptor.clone(), ending.clone(), ended.clone());
            tokio::spawn(async move {
                let _ = ended.send(session(tcp, unproved, acceptor, ending).await);
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
    let mut messages = on(connector.connect(tcp).await?);
    match asked(&mut messages, Message::Ask).await? {
        Message::Here => Ok(messages),
        other => panic!("{other:?}"),
    }
}

/// A worker, and a connection with it.
async fn connected() -> (Worker, Messages<client::TlsStream<TcpStream>>) {
    let directory = tempfile::tempdir().unwrap();
    let worker = worker(keys(directory.path())).await;
    let connector = Keys::read(directory.path()).unwrap().connector().unwrap();
    let messages = ask(&connector, worker.at).await.unwrap();
    (worker, messages)
}

async fn run(messages: &mut Messages<client::TlsStream<TcpStream>>, command: &str) {
    messages.send(Message::Run(Command::of(command).unwrap())).await.unwrap();
}

/// What a command says, what it complains of, and how it ended.
async fn heard(
    messages: &mut Messages<client::TlsStream<TcpStream>>,
) -> (String, String, Option<Message>) {
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    while let Some(message) = messages.next().await {
        match message.unwrap() {
            Message::Output(bytes) => said.extend_from_slice(&bytes),
            Message::Errors(bytes) => complained.extend_from_slice(&bytes),
            other => {
                return (text(&said), text(&complained), Some(other));
            }
        }
    }
    (text(&said), text(&complained), None)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The next line that a command says: the number of a process.
async fn process(messages: &mut Messages<client::TlsStream<TcpStream>>) -> i32 {
    loop {
        match messages.next().await {
            Some(Ok(Message::Output(bytes))) => return text(&bytes).trim().parse().unwrap(),
            // The end of what it complains of may be heard first.
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

/// Nobody here reaps what its parent left behind.
fn is_zombie(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn keys_of_one_run_are_refused_by_another_at_both_ends() {
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (directory.path().join("a"), directory.path().join("b"));
    let worker = worker(keys(&a)).await;
    let b = keys(&b).connector().unwrap();
    let told = ask(&b, worker.at).await.unwrap_err().to_string();
    assert!(told.contains("invalid peer certificate"), "the launcher refuses the worker: {told}");
    let a = Keys::read(&a).unwrap().connector().unwrap();
    assert!(ask(&a, worker.at).await.is_ok(), "and its own has them");
}

#[tokio::test]
async fn a_worker_refuses_a_launcher_that_has_the_authority_and_not_the_keys() {
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (directory.path().join("a"), directory.path().join("b"));
    let mut worker = worker(keys(&a)).await;
    drop(keys(&b));
    // It trusts the worker, so that only the worker can refuse.
    fs::copy(a.join(crate::keys::AUTHORITY), b.join(crate::keys::AUTHORITY)).unwrap();
    let connector = Keys::read(&b).unwrap().connector().unwrap();
    assert!(ask(&connector, worker.at).await.is_err(), "its question has no answer");
    let told = worker.ends.recv().await.unwrap().unwrap_err().to_string();
    assert!(told.contains("has not our keys: invalid peer certificate: "), "{told}");
}

#[tokio::test]
async fn who_proves_no_keys_keeps_no_launcher_away() {
    let directory = tempfile::tempdir().unwrap();
    let mut worker = worker(keys(directory.path())).await;
    let mut silent = Vec::new();
    for _ in 0..accept::MOST {
        silent.push(TcpStream::connect(worker.at).await.unwrap());
    }
    let connector = Keys::read(directory.path()).unwrap().connector().unwrap();
    let began = Instant::now();
    ask(&connector, worker.at).await.unwrap();
    assert!(began.elapsed() < HANDSHAKE, "it did not wait for their time: {:?}", began.elapsed());
    assert_eq!(silent[0].read(&mut [0]).await.unwrap(), 0, "the oldest had to go");
    let told = worker.ends.recv().await.unwrap().unwrap_err().to_string();
    assert!(told.contains("proved no keys, and others wait"), "{told}");
    assert_eq!(silent[1].read(&mut [0]).await.unwrap(), 0, "and the others in their time");
    assert!(began.elapsed() < LONG);
    while let Some(end) = worker.ends.recv().await {
        match end {
            // The launcher's.
            Ok(()) => {}
            Err(told) => {
                assert!(told.to_string().contains("proved no keys in 5s"), "{told}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_command_has_its_input_output_and_status() {
    let (_worker, mut messages) = connected().await;
    run(&mut messages, "sh -c 'cat; echo oops >&2; exit 7'").await;
    let long = vec![b'x'; 3 * CHUNK];
    for piece in long.chunks(CHUNK) {
        messages.send(Message::Input(Bytes::copy_from_slice(piece))).await.unwrap();
    }
    messages.send(Message::InputEnd).await.unwrap();
    let (said, complained, end) = heard(&mut messages).await;
    assert_eq!(said.len(), long.len());
    assert_eq!((complained.as_str(), end), ("oops\n", Some(Message::End(7))));
}

#[tokio::test]
async fn words_reach_a_command_as_they_are_and_no_shell() {
    let (_worker, mut messages) = connected().await;
    run(&mut messages, "printf %s '$(id); `id` > x' /*").await;
    let (said, _, end) = heard(&mut messages).await;
    assert_eq!((said.as_str(), end), ("$(id); `id` > x/*", Some(Message::End(0))));
}

#[tokio::test]
async fn a_variable_of_the_worker_keeps_its_value_behind_the_launcher_s() {
    let (_worker, mut messages) = connected().await;
    run(&mut messages, "PATH=/opt/first:${PATH:-}; export PATH; sh -c 'echo $PATH'").await;
    let (said, ..) = heard(&mut messages).await;
    assert_eq!(said.trim(), format!("/opt/first:{}", std::env::var("PATH").unwrap()));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let (_worker, mut messages) = connected().await;
    run(&mut messages, "/no/orted").await;
    let (.., end) = heard(&mut messages).await;
    let Some(Message::Refused(why)) = end else { panic!("{end:?}") };
    assert!(why.contains("/no/orted cannot be started"), "{why}");
}

#[tokio::test]
async fn a_command_without_a_program_ends_its_connection_and_nothing_else() {
    let (mut worker, mut messages) = connected().await;
    messages.send(Message::Run(Command::default())).await.unwrap();
    let told = worker.ends.recv().await.unwrap().unwrap_err().to_string();
    assert!(told.contains("a command without a program"), "{told}");
}

#[tokio::test]
async fn a_command_ends_with_its_launcher_and_so_do_its_children() {
    let (mut worker, mut messages) = connected().await;
    run(&mut messages, "sh -c 'sleep 1000 & echo $!; wait'").await;
    let child = process(&mut messages).await;
    drop(messages);
    until_gone(child).await;
    let told = worker.ends.recv().await.unwrap().unwrap_err().to_string();
    assert!(told.contains("the launcher went away"), "{told}");
}

#[tokio::test]
async fn a_child_that_will_not_end_is_killed_though_its_parent_ended() {
    let (_worker, mut messages) = connected().await;
    let stubborn = "sh -c \"trap \\\"\\\" TERM; echo \\$\\$; while :; do sleep 1; done\"";
    run(&mut messages, &format!("sh -c '{stubborn} & wait'")).await;
    let child = process(&mut messages).await;
    let began = Instant::now();
    drop(messages);
    until_gone(child).await;
    assert!(began.elapsed() >= rank::GRACE, "it had its time: {:?}", began.elapsed());
}

#[tokio::test]
async fn what_a_command_leaves_behind_ends_with_it() {
    let (mut worker, mut messages) = connected().await;
    run(&mut messages, "sh -c 'sleep 1000 > /dev/null 2>&1 & echo $!'").await;
    let child = process(&mut messages).await;
    let (.., end) = heard(&mut messages).await;
    assert_eq!(end, Some(Message::End(0)), "the command itself ended well");
    until_gone(child).await;
    assert!(worker.ends.recv().await.unwrap().is_ok());
}
