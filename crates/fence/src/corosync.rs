//! Reads the cluster number of a node (corosync.conf(5), `nodelist`).

use storage::desired::NodeName;

/// Returns the node's number; `None` if the file does not name the node, or gives it no number.
///
/// Compares full names first, then the parts before the first dot: a cluster may use shorter names than the API.
pub(super) fn node_id(text: &str, node: &NodeName) -> Option<u32> {
    let nodes = nodes(text);
    let full = |entry: &&Node<'_>| entry.names.contains(&node.as_str());
    let short = |entry: &&Node<'_>| {
        entry.names.iter().any(|name| first_label(name) == first_label(node.as_str()))
    };
    if let Some(found) = nodes.iter().find(full) {
        return found.id;
    }
    let mut found = nodes.iter().filter(short);
    // Two hosts with the same short name are ambiguous.
    let (only, another) = (found.next()?, found.next());
    if another.is_none() { only.id } else { None }
}

#[derive(Debug, Default)]
struct Node<'a> {
    id: Option<u32>,
    names: Vec<&'a str>,
}

fn nodes(text: &str) -> Vec<Node<'_>> {
    let mut nodes = Vec::new();
    let mut sections = Vec::new();
    let mut node = Node::default();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(section) = line.strip_suffix('{') {
            sections.push(section.trim());
            node = Node::default();
        } else if line == "}" {
            if sections == ["nodelist", "node"] {
                nodes.push(std::mem::take(&mut node));
            }
            sections.pop();
        } else if let (true, Some((key, value))) =
            (sections == ["nodelist", "node"], line.split_once(':'))
        {
            match (key.trim(), value.trim()) {
                ("nodeid", value) => node.id = value.parse().ok(),
                ("name" | "ring0_addr", value) => node.names.push(value),
                _ => {}
            }
        }
    }
    nodes
}

fn first_label(name: &str) -> &str {
    name.split_once('.').map_or(name, |(first, _)| first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURATION: &str = r"
# Written by pcs.
totem {
    version: 2
    cluster_name: rabbit-1
    nodeid: 99
}
nodelist {
    node {
        ring0_addr: 10.1.0.1
        name: rabbit-1
        nodeid: 1
    }

    node {
        ring0_addr: compute-01
        nodeid: 2
    }
    node {
        name: compute-02.site
        # nodeid: 7
        nodeid: 3
    }
    node {
        name: twin.a
        nodeid: 4
    }
    node {
        name: twin.b
        nodeid: 5
    }
    node {
        name: numberless
    }
}
quorum {
    provider: corosync_votequorum
}
";

    #[test]
    fn nodes_are_found_by_their_names_in_full_or_short() {
        for (name, id) in [
            ("rabbit-1", Some(1)),
            ("compute-01", Some(2)),
            ("compute-01.other", Some(2)),
            ("compute-02", Some(3)),
            ("twin.b", Some(5)),
            ("twin", None),
            ("numberless", None),
            ("compute-0", None),
            ("compute-011", None),
        ] {
            assert_eq!(node_id(CONFIGURATION, &name.parse().unwrap()), id, "{name}");
        }
        assert_eq!(node_id("", &"rabbit-1".parse().unwrap()), None);
    }
}
