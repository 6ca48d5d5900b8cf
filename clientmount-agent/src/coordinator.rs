//! The way to the coordinator, from an agent's command line.

use std::path::{Path, PathBuf};

use clap::Args;
use thiserror::Error;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// How this node and a coordinator over TCP prove their names to each other.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Coordinator")]
pub struct CertificateArgs {
    /// Certificates of the authorities that may sign the coordinator's certificate, PEM
    #[arg(long, env = "WARREN_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// This node's certificate, PEM; it must be issued to the node's name
    #[arg(long, env = "WARREN_CERTIFICATE", value_name = "FILE", requires = "key")]
    pub certificate: Option<PathBuf>,
    /// The certificate's private key, PEM
    #[arg(long, env = "WARREN_KEY", value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
}

/// A way to a coordinator that is none.
#[derive(Debug, Error)]
pub enum CoordinatorError {
    /// Not an address of a coordinator.
    #[error("--coordinator: {value:?} {problem}")]
    Address {
        /// The value.
        value: String,
        /// What is wrong with it, and the remedy.
        problem: &'static str,
    },
    /// A certificate or key cannot be read.
    #[error("{flag}: read {}", path.display())]
    ReadPem {
        /// Which flag.
        flag: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Certificates and key do not make a TLS configuration.
    #[error("--ca, --certificate, --key: not usable for TLS")]
    Tls(#[source] tonic::transport::Error),
}

impl CertificateArgs {
    /// The coordinator at `url`, with what it takes to be let in.
    ///
    /// # Errors
    /// At the first value that cannot be used, naming it and the remedy.
    pub fn endpoint(&self, url: &str) -> Result<Endpoint, CoordinatorError> {
        let wrong = |problem| CoordinatorError::Address { value: url.to_owned(), problem };
        if let Some(path) = url.strip_prefix("unix://") {
            if !path.starts_with('/') {
                return Err(wrong(
                    "is not an absolute socket path: use unix:///run/warren/coordinator.sock",
                ));
            }
            return Endpoint::from_shared(url.to_owned()).map_err(|_| wrong("is not a URL"));
        }
        if !url.starts_with("https://") {
            return Err(wrong(
                "is neither unix:///PATH nor https://HOST:PORT: without TLS a node could not prove its name",
            ));
        }
        let (Some(ca), Some(certificate), Some(key)) = (&self.ca, &self.certificate, &self.key)
        else {
            return Err(wrong("needs --ca, --certificate and --key"));
        };
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(pem("--ca", ca)?))
            .identity(Identity::from_pem(pem("--certificate", certificate)?, pem("--key", key)?));
        let endpoint = Endpoint::from_shared(url.to_owned())
            .map_err(|_| wrong("is not a URL: use https://HOST:PORT"))?;
        endpoint.tls_config(tls).map_err(CoordinatorError::Tls)
    }
}

fn pem(flag: &'static str, path: &Path) -> Result<Vec<u8>, CoordinatorError> {
    std::fs::read(path).map_err(|source| CoordinatorError::ReadPem {
        flag,
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str, certificates: &CertificateArgs) -> String {
        certificates.endpoint(url).unwrap_err().to_string()
    }

    #[test]
    fn only_a_socket_needs_no_certificates() {
        let none = CertificateArgs::default();
        none.endpoint("unix:///run/warren/coordinator.sock").unwrap();
        for (url, told) in [
            ("unix://x", "not an absolute socket path"),
            ("http://x:1", "neither unix:///PATH nor https://HOST:PORT"),
            ("https://x:1", "needs --ca, --certificate and --key"),
        ] {
            let error = refused(url, &none);
            assert!(error.contains(told) && error.contains(url), "{error}");
        }
    }

    #[test]
    fn an_unreadable_certificate_is_named() {
        let file = |name: &str| Some(PathBuf::from(name));
        let args =
            CertificateArgs { ca: file("/nowhere"), certificate: file("/b"), key: file("/c") };
        assert_eq!(refused("https://x:1", &args), "--ca: read /nowhere");
    }
}
