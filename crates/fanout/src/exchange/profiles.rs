//! Stores profiles from the watch, and profiles that are read because the watch does not know them yet.

use super::Exchange;
use crate::fanout::ProfileRead;
use crate::object::{Key, ProfileObject, Version};

impl Exchange {
    /// Stores a new or changed profile.
    pub fn apply_profile(&self, profile: ProfileObject) {
        self.lock().fanout.apply_profile(profile);
    }

    /// Removes a profile that is gone.
    pub fn remove_profile(&self, key: &Key) {
        self.lock().fanout.remove_profile(key);
    }

    /// Replaces all profiles by a complete list.
    pub fn replace_profiles(&self, profiles: Vec<ProfileObject>) {
        let mut state = self.lock();
        state.fanout.replace_profiles(profiles);
        self.update_readiness(&mut state);
    }

    /// Waits for the next object whose profile must be read.
    pub(crate) async fn take_pending_read(&self) -> Key {
        self.take(&self.read_requested, |state| state.pending_reads.take()).await
    }

    /// Returns the profile to read for a taken object; `None` ends the reader's work.
    pub(crate) fn profile_to_read(&self, key: &Key) -> Option<(Version, Key)> {
        let mut state = self.lock();
        let profile = state.fanout.profile_to_read(key);
        if profile.is_none() {
            state.pending_reads.done(key);
        }
        profile
    }

    /// Stores the profile that was read for a version of an object, or the reason why there is none.
    pub(crate) fn set_profile_read(&self, key: &Key, version: &Version, read: ProfileRead) {
        self.lock().fanout.set_profile_read(key, version, read);
    }

    /// Waits until an object needs a profile that a task already reads.
    pub(crate) fn read_requested_again(&self) -> impl Future<Output = ()> + '_ {
        self.read_requested_again.notified()
    }
}
