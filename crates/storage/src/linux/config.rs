//! How a real node is configured.

use std::{path::PathBuf, time::Duration};

use crate::desired::{AllowedRoots, NodeName};

/// Configuration of a real node.
#[derive(Debug, Clone)]
pub struct LinuxConfig {
    pub drives: DriveConfig,
    pub roots: AllowedRoots,
    /// Directory of the hook records; root's own.
    pub state: PathBuf,
    /// Deadline of a site's command, after which its process group is killed.
    pub command_deadline: Duration,
    /// Deadline of mount(2) and umount(2), after which their child is abandoned.
    pub mount_deadline: Duration,
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
