//! Arguments of the verb `ca`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::{Span, SpanRelativeTo};

use super::workflow::Hosts;

/// Days for which a certificate is valid by default.
const DAYS: u16 = 365;

#[derive(Debug, Subcommand)]
pub(crate) enum CaVerb {
    /// Create an authority, valid for 10 years: ca.crt and ca.key
    Init(Pki),
    /// Issue a certificate and a key to each host: HOST.crt and HOST.key
    ///
    /// The certificate has the host's name up to its first dot and, if it has dots, its full name. It serves agents,
    /// coordinators and operators.
    Issue {
        /// Hosts, as in rabbit-[1-2],compute-[1-4]
        #[arg(required = true, value_name = "HOSTLIST")]
        hosts: Vec<Hosts>,
        #[command(flatten)]
        pki: Pki,
        #[command(flatten)]
        validity: Validity,
        /// Replace certificates and keys that exist
        #[arg(long)]
        again: bool,
    },
    /// Issue certificates that expire soon again, with their names and keys
    Renew {
        #[command(flatten)]
        pki: Pki,
        #[command(flatten)]
        validity: Validity,
        /// Renew certificates that expire within this time, as in 60d
        #[arg(long, value_name = "DURATION", default_value = "60d", value_parser = parse_days)]
        within: i64,
    },
}

/// The directory of an authority.
#[derive(Debug, Args)]
pub(crate) struct Pki {
    /// Directory of certificates and keys
    #[arg(long, value_name = "DIR", default_value = "/etc/warren/pki")]
    pub directory: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Validity {
    /// Days for which a certificate is valid, 1 to 3650; never longer than the authority
    #[arg(long, default_value_t = DAYS, value_parser = clap::value_parser!(u16).range(1..=3650))]
    pub days: u16,
}

/// Parses a time; returns its whole days, rounded up.
fn parse_days(text: &str) -> Result<i64, String> {
    let span: Span =
        text.parse().map_err(|_| format!("{text:?} is no time: write days, as in 60d"))?;
    let days = span.total((jiff::Unit::Day, SpanRelativeTo::days_are_24_hours()));
    let days = days.map_err(|error| format!("{text:?}: {error}: write days, as in 60d"))?;
    if days < 0.0 {
        return Err(format!("{text:?} is less than no time: write days, as in 60d"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "jiff's spans have fewer than 2^53 days")]
    Ok(days.ceil() as i64)
}
