//! The two servers, with one common interface.

use control_plane::{ControlPlane, Settings};
use futures::StreamExt;
use http::{Method, Request};
use http_body_util::{BodyExt, BodyStream, Full};
use hyper::body::Bytes;
use kubeapi::{Api, Config, Identity};
use serde_json::Value;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tower::ServiceExt;

/// A request for one server, with all placeholders filled.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) method: Method,
    pub(crate) uri: String,
    pub(crate) accept: Option<String>,
    pub(crate) media_type: String,
    pub(crate) body: Vec<u8>,
}

impl Prepared {
    pub(crate) fn new(method: Method, uri: impl Into<String>) -> Self {
        let media_type = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        Self {
            method,
            uri: uri.into(),
            accept: None,
            media_type: media_type.to_owned(),
            body: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, body: &Value) -> Self {
        self.body = body.to_string().into_bytes();
        self
    }

    fn request<B>(&self, body: impl FnOnce(Vec<u8>) -> B) -> Request<B> {
        let mut request = Request::builder().method(&self.method).uri(&self.uri);
        if !self.body.is_empty() {
            request = request.header("content-type", &self.media_type);
        }
        if let Some(accept) = &self.accept {
            request = request.header("accept", accept);
        }
        request.body(body(self.body.clone())).unwrap()
    }
}

/// Answer of a server.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) media_type: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

/// Events of a watch that runs during the operations.
pub(crate) type Events = Arc<Mutex<Vec<Value>>>;

/// One of the two servers.
#[derive(Clone)]
pub(crate) enum Server {
    Embedded(Arc<Embedded>),
    Real(kube::Client),
}

#[derive(Debug)]
pub(crate) struct Embedded {
    api: Api,
    _directory: TempDir,
}

/// The real server. kube-controller-manager is stopped, because it would act at times that differ in every run;
/// [`crate::controllers`] does the part of its work that the operations need.
pub(crate) struct Plane {
    _plane: ControlPlane,
    _directory: TempDir,
    words: AtomicU32,
    pub(crate) client: kube::Client,
}

impl Plane {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut plane = ControlPlane::start(directory.path(), Settings::default()).unwrap();
        plane.kill_controllers();
        let client = plane.client().await.unwrap();
        Self { _plane: plane, _directory: directory, words: AtomicU32::new(0), client }
    }
}

impl Plane {
    /// Returns a number that no earlier run has used.
    pub(crate) fn next_word(&self) -> u32 {
        self.words.fetch_add(1, Ordering::Relaxed)
    }
}

impl Server {
    pub(crate) fn embedded(crds: Vec<Value>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let api = Api::open(Config { crds, ..Config::new(directory.path()) }).unwrap();
        Self::Embedded(Arc::new(Embedded { api, _directory: directory }))
    }

    pub(crate) fn is_real(&self) -> bool {
        matches!(self, Self::Real(_))
    }

    pub(crate) async fn send(&self, prepared: &Prepared) -> Reply {
        match self {
            Self::Embedded(server) => {
                let service = server.api.service(Identity { user: "admin".to_owned() });
                let request = prepared.request(|body| Full::new(Bytes::from(body)));
                read(service.oneshot(request).await.unwrap()).await
            }
            Self::Real(client) => {
                let request = prepared.request(kube::client::Body::from);
                read(client.send(request).await.unwrap()).await
            }
        }
    }

    /// Starts a watch in the background and returns the list to which its events are added as they arrive.
    pub(crate) async fn watch(&self, uri: &str) -> Events {
        let prepared = Prepared::new(Method::GET, uri);
        match self {
            Self::Embedded(server) => {
                let service = server.api.service(Identity { user: "admin".to_owned() });
                let request = prepared.request(|body| Full::new(Bytes::from(body)));
                gather(service.oneshot(request).await.unwrap())
            }
            Self::Real(client) => {
                let request = prepared.request(kube::client::Body::from);
                gather(client.send(request).await.unwrap())
            }
        }
    }

    /// Repeats a request until the answer meets the condition.
    pub(crate) async fn until(&self, uri: &str, wanted: impl Fn(&Reply) -> bool) -> Reply {
        let polling = async {
            loop {
                let reply = self.send(&Prepared::new(Method::GET, uri)).await;
                if wanted(&reply) {
                    return reply;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), polling).await.expect(uri)
    }
}

async fn read<B: http_body::Body>(response: http::Response<B>) -> Reply
where
    B::Error: std::fmt::Debug,
{
    let header = |name: &str| {
        let values = response.headers().get_all(name).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    };
    let (warnings, media_types): (Vec<String>, Vec<String>) =
        (header("warning"), header("content-type"));
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes).into_owned()));
    Reply { code, media_type: media_types.join(","), warnings, body }
}

fn gather<B>(response: http::Response<B>) -> Events
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Debug,
{
    let events = Events::default();
    let gathered = Arc::clone(&events);
    tokio::spawn(async move {
        let mut frames = std::pin::pin!(BodyStream::new(response.into_body()));
        let mut rest = Vec::new();
        while let Some(Ok(frame)) = frames.next().await {
            rest.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                gathered.lock().unwrap().push(serde_json::from_slice(&line).unwrap());
            }
        }
    });
    events
}
