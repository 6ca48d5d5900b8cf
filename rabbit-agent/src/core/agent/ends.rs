//! Handles the end of a pass.

use controller::Fingerprint;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use api::ClientMount;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use storage::desired::Nqn;
use tokio::task::JoinError;

use super::Agent;
use crate::{
    core::{Key, Pass, pass::Wrote},
    kinds::{
        client_mount::prepare::prepare,
        node_storage::progress::{self, Progress},
    },
};

/// Number of consecutive write conflicts from which on the agent logs them. With the delays between passes, that many
/// conflicts last more than ten seconds.
const LASTING_CONFLICT: u32 = 5;

impl Agent {
    pub(super) fn pass_ended(&mut self, ended: Result<(Key, Pass), JoinError>) {
        let (key, pass) = match ended {
            Ok(ended) => ended,
            // `spawn` catches the panics of a pass, so this panic is a defect of the task around the pass.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        self.holders.set(&key, pass.holders);
        let has_failed = !pass.failures.is_empty();
        let mut failures = pass.failures;
        failures.extend(self.lasting_conflict(&key, pass.conflict));
        self.log_failures(&key, failures);
        if let Some(progress) = pass.progress {
            self.log_progress(&key, progress);
        }
        let status_changed = self.status_changed_meanwhile(&key, &pass.wrote);
        let handled = self.take_writes(&key, pass.wrote);
        if let Some(uid) = pass.mounted {
            self.set_mounted(uid);
        }
        self.forget_unmounted_versions(&pass.unmounted_versions);
        // The pass could not name all mounts of the object, and the object is about to disappear or the pass failed:
        // the clean-up finds the mounts that are left.
        if pass.may_leave_mounts && (pass.unmounted.is_some() || has_failed) {
            self.clean_up.request_again();
        }
        if let Some(uid) = pass.unmounted {
            self.forget_unmounted(&uid);
        }
        for woken in pass.wakes {
            self.wake_related(woken);
        }
        if let Some(drives) = pass.drives {
            self.drives_seen(drives);
        }
        self.wake_dependents(&key);
        if !self.woken_meanwhile.contains(&key) && handled == self.cache.fingerprint(&key) {
            // The object was woken only because a watch brought the pass's own write before the pass ended: no further
            // pass is needed.
            self.queue.satisfy(&key);
        }
        self.queue.finished(&key, pass.retry, Instant::now());
        if let Some(at) = pass.again {
            let wait = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
            self.queue.wake_at(&key, Instant::now() + wait, Instant::now());
        }
        if status_changed {
            self.report_again(&key);
        }
    }

    /// Records that a ClientMount is mounted, and wakes the containers and data movements, which may wait for it.
    fn set_mounted(&mut self, uid: String) {
        self.targets_in_use.set_mounted(&uid);
        if self.mounted.insert(uid) {
            self.wake(self.cache.waiting_containers());
            self.wake(self.cache.waiting_movements());
        }
    }

    /// Returns the conflict once it has occurred too often to be a race: a watch that has still not brought the newer
    /// object may never bring it.
    fn lasting_conflict(&mut self, key: &Key, conflict: Option<String>) -> Option<String> {
        let Some(why) = conflict else {
            self.conflicts.remove(key);
            return None;
        };
        let times = self.conflicts.entry(key.clone()).or_default();
        *times += 1;
        (*times >= LASTING_CONFLICT).then_some(why)
    }

    fn log_failures(&mut self, key: &Key, failures: Vec<String>) {
        if failures.is_empty() {
            self.failing.remove(key);
        } else if self.failing.get(key) != Some(&failures) {
            for failure in &failures {
                log::warn!("{failure}");
            }
            self.failing.insert(key.clone(), failures);
        }
    }

    fn log_progress(&mut self, key: &Key, now: Vec<Progress>) {
        let before = self.progress.remove(key).unwrap_or_default();
        for line in progress::changes(&before, &now) {
            log::info!("{key}: {line}");
        }
        if !now.is_empty() {
            self.progress.insert(key.clone(), now);
        }
    }

    /// Returns whether another writer changed the object's status while the pass ran.
    fn status_changed_meanwhile(&mut self, key: &Key, wrote: &[Wrote]) -> bool {
        let Some(version) = self.status_changed.remove(key) else { return false };
        !wrote.iter().any(|write| write.version.as_ref() == Some(&version))
    }

    /// Puts the pass's writes into the cache, and returns the object as the pass left it. The API refuses writes to an
    /// object that has changed, so no change of a written object has escaped the pass.
    fn take_writes(&mut self, key: &Key, wrote: Vec<Wrote>) -> Option<Fingerprint> {
        let mut handled = self.handled.remove(key);
        for wrote in wrote {
            if let Some((_, print)) =
                wrote.handled.clone().filter(|(written_key, _)| written_key == key)
            {
                handled = Some(print);
            }
            let wakes = wrote.apply(&mut self.cache);
            self.record_changes();
            self.wake(wakes);
        }
        handled
    }

    /// Forgets earlier versions of ClientMounts that are completely unmounted, and wakes the objects that
    /// waited for these unmounts.
    fn forget_unmounted_versions(&mut self, unmounted: &[ClientMount]) {
        for version in unmounted {
            let uid = version.uid().unwrap_or_default();
            self.cache.dropped.forget_unmounted(&uid, unmounted);
            let wakes = self.cache.deleted_storages_of(version);
            self.wake(wakes);
            let now = self
                .cache
                .client_mounts
                .iter()
                .find(|object| object.metadata.uid == version.metadata.uid);
            if let Some(object) = now.cloned() {
                let prepared =
                    prepare(&object, &self.cache, &self.context.site, &mut self.targets_in_use);
                self.wake_claimants(&prepared.moved);
            }
        }
    }

    /// Forgets a ClientMount that is completely unmounted, and wakes the objects that waited for its unmount.
    fn forget_unmounted(&mut self, uid: &str) {
        self.mounted.remove(uid);
        let waited = self.cache.vanished(uid).cloned();
        self.cache.forget_vanished(uid);
        if let Some(object) = waited {
            let wakes = self.cache.deleted_storages_of(&object);
            self.wake(wakes);
        }
        self.release(uid);
    }

    /// Releases the mount points that were reserved for a ClientMount, and wakes the objects that waited for them.
    pub(super) fn release(&mut self, uid: &str) {
        let moved = self.targets_in_use.release(uid);
        self.wake_claimants(&moved);
    }

    /// Forgets a ClientMount that was deleted without the agent's finalizer. Mounts of its earlier versions are
    /// unwanted from now on.
    pub(super) fn forget_deleted(&mut self, uid: &str) {
        for version in self.cache.dropped.forget(uid) {
            self.clean_up.request_again();
            let wakes = self.cache.deleted_storages_of(&version);
            self.wake(wakes);
        }
        self.release(uid);
    }

    /// Forgets the ClientMounts of this name that were deleted while a pass worked under the name. Mounts made by this
    /// pass are unwanted from now on.
    fn forget_deleted_under(&mut self, mount_name: &str) {
        let deleted: Vec<_> = self.deleted.extract_if(.., |_, name| name == mount_name).collect();
        for (uid, _) in deleted {
            self.forget_deleted(&uid);
            self.clean_up.request_again();
        }
    }

    fn wake_dependents(&mut self, key: &Key) {
        match key {
            Key::BlockStorage(name) => self.block_pass_ended(name),
            Key::ClientMount(name) => {
                self.forget_deleted_under(name);
                for uid in self.cache.vanished_under(name) {
                    self.wake_related(Key::Vanished(uid));
                }
            }
            _ => {}
        }
    }

    /// Wakes all storages when the set of usable drives has changed. A drive that failed while the agent started may be
    /// missing from the first inventory already, although a pass checked a storage while the drive was there: so the
    /// first device event counts as a change of the set too.
    fn drives_seen(&mut self, drives: BTreeSet<Nqn>) {
        let seen = (drives, self.cache.had_device_event);
        let is_change = match &self.drives {
            Some(before) => *before != seen,
            None => self.cache.had_device_event,
        };
        if is_change {
            self.wake(self.cache.drives_changed());
        }
        self.drives = Some(seen);
    }
}
