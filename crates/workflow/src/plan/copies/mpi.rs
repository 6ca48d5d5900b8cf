//! Copies by MPI: `mpirun … dcp …` of a data movement profile with an image copies between two file systems that several
//! rabbits share. A launcher and a worker on each rabbit run it, as those of a `container` directive with MPI do.
//!
//! The copy's NnfDataMovement has the label `mpi-run`, and no agent carries it out: the engine writes its status. It is
//! Finished only when none of its containers runs, so that its storage stays mounted until then. Containers of a failed
//! copy stay until Teardown, for their logs.

mod profile;
mod status;

use std::iter;

use api::{
    NnfContainerProfileData, NnfDataMovement, NnfDataMovementProfile, NnfDataMovementProfileData,
    ResourceError, nnf_data_movement::DataMovementVerdict,
};
use containers::{StoragePath, StorageSource};
use directive::{Command, Copy, FileSystem, location::Location};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{
    movement,
    places::{self, Other, Sides, find_storage},
};
use crate::{
    objects::{
        copy::{Direction, copy_of},
        view::View,
    },
    plan::container::{self, CopyState, advance_copy},
    progress::{Outcome, Progress},
};

/// The containers of a copy.
#[derive(Clone, Debug)]
pub struct CopyRun {
    /// The containers, as a container profile would describe them.
    pub profile: NnfContainerProfileData,
    /// The rabbits that copy: those of the object targets of the copied Lustre.
    pub rabbits: Vec<String>,
    /// The two file systems.
    pub storages: Vec<StoragePath>,
}

/// Returns true if this profile copies by MPI between these sides: the rabbits share both file systems.
fn is_by_mpi(view: &View<'_>, profile: &NnfDataMovementProfileData, copy: &Copy) -> bool {
    let is_shared = |side: &Location| match side {
        Location::Global(_) => true,
        Location::Job(inside) | Location::Persistent(inside) => {
            find_storage(view, side, &inside.name)
                .is_ok_and(|(_, jobdw)| jobdw.file_system == FileSystem::Lustre)
        }
    };
    !profile.image.is_empty() && is_shared(&copy.source) && is_shared(&copy.destination)
}

/// Checks in Proposal that a copy by MPI can run here.
pub(super) fn check(
    view: &View<'_>,
    index: usize,
    copy: &Copy,
    template: &NnfDataMovementProfile,
) -> Result<(), ResourceError> {
    if !is_by_mpi(view, template.data(), copy) {
        return Ok(());
    }
    let name = template.metadata.name.as_deref().unwrap_or_default();
    profile::check(template.data(), name)?;
    let profile = profile::containers(&view.workflow, template.data(), ("/a", "/b"));
    container::check_copy(view, index, &profile, name)
}

/// Finds source and destination of a copy, and the rabbits that carry it out.
///
/// # Errors
/// A wait for a Servers, or an error if the storage or file system does not exist.
pub(super) fn resolve(
    view: &View<'_>,
    index: usize,
    copy: &Copy,
    direction: Direction,
) -> Result<Sides, Outcome> {
    let mut sides = places::resolve(view, copy, direction)?;
    let profile = view.directives[index].copies.profile.as_ref();
    if profile.is_some_and(|profile| is_by_mpi(view, profile.data(), copy)) {
        sides.mpi_rabbits = sides.rabbits().map(str::to_owned).collect();
        // A single movement stands for the work of all rabbits.
        sides.places.truncate(1);
        sides.is_divided = false;
    }
    Ok(sides)
}

/// Returns the copies by MPI of this state that have not finished, each with the index of its directive.
pub fn unfinished_runs(view: &View<'_>) -> Vec<(usize, CopyRun)> {
    let lines = view.workflow.spec.directives.iter().enumerate();
    let run = |(index, line): (usize, &String)| {
        let command = Command::read(line)?;
        let (copy, direction) = copy_of(&command)?;
        let mut movements = view.directives[index].copies.movements.values();
        let has_finished = movements.any(|movement| movement.is_finished());
        if direction.state() != view.state() || has_finished {
            return None;
        }
        let sides = resolve(view, index, copy, direction).ok()?;
        let run = sides.is_by_mpi().then(|| run_of(view, index, &sides, direction))?;
        Some((index, run?))
    };
    lines.filter_map(run).collect()
}

/// Returns the next time at which the engine asks for the log of a running copy.
pub(super) fn next_moment(view: &View<'_>, now: Timestamp) -> Option<Timestamp> {
    let running = unfinished_runs(view).into_iter();
    running.filter_map(|(index, _)| log_request(view, index, now).map(|(at, _)| at)).min()
}

fn log_request(
    view: &View<'_>,
    index: usize,
    now: Timestamp,
) -> Option<(Timestamp, crate::change::Change)> {
    let profile = view.directives[index].copies.profile.as_ref()?;
    let seconds = Some(profile.data().progress_interval_seconds).filter(|seconds| *seconds > 0)?;
    container::next_log_request(view, index, SignedDuration::from_secs(seconds), now)
}

/// Returns the containers of a copy; `None` if the pinned profile was deleted or cannot be carried out.
fn run_of(view: &View<'_>, index: usize, sides: &Sides, direction: Direction) -> Option<CopyRun> {
    let profile = view.directives[index].copies.profile.as_ref()?.data();
    let (place, other_root) = sides.places.first()?;
    let spec = movement::new(view, index, sides, (place, other_root), direction).spec;
    let from = profile::source_path(&spec.source);
    let own = StoragePath {
        variable: "NNF_COPY_STORAGE".to_owned(),
        path: place.root.clone(),
        source: StorageSource::Rabbit,
    };
    let other = StoragePath {
        variable: "NNF_COPY_OTHER".to_owned(),
        path: other_root.clone(),
        source: source_of_other(view, &sides.other),
    };
    Some(CopyRun {
        profile: profile::containers(&view.workflow, profile, (&from, &spec.destination.path)),
        rabbits: sides.mpi_rabbits.clone(),
        storages: vec![own, other],
    })
}

/// Returns who mounts the side that is not the copied storage. A rabbit's agent checks that a global Lustre is mounted.
fn source_of_other(view: &View<'_>, other: &Other) -> StorageSource {
    let Other::Site { reference, .. } = other else { return StorageSource::Rabbit };
    let is_lustre = reference.kind.as_deref() == Some("LustreFileSystem");
    if is_lustre && !view.site.settings.has_pods() {
        StorageSource::Global { claim: String::new() }
    } else {
        StorageSource::Directory
    }
}

/// Brings a copy that has not finished further, and writes its status.
pub(super) fn advance(
    view: &View<'_>,
    index: usize,
    sides: &Sides,
    direction: Direction,
    object: &NnfDataMovement,
) -> Progress {
    let now = view.now;
    if object.spec.cancel {
        let cancelled =
            || status::finished(object, DataMovementVerdict::Cancelled, "cancelled", now);
        let removed = container::remove_containers(view, index, now);
        return removed.then(|| Progress::default().with(status::write(object, cancelled())));
    }
    let Some(run) = run_of(view, index, sides, direction) else {
        return Progress::failed(profile::deleted_error());
    };
    let (progress, state) = advance_copy(view, index, &run, mounted(view, sides), now);
    let command = profile::command_of(view, index);
    let after = match &state {
        CopyState::Starting => status::starting(object, &progress.outcome),
        CopyState::Running(log) => status::running(object, command, log.as_ref(), now),
        CopyState::Ended(Ok(log)) => status::succeeded(object, command, log, now),
        CopyState::Ended(Err(why)) => {
            status::finished(object, DataMovementVerdict::Failed, why, now)
        }
    };
    let request = log_request(view, index, now).filter(|(at, _)| *at <= now);
    let request = request.map(|(_, change)| change);
    let outcome = match progress.outcome {
        // The movement's status has the end; the next plan reads it there.
        Outcome::Failed(_) if matches!(state, CopyState::Ended(_)) => Outcome::Working,
        outcome => outcome,
    };
    Progress { outcome, ..progress }
        .with(iter::empty().chain(status::write(object, after)).chain(request))
}

fn mounted(view: &View<'_>, sides: &Sides) -> Progress {
    if sides.are_mounted(view) {
        Progress::default()
    } else {
        Progress::wait("mounts on the rabbits that copy")
    }
}
