//! The profiles that the watch knows, and the ClientMounts that name each profile: a changed profile wakes only the
//! sessions of these ClientMounts' nodes.

use std::collections::{BTreeSet, HashMap};

use api::NoProfile;

use super::{Fanout, ProfileRead};
use crate::object::{Key, MountObject, ProfileObject, Version};

/// Profiles by key, and the ClientMounts that name them.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    known: HashMap<Key, ProfileObject>,
    users: HashMap<Key, BTreeSet<Key>>,
    /// Whether profiles were listed at least once.
    pub(super) listed: bool,
}

impl Profiles {
    /// Returns a profile that the watch knows. `None` is no proof that the profile does not exist: the watch may lag
    /// behind the API.
    pub(super) fn get(&self, key: &Key) -> Option<&ProfileObject> {
        self.known.get(key)
    }

    /// Stores a profile; returns whether it changed.
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

    /// Replaces all profiles by a complete list; returns the profiles that changed.
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

    /// Returns the ClientMounts that name a profile.
    pub(super) fn users(&self, profile: &Key) -> Vec<Key> {
        self.users.get(profile).into_iter().flatten().cloned().collect()
    }

    /// Updates the index of a ClientMount that named the profile `before` and now names `after`.
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

impl Fanout {
    /// Returns the profile to read for an object, and the version of the object that names it; `None` if the profile
    /// is known or was read for this version.
    pub(crate) fn profile_to_read(&self, key: &Key) -> Option<(Version, Key)> {
        let entry = self.entry(key)?;
        let profile = entry.object.profile().ok()?;
        let is_read = match &entry.profile_read {
            // A missing profile is not read again: the watch delivers it once it is created.
            Some(Ok(_) | Err(NoProfile::Missing(_))) => true,
            Some(Err(NoProfile::Forbidden(_))) | None => false,
        };
        if is_read || self.profiles.get(&profile).is_some() {
            return None;
        }
        Some((entry.object.version.clone(), profile))
    }

    /// Stores the API's answer to the read for a version of an object, unless the object has changed since.
    pub(crate) fn set_profile_read(&mut self, key: &Key, version: &Version, read: ProfileRead) {
        let Some(entry) = self.entry_mut(key) else { return };
        if entry.object.version == *version && entry.profile_read.as_ref() != Some(&read) {
            entry.profile_read = Some(read);
            self.mark_dirty(key);
        }
    }

    /// Stores the latest version of a profile; the objects that name it are sent again.
    pub(crate) fn apply_profile(&mut self, profile: ProfileObject) {
        let key = profile.key.clone();
        if self.profiles.apply(profile) {
            self.mark_users_dirty(&key);
        }
    }

    /// Removes a profile that is gone.
    pub(crate) fn remove_profile(&mut self, key: &Key) {
        if self.profiles.remove(key) {
            self.mark_users_dirty(key);
        }
    }

    /// Replaces all profiles by a complete list.
    pub(crate) fn replace_profiles(&mut self, profiles: Vec<ProfileObject>) {
        for key in self.profiles.replace(profiles) {
            self.mark_users_dirty(&key);
        }
    }

    /// Sends the objects that name a profile again. Drops the copies of the profile that were read for single objects,
    /// because the watch has a newer version.
    fn mark_users_dirty(&mut self, profile: &Key) {
        for user in self.profiles.users(profile) {
            if let Some(entry) = self.entry_mut(&user) {
                entry.profile_read = None;
            }
            self.mark_dirty(&user);
        }
    }

    pub(super) fn index_profile(&mut self, key: &Key, object: Option<&MountObject>) {
        let before = self.entry(key).and_then(|entry| entry.object.profile().ok());
        let after = object.and_then(|object| object.profile().ok());
        self.profiles.index(key, before, after);
    }
}
