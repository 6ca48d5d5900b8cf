//! The way to the coordinator, from the command line.

use std::path::{Path, PathBuf};

use clap::Args;
use thiserror::Error;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// Where the coordinator is and how this rabbit proves its name there.
#[derive(Debug, Args)]
pub struct CoordinatorArgs {
    /// The coordinator that is told of this rabbit's health: unix:///PATH, or https://HOST:PORT with --ca, --certificate and --key
    #[arg(long, env = "WARREN_COORDINATOR", value_name = "URL", help_heading = "Coordinator")]
    pub coordinator: Option<String>,
    /// Certificates of the authorities that may sign the coordinator's certificate, PEM
    #[arg(long, env = "WARREN_CA", value_name = "FILE", help_heading = "Coordinator")]
    pub ca: Option<PathBuf>,
    /// This rabbit's certificate, PEM; it must be issued to the rabbit's name
    #[arg(
        long,
        env = "WARREN_CERTIFICATE",
        value_name = "FILE",
        requires = "key",
        help_heading = "Coordinator"
    )]
    pub certificate: Option<PathBuf>,
    /// The certificate's private key, PEM
    #[arg(
        long,
        env = "WARREN_KEY",
        value_name = "FILE",
        requires = "certificate",
        help_heading = "Coordinator"
    )]
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

impl CoordinatorArgs {
    /// Where the coordinator is, with what it takes to be let in; `None` when there is none.
    ///
    /// # Errors
    /// At the first value that cannot be used, naming it and the remedy.
    pub fn endpoint(&self) -> Result<Option<Endpoint>, CoordinatorError> {
        self.coordinator.as_deref().map(|url| self.endpoint_of(url)).transpose()
    }

    fn endpoint_of(&self, url: &str) -> Result<Endpoint, CoordinatorError> {
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
