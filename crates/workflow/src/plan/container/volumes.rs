//! Raw storage where Kubernetes runs the containers: creates a PersistentVolume and a PersistentVolumeClaim for each
//! device before any pod.
//!
//! The engine deletes the volumes and their PersistentVolumeClaims once the last pod is gone, and only
//! then unmounts the storage.

use containers::volumes;

use super::run::Parts;
use crate::{change::Change, objects::view::Containers as Objects, progress::Progress};

/// Creates the missing PersistentVolumes and PersistentVolumeClaims.
pub(super) fn create(existing: &Objects, parts: &Parts<'_>) -> Progress {
    // The run has no attempt number here, because all attempts use the same volumes.
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

/// Deletes the PersistentVolumes and PersistentVolumeClaims, and waits until they are gone: Kubernetes keeps a
/// PersistentVolumeClaim while a pod uses it, and a PersistentVolume while its PersistentVolumeClaim exists.
pub(super) fn remove(existing: &Objects) -> Progress {
    if existing.volumes.is_empty() && existing.volume_claims.is_empty() {
        return Progress::default();
    }
    let claims = existing.volume_claims.values().filter_map(|object| Change::delete(&**object));
    let volumes = existing.volumes.values().filter_map(|object| Change::delete(&**object));
    Progress::wait("removal of the PersistentVolumes of raw storage").with(claims.chain(volumes))
}
