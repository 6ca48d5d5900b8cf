//! Creates an authority, and signs certificates of hosts.

use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SerialNumber,
};
use thiserror::Error;
use uuid::Uuid;
use x509_parser::{error::X509Error, pem::parse_x509_pem, prelude::X509Certificate};

use super::HostNames;

/// Days for which an authority is valid: 10 years.
const AUTHORITY_DAYS: u16 = 3653;

/// The files of an authority cannot be used, or a certificate cannot be made.
#[derive(Debug, Error)]
pub(crate) enum AuthorityError {
    #[error("the certificate is no PEM of an X.509 certificate")]
    Pem,
    #[error("the certificate cannot be read")]
    Certificate(#[source] X509Error),
    #[error("the key does not belong to the certificate")]
    OtherKey,
    #[error("the certificate is not that of an authority")]
    NoAuthority,
    #[error("the authority expired on {0}")]
    Expired(Date),
    #[error("make a certificate")]
    Make(#[from] rcgen::Error),
}

/// A certificate and its private key, as PEM.
#[derive(Clone, Debug)]
pub(crate) struct Certified {
    pub certificate: String,
    pub key: String,
    /// First day, in UTC, on which the certificate is no longer valid.
    pub expires: Date,
}

/// The days between which a certificate is valid, in UTC. `until` is the first day on which the certificate is no longer
/// valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    from: Date,
    pub until: Date,
}

impl Validity {
    /// Returns a validity of at least `days` from `now`. It begins on the day before: clocks of hosts may be behind.
    pub(crate) fn new(now: Timestamp, days: u16) -> Self {
        let today = day(now);
        let shift = |days: i64| today.saturating_add(days.days());
        Self { from: shift(-1), until: shift(i64::from(days) + 1) }
    }
}

/// Returns the day of a time in UTC.
pub(crate) fn day(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

/// An authority that can sign.
#[derive(Debug)]
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Distinguished name in DER: the `issuer` of each certificate that the authority signed.
    pub subject: Vec<u8>,
    /// First day on which the authority is no longer valid.
    pub expires: Date,
}

impl Authority {
    /// Creates the certificate and key of a new authority. No two authorities have the same name.
    pub(crate) fn create(now: Timestamp) -> Result<Certified, AuthorityError> {
        let validity = Validity::new(now, AUTHORITY_DAYS);
        let mut params = parameters(Vec::new(), validity)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let name = format!("Warren authority {}", Uuid::new_v4().simple());
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Certified { certificate, key: key.serialize_pem(), expires: validity.until })
    }

    /// Reads an authority. Fails if it is no authority, has expired by `now`, or has another key.
    pub(crate) fn read(
        certificate: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Self, AuthorityError> {
        let pair = KeyPair::from_pem(key)?;
        let (subject, expires) = with_certificate(certificate, |found| {
            if !found.is_ca() {
                return Err(AuthorityError::NoAuthority);
            }
            if *found.public_key().subject_public_key.data != *pair.der_bytes() {
                return Err(AuthorityError::OtherKey);
            }
            Ok((found.subject().as_raw().to_vec(), last_day(found)))
        })??;
        if expires <= day(now) {
            return Err(AuthorityError::Expired(expires));
        }
        let issuer = Issuer::from_ca_cert_pem(certificate, pair)?;
        Ok(Self { issuer, subject, expires })
    }

    /// Signs a certificate for a host, which agents, coordinators and operators can use; with `key` (PEM) for that key,
    /// otherwise for a new one. The certificate is valid at most as long as the authority.
    pub(crate) fn sign(
        &self,
        host: &HostNames,
        key: Option<&str>,
        validity: Validity,
    ) -> Result<Certified, AuthorityError> {
        let until = validity.until.min(self.expires);
        let mut params = parameters(host.names.clone(), Validity { until, ..validity })?;
        params.distinguished_name.push(DnType::CommonName, host.node.as_str());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let pair = key.map_or_else(KeyPair::generate, KeyPair::from_pem)?;
        let certificate = params.signed_by(&pair, &self.issuer)?.pem();
        let key = key.map_or_else(|| pair.serialize_pem(), str::to_owned);
        Ok(Certified { certificate, key, expires: until })
    }
}

fn parameters(names: Vec<String>, validity: Validity) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    let midnight = |date: Date| {
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        rcgen::date_time_ymd(date.year().into(), part(date.month()), part(date.day()))
    };
    params.not_before = midnight(validity.from);
    params.not_after = midnight(validity.until);
    // rcgen would derive the serial number from the key: a renewed certificate would have that of its predecessor.
    params.serial_number = Some(SerialNumber::from_slice(Uuid::new_v4().as_bytes()));
    Ok(params)
}

/// Calls a function with the first certificate of a PEM text.
pub(super) fn with_certificate<T>(
    pem: &str,
    read: impl FnOnce(&X509Certificate<'_>) -> T,
) -> Result<T, AuthorityError> {
    let (_, pem) = parse_x509_pem(pem.as_bytes()).map_err(|_| AuthorityError::Pem)?;
    let certificate = pem.parse_x509().map_err(|error| match error {
        x509_parser::nom::Err::Error(error) | x509_parser::nom::Err::Failure(error) => {
            AuthorityError::Certificate(error)
        }
        x509_parser::nom::Err::Incomplete(_) => AuthorityError::Pem,
    })?;
    Ok(read(&certificate))
}

/// Returns the day on which a certificate ceases to be valid.
pub(super) fn last_day(certificate: &X509Certificate<'_>) -> Date {
    let seconds = certificate.validity().not_after.timestamp();
    Timestamp::from_second(seconds).map_or(Date::MAX, day)
}

#[cfg(test)]
mod tests;
