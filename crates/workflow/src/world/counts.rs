//! Counts objects for the metrics.

use k8s_openapi::jiff::Timestamp;

use super::World;
use crate::{metrics::Counts, objects::part::container_states};

impl World {
    /// Counts workflows, containers, runs and copies of data.
    #[must_use]
    pub fn count(&self, now: Timestamp) -> Counts {
        let mut counts = Counts::default();
        self.workflows.iter().for_each(|workflow| counts.count_workflow(workflow, now));
        let (jobs, on_rabbits) = (self.jobs.iter(), self.on_rabbits.iter());
        let (jobs, on_rabbits) = (jobs.map(|job| &**job), on_rabbits.map(|object| &**object));
        for state in container_states(jobs, on_rabbits, now) {
            *counts.containers.entry(state).or_default() += 1;
        }
        for run in self.runs.iter() {
            let phase = run.status.as_ref().map_or("Queued", |status| status.phase.as_str());
            *counts.runs.entry(phase.to_owned()).or_default() += 1;
        }
        let movements = self.movements.iter().filter(|movement| movement.is_ours());
        movements.for_each(|movement| counts.count_movement(movement));
        counts
    }
}
