//! Describes what is mounted, with the facts that prove which object each mount belongs to.

use std::{
    io,
    path::{Path, PathBuf},
};

use block_devices::mount_table::{self, Entry};
use drives::Drives;
use storage::{
    desired::{AllowedRoots, FileSystemKind, MountPoint, NamespaceId},
    observed::{DeviceNumber, MountedThing, Superblock},
};

use super::{mapped, signature};

/// Describes an entry. `bound` is the block device, if the mount is a block device that is bind-mounted on a file.
pub(super) fn describe(
    entry: &Entry,
    bound: Option<DeviceNumber>,
    drives: &dyn Drives,
) -> MountedThing {
    let device = bound.unwrap_or(entry.device);
    let superblock = match bound {
        None if signature::is_read(&entry.kind) => signature::of_mounted(device),
        _ => Superblock::Unknown,
    };
    MountedThing {
        device,
        source: entry.source.clone(),
        kind: bound.map_or_else(|| entry.kind.clone(), |_| FileSystemKind::Raw.as_str().to_owned()),
        root: entry.root.clone(),
        superblock,
        namespace: drives.namespace_of(device).or_else(|| beneath_mapping(device, drives)),
    }
}

/// Returns a namespace beneath a logical volume, if all devices beneath the volume are namespaces.
fn beneath_mapping(device: DeviceNumber, drives: &dyn Drives) -> Option<NamespaceId> {
    let bottom = mapped::bottom_of(device).ok()?;
    let namespaces: Option<Vec<_>> =
        bottom.into_iter().map(|device| drives.namespace_of(device)).collect();
    namespaces?.into_iter().next()
}

/// Describes a mount that another mount covers.
pub(super) fn describe_covered(entry: &Entry, drives: &dyn Drives) -> MountedThing {
    describe(entry, entry.bound(), drives)
}

/// Returns all mounts beneath the roots, in the order in which they were made.
pub(super) fn beneath(
    roots: &AllowedRoots,
    drives: &dyn Drives,
) -> io::Result<Vec<(MountPoint, MountedThing)>> {
    let mut known = Vec::new();
    for root in roots.iter() {
        known.extend(mount_table::real(root)?.map(|real| (root, real)));
    }
    let mount_point = |point: &Path| {
        let below =
            |(root, real): &(&Path, PathBuf)| Some(root.join(point.strip_prefix(real).ok()?));
        let path = known.iter().find_map(below)?;
        MountPoint::parse(&path.to_string_lossy(), roots).ok()
    };
    let mut found = Vec::new();
    for entry in mount_table::wanted(|point| mount_point(point).is_some())? {
        if let Some(target) = mount_point(&entry.point) {
            found.push((target, describe(&entry, entry.bound_device(), drives)));
        }
    }
    Ok(found)
}
