//! The node's addresses in Lustre's network, as `lctl list_nids` tells them (lctl(8)): one a line.

use std::time::Duration;

use log::debug;

use crate::linux::cmd::Cmd;

/// Empty on a node without Lustre, and while its network is down; an address reported before may still be right.
pub(super) fn nids(deadline: Duration) -> Vec<String> {
    match Cmd::new(["lctl", "list_nids"]).output(deadline) {
        Ok(output) => understand(&String::from_utf8_lossy(&output)),
        Err(error) => {
            debug!("this node has no LNet address: {error}");
            Vec::new()
        }
    }
}

/// Skips the node's loopback address (`0@lo`).
fn understand(text: &str) -> Vec<String> {
    let is_for_others = |nid: &&str| nid.split_once('@').is_some_and(|(_, net)| net != "lo");
    text.lines().map(str::trim).filter(is_for_others).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As guides to Lustre on virtual machines and on InfiniBand show it.
    #[test]
    fn addresses_come_in_their_order_without_the_loopback() {
        assert_eq!(understand("10.73.20.11@tcp\n"), ["10.73.20.11@tcp"]);
        assert_eq!(
            understand("0@lo\n172.31.241.10@kfi\n10.0.2.15@tcp\n"),
            ["172.31.241.10@kfi", "10.0.2.15@tcp"]
        );
        assert!(understand("").is_empty());
        assert!(understand("IOC_LIBCFS_GET_NI error 100: Network is down\n").is_empty());
    }

    #[test]
    fn a_node_without_lustre_has_none_and_says_nothing() {
        assert!(nids(Duration::from_secs(60)).is_empty());
    }
}
