//! Address and certificates of the coordinator, from an agent's command line.

use std::path::PathBuf;

use apiclient::CertificateFiles;
use clap::Args;
use proto::pem::{self, PemError};
use thiserror::Error;
use tonic::transport::{ClientTlsConfig, Endpoint};

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

/// A value of `--coordinator` that cannot be used.
#[derive(Debug, Error)]
#[error("--coordinator: {value:?} {problem}")]
pub struct AddressError {
    value: String,
    problem: &'static str,
}

/// The certificate files cannot be used now. A later attempt may succeed: Kubernetes may mount the Secret with the
/// files after the agent's start.
#[derive(Debug, Error)]
pub enum CertificateError {
    #[error(transparent)]
    Pem(#[from] PemError),
    #[error("--ca, --certificate, --key: not usable for TLS")]
    Tls(#[source] tonic::transport::Error),
}

/// A coordinator's address and the paths of this node's certificate files, which are read at each connection.
#[derive(Debug, Clone)]
pub struct CoordinatorAddress {
    endpoint: Endpoint,
    files: Option<CertificateFiles>,
}

impl CertificateArgs {
    /// Returns the coordinator at `url`, with the certificate files that a TCP address needs.
    pub fn coordinator(&self, url: &str) -> Result<CoordinatorAddress, AddressError> {
        let wrong = |problem| AddressError { value: url.to_owned(), problem };
        if let Some(path) = url.strip_prefix("unix://") {
            if !path.starts_with('/') {
                return Err(wrong(
                    "is not an absolute socket path: use unix:///run/warren/coordinator.sock",
                ));
            }
            let endpoint =
                Endpoint::from_shared(url.to_owned()).map_err(|_| wrong("is not a URL"))?;
            return Ok(CoordinatorAddress { endpoint, files: None });
        }
        if !url.starts_with("https://") {
            return Err(wrong(
                "is neither unix:///PATH nor https://HOST:PORT: without TLS a node could not prove its name",
            ));
        }
        let Some(files) = self.files() else {
            return Err(wrong("needs --ca, --certificate and --key"));
        };
        let endpoint = Endpoint::from_shared(url.to_owned())
            .map_err(|_| wrong("is not a URL: use https://HOST:PORT"))?;
        Ok(CoordinatorAddress { endpoint, files: Some(files) })
    }

    /// Returns the files, if all three are given.
    #[must_use]
    pub fn files(&self) -> Option<CertificateFiles> {
        let (ca, certificate) = (self.ca.clone()?, self.certificate.clone()?);
        Some(CertificateFiles { ca, certificate, key: self.key.clone()? })
    }
}

impl CoordinatorAddress {
    /// Returns the endpoint to connect to. Reads the certificate files anew, because they may be replaced
    /// while an agent runs.
    ///
    /// # Errors
    /// When a file cannot be read or used.
    pub fn endpoint(&self) -> Result<Endpoint, CertificateError> {
        let endpoint = self.endpoint.clone();
        let Some(CertificateFiles { ca, certificate, key }) = &self.files else {
            return Ok(endpoint);
        };
        let identity = pem::identity(certificate, key)?;
        let tls = ClientTlsConfig::new().ca_certificate(pem::authority(ca)?).identity(identity);
        endpoint.tls_config(tls).map_err(CertificateError::Tls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str, certificates: &CertificateArgs) -> String {
        certificates.coordinator(url).unwrap_err().to_string()
    }

    #[test]
    fn a_socket_address_needs_no_certificates_and_an_https_address_does() {
        let none = CertificateArgs::default();
        none.coordinator("unix:///run/warren/coordinator.sock").unwrap().endpoint().unwrap();
        for (url, message) in [
            ("unix://x", "not an absolute socket path"),
            ("http://x:1", "neither unix:///PATH nor https://HOST:PORT"),
            ("https://x:1", "needs --ca, --certificate and --key"),
        ] {
            let error = refusal(url, &none);
            assert!(error.contains(message) && error.contains(url), "{error}");
        }
    }

    /// Kubernetes may mount a Secret after the agent has started, and may replace the Secret's files later.
    #[test]
    fn certificate_files_may_be_missing_at_the_start_and_are_read_for_each_connection() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| Some(directory.path().join(name));
        let args = CertificateArgs { ca: file("ca"), certificate: file("crt"), key: file("key") };
        let address = args.coordinator("https://x:1").unwrap();
        for (flag, name) in [("--certificate", "crt"), ("--key", "key"), ("--ca", "ca")] {
            let error = address.endpoint().unwrap_err().to_string();
            let path = directory.path().join(name);
            assert_eq!(error, format!("{flag}: read {}", path.display()));
            std::fs::write(path, "").unwrap();
        }
        assert!(matches!(address.endpoint(), Err(CertificateError::Tls(_)) | Ok(_)));
    }
}
