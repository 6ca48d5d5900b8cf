//! The hosts that a namespace is attached to.

use std::fmt;

use crate::desired::{Access, Endpoint, NodeName};

/// A host that a namespace is attached to.
///
/// The SystemConfiguration maps nodes to endpoints, and may change later: `node` is the host's name at the time when it
/// got access, and `endpoint` is the port that has the access.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attached {
    /// Port of the host in the chassis; `None` for file drives, where the name alone identifies a host.
    pub endpoint: Option<Endpoint>,
    /// Name of the host when it got access; if no name was recorded, the name of its port. Unique among the
    /// hosts of a namespace.
    pub node: NodeName,
}

impl Attached {
    /// Returns whether this is the host at the endpoint in `access`, whatever its recorded name is.
    pub fn is_at(&self, access: &Access) -> bool {
        self.endpoint.map_or(self.node == access.node, |endpoint| endpoint == access.endpoint)
    }

    /// Returns whether this is the host at the endpoint in `access`, with the name in `access`.
    pub fn is(&self, access: &Access) -> bool {
        self.is_at(access) && self.node == access.node
    }
}

impl From<NodeName> for Attached {
    fn from(node: NodeName) -> Self {
        Self { endpoint: None, node }
    }
}

impl From<Access> for Attached {
    fn from(Access { endpoint, node }: Access) -> Self {
        Self { endpoint: Some(endpoint), node }
    }
}

impl fmt::Display for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.endpoint {
            Some(endpoint) => write!(f, "{} (endpoint {})", self.node, endpoint.number()),
            None => write!(f, "{}", self.node),
        }
    }
}
