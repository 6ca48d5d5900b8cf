//! Warns before and after nodes' certificates expire. Pure.

use jiff::Timestamp;

/// Time before a certificate's expiry from which the coordinator warns, in seconds.
const WARNING_PERIOD: i64 = 14 * 24 * 3600;

/// Returns a warning about a certificate that has expired or is about to; else `None`. An open connection survives the
/// expiry of its certificate.
pub(super) fn expiry_warning(connected: bool, expires: i64, now: i64) -> Option<String> {
    let at = Timestamp::from_second(expires).map(|at| at.to_string()).unwrap_or_default();
    match (connected, expires - now) {
        (false, ..=0) => Some(format!(
            "the certificate with which the node connected last expired at {at}: the node cannot connect before it has a new certificate"
        )),
        (true, ..=0) => Some(format!(
            "its certificate expired at {at}: once this connection ends, the node cannot connect before it has a new certificate"
        )),
        (true, 1..=WARNING_PERIOD) => {
            Some(format!("its certificate expires at {at}: renew it on the node"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_certificates_are_reported_for_all_nodes_and_soon_expiring_ones_for_connected_nodes()
    {
        let now = 1_800_000_000;
        let warning =
            |connected, left| expiry_warning(connected, now + left, now).unwrap_or_default();
        assert!(warning(false, 0).contains("connected last expired at 2027-01-15T08:00:00Z"));
        assert!(warning(true, -1).contains("once this connection ends"));
        assert!(warning(true, WARNING_PERIOD).contains("renew it on the node"));
        assert_eq!(warning(true, WARNING_PERIOD + 1), "");
        assert_eq!(
            warning(false, WARNING_PERIOD),
            "",
            "the certificate does not prevent the node from connecting"
        );
    }
}
