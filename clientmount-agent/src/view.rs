//! The agent's knowledge of its ClientMounts, for the clients of the node's socket.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use parking_lot::{Mutex, MutexGuard};
use proto::v1::{JobName, JobState};
use tokio::sync::watch;

use agent::{received::ReceivedMount, reconcile::Outcome};
use jobs::Identity;

/// One ClientMount as the agent last received it, and the outcome of the last pass on that version. A pass is one
/// attempt to bring an object's mounts into the desired state.
#[derive(Debug, Clone)]
pub struct Viewed {
    pub received: Arc<ReceivedMount>,
    /// Whether the API no longer has the object. If so, the agent unmounts the object's mounts.
    pub gone: bool,
    /// The outcome of the last pass on this version of the object; `None` before a pass ended.
    pub outcome: Option<Outcome>,
    /// When the outcome changed last.
    pub since: Option<SystemTime>,
    /// Number of passes on the object that ended.
    pub passes: u64,
}

/// All ClientMounts of the node.
#[derive(Debug, Default)]
pub struct View {
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Inner {
    objects: BTreeMap<String, Viewed>,
    activity: Activity,
}

/// The agent's activity, for scripts that wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// Whether the clean-up after the start has removed every unwanted mount.
    pub cleaned_up: bool,
    /// Whether no pass runs, waits, or is to be retried.
    pub idle: bool,
}

impl View {
    /// Records that the agent received an object, or that the object was deleted.
    pub fn record_received(&self, uid: &str, received: &ReceivedMount, gone: bool) {
        let mut inner = self.inner.lock();
        let known = inner.objects.get(uid);
        let is_known = known.is_some_and(|known| {
            known.gone == gone && known.received.resource_version() == received.resource_version()
        });
        if is_known {
            return;
        }
        let passes = known.map_or(0, |known| known.passes);
        let received = Arc::new(received.clone());
        let viewed = Viewed { received, gone, outcome: None, since: None, passes };
        inner.objects.insert(uid.to_owned(), viewed);
        self.notify(inner);
    }

    /// Records that a pass on an object ended.
    pub fn pass_ended(&self, uid: &str, outcome: &Outcome, now: SystemTime) {
        let mut inner = self.inner.lock();
        let Some(viewed) = inner.objects.get_mut(uid) else { return };
        viewed.passes += 1;
        if viewed.outcome.as_ref() != Some(outcome) {
            viewed.outcome = Some(outcome.clone());
            viewed.since = Some(now);
        }
        self.notify(inner);
    }

    /// Forgets an object that was deleted in the API and is completely unmounted on this node.
    pub fn forget(&self, uid: &str) {
        let mut inner = self.inner.lock();
        if inner.objects.remove(uid).is_some() {
            self.notify(inner);
        }
    }

    pub fn set_activity(&self, activity: Activity) {
        let mut inner = self.inner.lock();
        if inner.activity != activity {
            inner.activity = activity;
            self.notify(inner);
        }
    }

    pub fn activity(&self) -> Activity {
        self.inner.lock().activity
    }

    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Returns every object, by uid.
    pub fn all(&self) -> Vec<(String, Viewed)> {
        let inner = self.inner.lock();
        inner.objects.iter().map(|(uid, viewed)| (uid.clone(), viewed.clone())).collect()
    }

    pub fn get(&self, uid: &str) -> Option<Viewed> {
        self.inner.lock().objects.get(uid).cloned()
    }

    /// Returns the objects of a job: those of the Workflow that the coordinator named; if it named none, those whose
    /// labels match the job's name.
    pub fn objects_of_job(&self, job: &JobName, state: Option<&JobState>) -> Vec<(String, Viewed)> {
        let mut all = self.all();
        all.retain(|(_, viewed)| {
            let labels =
                viewed.received.object().and_then(|object| object.metadata.labels.as_ref());
            labels.and_then(Identity::of_labels).is_some_and(|workflow| workflow.is_of(job, state))
        });
        all
    }

    fn notify(&self, inner: MutexGuard<'_, Inner>) {
        drop(inner);
        self.changed.send_replace(());
    }
}
