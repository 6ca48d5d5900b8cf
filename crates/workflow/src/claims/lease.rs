//! Renews a coordinator's own Lease, and watches the Leases of the other coordinators.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use containers::claim::{
    Holder,
    leases::{OwnLease, RENEWS_EVERY, Sightings},
};
use futures::{Stream, stream};
use kube::Client;
use nix::time::{ClockId, clock_gettime};

use super::{leases, renew};

/// Namespace of the Leases if no namespace of containers is configured.
const NAMESPACE: &str = "default";
/// Delay before the next attempt, after a renewal that the API did not accept.
const AGAIN: Duration = Duration::from_secs(2);

/// When this coordinator last renewed its Lease, shared by the task that renews it and the tasks that act.
#[derive(Clone, Debug, Default)]
pub struct SharedLease(Arc<Mutex<OwnLease>>);

impl SharedLease {
    /// Returns true if this coordinator may act now, because it renewed its Lease in time.
    #[must_use]
    pub fn may_act(&self) -> bool {
        let lease = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lease.may_act(since_boot())
    }

    /// Records an accepted renewal by the time at which its request was sent.
    pub fn record_renewal(&self, requested_at: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).record_renewal(requested_at);
    }
}

/// Returns the time since this host started. CLOCK_BOOTTIME also counts while the host is suspended.
fn since_boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).expect("every Linux since 2.6.39 has this clock").into()
}

/// The Leases of all coordinators at one time.
#[derive(Clone, Debug)]
pub struct LeaseStates {
    /// True if this coordinator may act.
    pub may_act: bool,
    /// Resource version of each coordinator's Lease, by the coordinator's name; `None` if the API did not answer.
    pub leases: Option<BTreeMap<String, String>>,
    /// Time since boot at which the Leases were read.
    pub at: Duration,
}

/// The coordinators that may still act, judged by their Leases.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    may_act: bool,
    sightings: Sightings,
    expired: BTreeSet<String>,
}

impl Claims {
    /// Returns true if this coordinator may act.
    #[must_use]
    pub fn may_act(&self) -> bool {
        self.may_act
    }

    /// Returns true if the coordinator `holder` no longer acts, because its Lease has expired.
    #[must_use]
    pub fn is_expired(&self, holder: &str) -> bool {
        self.expired.contains(holder)
    }

    /// Takes in the state of the Leases. Returns true if this coordinator, or one of `holders`, gained or lost
    /// the right to act.
    pub(crate) fn take(&mut self, states: &LeaseStates, holders: &BTreeSet<String>) -> bool {
        let before = (self.may_act, self.expired.clone());
        self.may_act = states.may_act;
        if let Some(leases) = &states.leases {
            self.sightings.record(holders.iter().map(String::as_str), leases, states.at);
        }
        let is_expired = |holder: &&String| self.sightings.is_expired(holder);
        self.expired = holders.iter().filter(is_expired).cloned().collect();
        before != (self.may_act, self.expired.clone())
    }
}

/// Renews a coordinator's Lease while the stream is polled; each item is the state of all Leases.
pub fn renew_and_watch(
    client: Client,
    namespace: Option<String>,
    me: Holder,
    lease: SharedLease,
) -> impl Stream<Item = LeaseStates> + Send + 'static {
    let namespace = namespace.unwrap_or_else(|| NAMESPACE.to_owned());
    let keeper = Keeper { client, namespace, me, lease, wait: Duration::ZERO };
    stream::unfold(keeper, |mut keeper| async move {
        tokio::time::sleep(keeper.wait).await;
        Some((keeper.renew_and_list().await, keeper))
    })
}

struct Keeper {
    client: Client,
    namespace: String,
    me: Holder,
    lease: SharedLease,
    wait: Duration,
}

impl Keeper {
    async fn renew_and_list(&mut self) -> LeaseStates {
        let requested_at = since_boot();
        let renewal = renew(&self.client, &self.namespace, &self.me);
        self.wait = AGAIN;
        match tokio::time::timeout(RENEWS_EVERY, renewal).await {
            Ok(Ok(())) => {
                self.lease.record_renewal(requested_at);
                self.wait = RENEWS_EVERY;
            }
            Ok(Err(error)) => {
                let why = error.source().map(ToString::to_string).unwrap_or_default();
                log::warn!("{error}: {why}; the coordinator tries again in {} s", AGAIN.as_secs());
            }
            Err(_) => log::warn!(
                "the API did not accept a renewal of the Lease of {} in time; the coordinator tries again in {} s",
                self.me,
                AGAIN.as_secs()
            ),
        }
        let listed = leases(&self.client, &self.namespace);
        let listed = tokio::time::timeout(RENEWS_EVERY, listed).await;
        let leases = listed.ok().and_then(Result::ok);
        LeaseStates { may_act: self.lease.may_act(), leases, at: since_boot() }
    }
}
