//! Profiles from the watch, and profiles that are read because the watch does not know them.

use super::Exchange;
use crate::fanout::ProfileRead;
use crate::object::{Key, ProfileObject, Version};

impl Exchange {
    /// A profile is new or changed.
    pub fn apply_profile(&self, profile: ProfileObject) {
        self.lock().fanout.apply_profile(profile);
    }

    /// A profile is gone.
    pub fn remove_profile(&self, key: &Key) {
        self.lock().fanout.remove_profile(key);
    }

    /// Takes a complete list of profiles.
    pub fn replace_profiles(&self, profiles: Vec<ProfileObject>) {
        let mut state = self.lock();
        state.fanout.replace_profiles(profiles);
        self.update_readiness(&mut state);
    }

    /// The next object whose profile must be read; waits until there is one.
    pub(crate) async fn take_pending_read(&self) -> Key {
        self.take(&self.read_requested, |state| state.pending_reads.take()).await
    }

    /// The profile to read for a taken object; `None` ends the reader's work.
    pub(crate) fn profile_to_read(&self, key: &Key) -> Option<(Version, Key)> {
        let mut state = self.lock();
        let profile = state.fanout.profile_to_read(key);
        if profile.is_none() {
            state.pending_reads.done(key);
        }
        profile
    }

    /// Takes the profile read for a version of an object, or why there is none.
    pub(crate) fn set_profile_read(&self, key: &Key, version: &Version, read: ProfileRead) {
        self.lock().fanout.set_profile_read(key, version, read);
    }

    /// Returns when an object waits for its profile while a task reads that already.
    pub(crate) fn read_requested_again(&self) -> impl Future<Output = ()> + '_ {
        self.read_requested_again.notified()
    }
}
