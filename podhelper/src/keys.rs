//! The keys of one attempt: an authority of its own, whose key nobody keeps, and one certificate for both ends.

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
/// File with its key.
pub const KEY: &str = "key.pem";

/// The fixed DNS name in every certificate; peers check only which authority issued it.
const NAME: &str = "podhelper";

/// Keys could not be read.
#[derive(Debug, Error)]
pub enum KeysError {
    #[error("read {}, which the Secret of this attempt has", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        source: pem::Error,
    },
    #[error("use the keys in {}", directory.display())]
    Tls {
        /// Where they are.
        directory: PathBuf,
        source: rustls::Error,
    },
    #[error("check by the authority in {}", directory.display())]
    Verifier {
        /// Where it is.
        directory: PathBuf,
        source: VerifierBuilderError,
    },
}

/// New keys: the files of a Secret by name.
///
/// # Errors
/// When no certificate can be made.
pub fn make() -> Result<[(&'static str, String); 3], rcgen::Error> {
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

/// The keys that a pod has.
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

    /// The worker's side.
    pub(crate) fn acceptor(self) -> Result<TlsAcceptor, KeysError> {
        let roots = self.roots()?;
        let Self { directory, certificate, key, .. } = self;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
            .build()
            .map_err(|source| KeysError::Verifier { directory: directory.clone(), source })?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .and_then(|one| {
                one.with_client_cert_verifier(verifier).with_single_cert(vec![certificate], key)
            })
            .map_err(|source| KeysError::Tls { directory, source })?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// The launcher's side.
    pub(crate) fn connector(self) -> Result<Connector, KeysError> {
        let roots = self.roots()?;
        let Self { directory, certificate, key, .. } = self;
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .and_then(|one| {
                one.with_root_certificates(roots).with_client_auth_cert(vec![certificate], key)
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

/// Proves to a worker that the launcher has the keys, and has the worker prove the same.
#[derive(Clone)]
pub(crate) struct Connector(TlsConnector);

impl Connector {
    pub(crate) async fn connect(
        &self,
        tcp: tokio::net::TcpStream,
    ) -> io::Result<tokio_rustls::client::TlsStream<tokio::net::TcpStream>> {
        let name = ServerName::try_from(NAME).expect("a word is a name of a server");
        self.0.connect(name, tcp).await
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
