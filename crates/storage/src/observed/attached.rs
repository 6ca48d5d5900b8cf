//! Who reaches a namespace, as the drive tells.

use std::fmt;

use crate::desired::{Access, Endpoint, NodeName};

/// A host that a namespace is attached to.
///
/// Who gets access is written in the SystemConfiguration and may change after it was given: then the name is that of the host
/// which was meant, and the endpoint tells which one it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attached {
    /// Where it is plugged in. File drives have no places: there a host is known by its name alone.
    pub endpoint: Option<Endpoint>,
    /// What it was called when it was given access, or its place when nobody wrote that down. No two that a namespace is attached
    /// to have one name.
    pub node: NodeName,
}

impl Attached {
    /// Whether it is the host that `access` means, whatever it was called.
    #[must_use]
    pub fn is_at(&self, access: &Access) -> bool {
        self.endpoint.map_or(self.node == access.node, |endpoint| endpoint == access.endpoint)
    }

    /// Whether it is that host and has its name.
    #[must_use]
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
