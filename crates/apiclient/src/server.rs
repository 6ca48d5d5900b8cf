//! An API server by host and port, with a token file and a CA file, as a node without a kubeconfig has them.
//!
//! Both files may be replaced at any time: the client reads the token for every request and the CA for every connection, so it
//! needs no timer. At rest it sends nothing; the kernel's TCP keepalive notices a peer that lost its power.

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use hyper::{
    Request, Response, Uri,
    body::Incoming,
    header::{AUTHORIZATION, HeaderValue, USER_AGENT},
    http::uri::{Authority, PathAndQuery, Scheme},
};
use hyper_util::{client::legacy::Client as HttpClient, rt::TokioExecutor};
use kube::{Client, client::Body};
use thiserror::Error;
use tokio::time::timeout;
use tower::Service;

use crate::secured::{Connector, Trust, TrustError};

/// How long the API may take from the request to the first line of the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const AGENT: &str = concat!("warren/", env!("CARGO_PKG_VERSION"));

/// The files that prove a node to an API server, and the server to the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Path of the file with the bearer token.
    pub token: PathBuf,
    /// Path of the file with certificates of the authorities that may sign the server's, PEM.
    pub ca: PathBuf,
}

/// The token file or the CA file cannot be used now.
#[derive(Debug, Error)]
pub enum CredentialsError {
    /// The token cannot be read. The cause is part of the text, so that the innermost error names the file.
    #[error("token file {}: {why}", path.display())]
    ReadToken {
        /// Path of the token file.
        path: PathBuf,
        /// The cause.
        why: std::io::Error,
    },
    /// The file is empty or holds no bearer token.
    #[error("token file {} holds no bearer token", .0.display())]
    NoToken(PathBuf),
    /// The CA cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum RequestError {
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("{0} is no URI of the API server")]
    Target(String),
    #[error("no answer from {server} within {} s", ANSWER_TIMEOUT.as_secs())]
    Timeout { server: Authority },
    #[error("ask {server}")]
    Send {
        server: Authority,
        #[source]
        source: hyper_util::client::legacy::Error,
    },
}

/// A client of the server at `authority`; nothing is sent yet.
///
/// # Errors
/// When the files cannot be used as they are now.
pub(crate) fn client(
    authority: Authority,
    credentials: &Credentials,
) -> Result<Client, CredentialsError> {
    let read = std::fs::read(&credentials.token);
    bearer(&credentials.token, read)?;
    let trust = Trust::read(&credentials.ca)?;
    let connector = Connector::new(trust);
    let http = Arc::new(Mutex::new(connections(&connector)));
    let token = credentials.token.as_path().into();
    Ok(Client::new(Requests { connector, http, authority, token }, "default"))
}

type Connections = HttpClient<Connector, Body>;

fn connections(connector: &Connector) -> Connections {
    HttpClient::builder(TokioExecutor::new()).build(connector.clone())
}

/// Sends requests with the current token.
#[derive(Debug, Clone)]
struct Requests {
    connector: Connector,
    http: Arc<Mutex<Connections>>,
    authority: Authority,
    token: Arc<Path>,
}

impl Requests {
    fn http(&self) -> MutexGuard<'_, Connections> {
        self.http.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(self, mut request: Request<Body>) -> Result<Response<Incoming>, RequestError> {
        let token = bearer(&self.token, tokio::fs::read(&self.token).await)?;
        request.headers_mut().insert(AUTHORIZATION, token);
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(AGENT));
        *request.uri_mut() = target(&self.authority, request.uri())?;
        let server = self.authority.clone();
        let asked = self.http().request(request);
        let mut waiting = Waiting { requests: &self, is_over: false };
        let answer = timeout(ANSWER_TIMEOUT, asked).await;
        waiting.is_over = answer.is_ok();
        match answer {
            Ok(answer) => answer.map_err(|source| RequestError::Send { server, source }),
            Err(_) => Err(RequestError::Timeout { server }),
        }
    }
}

/// A request on its way. When it is given up, by us or by who asked, later requests do not share the connection that brought
/// no answer: behind a load balancer it may live for long. A watch that stands on it stays there.
struct Waiting<'a> {
    requests: &'a Requests,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            *self.requests.http() = connections(&self.requests.connector);
        }
    }
}

impl Service<Request<Body>> for Requests {
    type Response = Response<Incoming>;
    type Error = RequestError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, RequestError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), RequestError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

fn bearer(path: &Path, read: std::io::Result<Vec<u8>>) -> Result<HeaderValue, CredentialsError> {
    let bytes = read.map_err(|why| CredentialsError::ReadToken { path: path.to_owned(), why })?;
    let none = || CredentialsError::NoToken(path.to_owned());
    let token = bytes.trim_ascii();
    if token.is_empty() {
        return Err(none());
    }
    let mut value = HeaderValue::from_bytes(&[b"Bearer ", token].concat()).map_err(|_| none())?;
    value.set_sensitive(true);
    Ok(value)
}

fn target(authority: &Authority, uri: &Uri) -> Result<Uri, RequestError> {
    let path = uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    Uri::builder()
        .scheme(Scheme::HTTPS)
        .authority(authority.clone())
        .path_and_query(path)
        .build()
        .map_err(|_| RequestError::Target(uri.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_without_its_line_end_and_never_shown() {
        let path = Path::new("/t");
        let header = bearer(path, Ok(b" abc.def\n".to_vec())).unwrap();
        assert_eq!(header.as_bytes(), b"Bearer abc.def");
        assert!(!format!("{header:?}").contains("abc"));
        for unusable in [&b""[..], b" \n", b"a\nb"] {
            let error = bearer(path, Ok(unusable.to_vec())).unwrap_err().to_string();
            assert_eq!(error, "token file /t holds no bearer token");
        }
    }

    #[test]
    fn host_of_version_six_stays_in_brackets() {
        let uri = "/api/v1/namespaces?watch=1".parse().unwrap();
        let target = target(&"[2001:db8::1]:6443".parse().unwrap(), &uri).unwrap();
        assert_eq!(target.to_string(), "https://[2001:db8::1]:6443/api/v1/namespaces?watch=1");
    }

    #[test]
    fn unusable_files_are_named_before_anything_is_sent() {
        let directory = tempfile::tempdir().unwrap();
        let (token, ca) = (directory.path().join("token"), directory.path().join("ca"));
        let credentials = Credentials { token: token.clone(), ca: ca.clone() };
        let refused = || match client("localhost:1".parse().unwrap(), &credentials) {
            Ok(_) => panic!("it should not be usable"),
            Err(error) => error.to_string(),
        };
        assert!(refused().starts_with(&format!("token file {}", token.display())));
        std::fs::write(&token, "t").unwrap();
        assert!(refused().starts_with(&format!("CA file {}", ca.display())));
        std::fs::write(&ca, "no PEM").unwrap();
        assert_eq!(refused(), format!("CA file {} holds no certificate", ca.display()));
    }
}
