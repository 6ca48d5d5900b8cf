use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate and its private key.
#[derive(Debug, Clone)]
pub struct Certified {
    /// Certificate as PEM, without the authority's certificate.
    pub certificate: String,
    /// Private key as PEM.
    pub key: String,
}

/// The certificate authority that the API server and its clients trust.
#[derive(Debug)]
pub struct Authority {
    certificate: String,
    key: String,
}

impl Authority {
    /// Creates an authority with a new key.
    ///
    /// # Errors
    /// When the key or the certificate cannot be made.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let mut params = CertificateParams::new(Vec::new()).context("describe the authority")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().context("make the authority's key")?;
        let certificate = params.self_signed(&key).context("sign the authority's certificate")?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Returns the authority's own certificate as PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Issues a certificate for a server on loopback.
    ///
    /// # Errors
    /// When the certificate cannot be signed.
    pub fn server(&self) -> anyhow::Result<Certified> {
        self.server_at(&["localhost", "127.0.0.1", "::1", "kubernetes.default.svc"])
    }

    /// Issues a certificate for a server with these names and addresses.
    ///
    /// # Errors
    /// When the certificate cannot be signed.
    pub fn server_at(&self, names: &[&str]) -> anyhow::Result<Certified> {
        let names = names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        self.sign(
            CertificateParams::new(names)?,
            "server",
            None,
            ExtendedKeyUsagePurpose::ServerAuth,
        )
    }

    /// Issues a certificate for a client: the API server takes CN as the user and O as the group.
    ///
    /// # Errors
    /// When the certificate cannot be signed.
    pub fn client(&self, user: &str, group: Option<&str>) -> anyhow::Result<Certified> {
        let params = CertificateParams::new(Vec::new())?;
        self.sign(params, user, group, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        name: &str,
        group: Option<&str>,
        usage: ExtendedKeyUsagePurpose,
    ) -> anyhow::Result<Certified> {
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let issuer = Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(&self.key)?)?;
        let key = KeyPair::generate()?;
        let certificate =
            params.signed_by(&key, &issuer).with_context(|| format!("sign {name}"))?;
        Ok(Certified { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// Paths of the certificates and keys that the API server reads.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) account_key: PathBuf,
    pub(crate) account_public_key: PathBuf,
}

impl Files {
    pub(crate) fn write(directory: &Path, authority: &Authority) -> anyhow::Result<Self> {
        let files = Self {
            authority: directory.join("ca.crt"),
            certificate: directory.join("server.crt"),
            key: directory.join("server.key"),
            account_key: directory.join("service-accounts.key"),
            account_public_key: directory.join("service-accounts.pub"),
        };
        fs::write(&files.authority, authority.certificate()).context("write the authority")?;
        let accounts = KeyPair::generate()?;
        fs::write(&files.account_key, accounts.serialize_pem()).context("write a key")?;
        fs::write(&files.account_public_key, accounts.public_key_pem()).context("write a key")?;
        files.renew(authority)?;
        Ok(files)
    }

    /// Writes a new certificate for the server; a running server notices the change and reads the file again.
    pub(crate) fn renew(&self, authority: &Authority) -> anyhow::Result<()> {
        let server = authority.server()?;
        fs::write(&self.certificate, server.certificate).context("write the certificate")?;
        fs::write(&self.key, server.key).context("write the key")
    }
}
