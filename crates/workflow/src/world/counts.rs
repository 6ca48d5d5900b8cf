//! How many of what there is, for metrics.

use api::Workflow;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, api::DynamicObject};

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

    /// A Workflow as the API stored it, if it has become ready with that.
    #[must_use]
    pub fn newly_ready(&self, stored: &DynamicObject) -> Option<Workflow> {
        let is_ready = |one: &Workflow| one.status.as_ref().is_some_and(|status| status.ready);
        let types = stored.types.as_ref()?;
        if types.kind != Workflow::kind(&()) {
            return None;
        }
        let (namespace, name) =
            (stored.metadata.namespace.as_deref()?, stored.metadata.name.as_deref()?);
        let before = self.workflows.get(namespace, name)?;
        let after: Workflow = stored.clone().try_parse().ok()?;
        (is_ready(&after) && !is_ready(before)).then_some(after)
    }
}
