//! The caller of a gRPC method, by its socket or its certificate.

use std::fmt;

use daemon::accept::Caller;
use proto::limits::{NAME, shortened};
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo, UdsConnectInfo};
use tonic::{Request, Status};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// tonic's record of a connection on a unix socket. Only root and the coordinator's own user may connect to the socket
/// for agents and operators.
type OnUnix = (Caller, UdsConnectInfo);
/// tonic's record of a connection over TCP.
type OnTcp = TlsConnectInfo<(Caller, TcpConnectInfo)>;

/// The caller of a gRPC method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of this host, by its user and group (`SO_PEERCRED`).
    Local { user: u32, group: u32 },
    /// The holder of a certificate of our authority, by its names.
    Certificate(Vec<String>),
}

impl Peer {
    /// Identifies the caller of a request.
    pub(crate) fn identify<T>(request: &Request<T>) -> Result<Self, Status> {
        if let Some((_, connection)) = request.extensions().get::<OnUnix>() {
            let peer = connection.peer_cred.ok_or_else(|| {
                Status::unauthenticated("the kernel does not name the process at the other end of the socket (SO_PEERCRED)")
            })?;
            return Ok(Self::Local { user: peer.uid(), group: peer.gid() });
        }
        let connection = request.extensions().get::<OnTcp>();
        let certificates = connection.and_then(OnTcp::peer_certs);
        let Some(certificate) = certificates.as_ref().and_then(|chain| chain.first()) else {
            return Err(Status::unauthenticated(
                "no client certificate: connect with the certificate of this node",
            ));
        };
        let names = certificate_names(certificate)
            .ok_or_else(|| Status::unauthenticated("the client certificate cannot be read"))?;
        Ok(Self::Certificate(names))
    }

    /// Returns the time at which the certificate of a request's caller expires, in seconds since 1970;
    /// `None` without a certificate.
    pub(crate) fn expires<T>(request: &Request<T>) -> Option<i64> {
        let certificates = request.extensions().get::<OnTcp>()?.peer_certs()?;
        let (_, certificate) = X509Certificate::from_der(certificates.first()?).ok()?;
        Some(certificate.validity().not_after.timestamp())
    }

    /// Checks that the caller may act as `node`. Every local caller may do so: only root and the coordinator's
    /// own user can connect.
    pub(crate) fn check_node(&self, node: &str) -> Result<(), Status> {
        match self {
            Self::Local { .. } => Ok(()),
            Self::Certificate(names) if names.iter().any(|name| name == node) => Ok(()),
            Self::Certificate(names) => Err(Status::permission_denied(format!(
                "the certificate is for {}, not for node {node:?}: start the agent with --node as in its certificate",
                quoted(names)
            ))),
        }
    }

    /// Checks that the caller is an operator: a local caller, or the holder of a certificate whose name is in
    /// `operators`.
    pub(crate) fn check_operator(&self, operators: &[String]) -> Result<(), Status> {
        match self {
            Self::Local { .. } => Ok(()),
            Self::Certificate(names) if names.iter().any(|name| operators.contains(name)) => Ok(()),
            Self::Certificate(names) => Err(Status::permission_denied(format!(
                "the certificate is for {}, which is not an operator: run the command on the coordinator's host, or start the coordinator with this name in --operator",
                quoted(names)
            ))),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local { user, .. } => write!(f, "user {user}"),
            Self::Certificate(names) => write!(f, "certificate {}", quoted(names)),
        }
    }
}

/// Quotes and shortens names for terminals and journals, because the authority may have signed any text as a name.
fn quoted(names: &[String]) -> String {
    if names.is_empty() {
        return "no name: its subjectAltName has no DNS name".to_owned();
    }
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    shortened(names.join(", "), NAME)
}

/// Returns the names of a certificate in DER; `None` if it cannot be read.
///
/// The names are the DNS names of the extension subjectAltName. The common name counts only if the certificate has no
/// such extension (RFC 6125, 6.4.4): an authority that checks the extension may copy the common name unchecked. If the
/// extension is unreadable or occurs twice, the certificate counts as unreadable.
pub(crate) fn certificate_names(certificate: &[u8]) -> Option<Vec<String>> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let Some(alternatives) = certificate.subject_alternative_name().ok()? else {
        let common = certificate.subject().iter_common_name();
        return Some(common.filter_map(|name| name.as_str().ok()).map(str::to_owned).collect());
    };
    let names = alternatives.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    Some(names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_valid_for_its_own_names_only() {
        let peer = Peer::Certificate(vec!["compute-1".to_owned(), "c1.hpc".to_owned()]);
        assert!(peer.check_node("c1.hpc").is_ok());
        let refused = peer.check_node("compute-2").unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        assert!(refused.message().contains("compute-1"));
        assert!(Peer::Local { user: 0, group: 0 }.check_node("compute-2").is_ok());
    }

    #[test]
    fn only_operators_may_list_the_nodes() {
        let operators = ["ops".to_owned()];
        assert!(Peer::Local { user: 0, group: 0 }.check_operator(&[]).is_ok());
        assert!(Peer::Certificate(vec!["ops".to_owned()]).check_operator(&operators).is_ok());
        assert!(
            Peer::Certificate(vec!["compute-1".to_owned()]).check_operator(&operators).is_err()
        );
    }

    fn certificate(
        common: Option<&str>,
        alternatives: &[&str],
        extension: Option<&[u8]>,
    ) -> Vec<u8> {
        let alternatives: Vec<String> = alternatives.iter().map(|&name| name.to_owned()).collect();
        let mut parameters = rcgen::CertificateParams::new(alternatives).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(common) = common {
            parameters.distinguished_name.push(rcgen::DnType::CommonName, common);
        }
        if let Some(content) = extension {
            let subject_alt_name = &[2, 5, 29, 17];
            let content = content.to_vec();
            let extension = rcgen::CustomExtension::from_oid_content(subject_alt_name, content);
            parameters.custom_extensions.push(extension);
        }
        let key = rcgen::KeyPair::generate().unwrap();
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn a_common_name_counts_only_without_a_subject_alternative_name() {
        let none: [&str; 0] = [];
        let cases = [
            (
                certificate(Some("compute-1"), &["compute-2", "c2.hpc"], None),
                &["compute-2", "c2.hpc"][..],
            ),
            (certificate(Some("operator"), &["compute-2"], None), &["compute-2"]),
            (certificate(None, &["compute-2"], None), &["compute-2"]),
            (certificate(Some("compute-1"), &[], None), &["compute-1"]),
            (certificate(Some("compute-1"), &["192.0.2.7"], None), &none),
        ];
        for (certificate, expected) in cases {
            assert_eq!(certificate_names(&certificate).unwrap(), expected);
        }
    }

    #[test]
    fn an_unreadable_certificate_has_no_names() {
        assert_eq!(certificate_names(b"not DER"), None);
        let damaged = certificate(Some("compute-1"), &[], Some(b"not DER"));
        assert_eq!(certificate_names(&damaged), None);
        let twice = certificate(Some("compute-1"), &["compute-2"], Some(&[0x30, 0]));
        assert_eq!(certificate_names(&twice), None);
    }

    #[test]
    fn a_refusal_quotes_and_shortens_the_names_of_the_certificate() {
        let refused = |names: &[&str]| {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            let peer = Peer::Certificate(names);
            let operator = peer.check_operator(&[]).unwrap_err();
            [peer.check_node("compute-2").unwrap_err(), operator]
        };
        for refused in refused(&["a\u{1b}[2J\nb"]) {
            assert!(refused.message().contains(r#""a\u{1b}[2J\nb""#), "{}", refused.message());
        }
        for refused in refused(&[]) {
            assert!(refused.message().contains("no DNS name"), "{}", refused.message());
        }
        let many = vec!["c1.hpc"; 1000];
        for refused in refused(&many) {
            assert!(refused.message().len() < 1000, "{}", refused.message());
        }
    }
}
