//! Dropped mounts: mounts that an object asked for earlier and no longer asks for, because its `spec.mounts` was
//! changed in place. This module does no I/O.
//!
//! A dropped mount belongs to its object until it is unmounted; until then the object is not
//! ready, and keeps its finalizer. When an agent starts, it reads the dropped mounts from
//! the object's record ([`MountRecords`](crate::records::MountRecords)).

use std::{collections::BTreeMap, path::Path};

use api::{ClientMount, RabbitLabels, client_mount::ClientMountInfo, names::label};

/// Dropped mounts by the uid of their object. The value is a list of earlier versions of the object; each version
/// contains only the mounts that must still be unmounted.
#[derive(Debug, Clone, Default)]
pub struct DroppedMounts(BTreeMap<String, Vec<ClientMount>>);

impl DroppedMounts {
    /// Records the change of an object from `before` to `after`, which is `None` if the new version cannot be
    /// read. `was_own(i)` returns whether mount `i` of `before` belonged to this object: another object may have
    /// mounted at the same path first.
    pub fn record_change(
        &mut self,
        before: &ClientMount,
        after: Option<&ClientMount>,
        was_own: impl Fn(usize) -> bool,
    ) {
        let uid = before.metadata.uid.clone().unwrap_or_default();
        let mut versions = self.0.remove(&uid).unwrap_or_default();
        let mut indices = 0..;
        let mut dropped = before.clone();
        dropped.spec.mounts.retain(|_| indices.next().is_some_and(&was_own));
        versions.push(dropped);
        self.set(uid.clone(), versions);
        self.forget_requested(&uid, after);
    }

    /// Forgets the dropped mounts that the object asks for again.
    pub fn forget_requested(&mut self, uid: &str, after: Option<&ClientMount>) {
        let mut versions = self.0.remove(uid).unwrap_or_default();
        for version in &mut versions {
            let before = version.clone();
            let is_requested = |mount: &ClientMountInfo| {
                after.is_some_and(|after| asks_for(after, &before, mount))
            };
            version.spec.mounts.retain(|mount| !is_requested(mount));
        }
        self.set(uid.to_owned(), versions);
    }

    /// Returns the dropped mounts of an object, which the agent unmounts before it does anything else for the object.
    pub fn of_object(&self, uid: &str) -> &[ClientMount] {
        self.0.get(uid).map_or(&[], Vec::as_slice)
    }

    /// Returns the dropped mounts of all objects.
    pub fn all(&self) -> impl Iterator<Item = &ClientMount> {
        self.0.values().flatten()
    }

    /// Forgets the dropped mounts in `unmounted`. Some may be forgotten already, because the object has asked for them
    /// again meanwhile.
    pub fn forget_unmounted(&mut self, uid: &str, unmounted: &[ClientMount]) {
        let mut versions = self.0.remove(uid).unwrap_or_default();
        for version in &mut versions {
            let same = unmounted.iter().filter(|other| other.metadata == version.metadata);
            let mounts: Vec<_> = same.flat_map(|other| &other.spec.mounts).collect();
            version.spec.mounts.retain(|mount| !mounts.contains(&mount));
        }
        self.set(uid.to_owned(), versions);
    }

    /// Forgets a deleted object, and returns its dropped mounts. The caller must make sure that they are unmounted,
    /// because the agent will not work on the object again.
    pub fn forget(&mut self, uid: &str) -> Vec<ClientMount> {
        self.0.remove(uid).unwrap_or_default()
    }

    fn set(&mut self, uid: String, mut versions: Vec<ClientMount>) {
        versions.retain(|version| !version.spec.mounts.is_empty());
        if !versions.is_empty() {
            self.0.insert(uid, versions);
        }
    }
}

/// Returns whether the new version `after` of an object asks for `mount`, which the earlier version `before` asked for.
fn asks_for(after: &ClientMount, before: &ClientMount, mount: &ClientMountInfo) -> bool {
    let owner = |object: &ClientMount| object.label(label::TARGET_OWNER_UID).map(str::to_owned);
    let allocation = |mount: &ClientMountInfo| {
        let reference = mount.device.device_reference.as_ref()?;
        let referenced = &reference.object_reference;
        Some((referenced.namespace.clone(), referenced.name.clone(), reference.allocation_index()))
    };
    // The path may contain variables, whose values come from the object's labels and from the mount's user and group.
    // If the labels, the user or the group have changed, the expanded path may be another one.
    let has_variables = mount.mount_path.contains('$');
    let same = |other: &ClientMountInfo| {
        Path::new(&other.mount_path) == Path::new(&mount.mount_path)
            && (!has_variables
                || (other.user_id, other.group_id) == (mount.user_id, mount.group_id))
            && other.kind == mount.kind
            && allocation(other) == allocation(mount)
            && other.device.lustre == mount.device.lustre
    };
    before.spec.node == after.spec.node
        && owner(before) == owner(after)
        && (!has_variables || before.metadata.labels == after.metadata.labels)
        && after.spec.mounts.iter().any(same)
}
