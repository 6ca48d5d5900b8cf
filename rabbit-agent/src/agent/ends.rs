//! What the end of a pass changes.

use controller::Fingerprint;
use std::{collections::BTreeSet, time::Instant};

use api::ClientMount;
use kube::ResourceExt;
use storage::desired::Nqn;
use tokio::task::JoinError;

use super::Agent;
use crate::{
    cache::Key,
    client_mount::reconcile::prepare,
    node_storage::progress::{self, Progress},
    pass::{Pass, Wrote},
};

/// Versions of one object that passes wrote and a watch that is behind may still bring: more than a pass writes, few enough for
/// every object there ever was.
const VERSIONS_KEPT: usize = 16;

/// Races lost in a row from which on they are told: with the delays between them, those of more than ten seconds.
const LASTING: u32 = 5;

impl Agent {
    pub(super) fn ended(&mut self, ended: Result<(Key, Pass), JoinError>) {
        let (key, pass) = match ended {
            Ok(ended) => ended,
            // What a pass does for its object is caught there.
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
        self.remember(&pass.wrote);
        let handled = self.take_writes(&key, pass.wrote);
        if let Some(uid) = pass.mounted {
            self.claims.settle(&uid);
        }
        self.former_gone(&pass.gone);
        // Its end is in sight, or hangs on a mount whose path is lost.
        if pass.may_leave_mounts && (pass.unmounted.is_some() || has_failed) {
            self.sweep.again();
        }
        if let Some(uid) = pass.unmounted {
            self.unmounted(&uid);
        }
        for woken in pass.wakes {
            self.wake_related(woken);
        }
        if let Some(drives) = pass.drives {
            self.drives_seen(drives);
        }
        self.wake_dependents(&key);
        if !self.woken_meanwhile.contains(&key) && handled == self.cache.fingerprint(&key) {
            // A watch was faster than the end of the pass: what woke the object meanwhile is the pass's own finalizer.
            self.queue.satisfy(&key);
        }
        match handled.filter(|_| pass.done && !self.woken_meanwhile.contains(&key)) {
            Some(print) => drop(self.settled.insert(key.clone(), print)),
            None => drop(self.settled.remove(&key)),
        }
        self.queue.finished(&key, pass.retry, Instant::now());
        if status_changed {
            self.report_again(&key);
        }
    }

    /// A write that came too late, once it is no race any more: nobody is faster every time, and what a watch has not brought
    /// by then it may never bring.
    fn lasting_conflict(&mut self, key: &Key, conflict: Option<String>) -> Option<String> {
        let Some(why) = conflict else {
            self.conflicts.remove(key);
            return None;
        };
        let times = self.conflicts.entry(key.clone()).or_default();
        *times += 1;
        (*times >= LASTING).then_some(why)
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

    /// What a pass wrote may come back by a watch only after the next one ended.
    fn remember(&mut self, wrote: &[Wrote]) {
        for wrote in wrote {
            if let (Some((of, _)), Some(version)) = (&wrote.handled, &wrote.version) {
                let known = self.wrote.entry(of.clone()).or_default();
                known.push(version.clone());
                known.drain(..known.len().saturating_sub(VERSIONS_KEPT));
            }
        }
    }

    /// Whether somebody else wrote the status of this object while the pass ran.
    fn status_changed_meanwhile(&mut self, key: &Key, wrote: &[Wrote]) -> bool {
        let Some(version) = self.status_changed.remove(key) else { return false };
        let remembered = self.wrote.get(key).is_some_and(|known| known.contains(&version));
        !remembered && !wrote.iter().any(|write| write.version.as_ref() == Some(&version))
    }

    /// Takes what the pass wrote into the cache, and gives the object as the pass left it. Writes are refused when the object
    /// has moved on, so what was written is what was handled and nothing more.
    fn take_writes(&mut self, key: &Key, wrote: Vec<Wrote>) -> Option<Fingerprint> {
        let mut handled = self.handled.remove(key);
        for wrote in wrote {
            if let Some((_, print)) = wrote.handled.clone().filter(|(of, _)| of == key) {
                handled = Some(print);
            }
            let wakes = wrote.apply(&mut self.cache);
            self.note_changes();
            self.wake(wakes);
        }
        handled
    }

    /// What ClientMounts asked for earlier is gone from the node: who waited for that goes on.
    fn former_gone(&mut self, gone: &[ClientMount]) {
        for version in gone {
            let uid = version.uid().unwrap_or_default();
            self.cache.former.gone(&uid, gone);
            let wakes = self.cache.leaving_storages(version);
            self.wake(wakes);
            let now = self
                .cache
                .client_mounts
                .iter()
                .find(|object| object.metadata.uid == version.metadata.uid);
            if let Some(object) = now.cloned() {
                let prepared = prepare(&object, &self.cache, &self.context.site, &mut self.claims);
                self.wake_claimants(&prepared.moved);
            }
        }
    }

    /// Nothing of this ClientMount is left on the node: who waited for that goes on.
    fn unmounted(&mut self, uid: &str) {
        let waited = self.cache.vanished(uid).cloned();
        self.cache.forget_vanished(uid);
        if let Some(object) = waited {
            let wakes = self.cache.leaving_storages(&object);
            self.wake(wakes);
        }
        self.release(uid);
    }

    /// A ClientMount asks for no path any more: who waited for one goes on.
    pub(super) fn release(&mut self, uid: &str) {
        let moved = self.claims.release(uid);
        self.wake_claimants(&moved);
    }

    /// A ClientMount went that nobody held. If anything is mounted that it asked for earlier, no object wants it.
    pub(super) fn forget_deleted(&mut self, uid: &str) {
        for version in self.cache.former.forget(uid) {
            self.sweep.again();
            let wakes = self.cache.leaving_storages(&version);
            self.wake(wakes);
        }
        self.release(uid);
    }

    /// Whom nobody held while a pass worked under their name. What such a pass mounted no object wants.
    fn forget_deleted_under(&mut self, of: &str) {
        let gone: Vec<_> = self.deleted.extract_if(.., |_, name| name == of).collect();
        for (uid, _) in gone {
            self.forget_deleted(&uid);
            self.sweep.again();
        }
    }

    fn wake_dependents(&mut self, key: &Key) {
        match key {
            Key::BlockStorage(name) => self.looked_at_block(name),
            Key::ClientMount(name) => {
                self.forget_deleted_under(name);
                for uid in self.cache.vanished_under(name) {
                    self.wake_related(Key::Vanished(uid));
                }
            }
            _ => {}
        }
    }

    /// A drive that went while the agent started may be missing from the very first look at drives, and yet have been there
    /// when a storage on it was looked at: the first sign of a change counts as one, whatever that look shows.
    fn drives_seen(&mut self, drives: BTreeSet<Nqn>) {
        let seen = (drives, self.cache.has_moved);
        let is_change = match &self.drives {
            Some(before) => *before != seen,
            None => self.cache.has_moved,
        };
        if is_change {
            self.wake(self.cache.drives_changed());
        }
        self.drives = Some(seen);
    }
}
