//! The profiles that the watch knows, and which ClientMounts name each, so that a change wakes only those.

use std::collections::{BTreeSet, HashMap};

use crate::object::{Key, ProfileObject};

/// The API's answer to a read of a profile.
pub(crate) type ProfileRead = Result<ProfileObject, NoProfile>;

/// Why there is no profile, with a text for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoProfile {
    /// The profile does not exist.
    Missing(String),
    /// The API does not let the coordinator read it: it may exist.
    Forbidden(String),
}

impl NoProfile {
    pub(super) fn into_text(self) -> String {
        let (Self::Missing(text) | Self::Forbidden(text)) = self;
        text
    }
}

/// Profiles by key, and the ClientMounts that name them.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    known: HashMap<Key, ProfileObject>,
    users: HashMap<Key, BTreeSet<Key>>,
    /// Whether the first list is complete.
    pub(super) listed: bool,
}

impl Profiles {
    /// A profile that the watch knows. Others may exist, because the watch may be behind.
    pub(super) fn get(&self, key: &Key) -> Option<&ProfileObject> {
        self.known.get(key)
    }

    /// Takes in a profile; returns whether it changed.
    pub(super) fn apply(&mut self, profile: ProfileObject) -> bool {
        let known = self.known.get(&profile.key);
        if known.is_some_and(|known| known.resource_version == profile.resource_version) {
            return false;
        }
        self.known.insert(profile.key.clone(), profile);
        true
    }

    /// Removes a profile that is gone; returns whether it was known.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        self.known.remove(key).is_some()
    }

    /// Takes in a complete list; returns the profiles that changed.
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

    /// The ClientMounts that name a profile.
    pub(super) fn users(&self, profile: &Key) -> Vec<Key> {
        self.users.get(profile).into_iter().flatten().cloned().collect()
    }

    /// A ClientMount named the profile `before`, and now names `after`.
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

/// The text for the user about a profile that does not exist.
pub(crate) fn missing(key: &Key) -> NoProfile {
    NoProfile::Missing(format!(
        "NnfStorageProfile {key} does not exist: create it, with data.pinned true"
    ))
}
