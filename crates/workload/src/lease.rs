//! Leases of Workflows that a command created. The command renews the lease as long as the command runs; once the
//! lease has expired, the Workflow is torn down. Pure: the time is an argument.
//!
//! Clocks of different hosts are not compared: for a reader, a lease has expired once the reader has seen it unchanged
//! for the number of seconds in the lease.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::Workflow;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

/// Label of Workflows with a lease; the coordinator lists only these Workflows to find expired leases.
pub const LABEL: &str = "warren/leased";
/// Annotation with the lease.
pub const ANNOTATION: &str = "warren/lease";

/// A lease, as in the annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Lease {
    /// Seconds for which the lease is valid without a renewal. While the command is stopped by a signal, the number
    /// is 0: the lease is valid for ever.
    pub seconds: u32,
    /// Number of renewals so far.
    pub renewals: u64,
}

impl Lease {
    /// Reads the lease of a Workflow; `None` if it is missing or cannot be read.
    #[must_use]
    pub fn read(workflow: &Workflow) -> Option<Self> {
        serde_json::from_str(workflow.annotations().get(ANNOTATION)?).ok()
    }

    /// Writes the lease into a Workflow that is to be created.
    pub fn write(self, workflow: &mut Workflow) {
        workflow.labels_mut().insert(LABEL.to_owned(), "true".to_owned());
        workflow.annotations_mut().insert(ANNOTATION.to_owned(), self.text());
    }

    /// Returns the annotation's text.
    #[must_use]
    pub fn text(self) -> String {
        format!(r#"{{"seconds":{},"renewals":{}}}"#, self.seconds, self.renewals)
    }
}

/// The leases that one reader has seen.
#[derive(Debug, Default)]
pub struct Watched {
    /// The lease of each Workflow by uid, and the time since which it is unchanged.
    unchanged: BTreeMap<String, (Lease, Instant)>,
    last_read: Option<Instant>,
}

impl Watched {
    /// Records the leases of all Workflows, and returns the Workflows whose lease has expired. If nothing was read for
    /// `gap`, the time of each lease starts anew: the API may have been unreachable for the commands too.
    pub fn expired<'a>(
        &mut self,
        workflows: &'a [Workflow],
        now: Instant,
        gap: Duration,
    ) -> Vec<&'a Workflow> {
        let is_gap = self.last_read.replace(now).is_none_or(|last| now - last > gap);
        let before = std::mem::take(&mut self.unchanged);
        let mut expired = Vec::new();
        for workflow in workflows {
            let (Some(lease), Some(uid)) = (Lease::read(workflow), workflow.uid()) else {
                continue;
            };
            let known = before.get(&uid).filter(|(known, _)| *known == lease && !is_gap);
            let since = known.map_or(now, |(_, since)| *since);
            if lease.seconds > 0 && now - since >= Duration::from_secs(lease.seconds.into()) {
                expired.push(workflow);
            }
            self.unchanged.insert(uid, (lease, since));
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: Duration = Duration::from_secs(40);

    fn leased(seconds: u32, renewals: u64) -> [Workflow; 1] {
        let mut workflow = crate::job("default", "w", ("warren", "w"), (1, 1), Vec::new());
        workflow.metadata.uid = Some("u".to_owned());
        Lease { seconds, renewals }.write(&mut workflow);
        [workflow]
    }

    /// Returns the indices of those reads, 10 s apart, at which the lease has expired.
    fn expired_reads(reads: &[[Workflow; 1]]) -> Vec<usize> {
        let (mut watched, begin) = (Watched::default(), Instant::now());
        let at = |index: usize| begin + Duration::from_secs(10) * u32::try_from(index).unwrap();
        let reads = reads.iter().enumerate();
        reads
            .filter(|(index, seen)| !watched.expired(*seen, at(*index), GAP).is_empty())
            .map(|(index, _)| index)
            .collect()
    }

    #[test]
    fn a_lease_expires_once_it_was_seen_unchanged_for_its_time() {
        assert_eq!(
            expired_reads(&[leased(20, 1), leased(20, 1), leased(20, 1), leased(20, 2)]),
            [2]
        );
        assert_eq!(
            expired_reads(&[leased(20, 1), leased(20, 2), leased(20, 3), leased(20, 4)]),
            [0; 0]
        );
        let stopped = [leased(20, 1), leased(0, 2), leased(0, 2), leased(0, 2), leased(20, 3)];
        assert_eq!(expired_reads(&stopped), [0; 0], "the command is stopped");
    }

    #[test]
    fn after_a_gap_between_reads_the_time_of_every_lease_starts_anew() {
        let (mut watched, begin) = (Watched::default(), Instant::now());
        let lease = leased(60, 1);
        let mut read =
            |seconds| watched.expired(&lease, begin + Duration::from_secs(seconds), GAP).len();
        assert_eq!([read(0), read(50), read(80), read(100), read(110)], [0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_workflow_without_a_readable_lease_never_expires() {
        let mut unreadable = leased(1, 1);
        unreadable[0].annotations_mut().insert(ANNOTATION.to_owned(), "soon".to_owned());
        assert_eq!(Lease::read(&unreadable[0]), None);
        assert_eq!(expired_reads(&[unreadable.clone(), unreadable.clone(), unreadable]), [0; 0]);
        assert_eq!(Lease::read(&leased(7, 8)[0]), Some(Lease { seconds: 7, renewals: 8 }));
    }
}
