//! Reports fenced computes in the NnfNode's status. Does no I/O.

use std::collections::BTreeSet;

use api::nnf_node::{NnfResourceHealth, NnfResourceStatus, NnfServerStatus};
use storage::desired::NodeName;

/// Reports fenced computes as fenced, whatever their other state: central controllers then create no mounts for them.
pub fn mark_fenced(servers: &mut [NnfServerStatus], fenced: &BTreeSet<NodeName>) {
    for server in servers {
        if fenced.iter().any(|node| node.as_str() == server.hostname) {
            server.status = Some(NnfResourceStatus::Fenced);
            server.health = Some(NnfResourceHealth::Critical);
        }
    }
}

#[cfg(test)]
mod tests {
    use api::NnfNodeStatus;

    use super::*;
    use crate::{node::report, samples};

    #[test]
    fn only_the_fenced_compute_is_reported_as_fenced() {
        let mut status = report::status(
            &NnfNodeStatus::default(),
            None,
            &samples::chassis(),
            &crate::health::Judgement::default(),
            0,
            storage::desired::Spread::ONE,
        );
        let before = status.servers.clone();
        mark_fenced(&mut status.servers, &["compute-03".parse().unwrap()].into());
        for (place, (now, before)) in status.servers.iter().zip(&before).enumerate() {
            if place == 7 {
                assert_eq!(
                    (&now.status, &now.health),
                    (&Some(NnfResourceStatus::Fenced), &Some(NnfResourceHealth::Critical))
                );
            } else {
                assert_eq!(now, before);
            }
        }
    }
}
