use super::cluster::Fencing;

/// Node id of the rabbit in the corosync cluster, if the lab has only one rabbit. The node id of a compute is the
/// number of its controller on the drives: compute 0 has 2.
pub(super) const RABBIT: u8 = 1;

/// The members of a cluster that shares locks.
#[derive(Debug)]
pub(super) struct Ring {
    /// Name of each node, the rabbit first, and the last number of the node's address, which is also its node id.
    pub(super) nodes: Vec<(String, u8)>,
}

impl Ring {
    /// Returns the cluster of a rabbit and `computes` computes, if the rabbit is the only one in the lab.
    pub(super) fn with_computes(computes: u8) -> Self {
        let rabbit = ("rabbit".to_owned(), RABBIT);
        let computes =
            (0..computes).map(|compute| (format!("compute-{compute}"), RABBIT + 1 + compute));
        Self { nodes: [rabbit].into_iter().chain(computes).collect() }
    }

    /// Returns the cluster of a rabbit and its only compute, where several such pairs share a network. Pairs
    /// are numbered from 1.
    pub(super) fn for_pair(pair: u8) -> Self {
        let rabbit = (format!("rabbit-{pair}"), 2 * pair - 1);
        let compute = (format!("compute-{pair}"), 2 * pair);
        Self { nodes: vec![rabbit, compute] }
    }

    /// Returns the rabbit's name, which is also the name of the cluster: the rabbit writes it into each
    /// GFS2 that it makes.
    pub(super) fn rabbit(&self) -> &str {
        &self.nodes[0].0
    }

    /// Returns the scripts, step by step, with which a node joins the cluster.
    pub(super) fn joining(&self, fencing: Fencing) -> [String; 2] {
        [self.form(fencing), self.start_locking()]
    }

    /// Returns the corosync.conf of a rabbit's cluster. As at the sites, the rabbit has 17 votes and
    /// each compute has one.
    fn corosync_conf(&self) -> String {
        let node = |(place, (name, host)): (usize, &(String, u8))| {
            let votes = if place == 0 { 17 } else { 1 };
            format!(
                "  node {{\n    ring0_addr: 192.168.77.{host}\n    name: {name}\n    nodeid: {host}\n    quorum_votes: {votes}\n  }}\n"
            )
        };
        let nodes: String = self.nodes.iter().enumerate().map(node).collect();
        let name = self.rabbit();
        // The token time-out is long because the guests are emulated, on a host that has other work.
        format!(
            "totem {{\n  version: 2\n  cluster_name: {name}\n  transport: udpu\n  crypto_cipher: none\n  crypto_hash: none\n  token: 8000\n}}\n\
             quorum {{\n  provider: corosync_votequorum\n}}\n\
             logging {{\n  to_syslog: no\n  to_stderr: no\n  to_logfile: yes\n  logfile: /var/log/corosync.log\n}}\n\
             nodelist {{\n{nodes}}}\n"
        )
    }

    fn form(&self, fencing: Fencing) -> String {
        let (nodes, fencing) = (self.nodes.len(), u8::from(fencing == Fencing::Acknowledged));
        format!(
            "{WAIT}\n\
             mkdir -p /etc/corosync /var/lib/corosync /etc/dlm /var/log/dlm_controld\n\
             cat > /etc/corosync/corosync.conf <<'END'\n{}END\n\
             printf 'enable_fencing={fencing}\\nenable_startup_fencing=0\\n' > /etc/dlm/dlm.conf\n\
             echo 'global {{ use_lvmlockd = 1 }}' > /etc/lvm/lvmlocal.conf\n\
             modprobe -a dlm gfs2 dm_mod\n\
             corosync\n\
             members() {{ corosync-quorumtool -s | grep -q '^Quorate: *Yes' && corosync-quorumtool -s | grep -q '^Nodes: *{nodes}$'; }}\n\
             wait_for members",
            self.corosync_conf()
        )
    }

    fn start_locking(&self) -> String {
        format!(
            "{WAIT}\n\
             dlm_controld\n\
             members() {{ [ \"$(dlm_tool status | grep -c '^node ')\" = {} ]; }}\n\
             wait_for members\n\
             lvmlockd -g dlm\n\
             answers() {{ lvmlockctl -i; }}\n\
             wait_for answers",
            self.nodes.len()
        )
    }
}

/// Shell function `wait_for CONDITION`: waits a minute and a half at most.
const WAIT: &str = r#"
wait_for() {
    for try in $(seq 300); do
        "$1" >/dev/null 2>&1 && return
        sleep 0.3
    done
    echo "timed out while waiting for $1" >&2
    "$1"
}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rabbit_alone_is_quorate_and_its_computes_without_the_rabbit_are_not() {
        let conf = Ring::with_computes(16).corosync_conf();
        let votes = |value: &str| conf.matches(&format!("quorum_votes: {value}\n")).count();
        assert_eq!((votes("17"), votes("1")), (1, 16));
        assert!(conf.contains("name: compute-15\n    nodeid: 17\n"), "{conf}");
    }

    #[test]
    fn pairs_on_one_network_are_clusters_with_names_and_addresses_of_their_own() {
        let conf = Ring::for_pair(2).corosync_conf();
        for part in [
            "cluster_name: rabbit-2\n",
            "ring0_addr: 192.168.77.3\n    name: rabbit-2\n",
            "ring0_addr: 192.168.77.4\n    name: compute-2\n",
        ] {
            assert!(conf.contains(part), "no {part:?} in {conf}");
        }
        assert!(!conf.contains("192.168.77.1\n"), "{conf}");
    }
}
