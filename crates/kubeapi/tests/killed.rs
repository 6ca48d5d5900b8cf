//! Kills the server under write load (`kill -9`), again and again, and checks that no acknowledged write is lost, and
//! that a watch that resumes by resourceVersion sees every change once.
//!
//! The server runs in a child process: this test binary, which runs one ignored test. `KUBEAPI_CRASH_ROUNDS` sets
//! the number of rounds.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use futures::future::join_all;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use kubeapi::{Api, Config, serve};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{Child, Command};

const DIRECTORY: &str = "KUBEAPI_CRASH_DIRECTORY";
const ROUNDS: &str = "KUBEAPI_CRASH_ROUNDS";
const WRITERS: usize = 6;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The server that the test kills; not a test by itself.
#[tokio::test]
#[ignore = "the server side of the crash test, started by it"]
async fn server() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let directory = PathBuf::from(directory);
    let socket = directory.join("socket");
    drop(std::fs::remove_file(&socket));
    // The log of changes is so short that some kills interrupt its trimming.
    let config = Config { history: 200, ..Config::new(directory.join("store")) };
    let api = Api::open(config).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    #[expect(clippy::print_stdout, reason = "tells the parent that the socket exists")]
    {
        println!("\nready");
    }
    serve::unix(listener, api, Vec::new(), std::future::pending()).await;
}

async fn start(directory: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "server", "--ignored", "--nocapture"]).env(DIRECTORY, directory);
    let mut child =
        command.stdout(std::process::Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while lines.next_line().await.unwrap().expect("the server starts") != "ready" {}
    child
}

struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    async fn open(directory: &Path) -> Option<Self> {
        let stream = UnixStream::connect(directory.join("socket")).await.ok()?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        Some(Self(sender))
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Option<http::Response<hyper::body::Incoming>> {
        let media_type = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "local")
            .header("content-type", media_type);
        self.0.send_request(request.body(Full::new(Bytes::from(text))).unwrap()).await.ok()
    }

    /// Returns the answer; `None` when the server died before the answer was complete.
    async fn call(&mut self, method: Method, path: &str, body: &Value) -> Option<(u16, Value)> {
        let response = self.send(method, path, body).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.ok()?.to_bytes();
        Some((code, serde_json::from_slice(&bytes).ok()?))
    }
}

/// A client that writes increasing numbers into its own ConfigMap.
struct Writer {
    name: String,
    acknowledged: u64,
}

impl Writer {
    /// Writes until the server dies. First checks that no acknowledged write is missing.
    async fn run(&mut self, directory: &Path, acknowledge: &impl Fn()) {
        let Some(mut connection) = Connection::open(directory).await else { return };
        let path = format!("{MAPS}/{}", self.name);
        let Some((code, found)) = connection.call(Method::GET, &path, &Value::Null).await else {
            return;
        };
        let stored = if code == 404 { 0 } else { count(&found) };
        // The server may have stored one write more than this client knows, because the answer was lost in the crash.
        let range = self.acknowledged..=self.acknowledged + 1;
        assert!(
            range.contains(&stored),
            "{}: {stored} is stored, {} was acknowledged",
            self.name,
            self.acknowledged
        );
        self.acknowledged = stored;
        loop {
            let next = self.acknowledged + 1;
            let data = json!({"data": {"n": next.to_string(), "filler": "x".repeat(512)}});
            let answer = if self.acknowledged == 0 {
                let mut object = data;
                object["apiVersion"] = json!("v1");
                object["kind"] = json!("ConfigMap");
                object["metadata"] = json!({"name": self.name});
                connection.call(Method::POST, MAPS, &object).await
            } else {
                connection.call(Method::PATCH, &path, &data).await
            };
            let Some((code, object)) = answer else { return };
            assert!(matches!(code, 200 | 201), "{object}");
            assert_eq!(count(&object), next);
            self.acknowledged = next;
            acknowledge();
        }
    }
}

fn count(object: &Value) -> u64 {
    object["data"]["n"].as_str().unwrap().parse().unwrap()
}

/// A client that watches all ConfigMaps, and checks that each number arrives once and in order.
struct Watcher {
    revision: u64,
    received: BTreeMap<String, u64>,
}

impl Watcher {
    /// Reads events until the server dies, or until `enough` is true.
    async fn run(&mut self, directory: &Path, enough: impl Fn(&BTreeMap<String, u64>) -> bool) {
        let Some(mut connection) = Connection::open(directory).await else { return };
        let path = format!("{MAPS}?watch=true&resourceVersion={}", self.revision);
        let Some(response) = connection.send(Method::GET, &path, &Value::Null).await else {
            return;
        };
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        let mut text = Vec::new();
        while !enough(&self.received) {
            let Some(Ok(frame)) = body.frame().await else { return };
            text.extend_from_slice(&frame.into_data().unwrap());
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                self.take(&serde_json::from_slice(&line).unwrap());
            }
        }
    }

    fn take(&mut self, event: &Value) {
        assert!(matches!(event["type"].as_str(), Some("ADDED" | "MODIFIED")), "{event}");
        let object = &event["object"];
        let revision: u64 =
            object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(revision > self.revision, "revision {revision} after {}", self.revision);
        self.revision = revision;
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let last = self.received.entry(name.clone()).or_insert(0);
        assert_eq!(count(object), *last + 1, "{name} skipped or repeated a change");
        *last += 1;
    }
}

#[tokio::test]
async fn kills_of_the_server_lose_no_acknowledged_write_and_no_event() {
    let rounds: u32 = std::env::var(ROUNDS).map_or(200, |rounds| rounds.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut first = start(directory).await;
    let mut connection = Connection::open(directory).await.unwrap();
    let (_, list) = connection.call(Method::GET, MAPS, &Value::Null).await.unwrap();
    // The store is locked until the first server has ended.
    first.kill().await.unwrap();
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let mut watcher = Watcher { revision, received: BTreeMap::new() };
    let mut writers: Vec<Writer> =
        (0..WRITERS).map(|index| Writer { name: format!("w{index}"), acknowledged: 0 }).collect();
    for round in 0..rounds {
        let child = RefCell::new(start(directory).await);
        let left = Cell::new(1 + round * 7 % 40);
        // Kills the server after a number of acknowledged writes, while the other writers wait for answers.
        let acknowledge = || {
            left.set(left.get().saturating_sub(1));
            if left.get() == 0 {
                child.borrow_mut().start_kill().unwrap();
            }
        };
        let load = join_all(writers.iter_mut().map(|writer| writer.run(directory, &acknowledge)));
        futures::join!(load, watcher.run(directory, |_| false));
        child.into_inner().wait().await.unwrap();
    }
    let last = start(directory).await;
    let mut connection = Connection::open(directory).await.unwrap();
    let (_, list) = connection.call(Method::GET, MAPS, &Value::Null).await.unwrap();
    let items = list["items"].as_array().unwrap();
    let stored: BTreeMap<String, u64> = items
        .iter()
        .map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), count(item)))
        .collect();
    assert_eq!(stored.len(), WRITERS);
    watcher.run(directory, |received| *received == stored).await;
    assert_eq!(watcher.received, stored);
    drop(last);
}
