//! How many of what there is, for metrics.

use k8s_openapi::jiff::Timestamp;

use super::World;
use crate::{metrics::Counts, plan::container};

impl World {
    /// Counts what there is.
    #[must_use]
    pub fn count(&self, now: Timestamp) -> Counts {
        let mut counts = Counts::default();
        self.workflows.iter().for_each(|one| counts.add(one, now));
        let (jobs, on_rabbits) = (self.jobs.iter(), self.on_rabbits.iter());
        for state in container::states(jobs.map(|one| &**one), on_rabbits.map(|one| &**one), now) {
            *counts.containers.entry(state).or_default() += 1;
        }
        for run in self.runs.iter() {
            let phase = run.status.as_ref().map_or("Queued", |status| status.phase.as_str());
            *counts.runs.entry(phase.to_owned()).or_default() += 1;
        }
        counts
    }
}
