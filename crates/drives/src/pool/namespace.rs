//! Creates, deletes, attaches and detaches a namespace of a pool.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::Path,
};

use storage::{
    desired::{AllocationId, NamespaceId, NodeName, Nqn},
    host::StepError,
    observed::{BlockDevice, NamespaceOwner},
};

use super::{
    FilePool,
    inventory::access,
    layout::{OwnerFile, gone_name, new_name},
};
use block_devices::loop_device;

impl FilePool {
    pub(super) fn make(
        &self,
        allocation: AllocationId,
        nqn: &Nqn,
        size: u64,
        members: u16,
    ) -> Result<(), StepError> {
        let failed = StepError::system("create namespace", nqn);
        let _lock = self.lock().map_err(failed)?;
        let inventory = self.look().map_err(failed)?;
        let exists = inventory
            .namespaces
            .iter()
            .filter(|found| found.id.subsystem == *nqn)
            .any(|found| found.owner == NamespaceOwner::Ours(allocation));
        if exists {
            return Ok(());
        }
        let drive = inventory.drives.iter().find(|drive| drive.nqn == *nqn);
        let Some(drive) = drive else {
            return Err(StepError::Changed(format!("drive {nqn} is gone")));
        };
        if drive.free() < size {
            return Err(StepError::Changed(format!(
                "drive {nqn} has only {} free bytes",
                drive.free()
            )));
        }
        if inventory.pool.is_some_and(|pool| pool.room() < size) {
            return Err(StepError::Changed("the disk that holds the pool is full".to_owned()));
        }
        let taken: BTreeSet<_> = inventory
            .namespaces
            .iter()
            .filter(|found| found.id.subsystem == *nqn)
            .map(|found| found.id.nsid)
            .collect();
        let nsid = (1..).find(|nsid| !taken.contains(nsid)).unwrap_or(u32::MAX);
        let parent = self.root.join(format!("drive-{}", drive.slot));
        let owner = OwnerFile::new(allocation, size, members);
        build(&parent, nsid, &owner, allocation, size).map_err(failed)
    }

    pub(super) fn claim(&self, id: &NamespaceId, owner: &OwnerFile, size: u64) -> io::Result<()> {
        let _lock = self.lock()?;
        let path = self.directory(id)?.ok_or(io::ErrorKind::NotFound)?;
        let found = fs::metadata(path.join("data"))?.len();
        if OwnerFile::read(&path).0 != NamespaceOwner::Unknown || found != size {
            let why = format!("it has an owner, or {found} bytes instead of {size}");
            return Err(io::Error::other(why));
        }
        owner.write(&path)
    }

    pub(super) fn remove(
        &self,
        id: &NamespaceId,
        allocation: AllocationId,
    ) -> Result<(), StepError> {
        let failed = StepError::system("delete namespace", id);
        let _lock = self.lock().map_err(failed)?;
        let Some(path) = self.directory(id).map_err(failed)? else { return Ok(()) };
        let leftovers: Vec<_> = [new_name(id.nsid, allocation), gone_name(id.nsid, allocation)]
            .map(|name| path.with_file_name(name))
            .into_iter()
            .filter(|leftover| leftover.exists())
            .collect();
        if leftovers.is_empty() && path.exists() {
            if OwnerFile::read(&path).0 != NamespaceOwner::Ours(allocation) {
                return Err(StepError::Changed(format!(
                    "namespace {id} does not belong to allocation {allocation}"
                )));
            }
            loop_device::detach(&path.join("data"), self.deadline)?;
            let renamed = path.with_file_name(gone_name(id.nsid, allocation));
            rename_away(&path, &renamed).map_err(failed)?;
        }
        for leftover in leftovers {
            loop_device::detach(&leftover.join("data"), self.deadline)?;
            files::remove_tree(&leftover).map_err(failed)?;
        }
        files::sync_parent(&path).map_err(failed)
    }

    pub(super) fn grant(&self, id: &NamespaceId, node: &NodeName) -> io::Result<()> {
        let _lock = self.lock()?;
        let path = self.directory(id)?.ok_or(io::ErrorKind::NotFound)?;
        loop_device::attach(&path.join("data"))?;
        let markers = path.join("access");
        File::create(markers.join(node.as_str()))?;
        files::sync_directory(&markers)
    }

    pub(super) fn withdraw(&self, id: &NamespaceId, node: &NodeName) -> Result<(), StepError> {
        let failed = StepError::system("detach namespace", id);
        let _lock = self.lock().map_err(failed)?;
        let Some(path) = self.directory(id).map_err(failed)? else { return Ok(()) };
        let has_other_hosts =
            access(&path).map_err(failed)?.into_iter().any(|other| other != *node);
        if !has_other_hosts {
            loop_device::detach(&path.join("data"), self.deadline)?;
        }
        let markers = path.join("access");
        match fs::remove_file(markers.join(node.as_str())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => files::sync_directory(&markers).map_err(failed),
        }
    }

    pub(super) fn reach(
        &self,
        id: &NamespaceId,
        made_for: Option<AllocationId>,
    ) -> io::Result<Option<BlockDevice>> {
        let Some(path) = self.directory(id)? else { return Ok(None) };
        if made_for.is_some() {
            match OwnerFile::read(&path).0 {
                // `owner.json` is unreadable or malformed: fail, and do not report the device as absent.
                NamespaceOwner::Foreign(why) => return Err(io::Error::other(why)),
                owner if owner.allocation() != made_for => return Ok(None),
                _ => {}
            }
        }
        if !path.join("access").join(self.node.as_str()).exists() {
            return Ok(None);
        }
        let device = self.devices.find(&path.join("data"))?;
        Ok(device.map(|device| BlockDevice {
            namespace: id.clone(),
            path: device.path,
            number: device.number,
        }))
    }
}

/// Renames the namespace and then deletes it: after a crash, the new name shows that the namespace was being deleted.
fn rename_away(path: &Path, renamed: &Path) -> io::Result<()> {
    fs::rename(path, renamed)?;
    files::sync_parent(path)?;
    files::remove_tree(renamed)
}

/// Creates the namespace under a name that marks it as unfinished, then renames it: after a crash the name shows
/// whether the namespace is complete.
fn build(
    drive: &Path,
    nsid: u32,
    owner: &OwnerFile,
    allocation: AllocationId,
    size: u64,
) -> io::Result<()> {
    let path = drive.join(new_name(nsid, allocation));
    DirBuilder::new().mode(0o700).create(&path)?;
    fs::create_dir(path.join("access"))?;
    let data = File::create(path.join("data"))?;
    data.set_len(size)?;
    data.sync_all()?;
    owner.write(&path)?;
    fs::rename(&path, drive.join(nsid.to_string()))?;
    files::sync_directory(drive)
}
