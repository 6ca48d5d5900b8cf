//! The ClientMounts of this node as last received, including deleted ones that are not unmounted yet, and which
//! ClientMount each mount path belongs to. Pure.

mod paths;

use std::{collections::BTreeMap, mem, sync::Arc};

use api::ClientMount;

use agent::{
    desired::{Goal, MountUnits, ObjectError},
    dropped::DroppedMounts,
    error::Failure,
    received::{ReceivedMount, Report},
    reconcile::{DroppedUnits, Outcome, Work, WorkResult, mount_points_of},
    site::Site,
    targets::TargetsInUse,
};

#[derive(Debug)]
struct Object {
    received: ReceivedMount,
    /// Whether the API no longer has the object. If so, the agent unmounts the object's mounts, then forgets the
    /// object.
    gone: bool,
    /// Whether the object was read from the record of an earlier agent process. The mounts of such an object belong to
    /// it, even if another object requests their paths now.
    recorded: bool,
    units: Result<Arc<MountUnits>, ObjectError>,
}

/// Objects by uid: an object that is deleted and created again under its old name is another object.
#[derive(Debug)]
pub(super) struct Objects {
    site: Site,
    known: BTreeMap<String, Object>,
    targets: TargetsInUse,
    dropped: DroppedMounts,
    /// Objects received since the connection began; `None` once the list was complete.
    incoming: Option<BTreeMap<String, ReceivedMount>>,
}

impl Objects {
    /// Starts with the objects that an earlier agent recorded. They count as existing until a complete list
    /// replaces them. `recorded` has the versions of each object, the latest last.
    pub(super) fn new(site: Site, recorded: Vec<Vec<ClientMount>>) -> Self {
        let mut objects = Self {
            site,
            known: BTreeMap::new(),
            targets: TargetsInUse::default(),
            dropped: DroppedMounts::default(),
            incoming: None,
        };
        recorded.into_iter().for_each(|versions| objects.restore(versions));
        objects
    }

    fn restore(&mut self, mut versions: Vec<ClientMount>) {
        let Some(last) = versions.pop() else { return };
        for version in &versions {
            self.dropped.record_change(version, Some(&last), |_| true);
        }
        let received = ReceivedMount::from_record(last);
        let units = received.units(false, &self.site).map(Arc::new);
        self.insert(Object { received, gone: false, recorded: true, units });
    }

    /// Records that a connection was made. On each connection a complete list of objects comes first.
    pub(super) fn begin(&mut self) {
        self.incoming = Some(BTreeMap::new());
    }

    /// Records that the connection is lost. Forgets an incomplete list, because objects that it lacks may exist.
    pub(super) fn interrupt_list(&mut self) {
        self.incoming = None;
    }

    /// Stores the newest version of an object; returns the uids to work on.
    pub(super) fn store(&mut self, received: ReceivedMount) -> Vec<String> {
        if received.uid.is_empty() {
            log::warn!(object = received.name.as_str(); "the agent ignores an object without uid: {}/{}", received.namespace, received.name);
            return Vec::new();
        }
        match &mut self.incoming {
            Some(incoming) => {
                incoming.insert(received.uid.clone(), received);
                Vec::new()
            }
            None => self.set(received),
        }
    }

    /// Records that an object was deleted; returns the uids to work on.
    pub(super) fn remove(&mut self, uid: &str) -> Vec<String> {
        if let Some(incoming) = &mut self.incoming {
            incoming.remove(uid);
            return Vec::new();
        }
        self.set_gone(uid)
    }

    /// Records that the list is complete: known objects that it lacks were deleted. Returns the uids to work on.
    pub(super) fn end_list(&mut self) -> Vec<String> {
        let Some(incoming) = mem::take(&mut self.incoming) else { return Vec::new() };
        let absent: Vec<_> =
            self.known.keys().filter(|uid| !incoming.contains_key(*uid)).cloned().collect();
        let mut woken: Vec<_> = absent.iter().flat_map(|uid| self.set_gone(uid)).collect();
        for received in incoming.into_values() {
            woken.extend(self.set(received));
        }
        woken
    }

    fn set(&mut self, received: ReceivedMount) -> Vec<String> {
        let same_name = |object: &Object| {
            object.received.name == received.name && object.received.namespace == received.namespace
        };
        let replaced: Vec<_> = self
            .known
            .iter()
            .filter(|(uid, object)| **uid != received.uid && !object.gone && same_name(object))
            .map(|(uid, _)| uid.clone())
            .collect();
        let mut woken: Vec<_> = replaced.iter().flat_map(|uid| self.set_gone(uid)).collect();
        self.record_dropped(&received);
        let units = received.units(false, &self.site).map(Arc::new);
        woken.extend(self.insert(Object { received, gone: false, recorded: false, units }));
        woken
    }

    /// Records the mounts that an object no longer requests (dropped mounts): they belong to the object until the
    /// agent has unmounted them.
    fn record_dropped(&mut self, received: &ReceivedMount) {
        let Some(known) = self.known.get(&received.uid) else { return };
        let Some(before) = known.received.object() else {
            return self.dropped.forget_requested(&received.uid, received.object());
        };
        let units = known.received.units(true, &self.site).ok();
        let was_own = |index: usize| {
            let mount = units.as_ref().and_then(|units| units.mounts.get(index)?.as_ref().ok());
            mount.is_some_and(|mount| {
                known.recorded || !self.targets.belongs_to_other(&received.uid, &mount.target)
            })
        };
        self.dropped.record_change(before, received.object(), was_own);
    }

    /// Updates the mount targets that an object uses, after its dropped mounts have changed.
    fn request_again(&mut self, uid: &str) -> Vec<String> {
        self.known.remove(uid).map_or_else(Vec::new, |object| self.insert(object))
    }

    /// Returns an object's dropped mounts as units of work: one list of units for each version of the object.
    fn dropped_units(&self, received: &ReceivedMount) -> DroppedUnits {
        let versions = self.dropped.of_object(&received.uid).iter();
        let units = |version: &ClientMount| {
            let units = received.earlier_version(version).units(true, &self.site);
            units.map_err(|error| Failure::from(&error))
        };
        versions.map(|version| (version.clone(), units(version))).collect()
    }

    fn set_gone(&mut self, uid: &str) -> Vec<String> {
        let Some(object) = self.known.remove(uid) else { return Vec::new() };
        let units = object.received.units(true, &self.site).map(Arc::new);
        self.insert(Object { gone: true, units, ..object })
    }

    fn insert(&mut self, object: Object) -> Vec<String> {
        let uid = object.received.uid.clone();
        let dropped = self.dropped_units(&object.received);
        let dropped: Vec<_> = mount_points_of(&dropped).cloned().collect();
        let mut woken = match (&object.units, object.received.requester()) {
            (Ok(units), Some(requester)) => {
                let paths = units.mount_points().cloned().collect();
                self.targets.set(requester, units.goal, paths, dropped)
            }
            (Err(_), Some(requester)) if !dropped.is_empty() => {
                self.targets.set(requester, Goal::Unmounted, Vec::new(), dropped)
            }
            _ => self.targets.release(&uid),
        };
        self.known.insert(uid.clone(), object);
        woken.push(uid);
        woken
    }

    /// Returns the work for an object. For an invalid object the agent changes nothing.
    pub(super) fn work(&self, uid: &str) -> Option<Work> {
        let object = self.known.get(uid)?;
        let is_accepted = object.gone
            || object.received.deleted()
            || object.units.as_ref().is_ok_and(|units| !units.are_refused());
        let dropped = if is_accepted { self.dropped_units(&object.received) } else { Vec::new() };
        let units = match (&object.units, self.targets.conflict(uid)) {
            // The agent makes no mount for an invalid object, so there is nothing to unmount when it is deleted.
            (Err(_), _) if object.received.deleted() => Err(Outcome::absent(object.received.count)),
            (Err(error), _) => Err(object.received.refuse(Failure::from(error))),
            (Ok(_), Some(conflict)) => Err(object.received.refuse(Failure::from(&conflict))),
            (Ok(units), None) if self.targets.owns_nothing(uid) => {
                Err(Outcome::absent(units.mounts.len()))
            }
            (Ok(units), None) => Ok(Arc::clone(units)),
        };
        Some(Work {
            uid: uid.to_owned(),
            object: object.received.object().cloned(),
            dropped,
            units,
        })
    }

    /// Returns the report on an object; `None` for a deleted object.
    pub(super) fn report(&self, uid: &str, outcome: &Outcome) -> Option<Report> {
        let object = self.known.get(uid).filter(|object| !object.gone)?;
        Some(object.received.report(&self.site, outcome))
    }

    /// Records that dropped mounts of an object are unmounted; returns the uids of other objects that
    /// waited for the paths.
    pub(super) fn dropped_unmounted(&mut self, uid: &str, result: &WorkResult) -> Vec<String> {
        if result.unmounted.is_empty() {
            return Vec::new();
        }
        self.dropped.forget_unmounted(uid, &result.unmounted);
        let mut woken = self.request_again(uid);
        woken.retain(|other| other != uid);
        woken
    }

    /// Records the outcome of the work on an object; returns the uids of other objects that waited for its paths.
    pub(super) fn record_outcome(&mut self, uid: &str, outcome: &Outcome) -> Vec<String> {
        let mut woken = Vec::new();
        let Some(object) = self.known.get(uid) else { return woken };
        if outcome.goal == Goal::Mounted && outcome.is_done() {
            self.targets.set_mounted(uid);
        }
        // The mounts of an object that was never readable are unknown; the clean-up after the next start finds them.
        let has_dropped = !self.dropped.of_object(uid).is_empty();
        let is_finished =
            object.gone && !has_dropped && (outcome.is_done() || object.units.is_err());
        let is_unmounted = outcome.goal == Goal::Unmounted && outcome.is_done();
        if is_finished {
            self.known.remove(uid);
        }
        if is_finished || is_unmounted {
            woken.extend(self.targets.release(uid));
        }
        woken
    }

    /// Returns the uids of all known objects.
    pub(super) fn uids(&self) -> Vec<String> {
        self.known.keys().cloned().collect()
    }

    /// Returns an object as it was last received, and whether it was deleted.
    pub(super) fn get(&self, uid: &str) -> Option<(&ReceivedMount, bool)> {
        self.known.get(uid).map(|object| (&object.received, object.gone))
    }

    pub(super) fn contains(&self, uid: &str) -> bool {
        self.known.contains_key(uid)
    }

    /// Returns `namespace/name`, for logs.
    pub(super) fn name(&self, uid: &str) -> String {
        self.known.get(uid).map_or_else(
            || uid.to_owned(),
            |object| format!("{}/{}", object.received.namespace, object.received.name),
        )
    }
}
