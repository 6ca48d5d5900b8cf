//! Computes the status of a NnfNodeStorage. Does no I/O.

use api::{
    NnfNodeStorage, NnfNodeStorageStatus, ResourceError,
    nnf_node_storage::{NnfNodeStorageAllocationStatus, NnfStorageHealth},
};
use storage::{
    ConvergeError, Converged, Observed, Rejection,
    desired::{Volume, VolumeLayer},
    observed::Percent,
};

use super::unit::{Outcome, Unit};

/// The state of a file system or Lustre target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitState {
    volume: Option<Volume>,
    /// Health of the file system; `None` if the file system is not ready.
    health: Option<NnfStorageHealth>,
}

impl UnitState {
    /// Returns the state of a file system on `volume`. `was_ready` says whether the status reported the file
    /// system as ready before.
    pub fn of_volume(
        volume: Volume,
        was_ready: bool,
        result: &Result<Converged, ConvergeError>,
    ) -> Self {
        let health = match result {
            Ok(converged) => Some(health(&volume, &converged.observed)),
            // A volume can be used while it synchronises.
            Err(error) if was_ready && is_syncing(error) => Some(NnfStorageHealth::Degraded),
            Err(_) => None,
        };
        let volume = Some(volume).filter(|volume| volume.layer != VolumeLayer::Plain);
        Self { volume, health }
    }

    /// Returns the state of a unit. A unit that the pass did not reach is not ready.
    pub fn of_unit(unit: &Unit, was_ready: bool, outcome: &Outcome) -> Self {
        let health = match (unit, outcome) {
            (Unit::FileSystem(fs), Some(result)) => {
                return Self::of_volume(fs.volume.clone(), was_ready, result);
            }
            (Unit::Target(_), Some(Ok(converged))) => Some(pool_health(&converged.observed)),
            // A target is mounted before its pool is checked. If only the check of the pool fails, the target serves,
            // even if the status did not report the target as ready.
            (Unit::Target(_), Some(Err(error))) if is_syncing(error) => {
                Some(NnfStorageHealth::Degraded)
            }
            (Unit::FileSystem(_) | Unit::Target(_), _) => None,
        };
        Self { volume: None, health }
    }
}

/// Returns the health of a pool; degraded if a device of the pool is missing.
fn pool_health(observed: &Observed) -> NnfStorageHealth {
    let pool = observed.zpool.as_ref().and_then(|pool| pool.imported.as_ref());
    let is_degraded = pool.is_some_and(storage::observed::Zpool::is_degraded);
    if is_degraded { NnfStorageHealth::Degraded } else { NnfStorageHealth::Healthy }
}

/// Returns whether the only error is that a RAID or pool synchronises. Then nothing failed, however
/// long the synchronisation takes.
pub fn is_syncing(error: &ConvergeError) -> bool {
    matches!(error, ConvergeError::Rejected(why) if sync_progress(why).is_some())
}

/// Returns the progress of the synchronisation; `None` for any other error.
pub fn sync_progress(why: &Rejection) -> Option<Percent> {
    match why {
        Rejection::Syncing { percent, .. } | Rejection::Resilvering { percent, .. } => {
            Some(*percent)
        }
        _ => None,
    }
}

/// Returns the health of a volume; degraded if the volume has lost a device, or if LVM reports a problem.
fn health(volume: &Volume, observed: &Observed) -> NnfStorageHealth {
    let report = observed.volume.as_ref().and_then(|state| state.lvm.as_ref()?.report.as_ref());
    let group = report.and_then(|report| report.group(&volume.group));
    let trouble = group.is_some_and(|group| {
        let troubled = group.volume(&volume.logical).is_some_and(|volume| volume.trouble.is_some());
        group.missing > 0 || troubled
    });
    if trouble { NnfStorageHealth::Degraded } else { NnfStorageHealth::Healthy }
}

/// Returns the status after the object's file systems converged or failed.
///
/// Reports only health that was observed: the health of a failed file system is unknown and left out.
pub fn status(states: &[UnitState], error: Option<ResourceError>) -> NnfNodeStorageStatus {
    let name = |state: &UnitState, part: fn(&Volume) -> &String| {
        state.volume.as_ref().map(|volume| part(volume).clone())
    };
    let allocation = |state: &UnitState| NnfNodeStorageAllocationStatus {
        volume_group: name(state, |volume| &volume.group).unwrap_or_default(),
        logical_volume: name(state, |volume| &volume.logical).unwrap_or_default(),
        health: state.health.clone(),
        ready: state.health.is_some(),
    };
    let ready = states.iter().all(|state| state.health.is_some());
    let is_degraded = states.iter().any(|state| state.health == Some(NnfStorageHealth::Degraded));
    let health = if is_degraded { NnfStorageHealth::Degraded } else { NnfStorageHealth::Healthy };
    NnfNodeStorageStatus {
        allocations: states.iter().map(allocation).collect(),
        health: ready.then_some(health),
        ready: ready && error.is_none(),
        error,
    }
}

/// Returns the status of an invalid object: the present status, with the error.
pub fn with_error(object: &NnfNodeStorage, error: ResourceError) -> NnfNodeStorageStatus {
    NnfNodeStorageStatus { error: Some(error), ..object.status.clone().unwrap_or_default() }
}

/// Returns whether any pass worked on the object's file systems. If so, the tear-down needs the profile: without it,
/// the tear-down would skip hooks and leave mounts. Looks at `allocations`, not at `ready`: a file system that was
/// ready and failed later is not ready either.
pub fn was_ever_worked_on(object: &NnfNodeStorage) -> bool {
    object.status.as_ref().is_some_and(|status| !status.allocations.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use storage::observed::{
        DatasetState, LogicalVolume, LvmReport, LvmState, PoolHealth, PoolState, Vdev, VdevDevice,
        VolumeGroup, VolumeState, Zpool,
    };

    use super::*;
    use crate::samples;

    fn healthy_unit() -> UnitState {
        UnitState { volume: None, health: Some(NnfStorageHealth::Healthy) }
    }

    #[test]
    fn a_volume_that_lost_a_device_is_degraded() {
        let layer = VolumeLayer::Lvm(Box::default());
        let volume = Volume {
            group: "vg".into(),
            logical: "lv".into(),
            namespaces: vec![],
            made_for: None,
            layer,
        };
        let seen = |missing, trouble: Option<&str>| {
            let logical = LogicalVolume {
                name: "lv".into(),
                trouble: trouble.map(str::to_owned),
                ..LogicalVolume::default()
            };
            let group = VolumeGroup {
                name: "vg".into(),
                missing,
                volumes: vec![logical],
                ..VolumeGroup::default()
            };
            let report = Some(LvmReport { groups: vec![group], ..LvmReport::default() });
            let lvm = Some(LvmState { report, ..LvmState::default() });
            let observed = Observed {
                volume: Some(VolumeState { lvm, ..VolumeState::default() }),
                ..Observed::default()
            };
            let converged = Ok(Converged { observed, ..Converged::default() });
            serde_json::to_value(status(
                &[UnitState::of_volume(volume.clone(), false, &converged)],
                None,
            ))
            .unwrap()
        };
        let names =
            json!({"volumeGroup": "vg", "logicalVolume": "lv", "health": "Healthy", "ready": true});
        assert_eq!(seen(0, None)["allocations"][0], names);
        for degraded in [seen(1, None), seen(0, Some("partial"))] {
            assert_eq!(
                (&degraded["health"], &degraded["ready"]),
                (&json!("Degraded"), &json!(true))
            );
        }
    }

    /// zpool(8) reports some pools as `ONLINE` although they have lost a device; for a while it reports the lost device
    /// as `ONLINE` as well.
    #[test]
    fn a_pool_that_lost_a_device_is_degraded_even_if_online() {
        let seen = |state: &str, device, health| {
            let vdevs = vec![Vdev { name: "77".into(), state: state.into(), device }];
            let (name, dataset) = ("pool".into(), DatasetState::Whole);
            let imported = Some(Zpool { name, health, vdevs, resilvered: None, dataset });
            let zpool = Some(PoolState { imported, ..PoolState::default() });
            pool_health(&Observed { zpool, ..Observed::default() })
        };
        let (here, gone) = (|| VdevDevice::Foreign, || VdevDevice::Missing);
        assert_eq!(seen("ONLINE", here(), PoolHealth::Online), NnfStorageHealth::Healthy);
        assert_eq!(seen("ONLINE", gone(), PoolHealth::Online), NnfStorageHealth::Degraded);
        assert_eq!(seen("UNAVAIL", gone(), PoolHealth::Online), NnfStorageHealth::Degraded);
        assert_eq!(seen("ONLINE", here(), PoolHealth::Degraded), NnfStorageHealth::Degraded);
    }

    #[test]
    fn a_synchronising_volume_is_ready_only_if_it_was_ready_before() {
        let syncing = || {
            Err(ConvergeError::Rejected(Rejection::Syncing {
                volume: "vg/lv".into(),
                percent: Percent::default(),
            }))
        };
        let volume = Volume {
            group: "vg".into(),
            logical: "lv".into(),
            namespaces: vec![],
            made_for: None,
            layer: VolumeLayer::Plain,
        };
        let state = |was_ready| UnitState::of_volume(volume.clone(), was_ready, &syncing());
        let again = status(&[state(true)], None);
        assert_eq!((again.ready, again.health), (true, Some(NnfStorageHealth::Degraded)));
        let new = status(&[state(false)], None);
        assert_eq!((new.ready, new.health), (false, None));
    }

    #[test]
    fn the_status_has_the_shape_that_central_controllers_read() {
        let healthy = json!({"health": "Healthy", "ready": true});
        assert_eq!(
            serde_json::to_value(status(&[healthy_unit(), healthy_unit()], None)).unwrap(),
            json!({"allocations": [healthy, healthy], "health": "Healthy", "ready": true})
        );
    }

    #[test]
    fn one_failed_file_system_makes_the_object_not_ready() {
        let status = serde_json::to_value(status(
            &[healthy_unit(), UnitState { volume: None, health: None }],
            Some(ResourceError::new("x")),
        ))
        .unwrap();
        assert_eq!(status["allocations"], json!([{"health": "Healthy", "ready": true}, {}]));
        assert_eq!((status.get("ready"), status.get("health")), (None, None));
    }

    #[test]
    fn an_error_keeps_the_last_status() {
        let mut object = samples::node_storage(1, "xfs");
        object.status = Some(status(&[healthy_unit()], None));
        let after = with_error(&object, ResourceError::new("x"));
        assert!(after.ready && after.error.is_some());
    }

    #[test]
    fn an_object_counts_as_worked_on_after_later_failures() {
        let mut object = samples::node_storage(1, "xfs");
        assert!(!was_ever_worked_on(&object));
        object.status = Some(with_error(&object, ResourceError::new("x")));
        assert!(!was_ever_worked_on(&object), "the object was only rejected");
        let failed = UnitState { volume: None, health: None };
        object.status = Some(status(&[failed], Some(ResourceError::new("x"))));
        assert!(was_ever_worked_on(&object));
        object.status = Some(with_error(&object, ResourceError::new("y")));
        assert!(was_ever_worked_on(&object));
    }
}
