//! Reads the node's addresses in Lustre's network from `lctl list_nids` (lctl(8)).

use std::time::Duration;

use log::debug;
use process::Cmd;

/// Returns the node's LNet addresses; none on a node without Lustre, or while Lustre's network is down. An empty result
/// does not prove that an address from an earlier call is wrong.
pub(super) fn nids(deadline: Duration) -> Vec<String> {
    match Cmd::new(["lctl", "list_nids"]).output(deadline) {
        Ok(output) => parse_nids(&String::from_utf8_lossy(&output)),
        Err(error) => {
            debug!("this node has no LNet address: {error}");
            Vec::new()
        }
    }
}

/// Parses the output, which has one address per line, and drops the node's loopback address (`0@lo`).
fn parse_nids(text: &str) -> Vec<String> {
    let is_for_others = |nid: &&str| nid.split_once('@').is_some_and(|(_, net)| net != "lo");
    text.lines().map(str::trim).filter(is_for_others).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outputs are from guides to Lustre on virtual machines and on InfiniBand.
    #[test]
    fn parse_nids_keeps_the_order_and_skips_the_loopback() {
        assert_eq!(parse_nids("10.73.20.11@tcp\n"), ["10.73.20.11@tcp"]);
        assert_eq!(
            parse_nids("0@lo\n172.31.241.10@kfi\n10.0.2.15@tcp\n"),
            ["172.31.241.10@kfi", "10.0.2.15@tcp"]
        );
        assert!(parse_nids("").is_empty());
        assert!(parse_nids("IOC_LIBCFS_GET_NI error 100: Network is down\n").is_empty());
    }

    #[test]
    fn a_node_without_lustre_has_no_nids() {
        assert!(nids(Duration::from_secs(60)).is_empty());
    }
}
