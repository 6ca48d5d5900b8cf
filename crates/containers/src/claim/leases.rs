//! Decides whether another coordinator is alive: each coordinator renews a Lease, and the others see that the Lease
//! changes. The clocks of two hosts are never compared: all times are measured by this process, as the time since its
//! host's boot, sleep included.

use std::{collections::BTreeMap, time::Duration};

use super::Holder;

/// How often a coordinator renews its Lease.
pub const RENEWS_EVERY: Duration = Duration::from_secs(10);
/// How long a coordinator may act after the API last accepted a renewal of its Lease.
pub const ACTS_FOR: Duration = Duration::from_secs(20);
/// Time for which other coordinators must see a Lease unchanged before they take over from its coordinator. It is
/// longer than `ACTS_FOR`, so the coordinator has stopped acting by then.
pub const EXPIRES_AFTER: Duration = Duration::from_secs(30);

const _: () = assert!(ACTS_FOR.as_secs() < EXPIRES_AFTER.as_secs());

/// The Lease of this coordinator.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnLease {
    sent: Option<Duration>,
}

impl OwnLease {
    /// Records an accepted renewal, with the time when the renewal was sent: the API's answer may have taken long.
    pub fn record_renewal(&mut self, sent: Duration) {
        self.sent = self.sent.max(Some(sent));
    }

    /// Returns whether this coordinator may act.
    #[must_use]
    pub fn may_act(&self, now: Duration) -> bool {
        self.sent.is_some_and(|sent| now.saturating_sub(sent) <= ACTS_FOR)
    }
}

/// The Leases of other coordinators, as the API last listed them.
#[derive(Clone, Debug, Default)]
pub struct Sightings {
    by_holder: BTreeMap<String, Sighting>,
    listed: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Sighting {
    /// Version of the Lease in the last list; `None` if the holder has no Lease.
    version: Option<String>,
    since: Duration,
}

impl Sightings {
    /// Records the version of each holder's Lease, as the API lists the Leases now. `holders` are the
    /// holders that runs name.
    pub fn record<'a>(
        &mut self,
        holders: impl IntoIterator<Item = &'a str>,
        leases: &BTreeMap<String, String>,
        now: Duration,
    ) {
        // After a gap in this process's own polling, the expiry clock starts again: the API may have been unreachable
        // for the other coordinators too.
        let has_gap =
            self.listed.is_none_or(|listed| now.saturating_sub(listed) > RENEWS_EVERY * 2);
        let before = std::mem::take(&mut self.by_holder);
        for holder in holders {
            let version = leases.get(holder).cloned();
            let unchanged = before.get(holder).filter(|sighting| sighting.version == version);
            let since = unchanged.filter(|_| !has_gap).map_or(now, |sighting| sighting.since);
            self.by_holder.insert(holder.to_owned(), Sighting { version, since });
        }
        self.listed = Some(now);
    }

    /// Returns whether a holder's Lease has been unchanged for so long that the holder must have stopped acting.
    #[must_use]
    pub fn is_expired(&self, holder: &str) -> bool {
        let (Some(sighting), Some(listed)) = (self.by_holder.get(holder), self.listed) else {
            return false;
        };
        listed.saturating_sub(sighting.since) >= EXPIRES_AFTER
    }
}

/// Returns the name of a coordinator's Lease.
#[must_use]
pub fn name(holder: &Holder) -> String {
    format!("warren-{}", holder.as_str().to_lowercase().replace(['/', ':'], "-"))
}
