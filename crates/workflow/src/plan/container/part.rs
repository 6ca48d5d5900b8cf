//! Changes of the containers of a run on one rabbit.

use crate::{change::Change, objects::part::Part};

impl Part<'_> {
    pub(super) fn stop(self) -> Option<Change> {
        match self {
            Self::Job(job) => {
                let mut after = job.clone();
                after.spec.get_or_insert_default().suspend = Some(true);
                Change::patch(job, &after)
            }
            Self::Agent(containers) => {
                let mut after = containers.clone();
                after.spec.suspend = true;
                Change::patch(containers, &after)
            }
        }
    }

    /// Sets the deadline in seconds, or removes it.
    pub(super) fn with_deadline(self, seconds: Option<i64>) -> Option<Change> {
        match self {
            Self::Job(job) => {
                let mut after = job.clone();
                after.spec.get_or_insert_default().active_deadline_seconds = seconds;
                Change::patch(job, &after)
            }
            Self::Agent(containers) => {
                let mut after = containers.clone();
                after.spec.active_deadline_seconds = seconds;
                Change::patch(containers, &after)
            }
        }
    }

    pub(super) fn remove(self) -> Option<Change> {
        match self {
            Self::Job(job) => Change::delete(job),
            Self::Agent(containers) => Change::delete(containers),
        }
    }
}
