//! Configuration of a real node.

use std::{path::PathBuf, time::Duration};

use storage::desired::{AllowedRoots, NodeName};

/// Configuration of a real node, from the agent's command line.
#[derive(Debug, Clone)]
pub struct LinuxConfig {
    pub drives: DriveConfig,
    pub roots: AllowedRoots,
    /// Directory of the agent's records (hooks, ledgers of drives), which only root can write.
    pub state: PathBuf,
    /// Deadline of a site's command, after which its process group is killed.
    pub command_deadline: Duration,
    /// Deadline of mount(2) and umount(2). After it, the agent no longer waits for the child that made the call.
    pub mount_deadline: Duration,
    pub lustre_unmount: LustreUnmount,
}

/// How to unmount a Lustre client. A client whose servers do not answer ends its unmount only after each of its
/// timeouts has passed at least once, so the unmount needs a longer deadline than others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LustreUnmount {
    /// Deadline of the unmount, used in place of [`LinuxConfig::mount_deadline`]. Also replaces the command deadline if
    /// the command deadline is shorter.
    pub deadline: Duration,
    /// Whether to unmount by force (umount2(2), `MNT_FORCE`) after the deadline: data that no server has received
    /// by then is lost.
    pub force: bool,
}

impl Default for LustreUnmount {
    /// 180 s: unmounting a client of a frozen rabbit was seen to take 103 s.
    fn default() -> Self {
        Self { deadline: Duration::from_secs(180), force: false }
    }
}

/// The source of the node's namespaces.
#[derive(Debug, Clone)]
pub enum DriveConfig {
    /// NVMe drives whose physical functions this node has, or reaches through its PCIe switches: a rabbit.
    Nvme {
        node: NodeName,
        /// Parts of the model numbers of the drives that Warren may use; empty means all drives.
        models: Vec<String>,
    },
    /// Namespaces of NVMe drives that another node manages: a compute.
    NvmeNamespaces,
    /// Simulated drives in files, for nodes that are simulated on one machine.
    File {
        /// The directory with the drives' files (the pool), shared by all simulated nodes on this machine.
        pool: PathBuf,
        /// The name of this node, which sees only namespaces that are attached to it.
        node: NodeName,
        /// Number of drives to create in a new pool; 0 on a node that only uses namespaces.
        drives: u16,
        /// Size of each drive in bytes.
        drive_capacity: u64,
    },
}
