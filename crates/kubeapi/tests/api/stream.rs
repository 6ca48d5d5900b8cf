//! A watch that is read event by event.

use crate::exchange::WIDGETS;
use crate::server::{AnswerBody, Server};
use futures::StreamExt;
use http::Method;
use http_body_util::BodyStream;
use serde_json::Value;
use std::collections::VecDeque;
use std::time::Duration;

/// Time that a test waits for an event before it fails.
const HANGS: Duration = Duration::from_secs(60);

pub(crate) struct Watch {
    body: BodyStream<AnswerBody>,
    /// Beginning of a line whose rest has not arrived yet.
    rest: Vec<u8>,
    lines: VecDeque<Value>,
}

impl Watch {
    pub(crate) async fn open(server: &Server, query: &str) -> Self {
        Self::open_as(server, query, "application/json").await
    }

    pub(crate) async fn open_as(server: &Server, query: &str, accept: &str) -> Self {
        let path = format!("{WIDGETS}?watch=true&{query}");
        let mut request = server.request(Method::GET, &path, "", b"");
        request.headers_mut().insert("accept", accept.parse().unwrap());
        let response = server.send(request).await;
        assert_eq!(response.status(), 200);
        let body = BodyStream::new(response.into_body());
        Self { body, rest: Vec::new(), lines: VecDeque::new() }
    }

    /// Returns the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        while self.lines.is_empty() {
            let frame = tokio::time::timeout(HANGS, self.body.next()).await;
            let frame = frame.expect("an event, or the end").transpose().unwrap()?;
            let frame = frame.into_data().unwrap();
            self.rest.extend_from_slice(&frame);
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                self.lines.push_back(serde_json::from_slice(&line).unwrap());
            }
        }
        self.lines.pop_front()
    }

    /// Returns the next event as `VERB name`.
    pub(crate) async fn next_line(&mut self) -> String {
        let event = self.next().await.unwrap();
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or("-");
        format!("{} {name}", event["type"].as_str().unwrap())
    }
}

pub(crate) fn revision(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}
