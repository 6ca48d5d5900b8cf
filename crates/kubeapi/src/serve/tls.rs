use super::{Connections, LIMITS};
use crate::body::{Body, RequestBody, STALLED};
use crate::credentials::Credentials;
use crate::service::{ApiService, refuse};
use crate::status::Status;
use crate::{Api, Identity, Rights};
use daemon::accept::{Caller, Connection, Incoming, Listener};
use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use http::{Request, Response};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use subtle::ConstantTimeEq;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

#[derive(Debug, Error)]
pub enum TlsError {
    #[error("the server's certificate or key cannot be read")]
    ReadKey(#[from] rustls::pki_types::pem::Error),
    #[error("the server's certificate and key cannot be used")]
    UseKey(#[from] rustls::Error),
}

/// Serves the API over TLS until `shutdown` resolves, to clients that present the bearer token of `credentials`.
///
/// # Errors
/// [`TlsError`] when the credentials cannot be used. Once the server runs, only `shutdown` ends it.
pub async fn tls(
    listener: TcpListener,
    api: Api,
    credentials: &Credentials,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), TlsError> {
    let clients = Clients::WithToken(credentials.token().into());
    let server = Server::new(api, with_token(credentials)?, clients);
    server.serve(Incoming::new(listener, LIMITS), shutdown).await;
    Ok(())
}

/// How clients are recognised.
pub(super) enum Clients {
    /// An administrator presents the token.
    WithToken(Arc<str>),
    /// A certificate says who the client is.
    Certified { identify: fn(&CertificateDer<'_>) -> Option<Identity>, rights: Rights },
}

pub(super) struct Server {
    acceptor: TlsAcceptor,
    api: Api,
    clients: Clients,
    connections: Connections,
}

impl Server {
    pub(super) fn new(api: Api, mut config: ServerConfig, clients: Clients) -> Self {
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self { acceptor, api, clients, connections: Connections::new(STALLED) }
    }

    pub(super) async fn serve<L>(
        self,
        mut incoming: Incoming<L>,
        shutdown: impl Future<Output = ()>,
    ) where
        L: Listener<Stream: AsyncRead + AsyncWrite + Unpin + 'static>,
    {
        let server = Arc::new(self);
        let mut handshakes = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                Some(_) = handshakes.join_next() => {}
                connection = incoming.next() => {
                    handshakes.spawn(Arc::clone(&server).handshake(connection));
                }
            }
        }
        handshakes.shutdown().await;
        if let Some(server) = Arc::into_inner(server) {
            server.connections.finish().await;
        }
    }

    async fn handshake<S>(self: Arc<Self>, connection: Connection<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let caller = connection.caller();
        match self.acceptor.accept(connection).await {
            Ok(stream) => self.serve_client(stream, caller),
            Err(error) => log::debug!(error:% = error; "TLS handshake failed"),
        }
    }

    fn serve_client<S>(&self, stream: TlsStream<S>, caller: Caller)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match &self.clients {
            Clients::WithToken(token) => {
                let service = self.api.service(Identity { user: "admin".to_owned() });
                let service = self.connections.stoppable(service);
                let token = Arc::clone(token);
                self.connections.serve(stream, Authenticated { service, token, caller });
            }
            Clients::Certified { identify, rights } => {
                let chain = stream.get_ref().1.peer_certificates();
                let Some(identity) = chain.and_then(<[_]>::first).and_then(identify) else {
                    log::debug!("a client's certificate has no name");
                    return;
                };
                // The certificate has identified the client, so the connection may stay open without a request.
                caller.record_request();
                let service = self.api.service(identity).with_rights(rights.clone());
                self.connections.serve(stream, self.connections.stoppable(service));
            }
        }
    }
}

fn with_token(credentials: &Credentials) -> Result<ServerConfig, TlsError> {
    let certificates = CertificateDer::pem_slice_iter(credentials.certificate().as_bytes())
        .collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(credentials.key().as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?)
}

/// The API behind a check of the bearer token.
#[derive(Clone)]
struct Authenticated {
    service: ApiService,
    token: Arc<str>,
    /// Records each request with a valid token.
    caller: Caller,
}

impl<B: RequestBody + 'static> tower::Service<Request<B>> for Authenticated {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let header =
            request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let presented_token = header.strip_prefix(b"Bearer ").unwrap_or_default();
        if bool::from(presented_token.ct_eq(self.token.as_bytes())) {
            self.caller.record_request();
            return self.service.call(request);
        }
        let mut response = refuse(&Status::unauthorized());
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Box::pin(std::future::ready(Ok(response)))
    }
}

#[cfg(test)]
mod tests;
