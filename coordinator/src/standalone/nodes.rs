//! The embedded API for rabbits on other hosts: who they are, and what they may do. It is the same as the rights of a
//! rabbit on a cluster (`packaging/kubernetes/base`), where RBAC and an admission policy say it.

#[cfg(test)]
mod tests;
mod writes;

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use api::names::SYSTEM_CONFIGURATION;
use kubeapi::{Access, Identity, Rights, Verb};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
    server::{VerifierBuilderError, WebPkiClientVerifier},
};
use thiserror::Error;
use tokio::net::TcpListener;

pub(super) use self::writes::check as check_write;
use crate::{config::Tls, peer::certificate_names};

/// Begins the user name of a node. A certificate may have several names: commas separate them.
const PREFIX: &str = "node:";

/// The reason why the API cannot be served to rabbits.
#[derive(Debug, Error)]
pub enum NodeApiError {
    #[error("--api-listen-rabbits {address}: listen: choose another address or port")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("read {path}", path = path.display())]
    Pem {
        path: PathBuf,
        #[source]
        source: pem::Error,
    },
    #[error("use the certificates of --ca for clients")]
    Authority(#[source] VerifierBuilderError),
    #[error("use the files of --certificate and --key")]
    Certificate(#[source] rustls::Error),
}

/// The listener for rabbits: bound, not served yet.
#[derive(Debug)]
pub(crate) struct ForRabbits {
    pub(super) listener: TcpListener,
    pub(super) config: ServerConfig,
}

impl ForRabbits {
    /// Reads the certificates, and binds the socket.
    pub(super) async fn bind(address: SocketAddr, tls: &Tls) -> Result<Self, NodeApiError> {
        let config = configuration(tls)?;
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|source| NodeApiError::Listen { address, source })?;
        Ok(Self { listener, config })
    }
}

/// Returns a TLS configuration that requires a client's certificate of the nodes' authority.
fn configuration(tls: &Tls) -> Result<ServerConfig, NodeApiError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&tls.authority)? {
        roots.add(certificate).map_err(NodeApiError::Certificate)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
        .build()
        .map_err(NodeApiError::Authority)?;
    let chain = certificates(&tls.certificate)?;
    let failed = |source| NodeApiError::Pem { path: tls.key.clone(), source };
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(failed)?;
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder.with_client_cert_verifier(verifier).with_single_cert(chain, key)
        })
        .map_err(NodeApiError::Certificate)
}

fn certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, NodeApiError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(|source| NodeApiError::Pem { path: path.clone(), source })
}

/// Returns whose certificate it is; `None` if it names nobody.
pub(super) fn identify(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let names = certificate_names(certificate)?;
    (!names.is_empty()).then(|| Identity { user: format!("{PREFIX}{}", names.join(",")) })
}

/// Returns the names of the node that a user is; `None` if the user is no node.
fn node_names(user: &str) -> Option<Vec<&str>> {
    Some(user.strip_prefix(PREFIX)?.split(',').collect())
}

/// Returns the rights of nodes.
pub(super) fn rights() -> Rights {
    Rights::new(check)
}

/// Kinds in a rabbit's namespace that its agent watches and patches.
const OWN: [&str; 6] = [
    "nnfnodeblockstorages",
    "nnfnodestorages",
    "nnflustremgts",
    "nnfdatamovements",
    "nodecontainers",
    "nnfnodes",
];

/// Checks a request of a node: it reads and patches the objects in its own namespace, and reads elsewhere what tells how
/// to serve them.
fn check(access: &Access<'_>) -> Result<(), String> {
    let names = node_names(access.user).unwrap_or_default();
    let is_own = |place: Option<&str>| place.is_some_and(|place| names.contains(&place));
    let (own, reads) =
        (is_own(access.namespace), matches!(access.verb, Verb::Get | Verb::List | Verb::Watch));
    let is_allowed = match (access.group, access.resource, access.verb) {
        // The index tree of a rabbit links to the computes' mounts.
        (_, "clientmounts", Verb::List) => true,
        (_, "clientmounts", verb) => own && (reads || verb == Verb::Patch),
        (_, "nnfnodes", Verb::Create) => own,
        (_, resource, verb) if OWN.contains(&resource) => own && (reads || verb == Verb::Patch),
        (_, "nnfstorageprofiles", _) => reads,
        (_, "nnfdatamovementprofiles" | "servers", verb) => verb == Verb::Get,
        (_, "systemconfigurations", _) => {
            reads && access.name.is_none_or(|name| name == SYSTEM_CONFIGURATION)
        }
        // Files and keys of containers lie beside their workflow. A list would tell which jobs there are.
        ("", "configmaps" | "secrets", verb) => verb == Verb::Get,
        ("", "namespaces", verb) => verb == Verb::Create || (reads && is_own(access.name)),
        ("events.k8s.io", "events", Verb::Create) => own,
        _ => false,
    };
    if is_allowed {
        return Ok(());
    }
    let Access { verb, resource, .. } = access;
    let place = access.namespace.map_or_else(String::new, |place| format!(" in {place}"));
    Err(format!(
        "the certificate of {} gives no right to {} {resource}{place}: a rabbit uses the objects in the namespace of its own name",
        names.join(", "),
        format!("{verb:?}").to_lowercase(),
    ))
}
