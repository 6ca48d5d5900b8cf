//! Creates and reads the keys of an attempt: a certificate authority of its own, whose key is thrown away, and one
//! certificate for both ends.

use std::{io, path::Path, path::PathBuf, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName,
        pem::{self, PemObject},
    },
    server::{VerifierBuilderError, WebPkiClientVerifier},
    version::TLS13,
};
use thiserror::Error;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// File with the certificate of the authority.
pub const AUTHORITY: &str = "ca.pem";
/// File with the certificate of both ends.
pub const CERTIFICATE: &str = "cert.pem";
/// File with the private key of the certificate.
pub const KEY: &str = "key.pem";

/// The fixed DNS name in every certificate; peers check only which authority issued it.
const NAME: &str = "podhelper";

/// Why keys cannot be used.
#[derive(Debug, Error)]
pub enum KeysError {
    #[error("read {}, a file from the Secret of this attempt", path.display())]
    Read { path: PathBuf, source: pem::Error },
    #[error("use the keys in {}", directory.display())]
    Tls { directory: PathBuf, source: rustls::Error },
    #[error("verify certificates with the authority in {}", directory.display())]
    Verifier { directory: PathBuf, source: VerifierBuilderError },
}

/// Generates new keys, and returns the files of their Secret by name.
///
/// # Errors
/// A certificate cannot be generated.
pub fn generate() -> Result<[(&'static str, String); 3], rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    authority.distinguished_name.push(DnType::CommonName, "attempt");
    let key = KeyPair::generate()?;
    let certificate = authority.self_signed(&key)?;
    let issuer = Issuer::new(authority, key);

    let mut own = CertificateParams::new(vec![NAME.to_owned()])?;
    own.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    let own = own.signed_by(&key, &issuer)?;
    Ok([(AUTHORITY, certificate.pem()), (CERTIFICATE, own.pem()), (KEY, key.serialize_pem())])
}

/// The keys of a pod.
#[derive(Debug)]
pub(crate) struct Keys {
    directory: PathBuf,
    authority: CertificateDer<'static>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Keys {
    pub(crate) fn read(directory: &Path) -> Result<Self, KeysError> {
        let certificate = |name: &str| {
            let path = directory.join(name);
            CertificateDer::from_pem_file(&path).map_err(|source| KeysError::Read { path, source })
        };
        let path = directory.join(KEY);
        let key = PrivateKeyDer::from_pem_file(&path);
        let key = key.map_err(|source| KeysError::Read { path, source })?;
        Ok(Self {
            directory: directory.to_owned(),
            authority: certificate(AUTHORITY)?,
            certificate: certificate(CERTIFICATE)?,
            key,
        })
    }

    /// Returns the worker's end of a connection.
    pub(crate) fn acceptor(self) -> Result<TlsAcceptor, KeysError> {
        let roots = self.roots()?;
        let Self { directory, certificate, key, .. } = self;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
            .build()
            .map_err(|source| KeysError::Verifier { directory: directory.clone(), source })?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| {
                builder.with_client_cert_verifier(verifier).with_single_cert(vec![certificate], key)
            })
            .map_err(|source| KeysError::Tls { directory, source })?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Returns the launcher's end of a connection.
    pub(crate) fn connector(self) -> Result<Connector, KeysError> {
        let roots = self.roots()?;
        let Self { directory, certificate, key, .. } = self;
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| {
                builder.with_root_certificates(roots).with_client_auth_cert(vec![certificate], key)
            })
            .map_err(|source| KeysError::Tls { directory, source })?;
        Ok(Connector(TlsConnector::from(Arc::new(config))))
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, KeysError> {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.authority.clone())
            .map_err(|source| KeysError::Tls { directory: self.directory.clone(), source })?;
        Ok(Arc::new(roots))
    }
}

/// Proves to a worker that the launcher has the keys, and requires the same of the worker.
#[derive(Clone)]
pub(crate) struct Connector(TlsConnector);

impl Connector {
    pub(crate) async fn connect(
        &self,
        tcp: tokio::net::TcpStream,
    ) -> io::Result<tokio_rustls::client::TlsStream<tokio::net::TcpStream>> {
        let name = ServerName::try_from(NAME).expect("a word is a valid server name");
        self.0.connect(name, tcp).await
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
