//! The embedded server, in a directory of its own.

use crate::widget::crd;
use http::Request;
use http_body_util::Full;
use hyper::body::Bytes;
use kubeapi::{Admission, Api, ApiService, Body, Config, Identity};
use serde_json::json;
use std::time::Duration;
use tempfile::TempDir;
use tower::ServiceExt;

/// Longest wait for work that the server does after its answer. The embedded server has no such work: it answers a
/// write only after it has also updated all other objects that the write affects.
pub(crate) const PATIENCE: Duration = Duration::ZERO;
/// Whether this server's answers are recorded.
pub(crate) const RECORDS: bool = false;
/// Body of an answer.
pub(crate) type AnswerBody = Body;

pub(crate) const SHARED: &str = "test.example";
const ALONE: &str = "alone.test.example";

pub(crate) struct Server {
    pub(crate) api: Api,
    pub(crate) directory: TempDir,
    group: &'static str,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with_history(1000).await
    }

    /// Returns a server with a CRD of widgets that no other test uses, so that the test may change the CRD.
    pub(crate) async fn alone() -> Self {
        Self::open(tempfile::tempdir().unwrap(), 1000, ALONE).with_namespace().await
    }

    pub(crate) async fn with_history(history: usize) -> Self {
        Self::open(tempfile::tempdir().unwrap(), history, SHARED).with_namespace().await
    }

    pub(crate) async fn with_namespace(self) -> Self {
        let metadata = json!({"name": self.namespace()});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        self.post("/api/v1/namespaces", &namespace).await.expect(201);
        self
    }

    /// Returns a server with the CRDs of the `api` crate.
    pub(crate) async fn ours() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = Config { crds: api::crd_values(), ..Config::new(directory.path()) };
        let api = Api::open(config).unwrap();
        Self { api, directory, group: SHARED }.with_namespace().await
    }

    pub(crate) fn open(directory: TempDir, history: usize, group: &'static str) -> Self {
        Self::open_with(directory, history, group, Admission::default())
    }

    pub(crate) fn open_with(
        directory: TempDir,
        history: usize,
        group: &'static str,
        admission: Admission,
    ) -> Self {
        let config =
            Config { crds: vec![crd(group)], history, admission, ..Config::new(directory.path()) };
        Self { api: Api::open(config).unwrap(), directory, group }
    }

    /// Stops the server and starts another one on the same directory.
    pub(crate) fn restart(self) -> Self {
        self.api.close();
        Self::open(self.directory, 1000, self.group)
    }

    pub(crate) fn group(&self) -> &str {
        self.group
    }

    pub(crate) fn namespace(&self) -> &str {
        "test-namespace"
    }

    pub(crate) fn service(&self) -> ApiService {
        self.api.service(Identity { user: "test".to_owned() })
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), self.namespace())
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> http::Response<AnswerBody> {
        self.service().oneshot(request).await.unwrap()
    }
}
