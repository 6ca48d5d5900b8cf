//! Configuration of a real node.

use std::{path::PathBuf, time::Duration};

use crate::desired::{AllowedRoots, NodeName};

/// Configuration of a real node, from the agent's command line.
#[derive(Debug, Clone)]
pub struct LinuxConfig {
    pub drives: DriveConfig,
    pub roots: AllowedRoots,
    /// Directory of the agent's records (hooks, ledgers of drives), which only root can write.
    pub state: PathBuf,
    /// Deadline of a site's command, after which its process group is killed.
    pub command_deadline: Duration,
    /// Deadline of mount(2) and umount(2), after which their child is abandoned.
    pub mount_deadline: Duration,
    pub lustre_unmount: LustreUnmount,
}

/// How a Lustre client is unmounted: it waits for servers that do not answer, at least once through
/// each of its timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LustreUnmount {
    /// Replaces [`LinuxConfig::mount_deadline`], and the command deadline where that is shorter.
    pub deadline: Duration,
    /// Whether to unmount by force after that (umount2(2), `MNT_FORCE`): data that no server has is lost.
    pub force: bool,
}

impl Default for LustreUnmount {
    /// 180 s: a client of a frozen rabbit was seen to take 103 s.
    fn default() -> Self {
        Self { deadline: Duration::from_secs(180), force: false }
    }
}

/// Where namespaces come from.
#[derive(Debug, Clone)]
pub enum DriveConfig {
    /// NVMe drives whose physical functions this node has: a rabbit.
    Nvme {
        node: NodeName,
        /// Parts of the model numbers of usable drives; empty means all.
        models: Vec<String>,
        /// File that records every exchange with PCIe switches, when wanted.
        record: Option<PathBuf>,
    },
    /// Namespaces of NVMe drives that another node manages: a compute.
    NvmeNamespaces,
    File {
        /// The pool's directory, shared by all nodes on this machine.
        pool: PathBuf,
        /// The name of this node: it sees only namespaces that are attached to it.
        node: NodeName,
        /// How many drives to create in a new pool; 0 on a node that only uses namespaces.
        drives: u16,
        /// Size of each drive in bytes.
        drive_capacity: u64,
    },
}
