//! The hosts that a drive attached a namespace to.

use std::fmt;

use crate::desired::{Access, Endpoint, NodeName};

/// A host that a namespace is attached to.
///
/// The SystemConfiguration says who gets access and may change afterwards: `node` is then the host that was meant, and
/// `endpoint` the one that has the access.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attached {
    /// Its port in the chassis. File drives have none: there the name alone identifies a host.
    pub endpoint: Option<Endpoint>,
    /// Its name when it got access; the name of its port when none was recorded. Unique among the hosts of a namespace.
    pub node: NodeName,
}

impl Attached {
    /// Whether it is the host that `access` means, whatever its name was.
    pub fn is_at(&self, access: &Access) -> bool {
        self.endpoint.map_or(self.node == access.node, |endpoint| endpoint == access.endpoint)
    }

    /// Whether it is that host and has its name.
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
