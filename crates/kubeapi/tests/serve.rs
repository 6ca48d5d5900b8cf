//! Tests of the unix socket: which users may connect, how watches end when the server stops, and that a server without
//! requests uses no processor time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kubeapi::{Api, Config, serve};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

const SOCKET: &str = "KUBEAPI_TEST_SOCKET";
const PEER: &str = "KUBEAPI_TEST_PEER";
/// Uid of the user `nobody`, who owns no files.
const FOREIGN: u32 = 65534;

#[tokio::test]
async fn a_stopping_server_ends_its_watches_with_a_bookmark() {
    let directory = tempfile::tempdir().unwrap();
    let api = Api::open(Config::new(directory.path().join("store"))).unwrap();
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving =
        tokio::spawn(serve::unix(listener, api, Vec::new(), async { drop(stopped.await) }));

    let stream = UnixStream::connect(&socket).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("/api/v1/namespaces?watch=true&allowWatchBookmarks=true")
        .header("host", "local");
    let response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let mut body = response.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"{\"type\":\"ADDED\""));
    stop.send(()).unwrap();
    // The last event is a bookmark with the latest revision, from which the client can resume on another server.
    let rest = body.collect().await.unwrap().to_bytes();
    let last: Value = serde_json::from_slice(&rest).unwrap();
    assert_eq!(last["type"], "BOOKMARK");
    serving.await.unwrap();
}

/// Returns a command that runs one of the ignored tests of this binary in a process of its own.
fn child(test: &str, socket: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]).env(SOCKET, socket);
    command.kill_on_drop(true);
    command
}

/// A client of another user; not a test by itself.
#[test]
#[ignore = "the client side of a test, started by it"]
fn foreign_client() {
    use std::io::{Read, Write};
    let (Ok(socket), Ok(uid)) = (std::env::var(SOCKET), std::env::var(PEER)) else { return };
    nix::unistd::setuid(uid.parse::<u32>().unwrap().into()).unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    let request = "GET /version HTTP/1.1\r\nhost: local\r\nconnection: close\r\n\r\n";
    // The write fails if the server has closed the connection already; the read below then returns nothing.
    drop(stream.write_all(request.as_bytes()));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    let answered = answer.starts_with(b"HTTP/1.1 200");
    assert!(answered || answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    #[expect(clippy::print_stdout, reason = "tells the parent whether the server answered")]
    {
        println!("\n{}", if answered { "answered" } else { "refused" });
    }
}

/// Returns the answer that a client of the foreign user gets from a server that admits `allowed`.
async fn answer_to_foreign_client(allowed: Vec<u32>) -> String {
    let directory = tempfile::tempdir().unwrap();
    let api = Api::open(Config::new(directory.path().join("store"))).unwrap();
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    // Permits every user to open the socket, so that only the server's check of the uid can refuse the client.
    for (path, mode) in [(directory.path(), 0o755), (socket.as_path(), 0o777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let serving = tokio::spawn(serve::unix(listener, api, allowed, std::future::pending()));
    let output =
        child("foreign_client", &socket).env(PEER, FOREIGN.to_string()).output().await.unwrap();
    serving.abort();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let words = stdout.lines().filter(|line| matches!(*line, "answered" | "refused"));
    words.collect::<Vec<_>>().concat()
}

#[tokio::test]
async fn another_user_may_connect_only_if_its_uid_is_listed() {
    if !gate::root() {
        return;
    }
    assert_eq!(answer_to_foreign_client(Vec::new()).await, "refused");
    assert_eq!(answer_to_foreign_client(vec![FOREIGN + 1]).await, "refused");
    assert_eq!(answer_to_foreign_client(vec![1, FOREIGN]).await, "answered");
}

/// A server without requests; not a test by itself.
#[tokio::test]
#[ignore = "the server side of a test, started by it"]
async fn resting_server() {
    let Some(socket) = std::env::var_os(SOCKET).map(PathBuf::from) else { return };
    let api = Api::open(Config::new(socket.with_extension("store"))).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    #[expect(clippy::print_stdout, reason = "tells the parent that the socket exists")]
    {
        println!("\nready");
    }
    serve::unix(listener, api, Vec::new(), std::future::pending()).await;
}

/// Returns how often the threads of a process have been scheduled (proc(5), `/proc/<pid>/task/<tid>/status`).
fn context_switches(child: &Child) -> u64 {
    let tasks = format!("/proc/{}/task", child.id().unwrap());
    let tasks = std::fs::read_dir(tasks).unwrap();
    let status =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status")).unwrap();
    let of_task = |task: std::io::Result<std::fs::DirEntry>| -> u64 {
        let status = status(task.unwrap());
        let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
        counts.map(|line| line.split_whitespace().last().unwrap().parse::<u64>().unwrap()).sum()
    };
    tasks.map(of_task).sum()
}

#[tokio::test]
async fn the_threads_of_a_server_without_requests_never_run() {
    /// Longer than the period of any timer that the server might have by mistake.
    const WINDOW: Duration = Duration::from_secs(5);
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let mut server =
        child("resting_server", &socket).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    while lines.next_line().await.unwrap().expect("the server starts") != "ready" {}
    let stream = UnixStream::connect(&socket).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("/api/v1/namespaces?watch=true&allowWatchBookmarks=true")
        .header("host", "local");
    let response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    // On a busy machine the server may still run for a moment after the client has read the answer, so the test accepts
    // context switches in some windows. A server with a timer would run in every window.
    let mut woken = Vec::new();
    for _ in 0..4 {
        let before = context_switches(&server);
        tokio::time::sleep(WINDOW).await;
        woken.push(context_switches(&server) - before);
        if woken.last() == Some(&0) {
            return;
        }
    }
    panic!("context switches in {WINDOW:?} each: {woken:?}");
}
