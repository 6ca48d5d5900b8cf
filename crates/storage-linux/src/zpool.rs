//! Runs the commands of ZFS: three short commands for each observation, and one for each step.
//!
//! `zpool status -P -L` prints whole paths with links resolved. When ZFS gets a whole device, it partitions the device
//! and uses the first partition. A pool's device therefore counts as ours when it is one of our devices or a partition
//! of one of our devices.

mod status;

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use causes::CommandError;
use nix::sys::stat::stat;
use process::Cmd;
use storage::{
    desired::{Dataset, NameError},
    host::{ObserveError, StepError},
    observed::{BlockDevice, DatasetState, DeviceNumber, FoundPool, Vdev, VdevDevice, Zpool},
    step::ZfsAction,
};

use self::status::{Leaf, Status, read_found, read_status};
use block_devices::mount_table;

/// Directory in sysfs that exists when the kernel has ZFS.
const MODULE: &str = "/sys/module/zfs";

/// Observes the target's pool; `None` when this node has not imported it.
pub(super) fn imported(
    dataset: &Dataset,
    devices: &[BlockDevice],
    deadline: Duration,
) -> Result<Option<Zpool>, ObserveError> {
    let pool = dataset.pool();
    let names = match Cmd::new(["zpool", "list", "-H", "-o", "name"]).output(deadline) {
        Ok(output) => output,
        // Without the kernel module no pool can be imported. With the module but without the tools, a pool may be
        // imported that the agent cannot see: return the error.
        Err(error) if error.is_not_installed() && !Path::new(MODULE).exists() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !String::from_utf8_lossy(&names).lines().any(|name| name == pool) {
        return Ok(None);
    }
    let (status, vdevs) = status_and_vdevs(pool, devices, deadline)?;
    let Status { health, resilvered, .. } = status;
    let dataset = state(dataset, deadline)?;
    Ok(Some(Zpool { name: pool.to_owned(), health, vdevs, resilvered, dataset }))
}

/// Reads the status of a pool, and its devices.
fn status_and_vdevs(
    pool: &str,
    devices: &[BlockDevice],
    deadline: Duration,
) -> Result<(Status, Vec<Vdev>), ObserveError> {
    let status = Cmd::new(["zpool", "status", "-P", "-L", pool]).output(deadline)?;
    let status = read_status(&String::from_utf8_lossy(&status), pool).map_err(|why| {
        ObserveError::Malformed { what: format!("output of zpool status -P -L {pool}"), why }
    })?;
    let leaves = status.leaves.iter().cloned();
    let vdevs = leaves.map(|leaf| leaf.resolved(devices)).collect::<Result<_, _>>()?;
    Ok((status, vdevs))
}

/// Reads the state of the target: complete when `lustre:svname` is set, which mkfs.lustre(8) writes last.
fn state(dataset: &Dataset, deadline: Duration) -> Result<DatasetState, ObserveError> {
    let (pool, property) = (dataset.pool(), "lustre:svname");
    let command =
        ["zfs", "get", "-H", "-r", "-t", "filesystem", "-o", "name,value", property, pool];
    let output = Cmd::new(command).output(deadline)?;
    read_state(&String::from_utf8_lossy(&output), dataset).map_err(|why| ObserveError::Malformed {
        what: format!("output of zfs get {property} {pool}"),
        why,
    })
}

fn read_state(text: &str, dataset: &Dataset) -> Result<DatasetState, String> {
    let wanted = dataset.to_string();
    for line in text.lines() {
        let (name, value) = line.split_once('\t').ok_or_else(|| format!("line {line:?}"))?;
        if name == wanted {
            let is_set = !matches!(value, "" | "-");
            return Ok(if is_set { DatasetState::Whole } else { DatasetState::HalfMade });
        }
    }
    Ok(DatasetState::Absent)
}

/// Returns the pools that are not imported and whose labels are on these devices. Fails when the search could not run,
/// even where ZFS is not installed: a rabbit may get ZFS' modules after its agent has started, so that a missing tool
/// does not prove that the devices carry no pool.
pub(super) fn pools_on(
    devices: &[BlockDevice],
    deadline: Duration,
) -> Result<Vec<FoundPool>, ObserveError> {
    let line = format!("zpool import {}", only(devices)?);
    let output = match Cmd::shell(&line).output(deadline) {
        Ok(output) => output,
        // Some versions exit with an error when there are no pools.
        Err(CommandError::Failed { stderr, .. }) if stderr.contains("no pools available") => {
            Vec::new()
        }
        Err(error) => return Err(error.into()),
    };
    read_found(&String::from_utf8_lossy(&output))
        .map_err(|why| ObserveError::Malformed { what: format!("output of {line}"), why })
}

/// Returns the options that restrict a search to the devices: `-d` with each device and each of its partitions.
fn only(devices: &[BlockDevice]) -> Result<String, ObserveError> {
    let mut words = Vec::new();
    for device in devices {
        let partitions = partitions(device.number)
            .map_err(|source| ObserveError::Read { path: sysfs(device.number), source })?;
        for path in [device.path.clone()].into_iter().chain(partitions) {
            words.push(format!("-d {}", shell_words::quote(&path.display().to_string())));
        }
    }
    Ok(words.join(" "))
}

fn sysfs(number: DeviceNumber) -> String {
    format!("/sys/dev/block/{number}")
}

/// Returns the device nodes of a device's partitions (Documentation/ABI/stable/sysfs-block, `partition`).
fn partitions(number: DeviceNumber) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(sysfs(number))? {
        let entry = entry?;
        if entry.path().join("partition").exists() {
            found.insert(Path::new("/dev").join(entry.file_name()));
        }
    }
    Ok(found)
}

impl Leaf {
    fn resolved(self, devices: &[BlockDevice]) -> Result<Vdev, ObserveError> {
        let number = match whole(&self.name) {
            Ok(number) => number,
            Err(source) => return Err(ObserveError::Read { path: self.name, source }),
        };
        let ours = |device: &&BlockDevice| Some(device.number) == number;
        let namespace = devices.iter().find(ours).map(|device| device.namespace.clone());
        let is_used = self.is_used();
        let device = match (namespace, number) {
            (Some(namespace), _) => VdevDevice::Namespace(namespace),
            (None, Some(_)) if is_used => VdevDevice::Foreign,
            (None, _) if self.is_replaced => VdevDevice::Replaced,
            // The name of a lost device may belong to another device by now. An idle pool may not have noticed the loss
            // of a device yet, and may show the device as `ONLINE`.
            (None, _) => VdevDevice::Missing,
        };
        Ok(Vdev { name: self.name, state: self.state, device })
    }
}

/// Returns the number of a device, or for a partition the number of its disk. `None` for an absent device, and for the
/// number (GUID) that zpool(8) prints in place of a lost device.
fn whole(name: &str) -> io::Result<Option<DeviceNumber>> {
    if !name.starts_with('/') {
        return Ok(None);
    }
    let number = match stat(name) {
        Ok(stat) => mount_table::number(stat.st_rdev),
        Err(nix::errno::Errno::ENOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let block = PathBuf::from(sysfs(number));
    if !block.join("partition").exists() {
        return Ok(Some(number));
    }
    let disk = block.canonicalize()?.parent().map(|disk| disk.join("dev"));
    let text = fs::read_to_string(disk.unwrap_or_default())?;
    Ok(DeviceNumber::parse(text.trim()))
}

/// Runs the ZFS command of `action`. Before a destructive command, checks again that the object is the target's; after
/// the command that makes a target, checks the result.
pub(super) fn run(
    action: ZfsAction,
    on: &str,
    devices: &[BlockDevice],
    line: &str,
    deadline: Duration,
) -> Result<(), StepError> {
    let unobserved = |error: ObserveError| StepError::Changed(format!("observe {on}: {error}"));
    let searched = match action {
        ZfsAction::Import => only(devices).map_err(unobserved)?,
        ZfsAction::Destroy => {
            let (_, vdevs) = status_and_vdevs(on, devices, deadline).map_err(unobserved)?;
            let strange = vdevs.iter().find(|vdev| vdev.device == VdevDevice::Foreign);
            if let Some(vdev) = strange {
                return Err(StepError::Changed(format!(
                    "zpool {on} now has the foreign device {}",
                    vdev.name
                )));
            }
            String::new()
        }
        ZfsAction::Discard if at(on, deadline).map_err(unobserved)? != DatasetState::HalfMade => {
            return Err(StepError::Changed(format!("{on} is no longer an unfinished target")));
        }
        ZfsAction::Create | ZfsAction::Replace | ZfsAction::Discard | ZfsAction::Format => {
            String::new()
        }
    };
    Cmd::shell(&command(action, &searched, line)).run(deadline)?;
    let is_formatted = action != ZfsAction::Format
        || at(on, deadline).is_ok_and(|state| state == DatasetState::Whole);
    let nothing = || io::Error::other("the command succeeded, but no Lustre target exists");
    if is_formatted { Ok(()) } else { Err(StepError::system("mkfs.lustre", on)(nothing())) }
}

fn at(dataset: &str, deadline: Duration) -> Result<DatasetState, ObserveError> {
    let (pool, name) = dataset.split_once('/').unwrap_or((dataset, ""));
    let malformed = |error: NameError| ObserveError::Malformed {
        what: dataset.to_owned(),
        why: error.to_string(),
    };
    state(&Dataset::new(pool, name).map_err(malformed)?, deadline)
}

fn command(action: ZfsAction, searched: &str, line: &str) -> String {
    let words = [action.command(), searched, line];
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests;
