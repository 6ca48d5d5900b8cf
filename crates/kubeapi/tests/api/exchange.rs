//! Requests, answers, and widgets: the objects that the tests use. The suites of the embedded and of the real server
//! share this module.

use crate::server::{PATIENCE, Server};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Collection of widgets in the test's own namespace: a relative path, which [`Server::uri`] completes.
pub(crate) const WIDGETS: &str = "widgets";
pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const JSON: &str = "application/json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

/// Time that a test waits for an answer before it fails.
const HANGS: Duration = Duration::from_secs(60);

/// An answer with its body decoded.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Server {
    /// Returns the URI of a path. A path that starts with `/` stays unchanged; another path is relative to the test's
    /// own group and namespace.
    pub(crate) fn uri(&self, path: &str) -> String {
        if path.starts_with('/') {
            return path.to_owned();
        }
        format!("/apis/{}/v1/namespaces/{}/{path}", self.group(), self.namespace())
    }

    /// Returns the URI of a core kind's path in the test's own namespace.
    pub(crate) fn core(&self, path: &str) -> String {
        format!("/api/v1/namespaces/{}/{path}", self.namespace())
    }

    /// Returns the path of the CRD of widgets.
    pub(crate) fn widget_crd(&self) -> String {
        format!("{CRDS}/widgets.{}", self.group())
    }

    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        media_type: &str,
        body: &[u8],
    ) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(method).uri(self.uri(path));
        if !media_type.is_empty() {
            request = request.header("content-type", media_type);
        }
        request.body(Full::new(Bytes::copy_from_slice(body))).unwrap()
    }

    pub(crate) async fn answer(&self, request: Request<Full<Bytes>>) -> Answer {
        let what = format!("{} {}", request.method(), request.uri());
        let answer = tokio::time::timeout(HANGS, self.whole_answer(request)).await;
        answer.unwrap_or_else(|_| panic!("no answer to {what}"))
    }

    async fn whole_answer(&self, request: Request<Full<Bytes>>) -> Answer {
        let response = self.send(request).await;
        let warnings = response
            .headers()
            .get_all("warning")
            .iter()
            .map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap())
            .collect();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let events = serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>();
        let body = match events.collect::<Result<Vec<Value>, _>>() {
            Ok(mut documents) if documents.len() == 1 => documents.remove(0),
            // The body of a watch that has ended: several JSON documents.
            Ok(documents) if !documents.is_empty() => json!(documents),
            _ => json!(String::from_utf8_lossy(&bytes)),
        };
        Answer { code, body, warnings }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.answer(self.request(Method::GET, path, "", b"")).await
    }

    /// Sends a GET with an Accept header.
    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Answer {
        let mut request = self.request(Method::GET, path, "", b"");
        request.headers_mut().insert("accept", accept.parse().unwrap());
        self.answer(request).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.answer(self.request(Method::POST, path, JSON, body.to_string().as_bytes())).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.answer(self.request(Method::PUT, path, JSON, body.to_string().as_bytes())).await
    }

    pub(crate) async fn patch(&self, path: &str, media_type: &str, body: &Value) -> Answer {
        let body = body.to_string();
        self.answer(self.request(Method::PATCH, path, media_type, body.as_bytes())).await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> Answer {
        self.patch(path, MERGE_PATCH, body).await
    }

    pub(crate) async fn delete(&self, path: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.answer(self.request(Method::DELETE, path, JSON, text.as_bytes())).await
    }

    /// Creates a widget; the server must accept it.
    pub(crate) async fn widget(&self, name: &str, spec: Value) -> Value {
        self.post(WIDGETS, &self.draft(name, spec)).await.expect(201)
    }

    /// Returns a widget as a client sends it.
    pub(crate) fn draft(&self, name: &str, spec: Value) -> Value {
        let version = format!("{}/v1", self.group());
        let mut widget =
            json!({"apiVersion": version, "kind": "Widget", "metadata": {"name": name}});
        widget["spec"] = spec;
        widget
    }

    /// Returns the CRD of widgets in the test's own group.
    pub(crate) fn crd(&self) -> Value {
        crate::widget::crd(self.group())
    }

    /// Waits until a condition holds that depends on asynchronous work of the server. The embedded server does no such
    /// work, so with the embedded server the condition must hold at the first check.
    pub(crate) async fn eventually(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds().await {
            assert!(Instant::now() < end, "{what}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until a path answers 404.
    pub(crate) async fn wait_until_gone(&self, path: &str) {
        self.eventually(&format!("{path} goes"), async || self.get(path).await.code == 404).await;
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{self:?}");
        self.body
    }

    /// Checks that the answer is a refusal with this code, and returns its message.
    #[track_caller]
    pub(crate) fn refused(self, code: u16) -> String {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.body["kind"], "Status", "{self:?}");
        assert_eq!(self.body["code"], code, "{self:?}");
        self.body["message"].as_str().unwrap().to_owned()
    }
}
