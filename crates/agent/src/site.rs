//! The node as the objects see it: its name, its side of the PCIe switch, and where mounting is allowed.

use std::path::PathBuf;

use crate::volumes::Volumes;
use storage::desired::{AllowedRoots, MountPoint, MountPointError, NodeName};

/// Which of a profile's command lines apply, and whether index trees are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A compute node: `computeCommands`, no trees.
    Compute,
    /// A rabbit node: `rabbitCommands`, trees.
    Rabbit,
}

/// Beneath it every index tree is shown once more as bind mounts named `node-<k>`, whatever the mounts themselves are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRoot(AllowedRoots);

impl IndexRoot {
    /// An index root from the configuration.
    ///
    /// # Errors
    /// When it is relative, `/`, or has `..`.
    pub fn new(path: PathBuf) -> Result<Self, MountPointError> {
        AllowedRoots::new([path]).map(Self)
    }

    /// The tree called `name` beneath it.
    ///
    /// # Errors
    /// When `name` is not a path strictly beneath the root.
    pub fn tree(&self, name: &str) -> Result<MountPoint, MountPointError> {
        self.below(&[name])
    }

    /// The bind mount of allocation `index` in the tree called `name`.
    ///
    /// # Errors
    /// As [`Self::tree`].
    pub fn bind(&self, name: &str, index: u32) -> Result<MountPoint, MountPointError> {
        self.below(&[name, &format!("node-{index}")])
    }

    fn below(&self, names: &[&str]) -> Result<MountPoint, MountPointError> {
        let mut path = self.0.to_string();
        for name in names {
            path = format!("{path}/{name}");
        }
        MountPoint::parse(&path, &self.0)
    }
}

/// A node as [`crate::desired()`] needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The node's name, which is the only namespace whose objects it acts on.
    pub node: NodeName,
    /// Compute or rabbit.
    pub side: Side,
    /// Where objects may mount.
    pub roots: AllowedRoots,
    /// Where trees of bind mounts are shown as well; rabbits only.
    pub index_root: Option<IndexRoot>,
    /// What lies between namespaces and file systems.
    pub volumes: Volumes,
}
