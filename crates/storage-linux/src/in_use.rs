//! Checks whether a device is still in use after its unmount: other mount namespaces may still have the file system
//! mounted.

use std::{io, path::Path, time::Duration};

use process::{Unended, child, cmd};
use storage::{
    desired::{AllowedRoots, FileSystemKind, MountPoint},
    host::StepError,
    observed::{Holders, Use, VolumeDevice},
};

use block_devices::{busy::pause_for, exclusive, holders, mount_table};

/// Pauses between the checks of a raw device: other programs may open the device for a moment.
const LOOKS: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(300)];

/// The node on which the device is checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) roots: &'a AllowedRoots,
    /// Whether other simulated nodes run on this machine: mounts outside this node's roots may then be
    /// mounts of other nodes.
    pub(super) shares_kernel: bool,
    pub(super) deadline: Duration,
}

/// Returns how a device is used after its unmount. If the device is mounted beneath this node's own roots, returns
/// [`Use::MountedHere`], because that mount belongs to another object.
pub(super) fn device(
    device: &VolumeDevice,
    kind: FileSystemKind,
    node: Node<'_>,
) -> io::Result<Use> {
    let mounts = mount_table::all()?.into_iter().filter(|entry| entry.shows() == device.number);
    let points: Vec<_> = mounts.map(|entry| entry.point).collect();
    if is_beneath(&points, node.roots)? {
        return Ok(Use::MountedHere);
    }
    if node.shares_kernel && !points.is_empty() {
        return Ok(Use::Free);
    }
    if kind == FileSystemKind::Raw
        && let Some(holders) = openers(device)?
    {
        return Ok(Use::HeldBy(holders));
    }
    let is_free = exclusive::is_free(&device.path, node.deadline).map_err(io_error)?;
    Ok((!is_free).then(|| users(device)).into())
}

/// Returns the holders of a device. When no holder is visible, a hanging mount(2) or umount(2) of the agent may be the
/// holder: its mount is not yet, or no longer, in the mount table.
fn users(device: &VolumeDevice) -> Holders {
    let holders = holders::of_device(device.number);
    if holders.names.is_empty() { unended(child::unreturned()) } else { holders }
}

fn unended(Unended { names, processes }: Unended) -> Holders {
    Holders { names, processes }
}

fn is_beneath(points: &[impl AsRef<Path>], roots: &AllowedRoots) -> io::Result<bool> {
    for root in roots.iter() {
        let Some(real) = mount_table::real(root)? else { continue };
        if points.iter().any(|point| point.as_ref().starts_with(&real)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the processes that have a raw device open: no mount would show this use.
fn openers(device: &VolumeDevice) -> io::Result<Option<Holders>> {
    for pause in LOOKS {
        if holders::with_open(device.number)?.names.is_empty() {
            return Ok(None);
        }
        pause_for(pause);
    }
    let holders = holders::with_open(device.number)?;
    Ok((!holders.names.is_empty()).then_some(holders))
}

/// Returns the holders of a Lustre file system that this node's mount table no longer lists. The agent's own
/// unmount at `target` may be the holder: it may have removed the mount from the table, and still wait for servers
/// that must receive data.
pub(super) fn lustre(source: &str, target: &MountPoint) -> io::Result<Option<Holders>> {
    let holders = holders::of_source(FileSystemKind::Lustre.as_str(), source)?;
    let target = target.to_string();
    let ours = || [child::unreturned_on(&target), cmd::unended(&target)].map(unended);
    let found = [holders].into_iter().chain(ours()).find(|holders| !holders.names.is_empty());
    Ok(found)
}

fn io_error(error: StepError) -> io::Error {
    match error {
        StepError::System { source, .. } => source,
        other => io::Error::other(other),
    }
}
