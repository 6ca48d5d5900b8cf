//! Sends requests of any verb on any resource, and reads the server's answers. Every write is a dry run,
//! so nothing is stored.

use anyhow::Context;
use http::{Method, Request};
use kube::{Client, client::Body};
use serde_json::{Value, json};

/// API groups of the resources in requests, with their versions.
const VERSIONS: [(&str, &str); 9] = [
    (api::names::DWS_GROUP, "v1alpha7"),
    (api::names::NNF_GROUP, "v1alpha11"),
    ("warren.nnf.cray.hpe.com", "v1alpha1"),
    ("apps", "v1"),
    ("coordination.k8s.io", "v1"),
    ("events.k8s.io", "v1"),
    ("rbac.authorization.k8s.io", "v1"),
    ("admissionregistration.k8s.io", "v1"),
    ("", "v1"),
];

/// Every verb that RBAC knows for objects.
pub(crate) const VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// A request, with the attributes that RBAC checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) verb: &'static str,
    /// Resource as `group/plural` or `group/plural/subresource`.
    pub(crate) resource: &'static str,
    /// Namespace of the object; `None` for cluster-scoped kinds.
    pub(crate) namespace: Option<String>,
    /// Name of the object. For a list or a watch, the name in the request's field selector.
    pub(crate) name: Option<String>,
}

/// HTTP status code and message of the server's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl Ask {
    fn path(&self, with_name: bool) -> anyhow::Result<String> {
        let (group, plural) = self.resource.split_once('/').context("group/plural")?;
        let (plural, subresource) = plural.split_once('/').unwrap_or((plural, ""));
        let version = VERSIONS.iter().find(|known| known.0 == group).context("no such group")?.1;
        let mut path = match group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        if let Some(namespace) = &self.namespace {
            path += &format!("/namespaces/{namespace}");
        }
        path += &format!("/{plural}");
        if with_name || !subresource.is_empty() {
            path += &format!("/{}", self.name.as_deref().unwrap_or("nothing"));
        }
        if !subresource.is_empty() {
            path += &format!("/{subresource}");
        }
        Ok(path)
    }

    fn selector(&self) -> String {
        self.name
            .as_ref()
            .map_or_else(String::new, |name| format!("&fieldSelector=metadata.name%3D{name}"))
    }

    /// Builds the HTTP request, with this body if the verb has one.
    fn request(&self, body: &Value) -> anyhow::Result<Request<Body>> {
        let dry = "?dryRun=All";
        let (method, uri) = match self.verb {
            "get" => (Method::GET, self.path(true)?),
            "list" => (Method::GET, format!("{}?limit=1{}", self.path(false)?, self.selector())),
            "watch" => (
                Method::GET,
                format!("{}?watch=1&timeoutSeconds=1{}", self.path(false)?, self.selector()),
            ),
            "create" => (Method::POST, self.path(false)? + dry),
            "update" => (Method::PUT, self.path(true)? + dry),
            "patch" => (Method::PATCH, self.path(true)? + dry),
            "delete" => (Method::DELETE, self.path(true)? + dry),
            _ => (Method::DELETE, self.path(false)? + dry),
        };
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = match method {
            Method::GET | Method::DELETE => Vec::new(),
            _ => serde_json::to_vec(body)?,
        };
        Ok(Request::builder()
            .method(method)
            .uri(uri)
            .header("Content-Type", kind)
            .body(body.into())?)
    }

    /// Sends the request with an empty body, and returns true unless the server answers 403.
    pub(crate) async fn is_allowed(&self, client: &Client) -> anyhow::Result<bool> {
        let answer = client.send(self.request(&json!({}))?).await?;
        let code = answer.status().as_u16();
        anyhow::ensure!(code != 401 && code != 429 && code < 500, "{self:?}: {code}");
        Ok(code != 403)
    }

    /// Sends the request with this body, as a dry run.
    pub(crate) async fn send(&self, client: &Client, body: &Value) -> anyhow::Result<Answer> {
        let answer = client.request::<Value>(self.buffered(body)?).await;
        Ok(match answer {
            Ok(_) => Answer { code: 200, message: String::new() },
            Err(kube::Error::Api(status)) => {
                Answer { code: status.code, message: status.message.clone() }
            }
            Err(other) => return Err(other.into()),
        })
    }

    fn buffered(&self, body: &Value) -> anyhow::Result<Request<Vec<u8>>> {
        let (parts, _) = self.request(body)?.into_parts();
        let body =
            if parts.method == Method::DELETE { Vec::new() } else { serde_json::to_vec(body)? };
        Ok(Request::from_parts(parts, body))
    }
}
