//! What a node's certificate says of its next connection. Pure.

use jiff::Timestamp;

/// So long before a certificate expires an operator hears of it, in seconds.
const SOON: i64 = 14 * 24 * 3600;

/// What is wrong with a certificate, or soon will be; `None` while it is good for long. An open connection outlives it.
pub(super) fn told(connected: bool, expires: i64, now: i64) -> Option<String> {
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
    fn an_expired_certificate_is_told_whether_or_not_the_node_is_connected() {
        let now = 1_800_000_000;
        let told = |connected, left| told(connected, now + left, now).unwrap_or_default();
        assert!(told(false, 0).contains("connected last expired at 2027-01-15T08:00:00Z"));
        assert!(told(true, -1).contains("once this connection ends"));
        assert!(told(true, SOON).contains("renew it on the node"));
        assert_eq!(told(true, SOON + 1), "");
        assert_eq!(told(false, SOON), "", "it is not what keeps the node away");
    }
}
