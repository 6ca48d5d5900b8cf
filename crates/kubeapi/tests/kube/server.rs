//! The real server that `make kube` started. All tests share it, each in a namespace of its own.

use crate::exchange::CRDS;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use std::time::Duration;

/// Longest wait for work that kube-controller-manager does after the server's answer. Its controllers look for new
/// kinds every half minute, and empty a namespace a few seconds after its deletion.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Whether this server's answers are recorded.
pub(crate) const RECORDS: bool = true;
/// Body of an answer.
pub(crate) type AnswerBody = kube::client::Body;

const SHARED: &str = "test.example";

pub(crate) struct Server {
    client: kube::Client,
    group: String,
    namespace: String,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with_group(SHARED.to_owned()).await
    }

    /// Returns a server with a CRD of widgets that no other test uses, so that the test may change the CRD.
    pub(crate) async fn alone() -> Self {
        Self::with_group(format!("{}.{SHARED}", unique())).await
    }

    /// Returns a server with the CRDs of the `api` crate.
    pub(crate) async fn ours() -> Self {
        let server = Self::start().await;
        for crd in api::crd_values() {
            server.install(&crd).await;
        }
        server
    }

    async fn with_group(group: String) -> Self {
        let namespace = unique();
        let client = kube::Client::try_from(config(&namespace).await).unwrap();
        let server = Self { client, group, namespace };
        let metadata = json!({"name": server.namespace});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        server.post("/api/v1/namespaces", &namespace).await.expect(201);
        server.install(&server.crd()).await;
        server
    }

    /// Creates the CRD, unless another test has created it, and waits until the server serves the kind in
    /// discovery and in requests.
    pub(crate) async fn install(&self, crd: &Value) {
        let created = self.post(CRDS, crd).await;
        assert!(matches!(created.code, 201 | 409), "{created:?}");
        let (spec, version) = (&crd["spec"], &crd["spec"]["versions"][0]);
        let (group, version) = (spec["group"].as_str().unwrap(), version["name"].as_str().unwrap());
        let plural = spec["names"]["plural"].as_str().unwrap();
        let group = format!("/apis/{group}/{version}");
        self.eventually(&format!("{plural} are served"), async || {
            let known = self.get(&group).await.body.to_string().contains(plural);
            known && self.get(&format!("{group}/{plural}")).await.code == 200
        })
        .await;
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> http::Response<AnswerBody> {
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        self.client.send(Request::from_parts(parts, bytes.to_vec().into())).await.unwrap()
    }
}

impl Drop for Server {
    /// Deletes the test's objects; the controllers may finish the deletion after the test.
    fn drop(&mut self) {
        let mut paths = vec![format!("/api/v1/namespaces/{}", self.namespace)];
        if self.group != SHARED {
            paths.push(self.widget_crd());
        }
        let cleaned = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let client = kube::Client::try_from(config("default").await).unwrap();
                for path in paths {
                    let request = Request::builder().method(Method::DELETE).uri(path);
                    drop(client.send(request.body(Vec::new().into()).unwrap()).await);
                }
            });
        });
        drop(cleaned.join());
    }
}

async fn config(namespace: &str) -> kube::Config {
    let file = Kubeconfig::read_from(control_plane::kubeconfig_from_environment()).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(file, &options).await.unwrap();
    namespace.clone_into(&mut config.default_namespace);
    config
}

/// Returns a unique name. It starts with a letter, so that it is a valid DNS label.
fn unique() -> String {
    let text = uuid::Uuid::new_v4().simple().to_string();
    format!("t{}", &text[..10])
}
