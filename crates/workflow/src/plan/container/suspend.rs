//! Containers that are to wait, by an annotation of their workflow. They are not resumed but made anew: where Kubernetes runs them
//! and where agents do, each then has all of its attempts and its whole time.

use api::ResourceError;
use kube::ResourceExt;

use super::part::{Part, all};
use crate::{
    names::SUSPENDED,
    progress::{Progress, user_error},
    view::{Containers as Objects, View},
};

/// Whether the workflow's containers are to wait.
pub(super) fn is_suspended(view: &View<'_>) -> bool {
    view.workflow.annotations().get(SUSPENDED).is_some_and(|value| value == "true")
}

/// Stops what runs.
pub(super) fn suspended(of: &Objects) -> Progress {
    let running = all(of).filter(|part| !part.state().is_ended());
    Progress::wait(format!("removal of the annotation {SUSPENDED}, which suspends the containers"))
        .with(running.filter_map(Part::stopped))
}

/// Removes containers that were suspended, and waits until they are gone.
pub(super) fn without<'a>(old: impl Iterator<Item = Part<'a>>) -> Progress {
    let old: Vec<Part<'_>> = old.collect();
    let waits = (!old.is_empty()).then(|| Progress::wait("end of containers that were suspended"));
    waits.unwrap_or_default().with(old.iter().filter_map(|part| part.removed()))
}

/// What PostRun says of containers that are suspended.
pub(super) fn stay_suspended() -> ResourceError {
    user_error("containers are suspended: they are resumed in PreRun only, so go on to Teardown")
}
