//! Chooses the certificates to renew.

use jiff::{ToSpan, civil::Date};
use x509_parser::prelude::{GeneralName, X509Certificate};

use super::{
    Authority, AuthorityError, HostNames,
    authority::{last_day, with_certificate},
};

/// What `renew` does with a certificate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// Expires soon: issue it again for these names.
    Due(HostNames),
    /// Valid until this day, which is far enough away.
    Later(Date),
    /// Another authority signed it.
    Foreign,
    /// Its subjectAltName has no DNS name.
    Nameless,
}

/// Decides about the certificate (PEM) in the file of `node`. It is due if it expires at most `within` days after
/// `today`.
pub(crate) fn classify(
    node: &str,
    pem: &str,
    authority: &Authority,
    today: Date,
    within: i64,
) -> Result<Renewal, AuthorityError> {
    with_certificate(pem, |certificate| {
        let (expires, names) = (last_day(certificate), dns_names(certificate));
        if certificate.issuer().as_raw() != authority.subject {
            Renewal::Foreign
        } else if names.is_empty() {
            Renewal::Nameless
        } else if expires > today.saturating_add(within.min(MOST).days()) {
            Renewal::Later(expires)
        } else {
            Renewal::Due(HostNames { node: node.to_owned(), names })
        }
    })
}

/// Most days to look ahead: longer than any certificate is valid, and short enough for a calendar.
const MOST: i64 = 100_000;

fn dns_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let names = alternatives.map(|found| &found.value.general_names).into_iter().flatten();
    let dns = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    dns.collect()
}
