use super::{Connections, LIMITS, accept_failed};
use crate::body::Body;
use crate::credentials::Credentials;
use crate::service::{ApiService, refuse};
use crate::status::Status;
use crate::{Api, Identity};
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
use std::time::Duration;
use subtle::ConstantTimeEq;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

/// A peer that takes longer to shake hands is none of ours.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why the TLS side cannot start.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error("the server's certificate or key cannot be read")]
    ReadKey(#[from] rustls::pki_types::pem::Error),
    #[error("the server's certificate and key cannot be used")]
    UseKey(#[from] rustls::Error),
}

/// Serves the API over TLS until `shutdown` is ready, to whoever shows the bearer token of `credentials`.
///
/// # Errors
/// [`TlsError`] when the credentials cannot be used; once serving, nothing ends it but `shutdown`.
pub async fn tls(
    listener: TcpListener,
    api: Api,
    credentials: &Credentials,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), TlsError> {
    let acceptor = acceptor(credentials)?;
    let token: Arc<str> = credentials.token().into();
    let connections = Arc::new(Connections::new(LIMITS));
    tokio::pin!(shutdown);
    let mut pending = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = pending.join_next() => continue,
            accepted = async { (connections.place().await, listener.accept().await) } => accepted,
        };
        match accepted {
            (place, Ok((stream, peer))) => {
                // Nagle's algorithm against delayed acknowledgements costs 40 ms per watch event.
                if let Err(error) = stream.set_nodelay(true) {
                    log::debug!(peer:% = peer, error:% = error; "TCP_NODELAY");
                }
                let service =
                    connections.stoppable(api.service(Identity { user: "admin".to_owned() }));
                let admitted = Arc::new(Notify::new());
                let service = Authenticated {
                    service,
                    token: Arc::clone(&token),
                    admitted: Arc::clone(&admitted),
                };
                let (acceptor, connections) = (acceptor.clone(), Arc::clone(&connections));
                pending.spawn(async move {
                    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => {
                            let admitted = async move { admitted.notified().await };
                            connections.serve(stream, service, place, admitted);
                        }
                        Ok(Err(error)) => {
                            log::debug!(peer:% = peer, error:% = error; "TLS handshake failed");
                        }
                        Err(_) => log::debug!(peer:% = peer; "TLS handshake took too long"),
                    }
                });
            }
            (_, Err(error)) => accept_failed(&error).await,
        }
    }
    pending.shutdown().await;
    if let Some(connections) = Arc::into_inner(connections) {
        connections.finish().await;
    }
    Ok(())
}

fn acceptor(credentials: &Credentials) -> Result<TlsAcceptor, TlsError> {
    let certificates = CertificateDer::pem_slice_iter(credentials.certificate().as_bytes())
        .collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(credentials.key().as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The API behind a bearer token.
#[derive(Clone)]
struct Authenticated {
    service: ApiService,
    token: Arc<str>,
    /// Told of each request that is let in.
    admitted: Arc<Notify>,
}

impl<B> tower::Service<Request<B>> for Authenticated
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let header =
            request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let shown = header.strip_prefix(b"Bearer ").unwrap_or_default();
        if bool::from(shown.ct_eq(self.token.as_bytes())) {
            self.admitted.notify_one();
            return self.service.call(request);
        }
        let mut response = refuse(&Status::unauthorized());
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Box::pin(std::future::ready(Ok(response)))
    }
}

#[cfg(test)]
mod tests;
