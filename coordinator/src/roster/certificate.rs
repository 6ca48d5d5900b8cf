//! Warnings about nodes' certificates. Pure.

use jiff::Timestamp;

/// How long before a certificate expires there is a warning, in seconds.
const SOON: i64 = 14 * 24 * 3600;

/// A warning about a certificate that has expired or soon will; `None` while it is valid for long. An open connection outlives its
/// certificate.
pub(super) fn warning(connected: bool, expires: i64, now: i64) -> Option<String> {
    let at = Timestamp::from_second(expires).map(|at| at.to_string()).unwrap_or_default();
    match (connected, expires - now) {
        (false, ..=0) => Some(format!(
            "the certificate with which it connected last expired at {at}: it cannot connect before it has another"
        )),
        (true, ..=0) => Some(format!(
            "its certificate expired at {at}: once this connection ends it cannot connect before it has another"
        )),
        (true, 1..=SOON) => Some(format!("its certificate expires at {at}: renew it on the node")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_warning_whether_or_not_the_node_is_connected() {
        let now = 1_800_000_000;
        let warning = |connected, left| warning(connected, now + left, now).unwrap_or_default();
        assert!(warning(false, 0).contains("connected last expired at 2027-01-15T08:00:00Z"));
        assert!(warning(true, -1).contains("once this connection ends"));
        assert!(warning(true, SOON).contains("renew it on the node"));
        assert_eq!(warning(true, SOON + 1), "");
        assert_eq!(
            warning(false, SOON),
            "",
            "the certificate does not prevent the node from connecting"
        );
    }
}
