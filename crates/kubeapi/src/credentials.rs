//! Credentials by which server and clients authenticate each other: the server's own CA, a certificate of this CA, and
//! a bearer token.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use thiserror::Error;
use uuid::Uuid;

const FILE: &str = "credentials.json";
/// Time for which the CA and the server's certificate are valid, in years.
const YEARS: i16 = 10;
/// Remaining validity, in seconds, below which a certificate is replaced at start: two years, so that no run of the
/// server outlives its certificate.
const RENEW: i64 = 2 * 365 * 24 * 3600;
/// Year from which every certificate is valid. It is long ago on purpose: the clock may be ahead when a certificate is
/// created, and the certificate must still be valid once the clock is corrected.
const FIRST_YEAR: i32 = 2020;
/// First second of 2026 in unix time. This program was written in 2026, so a clock that shows an earlier time is wrong.
const THIS_PROGRAM: i64 = 1_767_225_600;

#[derive(Debug, Error)]
pub enum CredentialsError {
    #[error("{} cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is damaged; remove it, so that new credentials are created", path.display())]
    Parse { path: PathBuf, source: serde_json::Error },
    #[error("{} cannot be written", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("a certificate cannot be created")]
    MakeCertificate(#[from] rcgen::Error),
}

/// Identity of the server. `Debug` shows no secret.
#[derive(Clone, Serialize, Deserialize)]
pub struct Credentials {
    server: SocketAddr,
    token: String,
    ca_certificate: String,
    ca_key: String,
    certificate: String,
    key: String,
    /// Unix time at which the CA's certificate expires.
    ca_expires: i64,
    expires: i64,
}

impl Credentials {
    /// Reads the credentials in `directory`, or creates them. Replaces the server's certificate if it is for another
    /// address, or expires within two years; the same CA signs the new certificate, so that kubeconfig files stay
    /// valid. If the CA itself expires within two years, creates all credentials anew.
    pub fn load_or_create(directory: &Path, server: SocketAddr) -> Result<Self, CredentialsError> {
        let path = directory.join(FILE);
        let credentials = match fs::read(&path) {
            Ok(bytes) => {
                let kept: Self = serde_json::from_slice(&bytes)
                    .map_err(|source| CredentialsError::Parse { path: path.clone(), source })?;
                let now = Timestamp::now().as_second();
                if now + RENEW >= kept.ca_expires {
                    log::warn!(
                        "the API server's authority expires soon and was replaced, with its token: a kubeconfig that was copied from here has to be copied again"
                    );
                    Self::create(server)?
                } else if now + RENEW >= kept.expires || kept.server != server {
                    log::info!(
                        "the API server's certificate was replaced, under the same authority"
                    );
                    kept.reissue(server)?
                } else {
                    return Ok(kept);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::create(server)?,
            Err(source) => return Err(CredentialsError::Read { path, source }),
        };
        let text = serde_json::to_string_pretty(&credentials)
            .expect("a struct of strings and numbers always encodes");
        write_private(&path, &text)?;
        Ok(credentials)
    }

    fn create(server: SocketAddr) -> Result<Self, CredentialsError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        params
            .distinguished_name
            .push(DnType::CommonName, format!("warren CA {}", Uuid::new_v4().simple()));
        let ca_expires = set_validity(&mut params);
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Self {
            server,
            token: format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()),
            ca_certificate: certificate.pem(),
            ca_key: key.serialize_pem(),
            certificate: String::new(),
            key: String::new(),
            ca_expires,
            expires: 0,
        }
        .reissue(server)
    }

    /// Returns the same CA and token with a new certificate for `server`.
    fn reissue(self, server: SocketAddr) -> Result<Self, CredentialsError> {
        let issuer =
            Issuer::from_ca_cert_pem(&self.ca_certificate, KeyPair::from_pem(&self.ca_key)?)?;
        let mut names = vec![
            "localhost".to_owned(),
            Ipv4Addr::LOCALHOST.to_string(),
            Ipv6Addr::LOCALHOST.to_string(),
        ];
        if !names.contains(&server.ip().to_string()) {
            names.push(server.ip().to_string());
        }
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "warren");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let expires = set_validity(&mut params).min(self.ca_expires);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Self {
            server,
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            expires,
            ..self
        })
    }

    /// Writes a kubeconfig with which kubectl reaches this server, with mode 0600. Does not write a file that already
    /// has this content and mode, so that a start does not fail on a full disk for no reason.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<(), CredentialsError> {
        let ca = STANDARD.encode(&self.ca_certificate);
        let server = SocketAddr::new(reachable(self.server.ip()), self.server.port());
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: warren\n\
             clusters:\n- name: warren\n  cluster:\n    server: https://{server}\n    certificate-authority-data: {ca}\n\
             users:\n- name: admin\n  user:\n    token: {}\n\
             contexts:\n- name: warren\n  context:\n    cluster: warren\n    user: admin\n    namespace: default\n",
            self.token
        );
        if holds(path, &text) { Ok(()) } else { write_private(path, &text) }
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("server", &self.server)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// Returns the address at which a client on this host reaches a server that listens on `ip`.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// Makes a certificate valid from [`FIRST_YEAR`] until [`YEARS`] from now; returns the end in unix time. If the clock
/// shows a time before 2026 ([`THIS_PROGRAM`]), the [`YEARS`] count from 2026: otherwise the certificate could be
/// expired once the clock is corrected.
fn set_validity(params: &mut CertificateParams) -> i64 {
    let now = Timestamp::now().max(Timestamp::constant(THIS_PROGRAM, 0)).to_zoned(TimeZone::UTC);
    let month = u8::try_from(now.month()).unwrap_or(1);
    params.not_before = rcgen::date_time_ymd(FIRST_YEAR, 1, 1);
    // Every month of every year has a day 28.
    params.not_after = rcgen::date_time_ymd(i32::from(now.year() + YEARS), month, 28);
    params.not_after.unix_timestamp()
}

/// Returns whether a file has this text and only its owner may read it.
fn holds(path: &Path, text: &str) -> bool {
    let private = fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o777 == 0o600);
    private && fs::read(path).is_ok_and(|found| found == text.as_bytes())
}

/// Replaces a file as a whole and durably; only its owner may read it.
fn write_private(path: &Path, text: &str) -> Result<(), CredentialsError> {
    let failed = |source| CredentialsError::Write { path: path.to_owned(), source };
    let directory =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let write = || -> io::Result<()> {
        // A temporary file has mode 0600.
        let mut draft = NamedTempFile::new_in(directory)?;
        draft.write_all(text.as_bytes())?;
        draft.as_file().sync_all()?;
        draft.persist(path)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(failed)
}

#[cfg(test)]
mod tests;
