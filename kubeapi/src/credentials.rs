//! What proves the server to its clients and the clients to the server: a CA of its own, a certificate, a bearer token.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{Timestamp, ToSpan, Zoned, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;
use uuid::Uuid;

const FILE: &str = "credentials.json";
/// Years that the CA is good for, and the server's certificate.
const YEARS: i16 = 10;
/// A certificate with less than this left is replaced at start, in seconds: two years, so that no run outlives it.
const RENEW: i64 = 2 * 365 * 24 * 3600;

/// Why there are no credentials.
#[derive(Debug, Error)]
pub enum CredentialsError {
    #[error("{} cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is damaged; remove it to have new credentials made", path.display())]
    Parse { path: PathBuf, source: serde_json::Error },
    #[error("{} cannot be written", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("a certificate cannot be made")]
    MakeCertificate(#[from] rcgen::Error),
}

/// The server's identity. `Debug` shows no secret.
#[derive(Clone, Serialize, Deserialize)]
pub struct Credentials {
    server: SocketAddr,
    token: String,
    ca_certificate: String,
    ca_key: String,
    certificate: String,
    key: String,
    /// Unix time at which CA and certificate expire.
    ca_expires: i64,
    expires: i64,
}

impl Credentials {
    /// Reads the credentials kept in `directory`, or makes them. They stay the same across restarts; a certificate that is for
    /// another address, or that expires within two years, is replaced under the same CA, so that kubeconfig files stay good.
    ///
    /// # Errors
    /// [`CredentialsError`] when the file cannot be read or written; a damaged file is left alone.
    pub fn load_or_create(directory: &Path, server: SocketAddr) -> Result<Self, CredentialsError> {
        let path = directory.join(FILE);
        let now = Timestamp::now().as_second();
        let credentials = match fs::read(&path) {
            Ok(bytes) => {
                let kept: Self = serde_json::from_slice(&bytes)
                    .map_err(|source| CredentialsError::Parse { path: path.clone(), source })?;
                if kept.server == server && kept.expires - now > RENEW {
                    return Ok(kept);
                }
                if kept.ca_expires - now > RENEW {
                    kept.reissued(server)?
                } else {
                    Self::create(server)?
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
        .reissued(server)
    }

    /// The same CA and token with a new certificate for `server`.
    fn reissued(self, server: SocketAddr) -> Result<Self, CredentialsError> {
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

    /// Writes a kubeconfig with which kubectl reaches this server: mode 0600, replaced as a whole.
    ///
    /// # Errors
    /// [`CredentialsError::Write`].
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
        write_private(path, &text)
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

/// The address under which a client on this host finds a server that listens on `ip`.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// Valid from yesterday, for clocks that differ; answers when it ends, in unix time.
fn set_validity(params: &mut CertificateParams) -> i64 {
    let today = Timestamp::now().to_zoned(TimeZone::UTC);
    let day = |at: &Zoned| {
        let month = u8::try_from(at.month()).unwrap_or(1);
        // A day that every month has, so that ten years on it still exists.
        rcgen::date_time_ymd(
            i32::from(at.year()),
            month,
            u8::try_from(at.day()).unwrap_or(1).min(28),
        )
    };
    let yesterday = today.checked_sub(1.day()).unwrap_or_else(|_| today.clone());
    let end = today.checked_add(i64::from(YEARS).years()).unwrap_or_else(|_| today.clone());
    params.not_before = day(&yesterday);
    params.not_after = day(&end);
    params.not_after.unix_timestamp()
}

/// Replaces a file that only its owner may read, as a whole and durably.
fn write_private(path: &Path, text: &str) -> Result<(), CredentialsError> {
    let failed = |source| CredentialsError::Write { path: path.to_owned(), source };
    let directory =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", Uuid::new_v4().simple()));
    let draft = directory.join(name);
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|error| {
        drop(fs::remove_file(&draft));
        failed(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)
    }

    #[test]
    fn credentials_outlive_a_restart_and_follow_the_address() {
        let directory = tempfile::tempdir().unwrap();
        let first = Credentials::load_or_create(directory.path(), address(1)).unwrap();
        let again = Credentials::load_or_create(directory.path(), address(1)).unwrap();
        assert_eq!((&first.token, &first.certificate), (&again.token, &again.certificate));
        let moved = Credentials::load_or_create(directory.path(), address(2)).unwrap();
        assert_eq!((&first.token, &first.ca_certificate), (&moved.token, &moved.ca_certificate));
        assert_ne!(first.certificate, moved.certificate);
    }

    #[test]
    fn only_the_owner_reads_them() {
        let directory = tempfile::tempdir().unwrap();
        let credentials = Credentials::load_or_create(directory.path(), address(1)).unwrap();
        let kubeconfig = directory.path().join("sub/kubeconfig");
        credentials.write_kubeconfig(&kubeconfig).unwrap();
        for path in [directory.path().join(FILE), kubeconfig] {
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "{}", path.display());
        }
        assert!(!format!("{credentials:?}").contains(&credentials.token));
    }

    #[test]
    fn a_damaged_file_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(FILE), "{").unwrap();
        let error = Credentials::load_or_create(directory.path(), address(1)).unwrap_err();
        assert!(matches!(error, CredentialsError::Parse { .. }));
        assert_eq!(fs::read(directory.path().join(FILE)).unwrap(), b"{");
    }
}
