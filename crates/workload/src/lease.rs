//! Leases of Workflows whose maker is a command: as long as the command lives it renews them, and once it does not, the Workflow is
//! to be torn down. Pure; the moment is an argument.
//!
//! No clock of another host is compared: a lease has expired when one reader saw it unchanged for as long as it says.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::Workflow;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

/// The label of a Workflow with a lease, so that a reader lists no others.
pub const LABEL: &str = "warren/leased";
/// The annotation with the lease.
pub const ANNOTATION: &str = "warren/lease";

/// A lease, as it stands in the annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Lease {
    /// How long it is good without a renewal; 0 for ever, while its maker is stopped.
    pub seconds: u32,
    /// How often it was renewed.
    pub renewals: u64,
}

impl Lease {
    /// The lease of a Workflow; `None` without one that can be read.
    #[must_use]
    pub fn of(workflow: &Workflow) -> Option<Self> {
        serde_json::from_str(workflow.annotations().get(ANNOTATION)?).ok()
    }

    /// Writes it into a Workflow that is to be created.
    pub fn write(self, workflow: &mut Workflow) {
        workflow.labels_mut().insert(LABEL.to_owned(), "true".to_owned());
        workflow.annotations_mut().insert(ANNOTATION.to_owned(), self.text());
    }

    /// The annotation's text.
    #[must_use]
    pub fn text(self) -> String {
        format!(r#"{{"seconds":{},"renewals":{}}}"#, self.seconds, self.renewals)
    }
}

/// What one reader saw of all leases.
#[derive(Debug, Default)]
pub struct Watched {
    /// By uid: the lease, and since when it is unchanged.
    unchanged: BTreeMap<String, (Lease, Instant)>,
    last_look: Option<Instant>,
}

impl Watched {
    /// Notes the leases of all Workflows that have one, and returns those that have expired. After `gap` without a look all begin
    /// anew: whoever renews may have been as unable to reach the API as the reader was.
    pub fn look<'a>(
        &mut self,
        workflows: &'a [Workflow],
        now: Instant,
        gap: Duration,
    ) -> Vec<&'a Workflow> {
        let is_gap = self.last_look.replace(now).is_none_or(|last| now - last > gap);
        let before = std::mem::take(&mut self.unchanged);
        let mut expired = Vec::new();
        for workflow in workflows {
            let (Some(lease), Some(uid)) = (Lease::of(workflow), workflow.uid()) else { continue };
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

    /// At which looks, 10 s apart, the lease has expired.
    fn expired(looks: &[[Workflow; 1]]) -> Vec<usize> {
        let (mut watched, begin) = (Watched::default(), Instant::now());
        let at = |index: usize| begin + Duration::from_secs(10) * u32::try_from(index).unwrap();
        let looks = looks.iter().enumerate();
        looks
            .filter(|(index, seen)| !watched.look(*seen, at(*index), GAP).is_empty())
            .map(|(index, _)| index)
            .collect()
    }

    #[test]
    fn a_lease_expires_when_it_was_seen_unchanged_for_its_time() {
        assert_eq!(expired(&[leased(20, 1), leased(20, 1), leased(20, 1), leased(20, 2)]), [2]);
        assert_eq!(expired(&[leased(20, 1), leased(20, 2), leased(20, 3), leased(20, 4)]), [0; 0]);
        let stopped = [leased(20, 1), leased(0, 2), leased(0, 2), leased(0, 2), leased(20, 3)];
        assert_eq!(expired(&stopped), [0; 0], "its maker is stopped");
    }

    #[test]
    fn after_a_gap_all_begin_anew() {
        let (mut watched, begin) = (Watched::default(), Instant::now());
        let lease = leased(60, 1);
        let mut look =
            |seconds| watched.look(&lease, begin + Duration::from_secs(seconds), GAP).len();
        assert_eq!([look(0), look(50), look(80), look(100), look(110)], [0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_workflow_without_a_lease_is_left_alone() {
        let mut one = leased(1, 1);
        one[0].annotations_mut().insert(ANNOTATION.to_owned(), "soon".to_owned());
        assert_eq!(Lease::of(&one[0]), None);
        assert_eq!(expired(&[one.clone(), one.clone(), one]), [0; 0]);
        assert_eq!(Lease::of(&leased(7, 8)[0]), Some(Lease { seconds: 7, renewals: 8 }));
    }
}
