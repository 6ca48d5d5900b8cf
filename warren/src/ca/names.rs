//! Names of hosts in certificates and of their files.

use std::collections::BTreeMap;

use thiserror::Error;

use super::AUTHORITY;

/// Longest name of a host in bytes, and longest label between its dots (RFC 1035, 2.3.4).
const LONGEST: usize = 253;
const LONGEST_LABEL: usize = 63;

/// A host that cannot get a certificate.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum CheckHostError {
    #[error(
        "HOSTLIST: {0:?} is no host name: write letters, digits, - and _, in at most 63 between dots"
    )]
    Malformed(String),
    #[error(
        "HOSTLIST: the files of a host {0:?} would be those of the authority: give the host another name"
    )]
    Reserved(String),
    #[error("HOSTLIST: {first} and {second} have the same node name {node}: name each node once")]
    Same { node: String, first: String, second: String },
}

/// The names of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostNames {
    /// Name up to the first dot: the node's name in the SystemConfiguration, and that of its files.
    pub node: String,
    /// DNS names in the certificate's subjectAltName; the first is `node`.
    pub names: Vec<String>,
}

/// Returns the names of hosts as an operator wrote them.
pub(crate) fn named_hosts(hosts: &[String]) -> Result<Vec<HostNames>, CheckHostError> {
    let mut known = BTreeMap::new();
    let mut named = Vec::new();
    for host in hosts {
        let names = host_names(host)?;
        if let Some(first) = known.insert(names.node.clone(), host) {
            let (first, second) = (first.clone(), host.clone());
            return Err(CheckHostError::Same { node: names.node, first, second });
        }
        named.push(names);
    }
    Ok(named)
}

fn host_names(host: &str) -> Result<HostNames, CheckHostError> {
    if host.len() > LONGEST || !host.split('.').all(is_label) {
        return Err(CheckHostError::Malformed(host.to_owned()));
    }
    let node = host.split('.').next().unwrap_or(host).to_owned();
    if node == AUTHORITY {
        return Err(CheckHostError::Reserved(host.to_owned()));
    }
    let full = (node != host).then(|| host.to_owned());
    Ok(HostNames { names: std::iter::once(node.clone()).chain(full).collect(), node })
}

fn is_label(label: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=LONGEST_LABEL).contains(&label.len())
        && !label.starts_with('-')
        && label.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_its_node_name_and_its_full_name() {
        for (host, names) in
            [("rabbit-1", &["rabbit-1"][..]), ("c_1.hpc.example", &["c_1", "c_1.hpc.example"])]
        {
            let named = named_hosts(&[host.to_owned()]).unwrap();
            assert_eq!(named[0].node, names[0]);
            assert_eq!(named[0].names, names);
        }
    }

    #[test]
    fn refuses_names_that_are_no_hosts_and_names_that_share_files() {
        let long = "a".repeat(64);
        for host in ["", "../x", "a/b", "a b", "a..b", ".a", "-a", "a\n", "ä", &long] {
            let refused = named_hosts(&[host.to_owned()]).unwrap_err();
            assert_eq!(refused, CheckHostError::Malformed(host.to_owned()));
        }
        let refused = |hosts: &[&str]| {
            let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
            named_hosts(&hosts).unwrap_err().to_string()
        };
        assert!(refused(&["ca.hpc"]).contains("those of the authority"));
        assert!(refused(&["a.x", "b", "a.y"]).contains("a.x and a.y have the same node name a"));
    }
}
