use std::{fs, path::Path};

use tokio_rustls::client;

use super::*;
use crate::{
    keys::{Connector, make},
    message::asked,
};

fn keys(directory: &Path) -> Keys {
    fs::create_dir_all(directory).unwrap();
    for (name, text) in make().unwrap() {
        fs::write(directory.join(name), text).unwrap();
    }
    Keys::read(directory).unwrap()
}

/// A worker with these keys, and where it listens.
async fn worker(keys: Keys) -> SocketAddr {
    let acceptor = keys.acceptor().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            tokio::spawn(session(tcp, acceptor.clone()));
        }
    });
    at
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

async fn connected() -> Messages<client::TlsStream<TcpStream>> {
    let directory = tempfile::tempdir().unwrap();
    let at = worker(keys(directory.path())).await;
    let connector = Keys::read(directory.path()).unwrap().connector().unwrap();
    ask(&connector, at).await.unwrap()
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

#[tokio::test]
async fn keys_of_one_run_are_refused_by_another_at_both_ends() {
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (directory.path().join("a"), directory.path().join("b"));
    let at = worker(keys(&a)).await;
    let b = keys(&b).connector().unwrap();
    let told = ask(&b, at).await.unwrap_err().to_string();
    assert!(told.contains("invalid peer certificate"), "the launcher refuses the worker: {told}");
    let a = Keys::read(&a).unwrap().connector().unwrap();
    assert!(ask(&a, at).await.is_ok(), "and its own has them");
}

#[tokio::test]
async fn a_worker_refuses_a_launcher_that_has_the_authority_and_not_the_keys() {
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (directory.path().join("a"), directory.path().join("b"));
    let at = worker(keys(&a)).await;
    drop(keys(&b));
    // It trusts the worker, so that only the worker can refuse.
    fs::copy(a.join(crate::keys::AUTHORITY), b.join(crate::keys::AUTHORITY)).unwrap();
    let connector = Keys::read(&b).unwrap().connector().unwrap();
    assert!(ask(&connector, at).await.is_err());
}

#[tokio::test]
async fn a_command_has_its_input_output_and_status() {
    let mut messages = connected().await;
    let command = Command::of("sh -c 'cat; echo oops >&2; exit 7'").unwrap();
    messages.send(Message::Run(command)).await.unwrap();
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
    let mut messages = connected().await;
    let command = Command::of("printf %s '$(id); `id` > x'").unwrap();
    messages.send(Message::Run(command)).await.unwrap();
    let (said, _, end) = heard(&mut messages).await;
    assert_eq!((said.as_str(), end), ("$(id); `id` > x", Some(Message::End(0))));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let mut messages = connected().await;
    messages.send(Message::Run(Command::of("/no/orted").unwrap())).await.unwrap();
    let (.., end) = heard(&mut messages).await;
    let Some(Message::Refused(why)) = end else { panic!("{end:?}") };
    assert!(why.contains("/no/orted cannot be started"), "{why}");
}

#[tokio::test]
async fn a_command_ends_with_its_launcher_and_so_do_its_children() {
    let mut messages = connected().await;
    let command = Command::of("sh -c 'sleep 1000 & echo $!; wait'").unwrap();
    messages.send(Message::Run(command)).await.unwrap();
    let Some(Ok(Message::Output(bytes))) = messages.next().await else { panic!() };
    let child: i32 = text(&bytes).trim().parse().unwrap();
    drop(messages);
    let is_gone =
        || nix::sys::signal::kill(Pid::from_raw(child), None).is_err() || is_zombie(child);
    timeout(Duration::from_secs(60), async {
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
