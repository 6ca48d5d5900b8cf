//! Raw storage where Kubernetes runs the containers: a PersistentVolume and its claim for each device,
//! created before any pod.
//!
//! The engine deletes them once the last pod is gone, and the storage is unmounted after them.

use containers::volumes;

use super::run::Parts;
use crate::{change::Change, progress::Progress, view::Containers as Objects};

/// Creates the missing volumes and claims.
pub(super) fn create(existing: &Objects, parts: &Parts<'_>) -> Progress {
    // A run without an attempt: all attempts use the same volumes.
    let run = parts.run(&[], None);
    let mut missing = Vec::new();
    for rabbit in run.rabbits() {
        for device in run.devices_on(rabbit) {
            if !existing.volumes.contains_key(&device.name) {
                missing.push(Change::create(&volumes::volume(&run, rabbit, device)));
            }
            if !existing.volume_claims.contains_key(&device.name) {
                missing.push(Change::create(&volumes::claim(&run, device)));
            }
        }
    }
    Progress::default().with(missing)
}

/// Deletes the volumes and claims, and waits until they are gone: Kubernetes keeps a claim while a pod uses it, and a
/// volume while its claim exists.
pub(super) fn remove(existing: &Objects) -> Progress {
    if existing.volumes.is_empty() && existing.volume_claims.is_empty() {
        return Progress::default();
    }
    let claims = existing.volume_claims.values().filter_map(|object| Change::delete(&**object));
    let volumes = existing.volumes.values().filter_map(|object| Change::delete(&**object));
    Progress::wait("removal of the PersistentVolumes of raw storage").with(claims.chain(volumes))
}
