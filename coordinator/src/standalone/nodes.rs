//! The embedded API for rabbits on other hosts: who they are, and what they may do. A rabbit has the rights that RBAC and an
//! admission policy give it on a cluster (`packaging/kubernetes/base`), and reads the files and keys of the containers that
//! it runs. Certificates of other nodes have no rights here.

#[cfg(test)]
mod tests;
mod writes;

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use api::names::{DWS_GROUP, NNF_GROUP, STORAGE_NAMESPACE, SYSTEM_CONFIGURATION, label};
use kubeapi::{Access, Api, Identity, Rights, Verb};
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

/// Returns the user of a certificate; `None` if the certificate names no node.
pub(super) fn identify(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let mut names = certificate_names(certificate)?;
    // A comma would make two names of one.
    names.retain(|name| !name.contains(','));
    (!names.is_empty()).then(|| Identity { user: format!("{PREFIX}{}", names.join(",")) })
}

/// Returns the names of the node that a user is; `None` if the user is no node.
fn node_names(user: &str) -> Option<Vec<&str>> {
    Some(user.strip_prefix(PREFIX)?.split(',').collect())
}

/// The objects on which the rights of a rabbit depend.
trait Known {
    /// Returns true if the SystemConfiguration names a rabbit so.
    fn is_rabbit(&self, name: &str) -> bool;
    /// Returns true if a ConfigMap or Secret does not exist, or belongs to a workflow of which the rabbit has containers.
    fn is_for_containers_on(&self, rabbit: &str, wanted: &Access<'_>) -> bool;
}

impl Known for Api {
    fn is_rabbit(&self, name: &str) -> bool {
        let kind = format!("systemconfigurations.{DWS_GROUP}");
        let system = self.read(&kind, STORAGE_NAMESPACE, SYSTEM_CONFIGURATION).unwrap_or_default();
        let mut nodes = system["spec"]["storageNodes"].as_array().into_iter().flatten();
        nodes.any(|node| node["name"] == name)
    }

    fn is_for_containers_on(&self, rabbit: &str, wanted: &Access<'_>) -> bool {
        let place = (wanted.namespace.unwrap_or_default(), wanted.name.unwrap_or_default());
        let Some(object) = self.read(wanted.resource, place.0, place.1) else { return true };
        let uid = object["metadata"]["labels"][label::WORKFLOW_UID].as_str();
        let kind = format!("nodecontainers.warren.{NNF_GROUP}");
        uid.is_some_and(|uid| self.has_labelled(&kind, rabbit, (label::WORKFLOW_UID, uid)))
    }
}

/// Returns the rights of rabbits.
pub(super) fn rights(api: Api) -> Rights {
    Rights::new(move |access| check(access, &api))
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

/// Checks a request of a rabbit: it reads and patches the objects in its own namespace, and reads elsewhere what tells how
/// to serve them.
fn check(access: &Access<'_>, known: &impl Known) -> Result<(), String> {
    let mut names = node_names(access.user).unwrap_or_default();
    let all = names.join(", ");
    names.retain(|name| known.is_rabbit(name));
    if names.is_empty() {
        return Err(format!(
            "the certificate of {all} gives no right to the API: the SystemConfiguration names no such rabbit"
        ));
    }
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
        // Files and keys of containers lie beside their workflow.
        ("", "configmaps" | "secrets", Verb::Get) => {
            names.iter().any(|name| known.is_for_containers_on(name, access))
        }
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
        "the certificate of {all} gives no right to {} {resource}{place}: a rabbit uses the objects in the namespace of its own name",
        format!("{verb:?}").to_lowercase(),
    ))
}
