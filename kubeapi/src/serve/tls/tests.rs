//! Connections that keep a place: who may, and for how long.

use super::super::{CONNECTIONS, Limits};
use super::*;
use crate::Config;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::timeout;

/// A test that waits longer than this has failed.
const DEADLINE: Duration = Duration::from_secs(60);

/// Bytes on their way between client and server.
const PIPE: usize = 4096;
const HELLO: &str = "GET /version HTTP/1.1\r\nhost: x\r\nauthorization: Bearer token\r\n\r\n";

struct Served {
    api: Api,
    connections: Connections,
    _directory: tempfile::TempDir,
}

impl Served {
    fn new(admission: Duration, stalled: Duration) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let api = Api::open(Config::new(directory.path())).unwrap();
        let connections = Connections::new(Limits { admission, stalled });
        Self { api, connections, _directory: directory }
    }

    /// A connection whose handshake is done.
    async fn connect(&self) -> DuplexStream {
        let (client, server) = duplex(PIPE);
        let service = self.api.service(Identity { user: "test".to_owned() });
        let admitted = Arc::new(Notify::new());
        let service =
            Authenticated { service, token: "token".into(), admitted: Arc::clone(&admitted) };
        let place = self.connections.place().await;
        let admitted = async move { admitted.notified().await };
        self.connections.serve(server, service, place, admitted);
        client
    }

    /// Returns when every place is free.
    async fn emptied(&self) {
        let all = u32::try_from(CONNECTIONS).unwrap();
        let places = self.connections.places.acquire_many(all);
        drop(timeout(DEADLINE, places).await.expect("every place is given back").unwrap());
    }
}

#[tokio::test]
async fn strangers_keep_no_places() {
    let served = Served::new(Duration::from_millis(50), DEADLINE);
    let mut strangers = Vec::new();
    for said in [
        "",
        "GET",
        "GET /version HTTP/1.1\r\nhost: x\r\n",
        "GET /version HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /version HTTP/1.1\r\nhost: x\r\nauthorization: Bearer other\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    ] {
        let mut stranger = served.connect().await;
        stranger.write_all(said.as_bytes()).await.unwrap();
        strangers.push(stranger);
    }
    served.emptied().await;
    drop(strangers);
}

#[tokio::test]
async fn a_client_that_was_let_in_may_rest() {
    let admission = Duration::from_secs(1);
    let served = Served::new(admission, DEADLINE);
    let mut client = served.connect().await;
    for _ in 0..2 {
        client.write_all(HELLO.as_bytes()).await.unwrap();
        let mut answer = [0; 15];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        // The rest of the answer.
        while timeout(admission * 2, client.read_u8()).await.is_ok_and(|byte| byte.is_ok()) {}
    }
}

/// A server with much to read, and a client that has asked for a watch of it.
async fn watched(served: &Served) -> DuplexStream {
    let service = served.api.service(Identity { user: "test".to_owned() });
    for index in 0..4 {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{index}")},
            "data": {"v": "x".repeat(100_000)}});
        let request = Request::post("/api/v1/namespaces/default/configmaps");
        let request = request.header("content-type", "application/json");
        let body = http_body_util::Full::new(hyper::body::Bytes::from(map.to_string()));
        let answer = tower::ServiceExt::oneshot(service.clone(), request.body(body).unwrap());
        assert_eq!(answer.await.unwrap().status(), 201);
    }
    let mut client = served.connect().await;
    let watch = HELLO.replace("/version", "/api/v1/configmaps?watch=true");
    client.write_all(watch.as_bytes()).await.unwrap();
    client
}

#[tokio::test]
async fn a_client_that_never_reads_is_dropped() {
    let served = Served::new(DEADLINE, Duration::from_millis(50));
    let client = watched(&served).await;
    served.emptied().await;
    drop(client);
}
