//! Mounts storage on its rabbits, for the copies of DataIn and DataOut.

use std::collections::{BTreeMap, BTreeSet};

use api::WorkflowState;
use directive::{Command, FileSystem, Jobdw};

use super::{mpi::resolve, places::Sides};
use crate::{
    names::directive_object_name,
    objects::{allocation::allocations, block::is_alone, copy::copy_of, view::View},
    plan::{
        assign::assign,
        lustre,
        mounts::{MountMaker, MountProgress, allocations_by_rabbit, by_slot},
        proposal::wait_for_servers,
        storage::deleted_storage_error,
    },
    progress::Progress,
};

/// Mounts a directive's storage on the rabbits that copy it in this state.
pub fn mount_for_copies(
    view: &View<'_>,
    index: usize,
    jobdw: &Jobdw,
    state: &WorkflowState,
) -> Progress {
    let copies: Vec<_> = copies_of(view, index, state).collect();
    if copies.is_empty() {
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
        let rabbits: BTreeSet<&str> =
            copies.iter().flat_map(|(_, sides)| sides.rabbits()).collect();
        return lustre::mounts::mount_on_rabbits(view, index, servers, &all, rabbits);
    }
    // An XFS must not be mounted on two nodes, and a compute with access to its device may mount it.
    let others = group.blocks.iter().filter(|((rabbit, _), block)| !is_alone(block, rabbit));
    let others: Vec<&str> = others.map(|((rabbit, _), _)| rabbit.as_str()).collect();
    if jobdw.file_system == FileSystem::Xfs && !others.is_empty() {
        return Progress::wait_on("withdrawal of computes' access on", others);
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

/// Returns the copies of this state whose source or destination is the storage of a directive, each with the index of
/// its own directive. A copy whose sides are not known yet is left out: its own directive reports the reason.
fn copies_of<'a>(
    view: &'a View<'_>,
    storage: usize,
    state: &'a WorkflowState,
) -> impl Iterator<Item = (usize, Sides)> {
    let commands = view.workflow.spec.directives.iter().map(|line| Command::read(line));
    commands.enumerate().filter_map(move |(index, command)| {
        let command = command?;
        let (copy, direction) = copy_of(&command)?;
        let sides = resolve(view, index, copy, direction).ok()?;
        (direction.state() == *state && sides.storages().any(|used| used == storage))
            .then_some((index, sides))
    })
}

/// Returns true while a copy of this state still has to read or write the storage of a directive.
pub fn is_copied(view: &View<'_>, storage: usize, state: &WorkflowState) -> bool {
    copies_of(view, storage, state).any(|(index, sides)| {
        let copies = &view.directives[index].copies;
        let finished = copies.movements.values().filter(|movement| movement.is_finished());
        copies.has_unreadable || finished.count() < sides.places.len()
    })
}
