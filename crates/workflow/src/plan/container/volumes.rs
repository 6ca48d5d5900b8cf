//! Raw storage where Kubernetes runs the containers: a PersistentVolume and its claim for each device, before any pod is made.
//!
//! The engine deletes them once the last pod is gone, and the storage is unmounted after them.

use containers::volumes;

use super::run::Parts;
use crate::{change::Change, progress::Progress, view::Containers as Objects};

/// Creates the missing volumes and claims.
pub(super) fn made(of: &Objects, parts: &Parts<'_>) -> Progress {
    // Those of all attempts.
    let run = parts.run(&[], None);
    let mut missing = Vec::new();
    for rabbit in run.rabbits() {
        for device in run.devices_on(rabbit) {
            if !of.volumes.contains_key(&device.name) {
                missing.push(Change::create(&volumes::volume(&run, rabbit, device)));
            }
            if !of.volume_claims.contains_key(&device.name) {
                missing.push(Change::create(&volumes::claim(&run, device)));
            }
        }
    }
    Progress::default().with(missing)
}

/// Deletes the volumes and claims, and waits until they are gone: Kubernetes keeps a claim while a pod uses it, and a volume while
/// its claim exists.
pub(super) fn removed(of: &Objects) -> Progress {
    if of.volumes.is_empty() && of.volume_claims.is_empty() {
        return Progress::default();
    }
    let claims = of.volume_claims.values().filter_map(|one| Change::delete(&**one));
    let volumes = of.volumes.values().filter_map(|one| Change::delete(&**one));
    Progress::wait("removal of the PersistentVolumes of raw storage").with(claims.chain(volumes))
}
