//! The objects of this node as they were told last, whom each path belongs to, and which are gone. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use api::ClientMount;
use storage::desired::MountPoint;

use agent::{
    claims::Claims,
    desire::{Desire, Report},
    desired::{Goal, MountUnits, ObjectError},
    error::Failure,
    former::Former,
    reconcile::{Earlier, Outcome, Work, Worked, mount_points_of},
    site::Site,
};

#[derive(Debug)]
struct Object {
    desire: Desire,
    /// It exists no more; what it had is being unmounted.
    gone: bool,
    /// As an agent before this one recorded it: its mounts are its own, whoever asks for their paths now.
    recorded: bool,
    units: Result<Arc<MountUnits>, ObjectError>,
}

/// Objects by uid: one that is deleted and made again under its old name is another object.
#[derive(Debug)]
pub(super) struct Objects {
    site: Site,
    known: BTreeMap<String, Object>,
    claims: Claims,
    former: Former,
    /// What has been told since a connection began; `None` once everything has.
    incoming: Option<BTreeMap<String, Desire>>,
}

impl Objects {
    /// What `recorded` tells was mounted is so until a complete list tells otherwise: of each object its versions, the latest
    /// last.
    pub(super) fn new(site: Site, recorded: Vec<Vec<ClientMount>>) -> Self {
        let mut objects = Self {
            site,
            known: BTreeMap::new(),
            claims: Claims::default(),
            former: Former::default(),
            incoming: None,
        };
        recorded.into_iter().for_each(|versions| objects.restore(versions));
        objects
    }

    fn restore(&mut self, mut versions: Vec<ClientMount>) {
        let Some(last) = versions.pop() else { return };
        for version in &versions {
            self.former.changed(version, Some(&last), |_| true);
        }
        let desire = Desire::recorded(last);
        let units = desire.units(false, &self.site).map(Arc::new);
        self.insert(Object { desire, gone: false, recorded: true, units });
    }

    /// A connection begins: a complete list follows.
    pub(super) fn begin(&mut self) {
        self.incoming = Some(BTreeMap::new());
    }

    /// The list breaks off: what was told of it says nothing about what was not.
    pub(super) fn interrupted(&mut self) {
        self.incoming = None;
    }

    /// An object as it is now; the uids to be worked on.
    pub(super) fn desired(&mut self, desire: Desire) -> Vec<String> {
        if desire.uid.is_empty() {
            log::warn!(object = desire.name.as_str(); "an object without uid is left alone: {}/{}", desire.namespace, desire.name);
            return Vec::new();
        }
        match &mut self.incoming {
            Some(incoming) => {
                incoming.insert(desire.uid.clone(), desire);
                Vec::new()
            }
            None => self.set(desire),
        }
    }

    /// An object is no more; the uids to be worked on.
    pub(super) fn gone(&mut self, uid: &str) -> Vec<String> {
        if let Some(incoming) = &mut self.incoming {
            incoming.remove(uid);
            return Vec::new();
        }
        self.set_gone(uid)
    }

    /// The list is complete: what it does not name is gone. The uids to be worked on.
    pub(super) fn synced(&mut self) -> Vec<String> {
        let Some(incoming) = mem::take(&mut self.incoming) else { return Vec::new() };
        let absent: Vec<_> =
            self.known.keys().filter(|uid| !incoming.contains_key(*uid)).cloned().collect();
        let mut woken: Vec<_> = absent.iter().flat_map(|uid| self.set_gone(uid)).collect();
        for desire in incoming.into_values() {
            woken.extend(self.set(desire));
        }
        woken
    }

    fn set(&mut self, desire: Desire) -> Vec<String> {
        let same_name = |object: &Object| {
            object.desire.name == desire.name && object.desire.namespace == desire.namespace
        };
        let replaced: Vec<_> = self
            .known
            .iter()
            .filter(|(uid, object)| **uid != desire.uid && !object.gone && same_name(object))
            .map(|(uid, _)| uid.clone())
            .collect();
        let mut woken: Vec<_> = replaced.iter().flat_map(|uid| self.set_gone(uid)).collect();
        self.note_change(&desire);
        let units = desire.units(false, &self.site).map(Arc::new);
        woken.extend(self.insert(Object { desire, gone: false, recorded: false, units }));
        woken
    }

    /// What an object asked for before is its own until it is unmounted.
    fn note_change(&mut self, desire: &Desire) {
        let Some(known) = self.known.get(&desire.uid) else { return };
        let Some(before) = known.desire.object() else {
            return self.former.told(&desire.uid, desire.object());
        };
        let units = known.desire.units(true, &self.site).ok();
        let had = |place: usize| {
            let mount = units.as_ref().and_then(|units| units.mounts.get(place)?.as_ref().ok());
            mount.is_some_and(|mount| {
                known.recorded || !self.claims.is_anothers(&desire.uid, &mount.target)
            })
        };
        self.former.changed(before, desire.object(), had);
    }

    fn claim_again(&mut self, uid: &str) -> Vec<String> {
        self.known.remove(uid).map_or_else(Vec::new, |object| self.insert(object))
    }

    /// What is to go of an object, each version of it as units.
    fn former_units(&self, desire: &Desire) -> Earlier {
        let versions = self.former.of(&desire.uid).iter();
        let units = |version: &ClientMount| {
            let units = desire.earlier(version).units(true, &self.site);
            units.map_err(|error| Failure::from(&error))
        };
        versions.map(|version| (version.clone(), units(version))).collect()
    }

    fn set_gone(&mut self, uid: &str) -> Vec<String> {
        let Some(object) = self.known.remove(uid) else { return Vec::new() };
        let units = object.desire.units(true, &self.site).map(Arc::new);
        self.insert(Object { gone: true, units, ..object })
    }

    fn insert(&mut self, object: Object) -> Vec<String> {
        let uid = object.desire.uid.clone();
        let former = self.former_units(&object.desire);
        let former: Vec<_> = mount_points_of(&former).cloned().collect();
        let mut woken = match (&object.units, object.desire.claimant()) {
            (Ok(units), Some(claimant)) => {
                let paths = units.mount_points().cloned().collect();
                self.claims.set(claimant, units.goal, paths, former)
            }
            (Err(_), Some(claimant)) if !former.is_empty() => {
                self.claims.set(claimant, Goal::Unmounted, Vec::new(), former)
            }
            _ => self.claims.release(&uid),
        };
        self.known.insert(uid.clone(), object);
        woken.push(uid);
        woken
    }

    /// What to do for an object. Nothing is changed for one that is invalid.
    pub(super) fn work(&self, uid: &str) -> Option<Work> {
        let object = self.known.get(uid)?;
        let stands = object.gone
            || object.desire.deleted()
            || object.units.as_ref().is_ok_and(|units| !units.refused());
        let former = if stands { self.former_units(&object.desire) } else { Vec::new() };
        let now = match (&object.units, self.claims.conflict(uid)) {
            // It never asked for anything that could be mounted here, and must not be kept from going.
            (Err(_), _) if object.desire.deleted() => Err(Outcome::absent(object.desire.count)),
            (Err(error), _) => Err(object.desire.refused(Failure::from(error))),
            (Ok(_), Some(conflict)) => Err(object.desire.refused(Failure::from(&conflict))),
            (Ok(units), None) if self.claims.never_had(uid) => {
                Err(Outcome::absent(units.mounts.len()))
            }
            (Ok(units), None) => Ok(Arc::clone(units)),
        };
        Some(Work { uid: uid.to_owned(), object: object.desire.object().cloned(), former, now })
    }

    /// What to tell of an object; nothing of one that is gone.
    pub(super) fn report(&self, uid: &str, outcome: &Outcome) -> Option<Report> {
        let object = self.known.get(uid).filter(|object| !object.gone)?;
        Some(object.desire.report(&self.site, outcome))
    }

    /// What an object asked for earlier is gone; the uids of others for which that makes a difference.
    pub(super) fn former_gone(&mut self, uid: &str, worked: &Worked) -> Vec<String> {
        if worked.gone.is_empty() {
            return Vec::new();
        }
        self.former.gone(uid, &worked.gone);
        let mut woken = self.claim_again(uid);
        woken.retain(|other| other != uid);
        woken
    }

    /// An object was worked on; the uids of others for which that makes a difference.
    pub(super) fn finished(&mut self, uid: &str, outcome: &Outcome) -> Vec<String> {
        let mut woken = Vec::new();
        let Some(object) = self.known.get(uid) else { return woken };
        if outcome.goal == Goal::Mounted && outcome.done() {
            self.claims.settle(uid);
        }
        // An object that was never understood has nothing mounted that we could name; the next start looks for it.
        let is_left = !self.former.of(uid).is_empty();
        let over = object.gone && !is_left && (outcome.done() || object.units.is_err());
        let free = outcome.goal == Goal::Unmounted && outcome.done();
        if over {
            self.known.remove(uid);
        }
        if over || free {
            woken.extend(self.claims.release(uid));
        }
        woken
    }

    /// Whether an object asks for what cannot be: before it was changed to that, it may have had mounts it does not name.
    pub(super) fn doubtful(&self, uid: &str) -> bool {
        let units = self.known.get(uid).map(|object| &object.units);
        units.is_some_and(|units| {
            units.as_ref().map_or(true, |units| units.mounts.iter().any(Result::is_err))
        })
    }

    /// Whether an object may have a mount at a path that nobody can tell any more.
    pub(super) fn has_untold(&self, uid: &str) -> bool {
        let units = self.known.get(uid).and_then(|object| object.units.as_ref().ok());
        units.is_some_and(|units| (0..units.mounts.len()).any(|place| units.is_untold(place)))
    }

    pub(super) fn knows(&self, uid: &str) -> bool {
        self.known.contains_key(uid)
    }

    /// `namespace/name`, for people.
    pub(super) fn name(&self, uid: &str) -> String {
        self.known.get(uid).map_or_else(
            || uid.to_owned(),
            |object| format!("{}/{}", object.desire.namespace, object.desire.name),
        )
    }

    /// Every path at which something of a known object may be mounted; `None` when that cannot be told of one.
    pub(super) fn possible_paths(&self) -> Option<Vec<MountPoint>> {
        let mut paths = Vec::new();
        for object in self.known.values() {
            paths.extend(self.paths_of(object)?);
        }
        Some(paths)
    }

    /// Whether every path at which something of an object may be mounted is one of these.
    pub(super) fn is_within(&self, uid: &str, paths: &BTreeSet<MountPoint>) -> bool {
        let Some(object) = self.known.get(uid) else { return true };
        self.paths_of(object).is_some_and(|own| own.iter().all(|path| paths.contains(path)))
    }

    fn paths_of(&self, object: &Object) -> Option<Vec<MountPoint>> {
        let units = object.units.as_ref().ok();
        let mut paths = object.desire.possible_paths(units.map(|units| &**units), &self.site)?;
        let former = self.former_units(&object.desire);
        paths.extend(mount_points_of(&former).cloned());
        Some(paths)
    }
}
