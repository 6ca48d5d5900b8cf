//! Who is at the other end of a connection.

use nix::unistd::Uid;
use tokio::net::UnixStream;
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Status};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The caller of a gRPC method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of this host, as root or as our own user.
    Local,
    /// The holder of a certificate of our authority, by its names.
    Certificate(Vec<String>),
}

impl Peer {
    /// Finds out who made the request.
    ///
    /// # Errors
    /// `Unauthenticated` when the connection carries no identity.
    pub(crate) fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        if request.extensions().get::<UdsConnectInfo>().is_some() {
            return Ok(Self::Local);
        }
        let certificates = request.peer_certs();
        let Some(certificate) = certificates.as_ref().and_then(|chain| chain.first()) else {
            return Err(Status::unauthenticated(
                "no client certificate: connect with the certificate of this node",
            ));
        };
        let names = names(certificate)
            .ok_or_else(|| Status::unauthenticated("the client certificate cannot be read"))?;
        Ok(Self::Certificate(names))
    }

    /// Checks that the caller may speak for `node`.
    ///
    /// # Errors
    /// `PermissionDenied`, naming who the caller is.
    pub(crate) fn speaks_for(&self, node: &str) -> Result<(), Status> {
        match self {
            Self::Local => Ok(()),
            Self::Certificate(names) if names.iter().any(|name| name == node) => Ok(()),
            Self::Certificate(names) => Err(Status::permission_denied(format!(
                "the certificate is for {}, not for node {node}: start the agent with --node as in its certificate",
                names.join(", ")
            ))),
        }
    }

    /// Checks that the caller may ask about the whole machine.
    ///
    /// # Errors
    /// `PermissionDenied` unless the caller is local or one of `operators`.
    pub(crate) fn operates(&self, operators: &[String]) -> Result<(), Status> {
        match self {
            Self::Local => Ok(()),
            Self::Certificate(names) if names.iter().any(|name| operators.contains(name)) => Ok(()),
            Self::Certificate(names) => Err(Status::permission_denied(format!(
                "{} is no operator: ask on the coordinator's host, or name the certificate with --operator there",
                names.join(", ")
            ))),
        }
    }
}

/// Whether a process that connected to a unix socket may use it: root and our own user may (SO_PEERCRED, unix(7)).
pub(crate) fn may_connect(stream: &UnixStream) -> bool {
    let Ok(peer) = stream.peer_cred() else { return false };
    let may = peer.uid() == 0 || peer.uid() == Uid::effective().as_raw();
    if !may {
        log::warn!(uid = peer.uid(), pid:? = peer.pid(); "close the connection of a user without access");
    }
    may
}

/// Common name and DNS names of a certificate in DER.
fn names(certificate: &[u8]) -> Option<Vec<String>> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let mut names: Vec<String> = common.map(str::to_owned).collect();
    if let Ok(Some(alternatives)) = certificate.subject_alternative_name() {
        names.extend(alternatives.value.general_names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        }));
    }
    names.dedup();
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_speaks_for_its_own_names_only() {
        let peer = Peer::Certificate(vec!["compute-1".to_owned(), "c1.hpc".to_owned()]);
        assert!(peer.speaks_for("c1.hpc").is_ok());
        let refused = peer.speaks_for("compute-2").unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        assert!(refused.message().contains("compute-1"));
        assert!(Peer::Local.speaks_for("compute-2").is_ok());
    }

    #[test]
    fn only_operators_ask_about_the_machine() {
        let operators = ["ops".to_owned()];
        assert!(Peer::Local.operates(&[]).is_ok());
        assert!(Peer::Certificate(vec!["ops".to_owned()]).operates(&operators).is_ok());
        assert!(Peer::Certificate(vec!["compute-1".to_owned()]).operates(&operators).is_err());
    }

    #[test]
    fn names_are_read_from_a_certificate() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["compute-1".to_owned()]).unwrap();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "c1");
        let certificate = parameters.self_signed(&key).unwrap();
        assert_eq!(names(certificate.der()), Some(vec!["c1".to_owned(), "compute-1".to_owned()]));
        assert_eq!(names(b"not DER"), None);
    }
}
