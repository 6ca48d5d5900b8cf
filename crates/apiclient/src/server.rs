//! An API server by host and port, with a bearer token and a CA that are files, as a node without a kubeconfig has them.
//!
//! Both files may be replaced at any time: the token is read for every request and the CA for every connection, so neither
//! needs a timer. At rest nothing is sent; a peer that lost its power is noticed by the kernel's TCP keepalive.

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
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

/// From the request to the first line of the answer.
const PATIENCE: Duration = Duration::from_secs(60);
const AGENT: &str = concat!("warren/", env!("CARGO_PKG_VERSION"));

/// The files that prove a node to an API server, and the server to the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// A bearer token.
    pub token: PathBuf,
    /// Certificates of the authorities that may sign the server's, PEM.
    pub ca: PathBuf,
}

/// What is in the files cannot be used now.
#[derive(Debug, Error)]
pub enum CredentialsError {
    /// The token cannot be read. Not its source, so that the innermost cause names the file.
    #[error("token file {}: {why}", path.display())]
    ReadToken {
        /// Which.
        path: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// There is none, or it is none.
    #[error("token file {} holds no bearer token", .0.display())]
    NoToken(PathBuf),
    /// The CA cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// There is no answer.
#[derive(Debug, Error)]
pub(crate) enum RequestError {
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("{0} is no URI of the API server")]
    Target(String),
    #[error("no answer from {server} within {} s", PATIENCE.as_secs())]
    Silence { server: Authority },
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
    let http = HttpClient::builder(TokioExecutor::new()).build(Connector::new(trust));
    let token = credentials.token.as_path().into();
    Ok(Client::new(Requests { http, authority, token }, "default"))
}

/// Sends requests with the token as it is at that moment.
#[derive(Debug, Clone)]
struct Requests {
    http: HttpClient<Connector, Body>,
    authority: Authority,
    token: Arc<Path>,
}

impl Requests {
    async fn send(self, mut request: Request<Body>) -> Result<Response<Incoming>, RequestError> {
        let token = bearer(&self.token, tokio::fs::read(&self.token).await)?;
        request.headers_mut().insert(AUTHORIZATION, token);
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(AGENT));
        *request.uri_mut() = target(&self.authority, request.uri())?;
        let server = self.authority;
        match timeout(PATIENCE, self.http.request(request)).await {
            Ok(answer) => answer.map_err(|source| RequestError::Send { server, source }),
            Err(_) => Err(RequestError::Silence { server }),
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
