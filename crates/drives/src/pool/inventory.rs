//! Observes a pool: its drives, their namespaces, and free space.

use std::{collections::BTreeSet, fs, io, os::unix::fs::MetadataExt, path::Path};

use nix::sys::statvfs::statvfs;
use storage::{
    Observed,
    desired::{NamespaceId, NodeName, Nqn},
    observed::{Attached, Drive, Namespace, NamespaceOwner, Pool},
};

use super::{
    FilePool,
    layout::{EntryName, OwnerFile, PoolFile, entries},
};
use block_devices::loop_device;
use files::none_if_absent;

impl FilePool {
    pub(super) fn look(&self) -> io::Result<Observed> {
        let Some(file) = self.load()? else { return Ok(Observed::default()) };
        let mut inventory = Observed::default();
        let mut promised = 0;
        let devices = loop_device::all()?;
        for slot in 0..file.drives {
            let mut allocated = 0;
            let directory = self.drive(slot);
            let Some(entries) = none_if_absent(entries(&directory))? else {
                // The pool made this directory for the drive, so the directory was moved or removed since then.
                inventory.drives.push(moved(&file, slot, &directory));
                continue;
            };
            for (name, path) in entries {
                let (mut namespace, unwritten) = namespace(file.nqn(slot), name, &path)?;
                // The namespace was deleted meanwhile, so the values that were read may be incomplete.
                if !path.exists() {
                    continue;
                }
                namespace.device =
                    devices.get(&path.join("data")).map(|device| device.path.clone());
                allocated += namespace.size;
                promised += unwritten;
                inventory.namespaces.push(namespace);
            }
            inventory.drives.push(drive(&file, slot, allocated));
        }
        let room = statvfs(&self.root)?;
        inventory.pool =
            Some(Pool { available: room.blocks_available() * room.fragment_size(), promised });
        Ok(inventory)
    }
}

/// Returns the namespace without its device, and the number of its bytes that have no disk blocks yet.
fn namespace(subsystem: Nqn, name: EntryName, path: &Path) -> io::Result<(Namespace, u64)> {
    let (size, written) =
        fs::metadata(path.join("data")).map_or((0, 0), |data| (data.len(), data.blocks() * 512));
    let (nsid, (owner, members)) = match name {
        EntryName::Partial(nsid, allocation) => (nsid, (NamespaceOwner::Partial(allocation), 0)),
        EntryName::Namespace(nsid) => (nsid, OwnerFile::read(path)),
    };
    let namespace = Namespace {
        id: NamespaceId { subsystem, nsid },
        owner,
        size,
        access: access(path)?.into_iter().map(Attached::from).collect(),
        device: None,
        members,
        needs_erasure: false,
        needs_zeroing: false,
    };
    Ok((namespace, size.saturating_sub(written)))
}

fn drive(file: &PoolFile, slot: u16, allocated: u64) -> Drive {
    let serial = file.uuid.simple().to_string();
    Drive {
        serial: format!("{}{slot:04}", serial.get(..12).unwrap_or(&serial)),
        model: "Warren file drive".to_owned(),
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
        slot: slot.into(),
        capacity: file.drive_capacity,
        allocated,
        ..Drive::with_nqn(file.nqn(slot))
    }
}

/// Returns a drive whose directory is gone, so that its contents are unknown.
fn moved(file: &PoolFile, slot: u16, directory: &Path) -> Drive {
    let fault = format!("its directory {} is missing: put it back", directory.display());
    Drive { capacity: 0, fault: Some(fault), ..drive(file, slot, 0) }
}

pub(super) fn access(namespace: &Path) -> io::Result<BTreeSet<NodeName>> {
    // A namespace without this directory, which a crash may leave, is attached to no host.
    let listing = none_if_absent(fs::read_dir(namespace.join("access")))?;
    let mut nodes = BTreeSet::new();
    for entry in listing.into_iter().flatten() {
        nodes.extend(entry?.file_name().to_str().and_then(|name| name.parse().ok()));
    }
    Ok(nodes)
}
