//! The profiles that are watched, and which mounts name each, so that its change wakes no one else.

use std::collections::{BTreeSet, HashMap};

use crate::object::{Key, ProfileObject};

/// What the API answered when it was asked for a profile.
pub(crate) type ProfileAnswer = Result<ProfileObject, Lack>;

/// Why a profile cannot be had, in words for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// There is none.
    Missing(String),
    /// Whether there is one is not ours to read.
    Unread(String),
}

impl Lack {
    pub(super) fn into_text(self) -> String {
        let (Self::Missing(text) | Self::Unread(text)) = self;
        text
    }
}

/// How mounts get their profiles.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    known: HashMap<Key, ProfileObject>,
    users: HashMap<Key, BTreeSet<Key>>,
    /// Whether a list was read to its end.
    pub(super) listed: bool,
}

impl Profiles {
    /// The watched profile. One that is not known may exist: the watch may be behind.
    pub(super) fn get(&self, key: &Key) -> Option<&ProfileObject> {
        self.known.get(key)
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
pub(crate) fn missing(key: &Key) -> Lack {
    Lack::Missing(format!(
        "NnfStorageProfile {key} does not exist: create it, with data.pinned true"
    ))
}
