//! The agent's configuration of the node: its name, its side of the PCIe switch, and its mount roots.

use std::path::PathBuf;

use crate::volumes::Volumes;
use storage::desired::{AllowedRoots, MountPoint, MountPointError, NodeName};

/// The node's side of the PCIe switch. It decides which command lines of a profile apply, and whether the
/// node has index trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A compute node: `computeCommands` apply, and there are no index trees.
    Compute,
    /// A rabbit node: `rabbitCommands` apply, and there are index trees.
    Rabbit,
}

/// A directory beneath which the agent shows every index tree a second time, as bind mounts named `node-<k>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRoot(AllowedRoots);

impl IndexRoot {
    pub fn new(path: PathBuf) -> Result<Self, MountPointError> {
        AllowedRoots::new([path]).map(Self)
    }

    pub fn tree(&self, name: &str) -> Result<MountPoint, MountPointError> {
        self.beneath_index_root(name)
    }

    /// Returns the path of the bind mount of allocation `index` in the tree called `name`.
    pub fn bind(&self, name: &str, index: u32) -> Result<MountPoint, MountPointError> {
        self.beneath_index_root(&format!("{name}/node-{index}"))
    }

    fn beneath_index_root(&self, path: &str) -> Result<MountPoint, MountPointError> {
        MountPoint::parse(&format!("{}/{path}", self.0), &self.0)
    }
}

/// The configuration of a node that [`crate::desired()`] needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The node's name. It is also the name of the only Kubernetes namespace on whose objects the agent works.
    pub node: NodeName,
    pub side: Side,
    /// Directories beneath which objects may mount.
    pub roots: AllowedRoots,
    /// Directory beneath which the node shows its index trees a second time; `None` to show them only once.
    pub index_root: Option<IndexRoot>,
    pub volumes: Volumes,
}
