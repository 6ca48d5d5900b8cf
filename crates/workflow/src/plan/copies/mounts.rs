//! Mounts a job's storage on its rabbits, for the copies of DataIn and DataOut.

use std::collections::BTreeMap;

use api::WorkflowState;
use directive::{Command, FileSystem, Jobdw, location::Location};

use super::{copy_of, places::places};
use crate::{
    names::directive_object_name,
    plan::{
        allocation::{allocations, assign},
        lustre,
        mounts::{MountMaker, MountProgress, allocations_by_rabbit, by_slot, is_alone},
        proposal::wait_for_servers,
        setup::deleted_storage_error,
    },
    progress::{Progress, some_of},
    view::View,
};

/// Mounts a directive's storage on its rabbits if a copy of this state uses it.
pub fn mount_for_copies(
    view: &View<'_>,
    index: usize,
    jobdw: &Jobdw,
    state: &WorkflowState,
) -> Progress {
    if !is_copied(view, &jobdw.name, state) {
        return Progress::default();
    }
    let group = &view.directives[index].storage;
    let Some(servers) = &group.servers else {
        return wait_for_servers(
            view.site,
            &(view.namespace(), directive_object_name(&view.workflow, index)),
        );
    };
    let all = allocations(servers);
    if let Some(error) = deleted_storage_error(group, &all) {
        return Progress::failed(error);
    }
    if jobdw.file_system == FileSystem::Lustre {
        let rabbits = places(view, index, jobdw, servers).into_iter().map(|place| place.rabbit);
        return lustre::mounts::mount_on_rabbits(view, index, servers, &all, rabbits);
    }
    // An XFS must not be mounted on two nodes, and a compute with access to its device may mount it.
    let others = group.blocks.iter().filter(|((rabbit, _), block)| !is_alone(block, rabbit));
    let others: Vec<&str> = others.map(|((rabbit, _), _)| rabbit.as_str()).collect();
    if jobdw.file_system == FileSystem::Xfs && !others.is_empty() {
        return Progress::wait(format!("withdrawal of computes' access on {}", some_of(others)));
    }
    let slots = assign(view.site, group, &all, view.computes()).unwrap_or_default();
    let computes_of: BTreeMap<_, _> = by_slot(&slots);
    let maker = MountMaker { view, index, file_system: jobdw.file_system, group };
    let rabbits = allocations_by_rabbit(&all).into_iter();
    let waited = rabbits
        .map(|(rabbit, here)| maker.mount_on_rabbit(rabbit, &here, &computes_of))
        .fold(MountProgress::default(), MountProgress::and);
    waited.progress(group, "mount on")
}

/// Returns true if a copy of this state reads or writes a storage of the job.
fn is_copied(view: &View<'_>, name: &str, state: &WorkflowState) -> bool {
    let names =
        |location: &Location| matches!(location, Location::Job(inside) if inside.name == name);
    view.workflow.spec.directives.iter().filter_map(|line| Command::read(line)).any(|command| {
        copy_of(&command).is_some_and(|(copy, direction)| {
            direction.state() == *state && (names(&copy.source) || names(&copy.destination))
        })
    })
}
