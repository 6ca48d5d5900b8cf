//! A real node.

mod bounded;
mod busy;
mod child;
mod cmd;
mod directory_entry;
pub mod dlm;
mod drives;
mod durable;
mod exclusive;
pub mod health;
mod holders;
mod hung;
mod in_use;
mod lvm;
mod mapped;
pub mod mgs;
mod mount;
mod mount_line;
mod mount_table;
pub mod network;
mod observer;
pub mod podman;
mod records;
mod root_file;
mod signature;
mod tree;
mod unfinished;
mod zpool;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;

use self::{
    bounded::BoundedCalls,
    cmd::Cmd,
    drives::{Drives, FilePool, NvmeDrives, ReachedNamespaces},
    mount::Deadlines,
    records::Records,
};
use crate::{
    Desired, Host, Observed, Step,
    desired::{AllowedRoots, FileSystemId, FileSystemKind, HookId, NamespaceId, NodeName},
    host::{ObserveError, StepError},
    observe::observe,
    observed::{BlockDevice, DeviceName, DeviceNumber, PortLink, Signature, VolumeDevice},
    step::{Mountable, VolumeAction, ZfsAction},
};

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

/// A directory that the node's storage needs cannot be created or opened.
#[derive(Debug, Error)]
#[error("open {what} in {}", .path.display())]
pub struct LinuxHostError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// A real node.
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
    /// Whether other nodes share this kernel.
    shares_kernel: bool,
}

impl LinuxHost {
    /// A host with this configuration. It creates the pool of file drives when there is none and drives are asked for.
    pub fn new(config: LinuxConfig) -> Result<Self, LinuxHostError> {
        let failed = |what, path: &Path| {
            let path = path.to_owned();
            move |source| LinuxHostError { what, path, source }
        };
        let records =
            Records::open(&config.state).map_err(failed("the hook records", &config.state))?;
        let shares_kernel = matches!(config.drives, DriveConfig::File { .. });
        let drives: Box<dyn Drives> = match config.drives {
            DriveConfig::NvmeNamespaces => Box::new(ReachedNamespaces::new()),
            DriveConfig::Nvme { node, models, record } => {
                let (look, change) = (config.mount_deadline, config.command_deadline);
                let record = record.as_deref();
                let opened = NvmeDrives::open(&config.state, node, models, record, look, change);
                Box::new(opened.map_err(failed("the ledgers of drives", &config.state))?)
            }
            DriveConfig::File { pool, node, drives, drive_capacity } => Box::new(
                FilePool::open(&pool, node, drives, drive_capacity, config.mount_deadline)
                    .map_err(failed("the pool of file drives", &pool))?,
            ),
        };
        let deadlines = Deadlines { command: config.command_deadline, call: config.mount_deadline };
        // One deadline for a tool that the observation may run, and one for the rest.
        let calls = BoundedCalls::new(deadlines.call.saturating_mul(2));
        let node = Node { drives, records, roots: config.roots, deadlines, shares_kernel };
        Ok(Self { node: Arc::new(node), calls })
    }

    /// The PCIe links between hosts and drives: every port of both switches of a rabbit; none on a node without
    /// switches. Ports of a switch that does not answer have an unknown state. The call waits for a command that a
    /// switch is carrying out.
    ///
    /// # Errors
    /// When it is unknown whether there are switches, or reading them takes longer than twice
    /// [`LinuxConfig::mount_deadline`].
    pub fn links(&self) -> Result<Vec<PortLink>, ObserveError> {
        let node = Arc::clone(&self.node);
        let taken = self.calls.run("links", move || node.drives.links());
        taken.map_err(|source| ObserveError::Read { path: "/dev/switchtec*".to_owned(), source })?
    }
}

impl Node {
    /// Checks that the device still has its path: it may have another, or be gone, since the observation.
    fn still_at(&self, device: &VolumeDevice) -> Result<(), StepError> {
        let is_there = match &device.name {
            DeviceName::Namespace(id) => self.is_at(id, &device.path),
            DeviceName::Logical { .. } => {
                let name = device.path.file_name().unwrap_or_default().to_string_lossy();
                mapped::find(&name).is_ok_and(|found| found == Some(device.number))
            }
        };
        if is_there { Ok(()) } else { Err(not_there(&device.name, &device.path)) }
    }

    fn is_at(&self, namespace: &NamespaceId, device: &Path) -> bool {
        let found = self.drives.device(namespace, None).ok().flatten();
        found.is_some_and(|found| found.path == device)
    }

    fn make_file_system(
        &self,
        device: &VolumeDevice,
        kind: FileSystemKind,
        id: FileSystemId,
        line: &str,
    ) -> Result<(), StepError> {
        signature::make(device, kind, id, line, self.deadlines.command)?;
        let (device, deadline) = (&device.path, self.deadlines.command);
        let (at, name) = (device.clone(), format!("signature of {}", device.display()));
        let read = bounded::within(deadline, &name, move || signature::read(&at, deadline));
        let read = read.map_err(StepError::system("read signature", &device.display()))?;
        match read {
            Ok(Signature::Ours(found)) if found == id => Ok(()),
            _ => {
                let why = format!("the command succeeded, and {kind} {id} is not there");
                Err(StepError::system("mkfs", &device.display())(io::Error::other(why)))
            }
        }
    }

    fn volume(
        &self,
        action: VolumeAction,
        devices: &[BlockDevice],
        line: &str,
    ) -> Result<(), StepError> {
        self.all_at(devices)?;
        Ok(lvm::run(action, devices, line, self.deadlines.command)?)
    }

    fn zfs(
        &self,
        action: ZfsAction,
        on: &str,
        devices: &[BlockDevice],
        line: &str,
    ) -> Result<(), StepError> {
        self.all_at(devices)?;
        zpool::run(action, on, devices, line, self.deadlines.command)
    }

    fn all_at(&self, devices: &[BlockDevice]) -> Result<(), StepError> {
        let moved = devices.iter().find(|device| !self.is_at(&device.namespace, &device.path));
        moved.map_or(Ok(()), |device| Err(not_there(&device.namespace, &device.path)))
    }

    /// The mapping of a volume whose namespaces are gone holds no data, because it has no device to write to. A mapping
    /// that LVM did not complete was never used. In both cases the kernel refuses the removal while somebody has it
    /// open.
    fn remove_mapping(&self, name: &str, number: DeviceNumber) -> Result<(), StepError> {
        let found = unfinished::number_of(name, self.deadlines.call)
            .map_err(|error| StepError::system("find mapping", name)(io::Error::other(error)))?;
        if found != Some(number) {
            return Err(StepError::Changed(format!("mapping {name} is another by now")));
        }
        Cmd::new(["dmsetup", "remove", "--retry", name]).run(self.deadlines.command)?;
        Ok(())
    }

    /// Refuses while anything of the group is active: it may be in use, and its locks keep other nodes out.
    fn drop_lock_space(&self, group: &str) -> Result<(), StepError> {
        let mappings = mapped::mappings();
        let mappings = mappings.map_err(StepError::system("find mappings", group))?;
        if mappings.iter().any(|mapping| mapping.group().as_deref() == Some(group)) {
            return Err(StepError::Changed(format!("volumes of {group} are active by now")));
        }
        dlm::drop_group(group, self.deadlines.command)
    }

    fn run_hook(&self, id: &HookId, line: &str) -> Result<(), StepError> {
        Cmd::shell(line).for_owner(id.scope.as_str()).run(self.deadlines.command)?;
        self.records.put(id).map_err(StepError::system("record hook", id))
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        match step {
            Step::CreateNamespace { .. }
            | Step::AdoptNamespace { .. }
            | Step::ReplaceNamespace { .. }
            | Step::ForgetNamespace { .. }
            | Step::DeleteNamespace { .. }
            | Step::Attach { .. }
            | Step::Detach { .. } => self.drives.apply(step),
            Step::Volume { action, devices, line, .. } => self.volume(*action, devices, line),
            Step::Zfs { action, on, devices, line } => self.zfs(*action, on, devices, line),
            Step::RemoveMapping { name, number } => self.remove_mapping(name, *number),
            Step::DropLockSpace { group } => self.drop_lock_space(group),
            Step::UnmarkPhysical { device } => {
                self.still_at(device)?;
                lvm::unmark(&device.path, self.deadlines.call)
            }
            Step::WipeSignature { device, id } => {
                self.still_at(device)?;
                signature::wipe_half_made(&device.path, *id, self.deadlines.call)
            }
            Step::MakeFileSystem { device, kind, id, line } => {
                self.still_at(device)?;
                self.make_file_system(device, *kind, *id, line)
            }
            Step::CreateMountPoint { target, file } => mount::create_point(target, *file),
            Step::Mount { source, target, kind, line } => {
                if let Mountable::Device(device) = source {
                    self.still_at(device)?;
                }
                let source = source.to_string();
                mount::mount(&source, target, *kind, line, &self.roots, self.deadlines)
            }
            Step::Unmount { target, device, line } => {
                mount::unmount(target, *device, line, self.deadlines)
            }
            Step::RemoveMountPoint { target } => mount::remove_point(target),
            Step::CreateDirectory { path } => mount::create_point(path, false),
            Step::RemoveDirectory { path } => mount::remove_point(path),
            Step::SetOwner { target, owner } => {
                mount::set_owner(target, *owner, self.deadlines.call)
            }
            Step::WriteFile { target, file } => root_file::write(target, file, self.deadlines.call),
            Step::Link { root, link } => {
                tree::link(root, link).map_err(StepError::system("link", &format!("{root}/{link}")))
            }
            Step::Unlink { root, name } => tree::unlink(root, name)
                .map_err(StepError::system("unlink", &format!("{root}/{name}"))),
            Step::OpenHooks { scope } => {
                let broken = StepError::system("open hook records", scope.as_str());
                self.records.open_scope(scope).map_err(broken)
            }
            Step::RunHook { id, line } => self.run_hook(id, line),
            Step::ForgetHooks { scope } => {
                let broken = StepError::system("forget hook records", scope.as_str());
                self.records.forget(scope).map_err(broken)
            }
        }
    }
}

impl Host for LinuxHost {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        let (node, wanted, name) = (Arc::clone(&self.node), desired.clone(), desired.unit());
        self.calls
            .run(&name, move || observe(&*node, &wanted))
            .map_err(|source| ObserveError::Read { path: name, source })?
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        self.node.apply(step)
    }
}

fn not_there(name: &impl std::fmt::Display, device: &Path) -> StepError {
    StepError::Changed(format!("{name} is not {} any more", device.display()))
}
