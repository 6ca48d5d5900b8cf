//! Objects that never got the mount points they ask for, because another object has them. Pure.
//!
//! Such an object has nothing to unmount, and what is mounted at its paths is the other's: it must not be touched.

use api::ClientMount;
use clientmount_agent::{
    claims::Claimant,
    desired::{Goal, MountUnits},
    site::Site,
};
use kube::ResourceExt;
use storage::desired::MountPoint;

use super::reconcile::units;
use crate::world::World;

/// Whether another object rightfully has one of `own`'s mount points, and the object was never reported mounted.
///
/// An object is mounted whole or not at all, so then nothing of it is.
#[must_use]
pub fn never_held(object: &ClientMount, own: &MountUnits, world: &World, site: &Site) -> bool {
    !is_mounted(object)
        && world
            .client_mounts
            .iter()
            .any(|other| stands(other, object) && has_one_of(other, own, world, site))
}

fn is_mounted(object: &ClientMount) -> bool {
    let mounts = object.status.iter().flat_map(|status| &status.mounts);
    mounts.into_iter().any(|mount| mount.ready && mount.state == Goal::Mounted.state())
}

/// It asks for mounts, and was first or has them already.
fn stands(other: &ClientMount, object: &ClientMount) -> bool {
    let asks = other.uid() != object.uid() && other.namespace() == object.namespace();
    asks && Goal::of(other) == Ok(Goal::Mounted)
        && (is_mounted(other) || Claimant::of(other) < Claimant::of(object))
}

fn has_one_of(other: &ClientMount, own: &MountUnits, world: &World, site: &Site) -> bool {
    let Ok(theirs) = units(other, Goal::Mounted, world, site) else { return false };
    !theirs.refused()
        && theirs.mount_points().any(|path| own.mount_points().any(|it| overlap(it, path)))
}

fn overlap(one: &MountPoint, other: &MountPoint) -> bool {
    one.path().starts_with(other.path()) || other.path().starts_with(one.path())
}
