//! A script sends requests, records the complete answers, and compares these with `recorded/`, which holds the answers
//! of a real kube-apiserver. So `make test` compares the embedded server with the real server without running the real
//! server.
//!
//! `WARREN_RECORD=1 make kube` records the transcripts again.

use crate::contract;
use crate::exchange::{Answer, JSON};
use crate::known;
use crate::normal::Names;
use crate::server::{RECORDS, Server};
use crate::stream::Watch;
use http::Method;
use serde_json::{Value, json};
use std::path::PathBuf;

pub(crate) struct Script<'a> {
    server: &'a Server,
    names: Names,
    exchanges: Vec<Value>,
}

impl<'a> Script<'a> {
    pub(crate) fn new(server: &'a Server) -> Self {
        let names = Names::new(server.namespace(), server.group());
        Self { server, names, exchanges: Vec::new() }
    }

    async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        (header, media_type): (&'static str, &str),
        body: &[u8],
    ) -> Answer {
        let mut request = self.server.request(method.clone(), path, "", body);
        if !media_type.is_empty() {
            request.headers_mut().insert(header, media_type.parse().unwrap());
        }
        let answer = self.server.answer(request).await;
        let sent =
            serde_json::from_slice(body).unwrap_or_else(|_| json!(String::from_utf8_lossy(body)));
        let mut exchange = json!({"request": format!("{method} {path}")});
        if !matches!(media_type, "" | JSON) {
            exchange[header] = json!(media_type);
        }
        if !body.is_empty() {
            exchange["sent"] = sent;
        }
        exchange["code"] = json!(answer.code);
        if !answer.warnings.is_empty() {
            exchange["warnings"] = json!(answer.warnings);
        }
        exchange["answer"] = answer.body.clone();
        self.exchanges.push(self.names.normal(exchange));
        answer
    }

    pub(crate) async fn get(&mut self, path: &str) -> Value {
        self.exchange(Method::GET, path, ("content-type", ""), b"").await.body
    }

    pub(crate) async fn get_as(&mut self, path: &str, accept: &str) -> Value {
        self.exchange(Method::GET, path, ("accept", accept), b"").await.body
    }

    /// Sends a request with exactly this body.
    pub(crate) async fn raw(&mut self, method: Method, path: &str, media_type: &str, body: &str) {
        self.exchange(method, path, ("content-type", media_type), body.as_bytes()).await;
    }

    async fn send(&mut self, method: Method, path: &str, media_type: &str, body: &Value) -> Value {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.exchange(method, path, ("content-type", media_type), text.as_bytes()).await.body
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Value {
        self.send(Method::POST, path, JSON, body).await
    }

    pub(crate) async fn put(&mut self, path: &str, body: &Value) -> Value {
        self.send(Method::PUT, path, JSON, body).await
    }

    pub(crate) async fn patch(&mut self, path: &str, media_type: &str, body: &Value) -> Value {
        self.send(Method::PATCH, path, media_type, body).await
    }

    pub(crate) async fn delete(&mut self, path: &str, body: &Value) -> Value {
        self.send(Method::DELETE, path, JSON, body).await
    }

    /// Records an answer under the text `request`, for a request that is not the same on both servers.
    pub(crate) fn note(&mut self, request: &str, answer: &Answer) {
        let exchange = json!({"request": request, "code": answer.code, "answer": answer.body});
        self.exchanges.push(self.names.normal(exchange));
    }

    /// Records the next events of a watch.
    pub(crate) async fn events(&mut self, about: &str, watch: &mut Watch, count: usize) {
        let mut events = Vec::new();
        while events.len() < count {
            match watch.next().await {
                Some(event) => events.push(event),
                None => break,
            }
        }
        self.exchanges.push(self.names.normal(json!({"watch": about, "events": events})));
    }

    /// Compares the recorded answers with the transcript of the real server.
    #[track_caller]
    pub(crate) fn end(self, name: &str) {
        let path = transcript(name);
        if RECORDS && std::env::var_os("WARREN_RECORD").is_some() {
            let text = serde_json::to_string_pretty(&self.exchanges).unwrap() + "\n";
            std::fs::write(&path, text).unwrap();
            return;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{}: {error}: record it with make kube", path.display())
        });
        let recorded: Vec<Value> = serde_json::from_str(&text).unwrap();
        let mut differences = String::new();
        let mut differing = 0;
        for (index, (here, there)) in self.exchanges.iter().zip(&recorded).enumerate() {
            let (mut ours, mut theirs) = (here.clone(), there.clone());
            contract::reduce(&mut ours);
            contract::reduce(&mut theirs);
            let mut found = Vec::new();
            differ(&ours, &theirs, "", &mut found);
            let what = here.get("request").or_else(|| here.get("watch")).unwrap();
            let known = !RECORDS && known::differs(name, index);
            if known && found.is_empty() {
                differing += 1;
                differences +=
                    &format!("{index}: {what}: no longer differs: take it off the list\n");
            }
            if !known && !found.is_empty() {
                differing += 1;
                let sent = here.get("sent").map(Value::to_string).unwrap_or_default();
                let sent: String = sent.chars().take(200).collect();
                differences += &format!("{index}: {what} {sent}\n{}", found.concat());
            }
        }
        assert_eq!(self.exchanges.len(), recorded.len(), "{name}: another number of requests");
        assert!(differing == 0, "{name}: {differing} answers differ\n{differences}");
    }
}

fn transcript(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/api/recorded");
    folder.join(format!("{name}.json"))
}

/// Collects the differences of two values, one line each.
fn differ(here: &Value, there: &Value, at: &str, found: &mut Vec<String>) {
    match (here, there) {
        (Value::Object(left), Value::Object(right)) => {
            let mut keys: Vec<&String> = left.keys().chain(right.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                match (left.get(key), right.get(key)) {
                    (Some(left), Some(right)) => differ(left, right, &format!("{at}.{key}"), found),
                    (left, right) => found.push(line(&format!("{at}.{key}"), left, right)),
                }
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                differ(left, right, &format!("{at}[{index}]"), found);
            }
        }
        _ if here == there => {}
        _ => found.push(line(at, Some(here), Some(there))),
    }
}

fn line(at: &str, here: Option<&Value>, there: Option<&Value>) -> String {
    let text = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    format!("    {at}:\n        here {}\n        real {}\n", text(here), text(there))
}
