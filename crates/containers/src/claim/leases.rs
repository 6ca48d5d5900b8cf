//! Whether a coordinator is there: it renews a Lease, and each other sees that it changed. Nobody compares clocks of two hosts:
//! all times are of one process, since its host started, and go on while the host sleeps.

use std::{collections::BTreeMap, time::Duration};

use super::Holder;

/// How often a coordinator renews its Lease.
pub const RENEWS_EVERY: Duration = Duration::from_secs(10);
/// How long it acts after the API last took a renewal.
pub const ACTS_FOR: Duration = Duration::from_secs(20);
/// How long others must see a Lease unchanged before they take over: longer than its coordinator acts without a renewal.
pub const EXPIRES_AFTER: Duration = Duration::from_secs(30);

const _: () = assert!(ACTS_FOR.as_secs() < EXPIRES_AFTER.as_secs());

/// A coordinator's own Lease.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnLease {
    asked: Option<Duration>,
}

impl OwnLease {
    /// Records when an accepted renewal was sent: the answer may have been long on its way.
    pub fn renewed(&mut self, asked: Duration) {
        self.asked = self.asked.max(Some(asked));
    }

    /// Whether its coordinator may act.
    #[must_use]
    pub fn may_act(&self, now: Duration) -> bool {
        self.asked.is_some_and(|asked| now.saturating_sub(asked) <= ACTS_FOR)
    }
}

/// The Leases of others, as they were seen.
#[derive(Clone, Debug, Default)]
pub struct Sightings {
    of: BTreeMap<String, Sighting>,
    looked: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Sighting {
    /// The version of the Lease; none while there is no Lease.
    version: Option<String>,
    since: Duration,
}

impl Sightings {
    /// Takes in what the API lists now: the version of each holder's Lease. `holders` are those whom runs name.
    pub fn look<'a>(
        &mut self,
        holders: impl IntoIterator<Item = &'a str>,
        leases: &BTreeMap<String, String>,
        now: Duration,
    ) {
        // While nobody looked, an API that was away may have let nobody renew either: the count starts anew.
        let looked_away =
            self.looked.is_none_or(|looked| now.saturating_sub(looked) > RENEWS_EVERY * 2);
        let before = std::mem::take(&mut self.of);
        for holder in holders {
            let version = leases.get(holder).cloned();
            let unchanged = before.get(holder).filter(|seen| seen.version == version);
            let since = unchanged.filter(|_| !looked_away).map_or(now, |seen| seen.since);
            self.of.insert(holder.to_owned(), Sighting { version, since });
        }
        self.looked = Some(now);
    }

    /// Whether the Lease of a holder was seen unchanged for so long that its coordinator has stopped acting.
    #[must_use]
    pub fn is_expired(&self, holder: &str) -> bool {
        let (Some(seen), Some(looked)) = (self.of.get(holder), self.looked) else { return false };
        looked.saturating_sub(seen.since) >= EXPIRES_AFTER
    }
}

/// Name of a coordinator's Lease.
#[must_use]
pub fn name(holder: &Holder) -> String {
    format!("warren-{}", holder.as_str().to_lowercase().replace(['/', ':'], "-"))
}
