//! A client for nodes without a kubeconfig: it needs the API server's host and port, a token file and a CA file.
//!
//! Both files may be replaced at any time: the client reads them for every request, so it needs no timer. An idle
//! client sends nothing; the kernel's TCP keepalive notices a peer that lost its power.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hyper::{
    Request, Response, Uri,
    body::Incoming,
    header::{AUTHORIZATION, HeaderValue, USER_AGENT},
    http::uri::{Authority, PathAndQuery, Scheme},
};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{Client, client::Body};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use thiserror::Error;
use tokio::time::timeout;
use tower::service_fn;

use crate::{plain::innermost, tcp::tcp};

/// Longest time from the request to the first line of the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const AGENT: &str = concat!("warren/", env!("CARGO_PKG_VERSION"));

/// Files by which a node and an API server authenticate each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Path of the file with the node's bearer token.
    pub token: PathBuf,
    /// Path of the PEM file with the certificates of the authorities that may sign the server's certificate.
    pub ca: PathBuf,
}

/// Error: the token file or the CA file cannot be used at present. The cause is part of the text, not a separate
/// source: callers print only the innermost source ([`crate::innermost`]), and the file's name must not be lost.
#[derive(Debug, Error)]
pub enum CredentialsError {
    #[error("{file} {}: {why}", path.display())]
    Read { file: &'static str, path: PathBuf, why: io::Error },
    #[error("token file {} holds no bearer token", .0.display())]
    NoToken(PathBuf),
    #[error("CA file {} holds no certificate", .0.display())]
    NoCertificate(PathBuf),
    #[error("CA file {}: {why}", path.display())]
    Unusable { path: PathBuf, why: rustls::Error },
}

/// The reason why a request has no answer.
#[derive(Debug, Error)]
enum RequestError {
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("the server's certificate is not signed by {}: {why}", ca.display())]
    Untrusted { ca: PathBuf, why: String },
    #[error("{0} is no URI of the API server")]
    Target(String),
    #[error("no answer from {server} within {} s", ANSWER_TIMEOUT.as_secs())]
    Timeout { server: Authority },
    #[error("send a request to {0}")]
    Send(Authority, #[source] hyper_util::client::legacy::Error),
}

/// Returns a client of the server at `authority`; sends nothing yet.
pub(crate) fn client(
    authority: Authority,
    credentials: &Credentials,
) -> Result<Client, CredentialsError> {
    let Credentials { token, ca } = credentials;
    bearer(token, std::fs::read(token))?;
    let connections = Connections::new(ca, read("CA file", ca, std::fs::read(ca))?)?;
    let connections = Arc::new(Mutex::new(connections));
    let requests = Requests { authority, credentials: credentials.clone().into(), connections };
    Ok(Client::new(service_fn(move |request| requests.clone().send(request)), "default"))
}

type Http = HttpClient<HttpsConnector<HttpConnector>, Body>;

/// Connections to one server. A connection is made only if the server's certificate is signed by an authority that the
/// CA file named when it was last read.
#[derive(Debug)]
struct Connections {
    pem: Vec<u8>,
    config: Arc<ClientConfig>,
    http: Http,
}

impl Connections {
    fn new(ca: &Path, pem: Vec<u8>) -> Result<Self, CredentialsError> {
        let config = Arc::new(tls(ca, &pem)?);
        Ok(Self { pem, http: http(&config), config })
    }
}

fn http(config: &Arc<ClientConfig>) -> Http {
    let mut secured = HttpsConnector::from((tcp(), Arc::clone(config)));
    secured.enforce_https();
    HttpClient::builder(TokioExecutor::new()).build(secured)
}

fn tls(ca: &Path, pem: &[u8]) -> Result<ClientConfig, CredentialsError> {
    let unusable = |why| CredentialsError::Unusable { path: ca.to_owned(), why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate =
            certificate.map_err(|error| unusable(rustls::Error::General(error.to_string())))?;
        roots.add(certificate).map_err(unusable)?;
    }
    if roots.is_empty() {
        return Err(CredentialsError::NoCertificate(ca.to_owned()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(unusable)?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    // With HTTP/2 a request shares the connection of the watch, which is open anyway. With HTTP/1.1 an idle node would
    // need a new connection, and so a handshake, before each job's mount.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Sends requests with the current token, over connections that trust the current CA.
#[derive(Debug, Clone)]
struct Requests {
    authority: Authority,
    credentials: Arc<Credentials>,
    connections: Arc<Mutex<Connections>>,
}

impl Requests {
    async fn send(self, mut request: Request<Body>) -> Result<Response<Incoming>, RequestError> {
        let Credentials { token, ca } = &*self.credentials;
        let bearer = bearer(token, tokio::fs::read(token).await)?;
        let pem = read("CA file", ca, tokio::fs::read(ca).await)?;
        if self.connections().pem != pem {
            *self.connections() = Connections::new(ca, pem)?;
        }
        request.headers_mut().insert(AUTHORIZATION, bearer);
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(AGENT));
        *request.uri_mut() = target(&self.authority, request.uri())?;
        let sent = self.connections().http.request(request);
        let mut waiting = Waiting { requests: &self, is_over: false };
        let answer = timeout(ANSWER_TIMEOUT, sent).await;
        waiting.is_over = answer.is_ok();
        let server = self.authority.clone();
        answer.map_err(|_| RequestError::Timeout { server: server.clone() })?.map_err(|source| {
            let why = innermost(&source).to_string();
            match why.starts_with("invalid peer certificate") {
                true => RequestError::Untrusted { ca: ca.clone(), why },
                false => RequestError::Send(server, source),
            }
        })
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request without an answer yet. When the time limit or the caller cancels this request, later requests use a new
/// connection: a load balancer may keep a connection open for a long time although the server behind it is dead. A
/// watch that already runs on the old connection is not moved.
struct Waiting<'a> {
    requests: &'a Requests,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let mut connections = self.requests.connections();
            connections.http = http(&connections.config);
        }
    }
}

fn read(
    file: &'static str,
    path: &Path,
    read: io::Result<Vec<u8>>,
) -> Result<Vec<u8>, CredentialsError> {
    read.map_err(|why| CredentialsError::Read { file, path: path.to_owned(), why })
}

fn bearer(path: &Path, bytes: io::Result<Vec<u8>>) -> Result<HeaderValue, CredentialsError> {
    let bytes = read("token file", path, bytes)?;
    let none = || CredentialsError::NoToken(path.to_owned());
    let token = Some(bytes.trim_ascii()).filter(|token| !token.is_empty()).ok_or_else(none)?;
    let mut value = HeaderValue::from_bytes(&[b"Bearer ", token].concat()).map_err(|_| none())?;
    value.set_sensitive(true);
    Ok(value)
}

fn target(authority: &Authority, uri: &Uri) -> Result<Uri, RequestError> {
    let path = uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    let target = Uri::builder().scheme(Scheme::HTTPS).authority(authority.clone());
    target.path_and_query(path).build().map_err(|_| RequestError::Target(uri.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_header_has_the_token_without_its_line_end_and_hides_it_in_debug_output() {
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
    fn an_ipv6_host_keeps_its_brackets() {
        let uri = "/api/v1/namespaces?watch=1".parse().unwrap();
        let target = target(&"[2001:db8::1]:6443".parse().unwrap(), &uri).unwrap();
        assert_eq!(target.to_string(), "https://[2001:db8::1]:6443/api/v1/namespaces?watch=1");
    }

    #[test]
    fn creating_a_client_fails_with_the_name_of_an_unusable_file() {
        let directory = tempfile::tempdir().unwrap();
        let (token, ca) = (directory.path().join("token"), directory.path().join("ca"));
        let credentials = Credentials { token: token.clone(), ca: ca.clone() };
        let refused = || match client("localhost:1".parse().unwrap(), &credentials) {
            Ok(_) => panic!("the server should be refused"),
            Err(error) => error.to_string(),
        };
        assert!(refused().starts_with(&format!("token file {}", token.display())));
        std::fs::write(&token, "t").unwrap();
        assert!(refused().starts_with(&format!("CA file {}", ca.display())));
        std::fs::write(&ca, "no PEM").unwrap();
        assert_eq!(refused(), format!("CA file {} holds no certificate", ca.display()));
    }
}
