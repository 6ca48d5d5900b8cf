//! The profiles that are watched, and which mounts name each, so that its change wakes no one else.

use std::collections::{BTreeSet, HashMap};

use crate::object::{Key, ProfileObject};

/// A profile, or in words for the user why it cannot be had.
pub(crate) type ProfileAnswer = Result<ProfileObject, String>;

/// How mounts get their profiles.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    known: HashMap<Key, ProfileObject>,
    users: HashMap<Key, BTreeSet<Key>>,
    listed: bool,
    /// Profiles are read one by one, not watched.
    pub(super) asked: bool,
}

impl Profiles {
    /// Profiles that are read one by one.
    pub(super) fn asked() -> Self {
        Self { asked: true, ..Self::default() }
    }

    /// Whether a profile that is not known does not exist.
    pub(super) fn complete(&self) -> bool {
        self.listed || self.asked
    }

    /// The watched profile, or that there is none.
    pub(super) fn get(&self, key: &Key) -> Result<&ProfileObject, String> {
        self.known.get(key).ok_or_else(|| missing(key))
    }

    /// Takes in a profile; whether it changed.
    pub(super) fn apply(&mut self, profile: ProfileObject) -> bool {
        let known = self.known.get(&profile.key);
        if known.is_some_and(|known| known.resource_version == profile.resource_version) {
            return false;
        }
        self.known.insert(profile.key.clone(), profile);
        true
    }

    /// Takes out a profile that is no more; whether it was there.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        self.known.remove(key).is_some()
    }

    /// Takes in a complete list; the profiles that changed.
    pub(super) fn replace(&mut self, profiles: Vec<ProfileObject>) -> Vec<Key> {
        self.listed = true;
        let listed: BTreeSet<Key> = profiles.iter().map(|profile| profile.key.clone()).collect();
        let mut changed: Vec<Key> =
            self.known.keys().filter(|key| !listed.contains(key)).cloned().collect();
        for key in &changed {
            self.remove(key);
        }
        for profile in profiles {
            let key = profile.key.clone();
            if self.apply(profile) {
                changed.push(key);
            }
        }
        changed
    }

    /// The mounts that name a profile.
    pub(super) fn users(&self, profile: &Key) -> Vec<Key> {
        self.users.get(profile).into_iter().flatten().cloned().collect()
    }

    /// A mount named `before` and names `after`.
    pub(super) fn index(&mut self, mount: &Key, before: Option<Key>, after: Option<Key>) {
        if before == after {
            return;
        }
        if let Some(before) = before
            && let Some(users) = self.users.get_mut(&before)
        {
            users.remove(mount);
            if users.is_empty() {
                self.users.remove(&before);
            }
        }
        if let Some(after) = after {
            self.users.entry(after).or_default().insert(mount.clone());
        }
    }
}

/// Why an object cannot be mounted whose profile is not there, in words for the user.
pub(crate) fn missing(key: &Key) -> String {
    format!("NnfStorageProfile {key} does not exist: create it, with data.pinned true")
}
