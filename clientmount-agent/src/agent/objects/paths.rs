//! Paths at which objects may have something mounted, for the clean-up.

use std::collections::BTreeSet;

use agent::reconcile::mount_points_of;
use storage::desired::MountPoint;

use super::{Object, Objects};

impl Objects {
    /// Returns whether an object or one of its mounts is invalid. Such an object may have mounts at paths that the
    /// agent does not know: an earlier, valid version of the object may have named other paths.
    pub(in crate::agent) fn may_have_unnamed_mounts(&self, uid: &str) -> bool {
        let units = self.known.get(uid).map(|object| &object.units);
        units.is_some_and(|units| {
            units.as_ref().map_or(true, |units| units.mounts.iter().any(Result::is_err))
        })
    }

    /// Returns whether an object may have a mount at a path that is not known any more.
    pub(in crate::agent) fn has_unknown_path(&self, uid: &str) -> bool {
        let units = self.known.get(uid).and_then(|object| object.units.as_ref().ok());
        units
            .is_some_and(|units| (0..units.mounts.len()).any(|index| units.has_unknown_path(index)))
    }

    /// Returns every path at which a known object may have something mounted; `None` if an object cannot be read.
    pub(in crate::agent) fn possible_paths(&self) -> Option<Vec<MountPoint>> {
        let mut paths = Vec::new();
        for object in self.known.values() {
            paths.extend(self.paths_of(object)?);
        }
        Some(paths)
    }

    /// Returns whether `paths` has all paths at which an object may have something mounted.
    pub(in crate::agent) fn is_within(&self, uid: &str, paths: &BTreeSet<MountPoint>) -> bool {
        let Some(object) = self.known.get(uid) else { return true };
        self.paths_of(object).is_some_and(|own| own.iter().all(|path| paths.contains(path)))
    }

    fn paths_of(&self, object: &Object) -> Option<Vec<MountPoint>> {
        let units = object.units.as_ref().ok();
        let mut paths = object.received.possible_paths(units.map(|units| &**units), &self.site)?;
        let dropped = self.dropped_units(&object.received);
        paths.extend(mount_points_of(&dropped).cloned());
        Some(paths)
    }
}
