//! Shares the rabbit's health between the parts of the agent: health checks publish their judgement, the link to the
//! coordinator listens for changes, and event sources request checks.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use daemon::sleep_until;
use futures::{Stream, stream};
use parking_lot::Mutex;
use proto::v1::{Health, health::State};
use storage::{Observed, health::Probe};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{
    judge::{Judgement, judge},
    report,
    rules::CheckFacts,
};

/// Shared health of the rabbit.
#[derive(Debug, Clone)]
pub struct HealthState {
    newest: watch::Sender<Health>,
    judged: Arc<Mutex<Judgement>>,
    requests: watch::Sender<u64>,
    /// The time at which the next check is due without a request.
    due: watch::Sender<Option<Instant>>,
    probe: Option<Arc<dyn Probe>>,
    /// Permits one check of the volume groups at a time, even if a check hangs.
    groups: Arc<Semaphore>,
    every: Option<Duration>,
    slots: u16,
}

impl Default for HealthState {
    /// Returns a state without a source of the node's facts: checks cover only the drives.
    fn default() -> Self {
        Self {
            newest: watch::Sender::new(Health::default()),
            judged: Arc::default(),
            requests: watch::Sender::new(0),
            due: watch::Sender::new(None),
            probe: None,
            groups: Arc::new(Semaphore::new(1)),
            every: None,
            slots: 0,
        }
    }
}

impl HealthState {
    /// Returns a state whose checks read the node's facts from `probe`. `every` is the time between two checks if no
    /// event comes; with `None` only events cause checks. `slots` is the number of drive slots in the chassis, or 0 if
    /// the number is unknown.
    pub fn new(probe: Arc<dyn Probe>, every: Option<Duration>, slots: u16) -> Self {
        Self { probe: Some(probe), every, slots, ..Self::default() }
    }

    /// Returns the number of drive slots in the chassis; 0 if the number is unknown.
    pub fn slots(&self) -> u16 {
        self.slots
    }

    /// Returns the source of the node's facts, if the state has one.
    pub fn probe(&self) -> Option<Arc<dyn Probe>> {
        self.probe.clone()
    }

    /// Returns a permit to check the volume groups; the permit is valid until it is dropped. Returns `None` while
    /// another check has the permit.
    #[must_use]
    pub fn lock_groups(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.groups).try_acquire_owned().ok()
    }

    /// Judges the facts of a check, and logs the conditions that began or ended.
    pub fn judge(&self, check: &CheckFacts<'_>, now: Instant) -> Judgement {
        let mut judged = self.judged.lock();
        let next = judge(&judged, check, now);
        log_changes(&judged, &next);
        *judged = next.clone();
        drop(judged);
        let next_check = self.next_check(&next, now);
        // A check that is due but has not begun stays due: the check that ends now may not have read the facts for
        // which the due check was requested.
        self.due.send_modify(|due| *due = due.filter(|at| *at <= now).or(next_check));
        next
    }

    pub fn judged(&self) -> Judgement {
        self.judged.lock().clone()
    }

    /// Adds to the observation the drives that earlier checks saw and that are missing from this observation.
    #[must_use]
    pub fn with_missing(&self, observed: Observed) -> Observed {
        self.judged.lock().with_missing(observed)
    }

    fn next_check(&self, judged: &Judgement, now: Instant) -> Option<Instant> {
        let recheck = judged.recheck.filter(|_| self.every.is_some());
        let every = self.every.map(|every| now + every);
        [judged.settles, recheck, every].into_iter().flatten().min()
    }

    /// Publishes a judgement, with the drives' total bytes and allocated bytes.
    pub fn publish(&self, judged: &Judgement, total: u64, allocated: u64) {
        self.send(report::health(judged, total, allocated));
    }

    /// Publishes the judgement of a check that did not read the drives. Does nothing until one check
    /// has read the drives.
    pub fn publish_conditions(&self, judged: &Judgement) {
        let newest = self.newest.borrow().clone();
        if newest.state() != State::Unspecified {
            self.publish(judged, newest.capacity_total, newest.capacity_allocated);
        }
    }

    fn send(&self, health: Health) {
        self.newest.send_if_modified(|current| {
            let changed = *current != health;
            *current = health;
            changed
        });
    }

    /// Returns a receiver that gets each published health.
    pub fn listen(&self) -> watch::Receiver<Health> {
        self.newest.subscribe()
    }

    /// Requests a check. Several requests lead to a single check if they come before the check begins.
    pub fn request_check(&self) {
        self.requests.send_modify(|count| *count += 1);
    }

    pub fn check_requests(&self) -> watch::Receiver<u64> {
        self.requests.subscribe()
    }

    /// Returns a stream with an item for every check that is due, by request or by time.
    pub fn checks_due(&self) -> impl Stream<Item = ()> + use<> {
        let sources = (self.requests.subscribe(), self.due.subscribe(), self.due.clone());
        stream::unfold(sources, |(mut requests, mut due, reset)| async move {
            loop {
                let at = *due.borrow_and_update();
                tokio::select! {
                    called = requests.changed() => called.ok()?,
                    changed = due.changed() => { changed.ok()?; continue }
                    () = sleep_until(at) => drop(reset.send_replace(None)),
                }
                return Some(((), (requests, due, reset)));
            }
        })
    }
}

/// Logs one line for each condition that began or ended. Does not log changes of a measured number.
fn log_changes(before: &Judgement, after: &Judgement) {
    for (key, condition) in &after.conditions {
        let known = before.conditions.get(key);
        if known.is_none_or(|known| !key.1.is_measured() && known.text != condition.text) {
            log::warn!("{}", condition.text);
        }
    }
    for (key, condition) in &before.conditions {
        if !after.conditions.contains_key(key) {
            log::info!("resolved: {}", condition.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use futures::StreamExt;

    use super::*;
    use crate::health::{CheckFacts, DrivesRead};

    fn unread(computes: &BTreeMap<u8, storage::desired::NodeName>) -> CheckFacts<'_> {
        CheckFacts {
            computes,
            links: None,
            facts: None,
            drives: DrivesRead::NotRead,
            block_storage_uids: None,
        }
    }

    #[test]
    fn listeners_receive_only_changes() {
        let health = HealthState::default();
        let mut listener = health.listen();
        health.publish_conditions(&Judgement::default());
        assert!(!listener.has_changed().unwrap(), "the drives were not read yet");
        health.publish(&Judgement::default(), 100, 10);
        assert!(listener.has_changed().unwrap());
        assert_eq!(listener.borrow_and_update().capacity_allocated, 10);
        health.publish(&Judgement::default(), 100, 10);
        health.publish_conditions(&Judgement::default());
        assert!(!listener.has_changed().unwrap());
    }

    #[tokio::test]
    async fn a_check_is_due_on_request_and_at_its_time() {
        let computes = BTreeMap::new();
        let health =
            HealthState { every: Some(Duration::from_millis(20)), ..HealthState::default() };
        let due = health.checks_due();
        tokio::pin!(due);
        assert!(futures::poll!(due.next()).is_pending(), "there was no check and no request yet");
        health.request_check();
        health.request_check();
        due.next().await.unwrap();
        assert!(futures::poll!(due.next()).is_pending(), "two requests lead to one check");
        let begun = Instant::now();
        drop(health.judge(&unread(&computes), begun));
        due.next().await.unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(20));
        assert!(futures::poll!(due.next()).is_pending(), "one request leads to one check");
    }

    #[test]
    fn only_one_check_at_a_time_reads_volume_groups() {
        let health = HealthState::default();
        let turn = health.lock_groups();
        assert!(turn.is_some() && health.clone().lock_groups().is_none());
        drop(turn);
        assert!(health.lock_groups().is_some());
    }

    #[tokio::test]
    async fn a_due_check_is_not_postponed_by_a_check_that_ends() {
        let computes = BTreeMap::new();
        let every = Duration::from_secs(60);
        let health = HealthState { every: Some(every), ..HealthState::default() };
        let begun = Instant::now();
        drop(health.judge(&unread(&computes), begun));
        drop(health.judge(&unread(&computes), begun + every / 2));
        let at = begun + every / 2 + every;
        assert_eq!(
            *health.due.borrow(),
            Some(at),
            "an earlier check does not postpone the due time"
        );
        drop(health.judge(&unread(&computes), at));
        assert_eq!(*health.due.borrow(), Some(at));
    }

    #[tokio::test]
    async fn without_a_check_period_no_check_is_due_by_time() {
        let computes = BTreeMap::new();
        let health = HealthState::default();
        let now = Instant::now();
        drop(health.judge(&unread(&computes), now));
        assert_eq!(*health.due.borrow(), None);
    }
}
