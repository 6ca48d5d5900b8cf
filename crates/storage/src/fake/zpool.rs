//! Simulates ZFS pools, and the Lustre targets in them. The labels on a pool's devices describe the pool, so every node
//! that reaches the devices finds the same pool.
//!
//! The refusals follow the manual pages zpool(8), zfs(8) and mkfs.lustre(8). The simulation was not compared with a
//! node that runs Lustre.

use std::collections::{BTreeMap, BTreeSet};

use causes::CommandError;

use crate::{
    desired::NamespaceId,
    host::StepError,
    observed::{BlockDevice, DatasetState, FoundPool, PoolHealth, Vdev, VdevDevice, Zpool},
    step::ZfsAction,
};

/// All pools that the labels on the devices describe, by name.
#[derive(Debug, Default)]
pub(super) struct Pools(BTreeMap<String, Pool>);

#[derive(Debug)]
struct Pool {
    members: BTreeSet<NamespaceId>,
    datasets: BTreeMap<String, DatasetState>,
    foreign: bool,
}

fn refused(action: ZfsAction, on: &str, stderr: &str) -> StepError {
    StepError::Command(CommandError::Failed {
        command: format!("{} {on}", action.command()),
        status: "exit status: 1".to_owned(),
        stderr: stderr.to_owned(),
    })
}

fn pool_of(on: &str) -> &str {
    on.split_once('/').map_or(on, |(pool, _)| pool)
}

impl Pools {
    pub(super) fn plant(&mut self, name: &str, namespaces: &[NamespaceId]) {
        let members = namespaces.iter().cloned().collect();
        let pool = Pool { members, datasets: BTreeMap::new(), foreign: true };
        self.0.insert(name.to_owned(), pool);
    }

    pub(super) fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    pub(super) fn is_clean(&self) -> bool {
        self.0.values().all(|pool| pool.foreign)
    }

    /// Removes pools whose namespaces are all erased.
    pub(super) fn keep(&mut self, exists: impl Fn(&NamespaceId) -> bool) {
        self.0.retain(|_, pool| pool.members.iter().any(&exists));
    }

    pub(super) fn has(&self, name: &str, id: &NamespaceId) -> bool {
        self.0.get(name).is_some_and(|pool| pool.members.contains(id))
    }

    pub(super) fn is_target(&self, dataset: &str) -> bool {
        self.state(dataset) == DatasetState::Whole
    }

    pub(super) fn describe(
        &self,
        dataset: &str,
        devices: &[BlockDevice],
        is_there: impl Fn(&NamespaceId) -> bool,
    ) -> Option<Zpool> {
        let name = pool_of(dataset);
        let pool = self.0.get(name)?;
        let vdev = |id: &NamespaceId| {
            let ours = devices.iter().find(|device| device.namespace == *id);
            let device = match ours {
                Some(_) => VdevDevice::Namespace(id.clone()),
                None if is_there(id) => VdevDevice::Foreign,
                None => VdevDevice::Missing,
            };
            let state = if device == VdevDevice::Missing { "UNAVAIL" } else { "ONLINE" };
            Vdev { name: id.to_string(), state: state.to_owned(), device }
        };
        let vdevs: Vec<_> = pool.members.iter().map(vdev).collect();
        let health = health(vdevs.iter().filter(|vdev| vdev.device == VdevDevice::Missing).count());
        let dataset = self.state(dataset);
        Some(Zpool { name: name.to_owned(), health, vdevs, resilvered: None, dataset })
    }

    fn state(&self, dataset: &str) -> DatasetState {
        let pool = self.0.get(pool_of(dataset));
        let found = pool.and_then(|pool| pool.datasets.get(dataset));
        found.copied().unwrap_or(DatasetState::Absent)
    }

    /// Returns the pools on these devices whose names are not in `imported`.
    pub(super) fn on(
        &self,
        devices: &[BlockDevice],
        imported: &BTreeSet<String>,
    ) -> Vec<FoundPool> {
        let is_reachable =
            |id: &&NamespaceId| devices.iter().any(|device| device.namespace == **id);
        let found = self.0.iter().filter(|(name, _)| !imported.contains(*name));
        let counted = found.map(|(name, pool)| {
            (name, pool.members.len(), pool.members.iter().filter(is_reachable).count())
        });
        let usable = counted.filter(|(_, _, reachable)| *reachable > 0);
        usable
            .map(|(name, all, reachable)| FoundPool {
                name: name.clone(),
                health: health(all - reachable),
            })
            .collect()
    }

    pub(super) fn take(
        &mut self,
        action: ZfsAction,
        on: &str,
        (devices, line): (&[BlockDevice], &str),
        (imported, mounted): (&mut BTreeSet<String>, &[String]),
    ) -> Result<(), StepError> {
        let no = |stderr: &str| Err(refused(action, on, stderr));
        let name = pool_of(on);
        let is_busy = mounted.iter().any(|source| pool_of(source) == name);
        match action {
            ZfsAction::Create | ZfsAction::Import if imported.contains(name) => {
                return no("a pool with that name already exists");
            }
            ZfsAction::Create if devices.iter().any(|device| self.claims(&device.namespace)) => {
                return no("is part of active pool");
            }
            ZfsAction::Create => {
                let members = devices.iter().map(|device| device.namespace.clone()).collect();
                let pool = Pool { members, datasets: BTreeMap::new(), foreign: false };
                self.0.insert(name.to_owned(), pool);
                imported.insert(name.to_owned());
            }
            ZfsAction::Import if !self.0.contains_key(name) => return no("no such pool available"),
            ZfsAction::Import => {
                imported.insert(name.to_owned());
            }
            _ if !imported.contains(name) => return no("no such pool"),
            ZfsAction::Destroy if is_busy => return no("pool is busy"),
            ZfsAction::Destroy => {
                self.0.remove(name);
                imported.remove(name);
            }
            ZfsAction::Discard if self.state(on) == DatasetState::Absent => {
                return no("dataset does not exist");
            }
            ZfsAction::Discard if mounted.iter().any(|source| source == on) => {
                return no("dataset is busy");
            }
            ZfsAction::Discard => self.set(on, DatasetState::Absent),
            ZfsAction::Format if self.state(on) != DatasetState::Absent => {
                return no("dataset already exists");
            }
            ZfsAction::Format => self.set(on, DatasetState::Whole),
            ZfsAction::Replace => return self.replace(on, devices, line),
        }
        Ok(())
    }

    /// Replaces a device of a pool, by a line `<pool> <old> <new>`.
    fn replace(&mut self, on: &str, devices: &[BlockDevice], line: &str) -> Result<(), StepError> {
        let no = |stderr: &str| Err(refused(ZfsAction::Replace, on, stderr));
        let words: Vec<_> = line.split_whitespace().collect();
        let [name, old, new] = words[..] else { return no("missing new device") };
        let new = devices.iter().find(|device| device.path.as_os_str() == new);
        let Some(new) = new else { return no("no such device") };
        if self.claims(&new.namespace) {
            return no("is in use and contains a pool");
        }
        let Some(pool) = self.0.get_mut(name) else { return no("no such pool") };
        let Some(lost) = pool.members.iter().find(|id| id.to_string() == old).cloned() else {
            return no("no such device in pool");
        };
        pool.members.remove(&lost);
        pool.members.insert(new.namespace.clone());
        Ok(())
    }

    /// Applies half of a mkfs: the dataset lacks those properties that mkfs writes last.
    pub(super) fn half_make(&mut self, dataset: &str) {
        if self.state(dataset) == DatasetState::Absent {
            self.set(dataset, DatasetState::HalfMade);
        }
    }

    fn set(&mut self, dataset: &str, state: DatasetState) {
        if let Some(pool) = self.0.get_mut(pool_of(dataset)) {
            pool.datasets.insert(dataset.to_owned(), state);
        }
    }

    fn claims(&self, id: &NamespaceId) -> bool {
        self.0.values().any(|pool| pool.members.contains(id))
    }
}

/// Returns the health of a pool that lost this many devices. Every simulated pool survives the loss of one device,
/// although the default profile makes pools without redundancy.
fn health(lost: usize) -> PoolHealth {
    match lost {
        0 => PoolHealth::Online,
        1 => PoolHealth::Degraded,
        _ => PoolHealth::Broken("UNAVAIL".to_owned()),
    }
}
