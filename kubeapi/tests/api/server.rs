//! A server in a directory of its own, and the kind that the tests use.

use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use kubeapi::{Api, ApiService, Body, Config, Identity};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

pub(crate) const WIDGETS: &str = "/apis/test.example/v1/namespaces/default/widgets";

pub(crate) struct Server {
    pub(crate) api: Api,
    pub(crate) directory: TempDir,
}

/// An answer, its body read as JSON.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with_history(1000)
    }

    pub(crate) fn with_history(history: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let api = Api::open(config(&directory, history)).unwrap();
        Self { api, directory }
    }

    /// Ends the server and starts another one on the same directory.
    pub(crate) fn restart(self) -> Self {
        self.api.close();
        let api = Api::open(config(&self.directory, 1000)).unwrap();
        Self { api, directory: self.directory }
    }

    pub(crate) fn service(&self) -> ApiService {
        self.api.service(Identity { user: "test".to_owned() })
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> http::Response<Body> {
        self.service().oneshot(request).await.unwrap()
    }

    pub(crate) async fn answer(&self, request: Request<Full<Bytes>>) -> Answer {
        let response = self.send(request).await;
        let warnings = response
            .headers()
            .get_all("warning")
            .iter()
            .map(|value| value.to_str().unwrap().to_owned())
            .collect();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        Answer { code, body, warnings }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.answer(request(Method::GET, path, "", b"")).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.answer(request(Method::POST, path, "application/json", body.to_string().as_bytes()))
            .await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.answer(request(Method::PUT, path, "application/json", body.to_string().as_bytes()))
            .await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> Answer {
        self.answer(request(
            Method::PATCH,
            path,
            "application/merge-patch+json",
            body.to_string().as_bytes(),
        ))
        .await
    }

    pub(crate) async fn delete(&self, path: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.answer(request(Method::DELETE, path, "application/json", text.as_bytes())).await
    }

    /// Creates a widget that must be accepted.
    pub(crate) async fn widget(&self, name: &str, spec: Value) -> Value {
        let answer = self.post(WIDGETS, &widget(name, spec)).await;
        assert_eq!(answer.code, 201, "{answer:?}");
        answer.body
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{self:?}");
        self.body
    }

    /// The message of a refusal with this code.
    #[track_caller]
    pub(crate) fn refused(self, code: u16) -> String {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.body["kind"], "Status", "{self:?}");
        assert_eq!(self.body["code"], code, "{self:?}");
        self.body["message"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn request(
    method: Method,
    path: &str,
    media_type: &str,
    body: &[u8],
) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(path);
    if !media_type.is_empty() {
        request = request.header("content-type", media_type);
    }
    request.body(Full::new(Bytes::copy_from_slice(body))).unwrap()
}

pub(crate) fn config(directory: &TempDir, history: usize) -> Config {
    Config { crds: vec![crd()], history, ..Config::new(directory.path()) }
}

pub(crate) fn widget(name: &str, spec: Value) -> Value {
    let mut widget =
        json!({"apiVersion": "test.example/v1", "kind": "Widget", "metadata": {"name": name}});
    widget["spec"] = spec;
    widget
}

pub(crate) fn crd() -> Value {
    let item = json!({
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "size": {"type": "integer", "default": 7}},
    });
    let spec = json!({
        "type": "object",
        "required": ["node"],
        "properties": {
            "node": {"type": "string", "minLength": 1, "maxLength": 20},
            "count": {"type": "integer", "format": "int32", "minimum": 0, "default": 1},
            "mode": {"type": "string", "enum": ["on", "off"]},
            "items": {"type": "array", "maxItems": 3, "items": item},
            "port": {"x-kubernetes-int-or-string": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "note": {"type": "string", "nullable": true},
        },
        "x-kubernetes-validations": [
            {"rule": "self.node != 'bad'", "message": "node may not be bad"},
            {"rule": "self.node == oldSelf.node", "message": "node is immutable"},
        ],
    });
    let status = json!({"type": "object", "properties": {"ready": {"type": "boolean"}, "since": {"type": "string", "format": "date-time"}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.test.example"},
        "spec": {
            "group": "test.example", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "selectableFields": [{"jsonPath": ".spec.node"}],
                "additionalPrinterColumns": [
                    {"name": "NODE", "type": "string", "jsonPath": ".spec.node"},
                    {"name": "READY", "type": "boolean", "jsonPath": ".status.ready"},
                    {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
            }],
        },
    })
}
