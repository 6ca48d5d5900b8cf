//! The unix socket: who gets in, and how it ends.

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kubeapi::{Api, Config, serve};
use serde_json::Value;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;

#[tokio::test]
async fn watches_end_when_the_socket_closes() {
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
    // The last word is how far the watch has come, so that its client can resume elsewhere.
    let rest = body.collect().await.unwrap().to_bytes();
    let last: Value = serde_json::from_slice(&rest).unwrap();
    assert_eq!(last["type"], "BOOKMARK");
    serving.await.unwrap();
}
