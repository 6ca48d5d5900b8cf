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

/// Not a way to a coordinator.
#[derive(Debug, Error)]
#[error("--coordinator: {value:?} {problem}")]
pub struct AddressError {
    /// The value.
    value: String,
    /// What is wrong with it, and the remedy.
    problem: &'static str,
}

/// What lets a node in cannot be used now: the files may come later, as secrets do.
#[derive(Debug, Error)]
pub enum CertificateError {
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

/// Where a coordinator is, and the files that let a node in, not read yet.
#[derive(Debug, Clone)]
pub struct CoordinatorAddress {
    endpoint: Endpoint,
    files: Option<Files>,
}

#[derive(Debug, Clone)]
struct Files {
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl CertificateArgs {
    /// The coordinator at `url`, with the files that it takes to be let in.
    ///
    /// # Errors
    /// At the first value that cannot be used, naming it and the remedy.
    pub fn coordinator(&self, url: &str) -> Result<CoordinatorAddress, AddressError> {
        let wrong = |problem| AddressError { value: url.to_owned(), problem };
        if let Some(path) = url.strip_prefix("unix://") {
            if !path.starts_with('/') {
                return Err(wrong(
                    "is not an absolute socket path: use unix:///run/warren/coordinator.sock",
                ));
            }
            let endpoint = Endpoint::from_shared(url.to_owned());
            let endpoint = endpoint.map_err(|_| wrong("is not a URL"))?;
            return Ok(CoordinatorAddress { endpoint, files: None });
        }
        if !url.starts_with("https://") {
            return Err(wrong(
                "is neither unix:///PATH nor https://HOST:PORT: without TLS a node could not prove its name",
            ));
        }
        let (Some(ca), Some(certificate), Some(key)) =
            (self.ca.clone(), self.certificate.clone(), self.key.clone())
        else {
            return Err(wrong("needs --ca, --certificate and --key"));
        };
        let endpoint = Endpoint::from_shared(url.to_owned())
            .map_err(|_| wrong("is not a URL: use https://HOST:PORT"))?;
        Ok(CoordinatorAddress { endpoint, files: Some(Files { ca, certificate, key }) })
    }
}

impl CoordinatorAddress {
    /// The coordinator, with what lets a node in.
    ///
    /// # Errors
    /// When a file cannot be read or used.
    pub fn endpoint(self) -> Result<Endpoint, CertificateError> {
        let Self { endpoint, files } = self;
        let Some(Files { ca, certificate, key }) = files else { return Ok(endpoint) };
        let identity = Identity::from_pem(pem("--certificate", &certificate)?, pem("--key", &key)?);
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(pem("--ca", &ca)?))
            .identity(identity);
        endpoint.tls_config(tls).map_err(CertificateError::Tls)
    }
}

fn pem(flag: &'static str, path: &Path) -> Result<Vec<u8>, CertificateError> {
    std::fs::read(path).map_err(|source| CertificateError::ReadPem {
        flag,
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str, certificates: &CertificateArgs) -> String {
        certificates.coordinator(url).unwrap_err().to_string()
    }

    #[test]
    fn only_a_socket_needs_no_certificates() {
        let none = CertificateArgs::default();
        none.coordinator("unix:///run/warren/coordinator.sock").unwrap().endpoint().unwrap();
        for (url, told) in [
            ("unix://x", "not an absolute socket path"),
            ("http://x:1", "neither unix:///PATH nor https://HOST:PORT"),
            ("https://x:1", "needs --ca, --certificate and --key"),
        ] {
            let error = refused(url, &none);
            assert!(error.contains(told) && error.contains(url), "{error}");
        }
    }

    /// A secret may come later than the agent: that is nothing that is wrong with its command line.
    #[test]
    fn a_certificate_that_is_not_there_yet_is_good_usage_and_named_when_it_is_read() {
        let file = |name: &str| Some(PathBuf::from(name));
        let args =
            CertificateArgs { ca: file("/a"), certificate: file("/nowhere"), key: file("/c") };
        let address = args.coordinator("https://x:1").unwrap();
        assert_eq!(address.endpoint().unwrap_err().to_string(), "--certificate: read /nowhere");
    }
}
