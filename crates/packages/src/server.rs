//! Fetches a job package from a server by HTTP or HTTPS. The server's certificate must come from an authority
//! that the node trusts.

use std::{sync::Arc, time::Duration};

use apiclient::tcp;
use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, Response, StatusCode, Uri,
    body::{Body, Bytes, Incoming},
    header::{LOCATION, USER_AGENT},
};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use thiserror::Error;
use tokio::time::timeout;

use crate::{download::Download, error::FetchError};

const AGENT: &str = concat!("warren/", env!("CARGO_PKG_VERSION"));
/// Longest time in which no byte arrives from the server.
const MAX_SILENCE: Duration = Duration::from_secs(60);
/// Maximum number of redirects in a row.
const MAX_REDIRECTS: usize = 5;

/// Why a server did not send the file.
#[derive(Debug, Error)]
pub enum ServerError {
    #[error("set up TLS")]
    Tls(#[source] rustls::Error),
    #[error("send the request to the server")]
    Request(#[source] hyper_util::client::legacy::Error),
    #[error("the server sent no data for {} s", MAX_SILENCE.as_secs())]
    Silent,
    #[error("the server responded with status {0}")]
    Refused(StatusCode),
    #[error("the server redirects to {0:?}, which is not an http or https address")]
    BadRedirect(String),
    #[error("the server redirects more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
    #[error("the address cannot be parsed")]
    Unparsable,
    #[error("the connection broke")]
    Broken(#[source] hyper::Error),
}

/// Receives the whole file into `download`.
pub(crate) async fn get(address: &str, download: &mut Download<'_>) -> Result<(), FetchError> {
    let mut body = answer(address).await?.into_body();
    if let Some(length) = body.size_hint().exact() {
        download.check_announced(length)?;
    }
    loop {
        let frame = timeout(MAX_SILENCE, body.frame()).await.map_err(|_| ServerError::Silent)?;
        let Some(frame) = frame else { return Ok(()) };
        let frame = frame.map_err(ServerError::Broken)?;
        if let Some(piece) = frame.data_ref() {
            download.take(piece)?;
        }
    }
}

/// Returns the response that has the file, after all redirects.
async fn answer(address: &str) -> Result<Response<Incoming>, ServerError> {
    let client = client()?;
    let mut address: Uri = address.parse().map_err(|_| ServerError::Unparsable)?;
    for _ in 0..=MAX_REDIRECTS {
        let request = Request::get(&address).header(USER_AGENT, AGENT);
        let request = request.body(Empty::new()).map_err(|_| ServerError::Unparsable)?;
        let answer = timeout(MAX_SILENCE, client.request(request)).await;
        let answer = answer.map_err(|_| ServerError::Silent)?.map_err(ServerError::Request)?;
        match answer.status() {
            StatusCode::OK => return Ok(answer),
            status if status.is_redirection() => {
                let to = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
                let to = to.ok_or(ServerError::Refused(status))?;
                let next = redirect_target(&address, to);
                address = next.ok_or_else(|| ServerError::BadRedirect(to.to_owned()))?;
            }
            status => return Err(ServerError::Refused(status)),
        }
    }
    Err(ServerError::TooManyRedirects)
}

/// Returns the address that a server redirects to: a whole address, or another path on the same server.
fn redirect_target(from: &Uri, to: &str) -> Option<Uri> {
    let whole = if to.starts_with('/') && !to.starts_with("//") {
        format!("{}://{}{to}", from.scheme_str()?, from.authority()?)
    } else {
        to.to_owned()
    };
    let to: Uri = whole.parse().ok()?;
    let is_known = matches!(to.scheme_str(), Some("http" | "https"));
    to.authority().filter(|_| is_known)?;
    Some(to)
}

fn client() -> Result<Client<HttpsConnector<HttpConnector>, Empty<Bytes>>, ServerError> {
    let mut roots = RootCertStore::empty();
    // Certificates that cannot be parsed are skipped: only servers that depend on them cannot be reached.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(ServerError::Tls)?;
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let connector = HttpsConnector::from((tcp(), Arc::new(config)));
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_followed_to_http_and_https_addresses_only() {
        let from: Uri = "https://server:8443/a/b".parse().unwrap();
        let to = |to: &str| redirect_target(&from, to).map(|uri| uri.to_string());
        assert_eq!(to("/c?d").as_deref(), Some("https://server:8443/c?d"));
        assert_eq!(to("http://other/c").as_deref(), Some("http://other/c"));
        for address in ["", "c", "//other/c", "file:///etc/shadow", "ftp://other/c"] {
            assert_eq!(to(address), None, "{address}");
        }
    }
}
