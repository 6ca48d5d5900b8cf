//! Decides to which object a mount target (the path of a mount) belongs when two objects ask for it. This module does
//! no I/O.
//!
//! The object that is mounted at a path keeps the path until it is unmounted. If no object is mounted there, the object
//! that was created first gets the path; of objects created in the same second, the object with the lower uid. When an
//! object that did not get its path is deleted, the agent unmounts nothing at the path: the mount there belongs to the
//! other object.

use std::{collections::BTreeMap, fmt};

use api::{ClientMount, client_mount::MountState};
use storage::desired::MountPoint;

use crate::{
    desired::{Goal, overlap},
    error::Failure,
};

/// An object that asks for mount targets. The order is the priority: if two requesters ask for one target, the smaller
/// requester gets the target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requester {
    /// False once the object was mounted. `false` is less than `true`, so a mounted object has priority over all
    /// objects that were never mounted.
    pub not_mounted_yet: bool,
    /// `metadata.creationTimestamp`; RFC 3339 in UTC sorts as text.
    pub created: String,
    pub uid: String,
    pub namespace: String,
    pub name: String,
}

impl Requester {
    /// Creates a requester from an object.
    pub fn new(client_mount: &ClientMount) -> Self {
        let metadata = &client_mount.metadata;
        let mounts = client_mount.status.iter().flat_map(|status| &status.mounts);
        let mut mounted = mounts.map(|mount| mount.ready && mount.state == MountState::Mounted);
        Self {
            not_mounted_yet: !mounted.any(|mounted| mounted),
            created: metadata
                .creation_timestamp
                .as_ref()
                .map(|time| time.0.to_string())
                .unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

/// A path that an object asks for and that belongs to another object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub path: MountPoint,
    /// The path of the other object: the same path, a parent directory, or a path within it.
    pub taken: MountPoint,
    /// The object that the path belongs to.
    pub owner: Requester,
    /// Whether the other object is being unmounted, so that the path will be free soon.
    pub leaving: bool,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, taken, owner, leaving } = self;
        write!(f, "mountPath {path} belongs to ClientMount {}/{}", owner.namespace, owner.name)?;
        if taken != path {
            write!(f, ", which mounts at {taken}")?;
        }
        if *leaving {
            f.write_str(": waiting until that ClientMount is unmounted")
        } else {
            f.write_str(": use another path, or delete that ClientMount first")
        }
    }
}

impl From<&Conflict> for Failure {
    fn from(conflict: &Conflict) -> Self {
        if conflict.leaving {
            Self::waiting(conflict.to_string())
        } else {
            Self::input(conflict.to_string())
        }
    }
}

#[derive(Debug, Clone)]
struct Request {
    requester: Requester,
    goal: Goal,
    paths: Vec<MountPoint>,
    /// Paths of the object's dropped mounts, which belong to it until they are unmounted.
    dropped: Vec<MountPoint>,
}

impl Request {
    fn all_paths(&self) -> impl Iterator<Item = &MountPoint> {
        self.paths.iter().chain(&self.dropped)
    }
}

/// All mount targets of one node that objects ask for.
#[derive(Debug, Clone, Default)]
pub struct TargetsInUse {
    by_uid: BTreeMap<String, Request>,
}

impl TargetsInUse {
    /// Records the paths that an object asks for, in place of its earlier paths. Returns the uids of other objects
    /// whose conflicts this changed: the caller works on these objects again.
    pub fn set(
        &mut self,
        mut requester: Requester,
        goal: Goal,
        paths: Vec<MountPoint>,
        dropped: Vec<MountPoint>,
    ) -> Vec<String> {
        let uid = requester.uid.clone();
        let before = self.by_uid.get(&uid);
        requester.not_mounted_yet &= before.is_none_or(|request| request.requester.not_mounted_yet);
        self.change(&uid, |targets| {
            targets
                .by_uid
                .insert(requester.uid.clone(), Request { requester, goal, paths, dropped });
        })
    }

    /// Returns whether a path that this object asked for belongs to another object: a mount at the path is then the
    /// other object's.
    pub fn belongs_to_other(&self, uid: &str, path: &MountPoint) -> bool {
        let own = self.by_uid.get(uid);
        self.by_uid
            .values()
            .filter(|other| other.requester.uid != uid && other.goal == Goal::Mounted)
            .filter(|other| own.is_none_or(|own| has_priority(other, own)))
            .any(|other| other.paths.iter().any(|taken| overlap(path, taken)))
    }

    /// Records that an object is mounted, so that it keeps its paths until they are released. Does nothing if another
    /// object got one of these paths while the agent was mounting: otherwise the other object would lose the path again
    /// without notice.
    pub fn set_mounted(&mut self, uid: &str) {
        if self.conflict(uid).is_some() {
            return;
        }
        if let Some(request) = self.by_uid.get_mut(uid) {
            request.requester.not_mounted_yet = false;
        }
    }

    /// Returns whether the object asks to unmount a path at which another object with priority asks to mount: in that
    /// case this object never had a mount there.
    pub fn owns_nothing(&self, uid: &str) -> bool {
        let Some(own) = self.by_uid.get(uid).filter(|own| own.goal == Goal::Unmounted) else {
            return false;
        };
        self.by_uid.values().any(|other| {
            other.goal == Goal::Mounted
                && has_priority(other, own)
                && first_overlap(&own.paths, &other.paths).is_some()
        })
    }

    /// Forgets the paths of an object. Returns the uids of other objects whose conflicts this changed.
    pub fn release(&mut self, uid: &str) -> Vec<String> {
        self.change(uid, |targets| drop(targets.by_uid.remove(uid)))
    }

    /// Returns the first path of the object that belongs to another object; `None` if there is no such path, or if the
    /// object is being unmounted.
    pub fn conflict(&self, uid: &str) -> Option<Conflict> {
        let own = self.by_uid.get(uid).filter(|own| own.goal == Goal::Mounted)?;
        self.by_uid.values().filter(|other| other.requester.uid != uid).find_map(|other| {
            let (path, taken, leaving) = first_conflict(own, other)?;
            let (path, taken) = (path.clone(), taken.clone());
            Some(Conflict { path, taken, owner: other.requester.clone(), leaving })
        })
    }

    fn change(&mut self, uid: &str, change: impl FnOnce(&mut Self)) -> Vec<String> {
        let mut overlapping = self.overlapping(uid);
        let before: BTreeMap<_, _> =
            overlapping.iter().map(|other| (other.clone(), self.conflict(other))).collect();
        change(self);
        overlapping.extend(self.overlapping(uid));
        overlapping.sort();
        overlapping.dedup();
        overlapping
            .retain(|other| before.get(other).cloned().unwrap_or_default() != self.conflict(other));
        overlapping
    }

    /// Returns the uids of the other objects whose paths overlap paths of the object `uid`.
    fn overlapping(&self, uid: &str) -> Vec<String> {
        let Some(own) = self.by_uid.get(uid) else { return Vec::new() };
        let others = self.by_uid.values().filter(|other| {
            other.requester.uid != uid
                && first_overlap(own.all_paths(), other.all_paths()).is_some()
        });
        others.map(|other| other.requester.uid.clone()).collect()
    }
}

fn has_priority(other: &Request, own: &Request) -> bool {
    other.requester < own.requester
}

/// Returns a path of `own` that belongs to `other`, the path of `other`, and whether `other` is being unmounted from
/// its path. `other` keeps the paths of its dropped mounts until they are unmounted, even if it has lower priority.
fn first_conflict<'a>(
    own: &'a Request,
    other: &'a Request,
) -> Option<(&'a MountPoint, &'a MountPoint, bool)> {
    let now = first_overlap(&own.paths, other.paths.iter().filter(|_| has_priority(other, own)));
    let now = now.map(|(path, taken)| (path, taken, other.goal == Goal::Unmounted));
    now.or_else(|| {
        first_overlap(&own.paths, &other.dropped).map(|(path, taken)| (path, taken, true))
    })
}

/// Returns the first pair of paths that overlap: they are equal, or one path lies within the other.
fn first_overlap<'a>(
    own: impl IntoIterator<Item = &'a MountPoint>,
    other: impl IntoIterator<Item = &'a MountPoint>,
) -> Option<(&'a MountPoint, &'a MountPoint)> {
    let other: Vec<_> = other.into_iter().collect();
    own.into_iter().find_map(|path| {
        other.iter().find(|taken| overlap(path, taken)).map(|taken| (path, *taken))
    })
}

#[cfg(test)]
mod tests;
