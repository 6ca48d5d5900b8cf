//! Tests of the pieces in which a watch is encoded.

use crate::server::Server;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

const MAPS: usize = 20;
/// Size of each ConfigMap, in bytes.
const SIZE: usize = 50_000;
/// Largest size of a piece: a piece ends after the event with which it reaches 64 KiB.
const PIECE: usize = 64 * 1024 + SIZE + 1000;

async fn write(server: &Server, value: char) {
    for index in 0..MAPS {
        let data = json!({"data": {"v": value.to_string().repeat(SIZE)}});
        let path = server.core(&format!("configmaps/m{index:02}"));
        server.merge(&path, &data).await.expect(200);
    }
}

#[tokio::test]
async fn a_watch_delivers_large_objects_in_small_pieces() {
    let server = Server::start().await;
    for index in 0..MAPS {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{index:02}")}});
        server.post(&server.core("configmaps"), &map).await.expect(201);
    }
    write(&server, 'a').await;
    let path = server.core(
        "configmaps?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    );
    let mut body = server.send(server.request(Method::GET, &path, "", b"")).await.into_body();
    write(&server, 'b').await;
    let mut events = Vec::new();
    while events.len() < 2 * MAPS + 1 {
        let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(piece.len() <= PIECE, "{} bytes at once", piece.len());
        for line in piece.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Value = serde_json::from_slice(line).unwrap();
            let object = &event["object"];
            let first = object["data"]["v"].as_str().and_then(|value| value.chars().next());
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            events.push(format!("{} {name} {first:?}", event["type"].as_str().unwrap()));
        }
    }
    let events_of = |verb: &'static str, value: char| {
        (0..MAPS).map(move |index| format!("{verb} m{index:02} {:?}", Some(value)))
    };
    let bookmark = std::iter::once("BOOKMARK  None".to_owned());
    let expected = events_of("ADDED", 'a').chain(bookmark).chain(events_of("MODIFIED", 'b'));
    assert_eq!(events, expected.collect::<Vec<_>>());
}
