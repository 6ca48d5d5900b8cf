//! The objects of this node as last received, which object each path belongs to, and which objects are gone. Pure.

mod paths;

use std::{collections::BTreeMap, mem, sync::Arc};

use api::ClientMount;

use agent::{
    claims::Claims,
    desired::{Goal, MountUnits, ObjectError},
    dropped::DroppedMounts,
    error::Failure,
    received::{ReceivedMount, Report},
    reconcile::{DroppedUnits, Outcome, Work, WorkResult, mount_points_of},
    site::Site,
};

#[derive(Debug)]
struct Object {
    received: ReceivedMount,
    /// Whether the object is gone from the API; the agent unmounts what it had mounted.
    gone: bool,
    /// Whether an earlier agent recorded the object: its mounts belong to it, even if another object asks for their paths now.
    recorded: bool,
    units: Result<Arc<MountUnits>, ObjectError>,
}

/// Objects by uid: one that is deleted and made again under its old name is another object.
#[derive(Debug)]
pub(super) struct Objects {
    site: Site,
    known: BTreeMap<String, Object>,
    claims: Claims,
    dropped: DroppedMounts,
    /// Objects received since the connection began; `None` once the list was complete.
    incoming: Option<BTreeMap<String, ReceivedMount>>,
}

impl Objects {
    /// Begins with the objects that an earlier agent recorded, which count until a complete list replaces them. `recorded` has the
    /// versions of each object, the latest last.
    pub(super) fn new(site: Site, recorded: Vec<Vec<ClientMount>>) -> Self {
        let mut objects = Self {
            site,
            known: BTreeMap::new(),
            claims: Claims::default(),
            dropped: DroppedMounts::default(),
            incoming: None,
        };
        recorded.into_iter().for_each(|versions| objects.restore(versions));
        objects
    }

    fn restore(&mut self, mut versions: Vec<ClientMount>) {
        let Some(last) = versions.pop() else { return };
        for version in &versions {
            self.dropped.changed(version, Some(&last), |_| true);
        }
        let received = ReceivedMount::recorded(last);
        let units = received.units(false, &self.site).map(Arc::new);
        self.insert(Object { received, gone: false, recorded: true, units });
    }

    /// A connection begins: a complete list follows.
    pub(super) fn begin(&mut self) {
        self.incoming = Some(BTreeMap::new());
    }

    /// The connection is lost: an object that is missing in an incomplete list is not gone.
    pub(super) fn interrupted(&mut self) {
        self.incoming = None;
    }

    /// Takes an object as it is now; returns the uids to work on.
    pub(super) fn desired(&mut self, received: ReceivedMount) -> Vec<String> {
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

    /// An object is gone; returns the uids to work on.
    pub(super) fn gone(&mut self, uid: &str) -> Vec<String> {
        if let Some(incoming) = &mut self.incoming {
            incoming.remove(uid);
            return Vec::new();
        }
        self.set_gone(uid)
    }

    /// The list is complete: an object that is not in it is gone. Returns the uids to work on.
    pub(super) fn synced(&mut self) -> Vec<String> {
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

    /// A mount that an object no longer asks for belongs to it until the agent has unmounted it.
    fn record_dropped(&mut self, received: &ReceivedMount) {
        let Some(known) = self.known.get(&received.uid) else { return };
        let Some(before) = known.received.object() else {
            return self.dropped.forget_requested(&received.uid, received.object());
        };
        let units = known.received.units(true, &self.site).ok();
        let was_own = |index: usize| {
            let mount = units.as_ref().and_then(|units| units.mounts.get(index)?.as_ref().ok());
            mount.is_some_and(|mount| {
                known.recorded || !self.claims.belongs_to_other(&received.uid, &mount.target)
            })
        };
        self.dropped.changed(before, received.object(), was_own);
    }

    /// Claims an object's mount points again, after its dropped mounts have changed.
    fn claim_again(&mut self, uid: &str) -> Vec<String> {
        self.known.remove(uid).map_or_else(Vec::new, |object| self.insert(object))
    }

    /// The mounts that an object no longer asks for, as units of work, one entry for each version.
    fn dropped_units(&self, received: &ReceivedMount) -> DroppedUnits {
        let versions = self.dropped.of(&received.uid).iter();
        let units = |version: &ClientMount| {
            let units = received.earlier(version).units(true, &self.site);
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
        let mut woken = match (&object.units, object.received.claimant()) {
            (Ok(units), Some(claimant)) => {
                let paths = units.mount_points().cloned().collect();
                self.claims.set(claimant, units.goal, paths, dropped)
            }
            (Err(_), Some(claimant)) if !dropped.is_empty() => {
                self.claims.set(claimant, Goal::Unmounted, Vec::new(), dropped)
            }
            _ => self.claims.release(&uid),
        };
        self.known.insert(uid.clone(), object);
        woken.push(uid);
        woken
    }

    /// The work for an object. For an invalid one the agent changes nothing.
    pub(super) fn work(&self, uid: &str) -> Option<Work> {
        let object = self.known.get(uid)?;
        let is_accepted = object.gone
            || object.received.deleted()
            || object.units.as_ref().is_ok_and(|units| !units.refused());
        let dropped = if is_accepted { self.dropped_units(&object.received) } else { Vec::new() };
        let units = match (&object.units, self.claims.conflict(uid)) {
            // It never had a mount that this agent could make, so its deletion needs no work.
            (Err(_), _) if object.received.deleted() => Err(Outcome::absent(object.received.count)),
            (Err(error), _) => Err(object.received.refused(Failure::from(error))),
            (Ok(_), Some(conflict)) => Err(object.received.refused(Failure::from(&conflict))),
            (Ok(units), None) if self.claims.owns_nothing(uid) => {
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

    /// The report on an object; `None` for one that is gone.
    pub(super) fn report(&self, uid: &str, outcome: &Outcome) -> Option<Report> {
        let object = self.known.get(uid).filter(|object| !object.gone)?;
        Some(object.received.report(&self.site, outcome))
    }

    /// Dropped mounts of an object are unmounted; returns the uids of others that were waiting for that.
    pub(super) fn dropped_unmounted(&mut self, uid: &str, result: &WorkResult) -> Vec<String> {
        if result.unmounted.is_empty() {
            return Vec::new();
        }
        self.dropped.forget_unmounted(uid, &result.unmounted);
        let mut woken = self.claim_again(uid);
        woken.retain(|other| other != uid);
        woken
    }

    /// The work on an object has this outcome; returns the uids of others that were waiting for it.
    pub(super) fn finished(&mut self, uid: &str, outcome: &Outcome) -> Vec<String> {
        let mut woken = Vec::new();
        let Some(object) = self.known.get(uid) else { return woken };
        if outcome.goal == Goal::Mounted && outcome.done() {
            self.claims.set_mounted(uid);
        }
        // The mounts of an object that was never readable are not known; the clean-up of the next start finds them.
        let has_dropped = !self.dropped.of(uid).is_empty();
        let is_finished = object.gone && !has_dropped && (outcome.done() || object.units.is_err());
        let is_unmounted = outcome.goal == Goal::Unmounted && outcome.done();
        if is_finished {
            self.known.remove(uid);
        }
        if is_finished || is_unmounted {
            woken.extend(self.claims.release(uid));
        }
        woken
    }

    /// The uids of all known objects.
    pub(super) fn uids(&self) -> Vec<String> {
        self.known.keys().cloned().collect()
    }

    /// An object as it was received last, and whether it is gone.
    pub(super) fn received(&self, uid: &str) -> Option<(&ReceivedMount, bool)> {
        self.known.get(uid).map(|object| (&object.received, object.gone))
    }

    pub(super) fn knows(&self, uid: &str) -> bool {
        self.known.contains_key(uid)
    }

    /// `namespace/name`, for logs.
    pub(super) fn name(&self, uid: &str) -> String {
        self.known.get(uid).map_or_else(
            || uid.to_owned(),
            |object| format!("{}/{}", object.received.namespace, object.received.name),
        )
    }
}
