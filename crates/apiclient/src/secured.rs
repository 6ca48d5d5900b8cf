//! TLS connections to an API server, each with the CA as it is in its file at that moment.

use std::{
    error::Error as StdError,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use hyper::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use thiserror::Error;
use tokio::net::TcpStream;
use tower::Service;

use super::{plain::innermost, tcp::tcp};

type BoxError = Box<dyn StdError + Send + Sync>;

/// The CA file cannot be used.
#[derive(Debug, Error)]
pub enum TrustError {
    /// The file cannot be read. The cause is part of the text, so that the innermost error names the file.
    #[error("CA file {}: {why}", path.display())]
    Read {
        /// Path of the CA file.
        path: PathBuf,
        /// The cause.
        why: std::io::Error,
    },
    /// The file holds no certificates.
    #[error("CA file {} holds no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// The file holds a certificate that cannot be used.
    #[error("CA file {}: {why}", path.display())]
    Unusable {
        /// Path of the CA file.
        path: PathBuf,
        /// The cause.
        why: rustls::Error,
    },
}

/// The server's certificate is not trusted.
#[derive(Debug, Error)]
#[error("the server's certificate is not signed by {}: {why}", ca.display())]
struct Untrusted {
    ca: PathBuf,
    why: String,
}

/// A CA file, read anew for each connection.
#[derive(Debug)]
pub(crate) struct Trust {
    path: PathBuf,
    /// The file's last content and the configuration made from it: connections with one CA share TLS sessions.
    last: Mutex<(Vec<u8>, Arc<ClientConfig>)>,
}

impl Trust {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(crate) fn read(path: &Path) -> Result<Self, TrustError> {
        let pem = read(path, std::fs::read(path))?;
        let config = Arc::new(config(path, &pem)?);
        Ok(Self { path: path.to_owned(), last: Mutex::new((pem, config)) })
    }

    async fn now(&self) -> Result<Arc<ClientConfig>, TrustError> {
        let pem = read(&self.path, tokio::fs::read(&self.path).await)?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0 != pem {
            let config = Arc::new(config(&self.path, &pem)?);
            *last = (pem, config);
        }
        Ok(Arc::clone(&last.1))
    }
}

fn read(path: &Path, read: std::io::Result<Vec<u8>>) -> Result<Vec<u8>, TrustError> {
    read.map_err(|why| TrustError::Read { path: path.to_owned(), why })
}

fn config(path: &Path, pem: &[u8]) -> Result<ClientConfig, TrustError> {
    let unusable = |why| TrustError::Unusable { path: path.to_owned(), why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate =
            certificate.map_err(|error| unusable(rustls::Error::General(error.to_string())))?;
        roots.add(certificate).map_err(unusable)?;
    }
    if roots.is_empty() {
        return Err(TrustError::NoCertificate(path.to_owned()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    // A request goes beside the watch on its connection, which is open anyway. A connection of its own would cost a node at
    // rest a handshake before each job's mount.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Connects to servers whose certificate is signed by the CA file.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    tcp: HttpConnector,
    trust: Arc<Trust>,
}

impl Connector {
    pub(crate) fn new(trust: Trust) -> Self {
        Self { tcp: tcp(), trust: Arc::new(trust) }
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (tcp, trust) = (self.tcp.clone(), Arc::clone(&self.trust));
        Box::pin(async move {
            let config = trust.now().await?;
            let mut secured = HttpsConnector::from((tcp, config));
            secured.enforce_https();
            secured.call(uri).await.map_err(|error| explained(error, &trust.path))
        })
    }
}

/// Adds the CA file to the error about a certificate that is not trusted.
fn explained(error: BoxError, ca: &Path) -> BoxError {
    let why = innermost(&*error).to_string();
    if why.starts_with("invalid peer certificate") {
        return Untrusted { ca: ca.to_owned(), why }.into();
    }
    error
}
