//! Names the objects that the agent reconciles.

use std::fmt;

use api::names::NNF_NODE;

/// An object that the agent reconciles.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Node,
    BlockStorage(String),
    NodeStorage(String),
    ClientMount(String),
    /// A ClientMount, by uid, that disappeared while it carried the agent's finalizer: its mounts must be removed.
    Vanished(String),
    LustreMgt(String),
    Containers(String),
    Movement(String),
}

impl Key {
    /// Returns the kind of the object.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Node => "NnfNode",
            Self::BlockStorage(_) => "NnfNodeBlockStorage",
            Self::NodeStorage(_) => "NnfNodeStorage",
            Self::ClientMount(_) | Self::Vanished(_) => "ClientMount",
            Self::LustreMgt(_) => "NnfLustreMGT",
            Self::Containers(_) => "NodeContainers",
            Self::Movement(_) => "NnfDataMovement",
        }
    }

    /// Returns the name of the object; the uid of a ClientMount that disappeared.
    pub fn name(&self) -> &str {
        match self {
            Self::Node => NNF_NODE,
            Self::BlockStorage(name)
            | Self::NodeStorage(name)
            | Self::ClientMount(name)
            | Self::Vanished(name)
            | Self::LustreMgt(name)
            | Self::Containers(name)
            | Self::Movement(name) => name,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = if matches!(self, Self::Vanished(_)) { "with uid " } else { "" };
        write!(f, "{} {with}{}", self.kind(), self.name())
    }
}
