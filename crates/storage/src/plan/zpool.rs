//! Plans the creation, import, repair and destruction of ZFS pools.
//!
//! A pool belongs to the target when it has the target's pool name and lies on the target's namespaces and no other
//! devices. A lost device says nothing about the owner of the pool.

use std::collections::BTreeMap;

use super::{Rejection, volume};
use crate::{
    Step,
    desired::LustreTarget,
    observed::{
        BlockDevice, DatasetState, FoundPool, Observed, PoolHealth, PoolState, Vdev, VdevDevice,
        Zpool,
    },
    step::ZfsAction,
    template::SiteCommand,
};

/// A target's pool, desired and observed.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    target: &'a LustreTarget,
    state: PoolState,
}

impl<'a> Pool<'a> {
    pub(super) fn new(target: &'a LustreTarget, observed: &Observed) -> Self {
        Self { target, state: observed.zpool.clone().unwrap_or_default() }
    }

    fn name(&self) -> &str {
        self.target.dataset.pool()
    }

    /// Returns the state of the target's dataset; `None` without a pool.
    pub(super) fn dataset(&self) -> Option<DatasetState> {
        self.state.imported.as_ref().map(|pool| pool.dataset)
    }

    /// Plans the steps until the pool is imported and can be used.
    pub(super) fn build(&self) -> Result<Vec<Step>, Rejection> {
        if let Some(pool) = &self.state.imported {
            self.check_owner(pool)?;
            self.check_health(&pool.health)?;
            return Ok(Vec::new());
        }
        if let Some(found) = self.importable()? {
            self.check_health(&found.health)?;
            return Ok(vec![self.import()]);
        }
        let Some(line) = &self.target.lines.create else { return Ok(Vec::new()) };
        if !self.state.missing.is_empty() || self.state.devices.is_empty() {
            let volume = format!("zpool {}", self.name());
            return Err(Rejection::NoDevice { volume, missing: self.state.missing.clone() });
        }
        let line = line.expand(&self.variables());
        Ok(vec![self.step(ZfsAction::Create, self.name(), line)])
    }

    /// Plans the import of a pool so that it can be destroyed. A pool that cannot be used is not imported, because the
    /// erasure of its namespaces removes it.
    pub(super) fn import_for_destruction(&self) -> Result<Vec<Step>, Rejection> {
        if let Some(pool) = &self.state.imported {
            self.check_owner(pool)?;
            return Ok(Vec::new());
        }
        let found =
            self.importable()?.filter(|found| !matches!(found.health, PoolHealth::Broken(_)));
        let has_destroy_line = self.target.lines.destroy.is_some();
        Ok(found.filter(|_| has_destroy_line).map(|_| self.import()).into_iter().collect())
    }

    /// Plans the steps that make the Lustre target, after removing leftovers of an interrupted mkfs.
    pub(super) fn format(&self) -> Vec<Step> {
        let (Some(mkfs), Some(state)) = (&self.target.lines.mkfs, self.dataset()) else {
            return Vec::new();
        };
        let name = self.target.dataset.to_string();
        let discard = self.step(ZfsAction::Discard, &name, name.clone());
        let make = self.step(ZfsAction::Format, &name, mkfs.expand(&self.variables()));
        match state {
            DatasetState::Whole => Vec::new(),
            DatasetState::Absent => vec![make],
            DatasetState::HalfMade => vec![discard, make],
        }
    }

    /// Rejects a pool that is still resilvering.
    pub(super) fn check_resilvered(&self) -> Result<(), Rejection> {
        match self.state.imported.as_ref().and_then(|pool| pool.resilvered) {
            Some(percent) => Err(Rejection::Resilvering { pool: self.name().to_owned(), percent }),
            None => Ok(()),
        }
    }

    /// Plans the replacement of each lost device of the pool by a device of the allocation that the pool
    /// does not use yet.
    pub(super) fn replace(&self) -> Vec<Step> {
        let (Some(pool), Some(line)) = (&self.state.imported, &self.target.lines.replace) else {
            return Vec::new();
        };
        let lost = pool.vdevs.iter().filter(|vdev| is_lost(vdev));
        let pairs = lost.zip(self.spare(pool));
        pairs.map(|(lost, spare)| self.replace_device(line, lost, spare)).collect()
    }

    fn replace_device(&self, line: &SiteCommand, lost: &Vdev, spare: &BlockDevice) -> Step {
        let mut more = self.variables();
        more.insert("$OLD_DEVICE".to_owned(), lost.name.clone());
        more.insert("$NEW_DEVICE".to_owned(), spare.path.display().to_string());
        self.step(ZfsAction::Replace, self.name(), line.expand(&more))
    }

    /// Plans the destruction of the pool. The caller has checked that the pool belongs to the target.
    pub(super) fn destroy(&self) -> Option<Step> {
        let line = self.target.lines.destroy.as_ref().filter(|_| self.state.imported.is_some())?;
        Some(self.step(ZfsAction::Destroy, self.name(), line.expand(&self.variables())))
    }

    fn import(&self) -> Step {
        self.step(ZfsAction::Import, self.name(), self.name().to_owned())
    }

    /// Returns the only pool whose labels are on the devices; rejects several pools, or a pool with another name.
    fn importable(&self) -> Result<Option<&FoundPool>, Rejection> {
        let other_pool = self.state.found.iter().find(|found| found.name != self.name());
        let wanted = || self.name().to_owned();
        match (other_pool, &self.state.found[..]) {
            (Some(found), _) => {
                Err(Rejection::OtherPool { found: found.name.clone(), wanted: wanted() })
            }
            (None, [] | [_]) => Ok(self.state.found.first()),
            (None, many) => Err(Rejection::ManyPools { pool: wanted(), count: many.len() }),
        }
    }

    fn check_owner(&self, pool: &Zpool) -> Result<(), Rejection> {
        let strange = pool.vdevs.iter().filter(|vdev| vdev.device == VdevDevice::Foreign);
        let strange: Vec<_> = strange.map(|vdev| vdev.name.clone()).collect();
        let lost = pool.vdevs.iter().filter(|vdev| is_lost(vdev)).count();
        let spare = self.spare(pool);
        let has_ours =
            pool.vdevs.iter().any(|vdev| matches!(vdev.device, VdevDevice::Namespace(_)));
        if strange.is_empty() && has_ours && spare.len() <= lost {
            return Ok(());
        }
        if strange.is_empty() && spare.is_empty() && has_lost_all_devices(pool) {
            return Err(self.broken(&format!("{}, without any of its devices", pool.health)));
        }
        let unused = spare.iter().map(|device| device.path.clone()).collect();
        Err(Rejection::ForeignPool { pool: pool.name.clone(), strange, unused })
    }

    fn check_health(&self, health: &PoolHealth) -> Result<(), Rejection> {
        match health {
            PoolHealth::Online | PoolHealth::Degraded => Ok(()),
            PoolHealth::Broken(state) => Err(self.broken(state)),
        }
    }

    fn broken(&self, state: &str) -> Rejection {
        Rejection::PoolBroken { pool: self.name().to_owned(), state: state.to_owned() }
    }

    /// Returns the devices of the allocation that the pool does not use.
    fn spare(&self, pool: &Zpool) -> Vec<&BlockDevice> {
        let has = |device: &&BlockDevice| {
            let device = VdevDevice::Namespace(device.namespace.clone());
            pool.vdevs.iter().any(|vdev| vdev.device == device)
        };
        self.state.devices.iter().filter(|device| !has(device)).collect()
    }

    fn step(&self, action: ZfsAction, on: &str, line: String) -> Step {
        Step::Zfs { action, on: on.to_owned(), devices: self.state.devices.clone(), line }
    }

    pub(super) fn variables(&self) -> BTreeMap<String, String> {
        volume::variables(volume::of_devices(&self.state.devices))
    }
}

/// Returns whether the pool has lost all of its devices. Then no device shows who owns the pool; it counts as broken,
/// not as foreign.
fn has_lost_all_devices(pool: &Zpool) -> bool {
    let is_away = |vdev: &Vdev| matches!(vdev.device, VdevDevice::Missing | VdevDevice::Replaced);
    !pool.vdevs.is_empty() && pool.vdevs.iter().all(is_away)
}

/// Returns whether a device is lost and has no replacement yet.
fn is_lost(vdev: &Vdev) -> bool {
    vdev.device == VdevDevice::Missing
}
