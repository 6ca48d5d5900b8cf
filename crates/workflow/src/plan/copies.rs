//! `copy_in` and `copy_out`: one NnfDataMovement for each allocation, on the allocation's rabbit, all at once.
//!
//! DataIn and DataOut mount the storage on its rabbits ([`mount_for_copies`], planned by the `jobdw` of the storage, or
//! by the plan of persistent storage), create the movements, and wait until all have finished. Only then does a failed movement fail the state,
//! so that the other movements can finish. Teardown deletes the movements first; it unmounts and removes nothing while
//! a movement exists.
//!
//! A rabbit's agent carries out a movement with `datamover`; containers of MPI carry out those of [`mpi`].

mod figures;
mod mounts;
mod movement;
mod mpi;
mod places;
mod propose;

use api::{NnfDataMovement, WorkflowState, nnf_data_movement::DataMovementVerdict};
use directive::{Command, Copy};
use k8s_openapi::jiff::Timestamp;

pub use mounts::{is_copied, mount_for_copies};
pub use mpi::{CopyRun, unfinished_runs};

use crate::{
    change::Change,
    names::is_copy,
    objects::{
        copy::{Direction, copy_of},
        view::View,
    },
    plan::{Driver, container, jobdw::JobStorage, persistent::PersistentStorage},
    progress::{Outcome, Progress, transient_error, user_error},
};
use places::Sides;

/// Plans `copy_in` and `copy_out` directives.
#[derive(Clone, Copy, Debug)]
pub struct Copies;

impl Driver for Copies {
    fn handles(&self, command: &Command) -> bool {
        copy_of(command).is_some()
    }

    fn advance(
        &self,
        view: &View<'_>,
        index: usize,
        command: &Command,
        state: &WorkflowState,
    ) -> Progress {
        let Some((copy, direction)) = copy_of(command) else { return Progress::default() };
        match state {
            WorkflowState::Proposal => propose::propose(view, index, copy),
            state if *state == direction.state() => copy_all(view, index, copy, direction),
            _ => Progress::default(),
        }
    }
}

/// Creates the movements of a directive and waits for them.
fn copy_all(view: &View<'_>, index: usize, copy: &Copy, direction: Direction) -> Progress {
    let copies = &view.directives[index].copies;
    if copies.has_unreadable {
        return Progress::failed(transient_error(
            "the coordinator cannot read a NnfDataMovement of this directive: correct or delete the object",
        ));
    }
    let sides = match mpi::resolve(view, index, copy, direction) {
        Ok(sides) => sides,
        Err(outcome) => return outcome.into(),
    };
    let missing: Vec<Change> = missing_movements(view, index, &sides, direction);
    if !missing.is_empty() && !sides.are_mounted(view) {
        return mount_progress(view, &sides, direction);
    }
    if !missing.is_empty() {
        return Progress::default().with(missing);
    }
    let verdict = verdict(copies.movements.values().map(|movement| &**movement), direction);
    let mut by_mpi = copies.movements.values().filter(|movement| movement.is_by_mpi());
    match by_mpi.next() {
        Some(movement) if !movement.is_finished() => {
            mpi::advance(view, index, &sides, direction, movement).and(verdict)
        }
        Some(movement) if movement.has_succeeded() => {
            container::remove_containers(view, index, view.now).and(verdict)
        }
        _ => verdict,
    }
}

/// Returns the next time at which the plan of a copy changes without an event.
pub fn next_moment(view: &View<'_>, now: Timestamp) -> Option<Timestamp> {
    mpi::next_moment(view, now).filter(|at| *at > now)
}

/// Returns the progress of the mounts that a copy waits for. The sites' rules report no DataIn and DataOut of the
/// directives that own the storage, so the copy reports it.
fn mount_progress(view: &View<'_>, sides: &Sides, direction: Direction) -> Progress {
    let drivers: [&dyn Driver; 2] = [&JobStorage, &PersistentStorage];
    let progress = |index: usize| {
        let command = Command::read(&view.workflow.spec.directives[index])?;
        let driver = drivers.iter().find(|driver| driver.handles(&command))?;
        let planned = driver.advance(view, index, &command, &direction.state());
        Some(Progress { changes: Vec::new(), ..planned })
    };
    let working = Progress::from(Outcome::Working);
    sides.storages().filter_map(progress).fold(working, Progress::and)
}

/// Returns the creation of each movement that does not exist yet.
fn missing_movements(
    view: &View<'_>,
    index: usize,
    sides: &Sides,
    direction: Direction,
) -> Vec<Change> {
    let existing = &view.directives[index].copies.movements;
    let places = sides.places.iter();
    let new =
        places.map(|(place, other)| movement::new(view, index, sides, (place, other), direction));
    let is_missing = |movement: &NnfDataMovement| {
        let at = (movement.metadata.namespace.clone(), movement.metadata.name.clone());
        !existing.contains_key(&(at.0.unwrap_or_default(), at.1.unwrap_or_default()))
    };
    new.filter(is_missing).map(|movement| Change::create(&movement)).collect()
}

/// Returns a wait while movements run; then the error of the first failed movement, if one failed.
fn verdict<'a>(
    movements: impl Iterator<Item = &'a NnfDataMovement>,
    direction: Direction,
) -> Progress {
    let all: Vec<&NnfDataMovement> = movements.collect();
    let (ended, running): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|movement| movement.is_finished());
    let failed: Vec<_> = ended.iter().filter(|movement| !movement.has_succeeded()).collect();
    if !running.is_empty() {
        let rabbits = running.iter().filter_map(|movement| movement.metadata.namespace.as_deref());
        let text = figures::progress_text(&running, &ended, failed.len());
        return Progress::wait(text).awaiting(rabbits);
    }
    let Some(first) = failed.first() else { return Progress::default() };
    let status = first.status.clone().unwrap_or_default();
    let rabbit = first.metadata.namespace.as_deref().unwrap_or_default();
    let why = match status.status {
        Some(DataMovementVerdict::Cancelled) => "the copy was cancelled".to_owned(),
        _ => status.message,
    };
    let others = match failed.len() - 1 {
        0 => String::new(),
        others => format!("; number of other failed copies: {others}"),
    };
    Progress::failed(user_error(format!("{} on {rabbit}: {why}{others}", direction.command())))
}

/// Ends the containers of a directive's copy, deletes the movements of the directive, and waits until they are gone.
pub fn remove(view: &View<'_>, index: usize) -> Progress {
    container::remove_containers(view, index, view.now).then(|| remove_movements(view, index))
}

fn remove_movements(view: &View<'_>, index: usize) -> Progress {
    let copies = &view.directives[index].copies;
    if copies.movements.is_empty() && !copies.has_unreadable {
        return Progress::default();
    }
    let rabbits = copies.movements.keys().map(|(rabbit, _)| rabbit.as_str());
    let deletions = copies.movements.values().filter_map(|movement| Change::delete(&**movement));
    Progress::wait_on("end of copies on", rabbits).with(deletions)
}

/// Returns true if the workflow has a movement that has not finished.
pub fn has_unfinished_movement(view: &View<'_>) -> bool {
    let mut copies = view.directives.iter().map(|directive| &directive.copies);
    copies.any(|copies| {
        let mut movements = copies.movements.values();
        copies.has_unreadable || movements.any(|movement| !movement.is_finished())
    })
}

/// Returns true if the workflow has a movement, or containers of a copy. A movement may use any storage of the workflow,
/// so all of this storage stays mounted meanwhile.
pub fn has_movement(view: &View<'_>) -> bool {
    let mut directives = view.directives.iter().enumerate();
    directives.any(|(index, directive)| {
        let (copies, containers) = (&directive.copies, &directive.containers);
        let has_containers = is_copy(&view.workflow, index) && !containers.is_gone();
        !copies.movements.is_empty() || copies.has_unreadable || has_containers
    })
}
