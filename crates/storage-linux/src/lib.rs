//! A real Linux node as a [`Host`]: observed and changed through the kernel, LVM, ZFS and its drives. The other
//! implementation of [`Host`] is `storage::fake`, a simulated node in memory.
//!
//! # Guarantees
//! * Only `mount` mounts and unmounts. Programs and calls that may hang run by crate `process`.
//! * An observation of a real node returns within twice [`LinuxConfig::mount_deadline`], or fails and names the
//!   place in the kernel where it hangs. A dead device or server therefore delays only the unit that uses it. Mounts
//!   are read with `AT_STATX_DONT_SYNC` (statx(2)), so that a mount whose server does not answer can be observed and
//!   unmounted.
//!
//! # Caveats
//! * An observation that hangs blocks one thread until the kernel returns; until then the same unit is not observed
//!   again. A process with such a thread cannot end entirely, not even by SIGKILL.
//! * mount(2), umount(2), chown(2), wiping and detaching run in a child process with a deadline, and commands in a
//!   process group with a deadline. The reads between these calls are local and have no deadline: openat2(2) beneath
//!   the root, reads of the mount table, and the read of a device after its mkfs. A step that walks to a mount point of
//!   Warren's waits for a server only if another program has mounted NFS or 9p on that path.
//! * When an agent is killed, the kernel kills the program that the agent started, but not the children of that
//!   program. If a site's line has several commands, one of them may still run while the next agent runs the line
//!   again, unless the service manager ends the whole control group.
//!
//! # Assumptions
//! The caller runs as root, in the mount namespace whose mounts it means to change, and on a thread that may block.

mod apply;
mod config;
mod directory_entry;
mod dlm;
pub mod health;
mod in_use;
mod kernel_log;
mod lvm;
mod mapped;
mod mount;
mod mount_line;
mod mount_point;
mod mount_refusal;
mod mounted;
mod observer;
mod records;
mod root_file;
mod signature;
mod tree;
mod unfinished;
mod zpool;

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use block_devices::mount_table::{devices_beneath, kind_at};
pub use config::{DriveConfig, LinuxConfig, LustreUnmount};
use drives::{Drives, FilePool, NvmeConfig, NvmeDrives, ReachedNamespaces, Switches};
use process::bounded::BoundedCalls;
use storage::{
    Desired, Host, Observed, Step,
    desired::{AllowedRoots, NamespaceId},
    host::{ObserveError, StepError},
    observe::observe,
    observed::PortLink,
};
use thiserror::Error;

use self::{mount::Deadlines, records::Records};

/// A directory that [`LinuxHost`] needs cannot be created or opened.
#[derive(Debug, Error)]
#[error("open {what} in {}", .path.display())]
pub struct LinuxHostError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// A real node, observed and changed through the kernel, LVM, ZFS and its drives.
#[derive(Debug)]
pub struct LinuxHost {
    node: Arc<Node>,
    calls: BoundedCalls,
}

#[derive(Debug)]
struct Node {
    drives: Box<dyn Drives>,
    records: Records,
    roots: AllowedRoots,
    deadlines: Deadlines,
    /// Whether other simulated nodes run on this machine, and so share this kernel.
    shares_kernel: bool,
}

impl LinuxHost {
    /// Creates a host with this configuration, whose drives are on its own PCI bus. If the configuration asks for
    /// simulated drives in files, also creates the directory of these files unless it exists.
    ///
    /// # Errors
    /// When a directory of the agent's records cannot be created or read.
    pub fn new(config: LinuxConfig) -> Result<Self, LinuxHostError> {
        Self::with_switches(config, None)
    }

    /// Creates a host like [`Self::new`], whose drives may be behind `switches`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_switches(
        config: LinuxConfig,
        switches: Option<Arc<dyn Switches>>,
    ) -> Result<Self, LinuxHostError> {
        let failed = |what, path: &Path| {
            let path = path.to_owned();
            move |source| LinuxHostError { what, path, source }
        };
        let records =
            Records::open(&config.state).map_err(failed("the hook records", &config.state))?;
        let shares_kernel = matches!(config.drives, DriveConfig::File { .. });
        let drives: Box<dyn Drives> = match config.drives {
            DriveConfig::NvmeNamespaces => Box::new(ReachedNamespaces::default()),
            DriveConfig::Nvme { node, models } => {
                let ledgers = config.state.join("drives");
                let nvme = NvmeConfig {
                    node,
                    models,
                    switches,
                    ledgers: ledgers.clone(),
                    sysfs: PathBuf::from("/sys"),
                    look: config.mount_deadline,
                    change: config.command_deadline,
                };
                let opened = NvmeDrives::open(nvme);
                Box::new(opened.map_err(failed("the ledgers of drives", &ledgers))?)
            }
            DriveConfig::File { pool, node, drives, drive_capacity } => Box::new(
                FilePool::open(&pool, node, drives, drive_capacity, config.mount_deadline)
                    .map_err(failed("the pool of file drives", &pool))?,
            ),
        };
        let deadlines = Deadlines {
            command: config.command_deadline,
            call: config.mount_deadline,
            lustre: config.lustre_unmount,
        };
        // Twice the deadline of a call: once for a tool that the observation may run, and once for its other reads.
        let calls = BoundedCalls::new(deadlines.call.saturating_mul(2));
        let node = Node { drives, records, roots: config.roots, deadlines, shares_kernel };
        Ok(Self { node: Arc::new(node), calls })
    }

    /// Returns the PCIe links between hosts and drives: one for every port of both switches of a rabbit; none on a node
    /// without switches. The state of a port is unknown when its switch does not answer. When a switch is carrying out
    /// a command, this waits until that command ends.
    ///
    /// # Errors
    /// When it is unknown whether the node has switches, or when reading them takes
    /// longer than twice [`LinuxConfig::mount_deadline`].
    pub fn links(&self) -> Result<Vec<PortLink>, ObserveError> {
        let node = Arc::clone(&self.node);
        let links = self.calls.run("links", move || node.drives.links());
        links.map_err(|source| ObserveError::Read { path: "/dev/switchtec*".to_owned(), source })?
    }
}

impl Host for LinuxHost {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        let (node, wanted, name) = (Arc::clone(&self.node), desired.clone(), desired.unit());
        self.calls
            .run(&name, move || observe(&*node, &wanted))
            .map_err(|source| ObserveError::Read { path: name, source })?
    }

    fn reached_namespaces(&self) -> Result<BTreeSet<NamespaceId>, ObserveError> {
        let node = Arc::clone(&self.node);
        let name = "the namespaces of this node";
        self.calls
            .run(name, move || node.drives.reached_namespaces())
            .map_err(|source| ObserveError::Read { path: name.to_owned(), source })?
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        self.node.apply(step)
    }
}
