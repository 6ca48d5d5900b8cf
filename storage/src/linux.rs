//! A real node.

mod busy;
mod child;
mod cmd;
mod drives;
mod durable;
mod exclusive;
mod holders;
mod look;
mod looks;
mod mount;
mod mount_line;
mod mount_table;
mod place;
mod records;
mod signature;
mod tree;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;

use self::{
    cmd::Cmd,
    drives::{Drives, FilePool, NvmeDrives, ReachedNamespaces},
    looks::Looks,
    mount::Deadlines,
    records::Records,
};
use crate::{
    Desired, Host, Observed, Step,
    desired::{AllowedRoots, FileSystemId, FileSystemKind, HookId, NamespaceId, NodeName},
    host::{ObserveError, StepError},
    look::look,
    observed::Signature,
    plan,
};

/// How a real node is set up.
#[derive(Debug, Clone)]
pub struct LinuxConfig {
    /// Where namespaces come from.
    pub drives: DriveConfig,
    /// Beneath which directories mounts may be made.
    pub roots: AllowedRoots,
    /// Where it is recorded which hooks ran; root's own directory.
    pub state: PathBuf,
    /// What a site's command is given before its process group is killed.
    pub command_deadline: Duration,
    /// What mount(2) and umount(2) are given before their child is left to the kernel.
    pub mount_deadline: Duration,
}

/// Where namespaces come from.
#[derive(Debug, Clone)]
pub enum DriveConfig {
    /// NVMe drives whose physical functions this node has: a rabbit.
    Nvme {
        /// This node, among the hosts that reach namespaces.
        node: NodeName,
        /// Parts of the model numbers that may be used; any when empty.
        models: Vec<String>,
    },
    /// Namespaces of NVMe drives that another node manages: a compute.
    NvmeNamespaces,
    /// Sparse files on loop devices.
    File {
        /// The pool's directory, shared by all nodes on this box.
        pool: PathBuf,
        /// This node: it sees only namespaces that it was given access to.
        node: NodeName,
        /// How many drives a pool that does not exist yet gets; 0 on a node that only reaches namespaces.
        drives: u16,
        /// Bytes of each.
        drive_capacity: u64,
    },
}

/// A node's storage cannot be set up.
#[derive(Debug, Error)]
pub enum LinuxHostError {
    /// The directory of hook records cannot be made or opened.
    #[error("open the hook records in {}", .path.display())]
    Records {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The ledgers of NVMe drives cannot be made or opened.
    #[error("open the ledgers of drives in {}", .path.display())]
    Ledgers {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The pool of file drives cannot be made or opened.
    #[error("open the pool of file drives in {}", .path.display())]
    Pool {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A real node.
#[derive(Debug)]
pub struct LinuxHost {
    node: Arc<Node>,
    looks: Looks,
}

#[derive(Debug)]
struct Node {
    drives: Box<dyn Drives>,
    records: Records,
    roots: AllowedRoots,
    deadlines: Deadlines,
}

impl LinuxHost {
    /// A host with this configuration; makes the pool when it is asked for drives and there is none.
    ///
    /// # Errors
    /// When its directories cannot be opened.
    pub fn new(config: LinuxConfig) -> Result<Self, LinuxHostError> {
        let records = Records::open(&config.state)
            .map_err(|source| LinuxHostError::Records { path: config.state.clone(), source })?;
        let drives: Box<dyn Drives> = match config.drives {
            DriveConfig::NvmeNamespaces => Box::new(ReachedNamespaces::new()),
            DriveConfig::Nvme { node, models } => {
                let (look, change) = (config.mount_deadline, config.command_deadline);
                let opened = NvmeDrives::open(&config.state, node, models, look, change);
                let broken = |source| LinuxHostError::Ledgers { path: config.state, source };
                Box::new(opened.map_err(broken)?)
            }
            DriveConfig::File { pool, node, drives, drive_capacity } => Box::new(
                FilePool::open(&pool, node, drives, drive_capacity, config.mount_deadline)
                    .map_err(|source| LinuxHostError::Pool { path: pool, source })?,
            ),
        };
        let deadlines = Deadlines { command: config.command_deadline, call: config.mount_deadline };
        // One deadline for the tool that a look may start, one for the look.
        let looks = Looks::new(deadlines.call.saturating_mul(2));
        Ok(Self { node: Arc::new(Node { drives, records, roots: config.roots, deadlines }), looks })
    }
}

impl Node {
    /// A device may have got another name, or gone, since it was looked at.
    fn still_at(&self, namespace: &NamespaceId, device: &Path) -> Result<(), StepError> {
        let found = self.drives.device(namespace).ok().flatten();
        if found.is_some_and(|found| found.path == device) {
            return Ok(());
        }
        Err(StepError::Changed(format!(
            "namespace {namespace} is not {} any more",
            device.display()
        )))
    }

    fn make_file_system(
        &self,
        device: &Path,
        kind: FileSystemKind,
        id: FileSystemId,
        line: &str,
    ) -> Result<(), StepError> {
        signature::make(device, kind.as_str(), id, line, self.deadlines.command)?;
        match signature::read(device, self.deadlines.command) {
            Ok(Signature::Ours(found)) if found == id => Ok(()),
            _ => Err(StepError::System {
                call: "mkfs",
                target: device.display().to_string(),
                source: io::Error::other(format!(
                    "the command succeeded, and {kind} {id} is not there"
                )),
            }),
        }
    }

    fn run_hook(&self, id: &HookId, line: &str) -> Result<(), StepError> {
        Cmd::shell(line).run(self.deadlines.command)?;
        self.records.put(id).map_err(|source| failed("record hook", id, source))
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        match step {
            Step::CreateNamespace { allocation, drive, size } => {
                self.drives.create(*allocation, drive, *size)
            }
            Step::DeleteNamespace { id, allocation } => self.drives.delete(id, *allocation),
            Step::Attach { id, endpoint, node } => self.drives.attach(id, *endpoint, node),
            Step::Detach { id, node } => self.drives.detach(id, node),
            Step::WipeSignature { namespace, device, id } => {
                self.still_at(namespace, device)?;
                signature::wipe_half_made(device, *id, self.deadlines.call)
            }
            Step::MakeFileSystem { namespace, device, kind, id, line } => {
                self.still_at(namespace, device)?;
                self.make_file_system(device, *kind, *id, line)
            }
            Step::CreateMountPoint { target, file } => mount::create_point(target, *file),
            Step::Mount { source, target, kind, line } => {
                mount::mount(source, target, *kind, line, &self.roots, self.deadlines)
            }
            Step::Unmount { target, device, line } => {
                mount::unmount(target, *device, line, self.deadlines)
            }
            Step::RemoveMountPoint { target } => {
                mount::remove_point(target, plan::is_index(target))
            }
            Step::CreateDirectory { path } => mount::create_point(path, false),
            Step::RemoveDirectory { path } => mount::remove_point(path, false),
            Step::SetOwner { target, owner } => {
                mount::set_owner(target, *owner, self.deadlines.call)
            }
            Step::Link { root, link } => tree::link(root, link)
                .map_err(|source| failed("link", &format!("{root}/{link}"), source)),
            Step::Unlink { root, name } => tree::unlink(root, name)
                .map_err(|source| failed("unlink", &format!("{root}/{name}"), source)),
            Step::OpenHooks { scope } => {
                let broken = |source| failed("open hook records", &scope.as_str(), source);
                self.records.open_scope(scope).map_err(broken)
            }
            Step::RunHook { id, line } => self.run_hook(id, line),
            Step::ForgetHooks { scope } => {
                let broken = |source| failed("forget hook records", &scope.as_str(), source);
                self.records.forget(scope).map_err(broken)
            }
        }
    }
}

impl Host for LinuxHost {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        let (node, wanted, name) = (Arc::clone(&self.node), desired.clone(), desired.group());
        self.looks
            .take(&name, move || look(&*node, &wanted))
            .map_err(|source| ObserveError::Read { path: name, source })?
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        self.node.apply(step)
    }
}

fn failed(call: &'static str, target: &impl std::fmt::Display, source: io::Error) -> StepError {
    StepError::System { call, target: target.to_string(), source }
}
