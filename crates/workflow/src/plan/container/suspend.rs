//! Suspends containers by an annotation of their workflow. Suspended containers are not resumed: Kubernetes or the
//! agents create them again, so that each container has all of its attempts and its full deadline again.

use api::ResourceError;
use kube::ResourceExt;

use crate::{
    names::SUSPENDED,
    objects::{
        part::{Part, all_parts},
        view::{Containers as Objects, View},
    },
    progress::{Progress, user_error},
};

/// Returns true if the workflow's annotation suspends its containers.
pub(super) fn is_suspended(view: &View<'_>) -> bool {
    view.workflow.annotations().get(SUSPENDED).is_some_and(|value| value == "true")
}

/// Stops running containers, and waits for the removal of the annotation.
pub(super) fn suspend(existing: &Objects) -> Progress {
    let running = all_parts(existing).filter(|part| !part.state().is_ended());
    Progress::wait(format!("removal of the annotation {SUSPENDED}, which suspends the containers"))
        .with(running.filter_map(Part::stop))
}

/// Removes suspended containers, and waits until they are gone.
pub(super) fn remove_suspended<'a>(old: impl Iterator<Item = Part<'a>>) -> Progress {
    let old: Vec<Part<'_>> = old.collect();
    let waits = (!old.is_empty()).then(|| Progress::wait("end of containers that were suspended"));
    waits.unwrap_or_default().with(old.iter().filter_map(|part| part.remove()))
}

/// Returns the error for PostRun of suspended containers.
pub(super) fn stay_suspended() -> ResourceError {
    user_error("containers are suspended, and are resumed only in PreRun: continue with Teardown")
}
